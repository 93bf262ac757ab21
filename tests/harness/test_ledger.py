"""The ledger's units are those that the look-alikes report where these are right, and it says when it had to guess."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import botocore.exceptions
import pytest
from botocore.config import Config

from dynadurable.testing.ledger import ledger
from tests import faults
from tests.faults import FaultPlan
from tests.servers import Store

KEY = {"pk": {"S": "one"}, "sk": {"S": "one"}}
KEY_BYTES = 10


def _item(size: int, name: str = "one") -> dict[str, Any]:
    """An item of exactly ``size`` bytes."""
    key = {"pk": {"S": name}, "sk": {"S": name}}
    return {**key, "v": {"B": b"x" * (size - 5 - 2 * len(name))}}


@pytest.fixture
def reader(request: pytest.FixtureRequest) -> Any:
    """A second client on the store that the test uses."""
    names = ("store", "ministack", "dynalite")
    used: Store = next(request.getfixturevalue(name) for name in names if name in request.fixturenames)
    return used.new_client()


def _grow(client: Any, table: str, size: int, **more: Any) -> Any:
    """Set the item to ``size`` bytes by an update."""
    return client.update_item(
        TableName=table,
        Key=KEY,
        UpdateExpression="SET v = :v",
        ExpressionAttributeValues={":v": {"B": b"x" * (size - KEY_BYTES - 1)}},
        **more,
    )


@pytest.mark.parametrize(("size", "units"), [(1, 1), (1024, 1), (1025, 2), (2048, 2), (2049, 3)])
def test_a_put_costs_a_unit_for_each_started_kilobyte(moto_store: Store, size: int, units: int) -> None:
    table = moto_store.table()
    with ledger(moto_store.client) as cost:
        moto_store.client.put_item(TableName=table, Item=_item(max(size, 12)))
    assert cost.write_units == units


def test_a_put_over_a_larger_item_costs_the_larger(store: Store, reader: Any) -> None:
    table = store.table()
    store.client.put_item(TableName=table, Item=_item(3000))
    with ledger(store.client, reader=reader) as cost:
        store.client.put_item(TableName=table, Item=_item(100))
    assert (cost.write_units, cost.guessed) == (3, 0)


def test_what_the_same_client_wrote_before_is_known_without_a_reader(store: Store) -> None:
    table, client = store.table(), store.client
    with ledger(client) as cost:
        client.put_item(TableName=table, Item=_item(3000))
        client.get_item(TableName=table, Key=KEY)
        cost.reset()
        _grow(client, table, 100, ReturnValues="ALL_NEW")
        client.delete_item(TableName=table, Key=KEY)
        client.delete_item(TableName=table, Key=KEY)
    assert [entry.charge.write_units for entry in cost.entries] == [3, 1, 1]
    assert cost.guessed == 0


def test_a_key_that_becomes_known_later_counts_for_earlier_puts(moto_store: Store) -> None:
    table, client = moto_store.table(), moto_store.client
    with ledger(client) as cost:
        client.put_item(TableName=table, Item=_item(3000))
        cost.reset()
        client.delete_item(TableName=table, Key=KEY)
    assert (cost.write_units, cost.guessed) == (3, 0)


def test_an_unknown_size_is_guessed_at_the_least_and_said_so(moto_store: Store) -> None:
    table, client = moto_store.table(), moto_store.client
    client.put_item(TableName=table, Item=_item(3000))
    with ledger(client) as cost:
        client.delete_item(TableName=table, Key=KEY)
    assert (cost.write_units, cost.guessed) == (1, 1)


@pytest.mark.server
def test_a_store_that_tells_saves_the_guess(ministack: Store) -> None:
    table, client = ministack.table(), ministack.client
    client.put_item(TableName=table, Item=_item(3000))
    with ledger(client) as cost:
        client.delete_item(TableName=table, Key=KEY, ReturnConsumedCapacity="TOTAL")
    assert (cost.write_units, cost.guessed) == (3, 0)


def test_a_failed_condition_costs_what_the_item_does(store: Store, reader: Any) -> None:
    table, client = store.table(), store.client
    client.put_item(TableName=table, Item=_item(2500))
    with ledger(client, reader=reader) as cost:
        for _ in range(2):
            with pytest.raises(client.exceptions.ConditionalCheckFailedException):
                _grow(client, table, 100, ConditionExpression="attribute_not_exists(pk)")
    assert (cost.write_units, cost.failed_writes, cost.guessed) == (6, 2, 0)


def test_a_failed_condition_on_nothing_costs_one_unit(store: Store, reader: Any) -> None:
    table, client = store.table(), store.client
    with ledger(client, reader=reader) as cost, pytest.raises(client.exceptions.ConditionalCheckFailedException):
        client.delete_item(TableName=table, Key=KEY, ConditionExpression="attribute_exists(pk)")
    assert (cost.write_units, cost.failed_writes) == (1, 1)


def test_a_failed_put_costs_the_larger_of_the_two_items(store: Store, reader: Any) -> None:
    table, client = store.table(), store.client
    client.put_item(TableName=table, Item=_item(100))
    with ledger(client, reader=reader) as cost, pytest.raises(client.exceptions.ConditionalCheckFailedException):
        client.put_item(TableName=table, Item=_item(2000), ConditionExpression="attribute_not_exists(pk)")
    assert (cost.write_units, cost.failed_writes) == (2, 1)


@pytest.mark.needs("transactions")
def test_a_transaction_costs_twice_checks_included(store: Store, reader: Any) -> None:
    table, client = store.table(), store.client
    client.put_item(TableName=table, Item=_item(2000, "checked"))
    check = {"pk": {"S": "checked"}, "sk": {"S": "checked"}}
    with ledger(client, reader=reader) as cost:
        client.transact_write_items(
            TransactItems=[
                {"ConditionCheck": {"TableName": table, "Key": check, "ConditionExpression": "attribute_exists(pk)"}},
                {"Put": {"TableName": table, "Item": _item(1500)}},
            ]
        )
    assert (cost.write_units, cost.guessed) == (8, 0)


@pytest.mark.needs("transactions")
def test_a_cancelled_transaction_costs_as_much_as_one_that_succeeds(store: Store, reader: Any) -> None:
    table, client = store.table(), store.client
    put = {"TableName": table, "Item": _item(1500), "ConditionExpression": "attribute_exists(pk)"}
    with (
        ledger(client, reader=reader) as cost,
        pytest.raises(client.exceptions.TransactionCanceledException),
    ):
        client.transact_write_items(
            TransactItems=[{"Put": put}, {"Put": {"TableName": table, "Item": _item(100, "two")}}]
        )
    assert (cost.write_units, cost.failed_writes) == (6, 1)


def test_a_batch_costs_item_by_item_and_leftovers_are_free(store: Store, reader: Any) -> None:
    table, client = store.table(), store.client
    puts = [{"PutRequest": {"Item": _item(size, name)}} for size, name in ((100, "a"), (1500, "b"), (2500, "c"))]
    with ledger(client, reader=reader) as cost, FaultPlan(client) as plan:
        plan.on("BatchWriteItem", faults.leftovers(lambda write: write == puts[2]), nth=1)
        reply = client.batch_write_item(RequestItems={table: puts})
        assert cost.write_units == 3
        client.batch_write_item(RequestItems=reply["UnprocessedItems"])
    assert (cost.write_units, cost.calls) == (6, 2)


def test_reads_cost_half_a_unit_unless_consistent(store: Store) -> None:
    table, client = store.table(), store.client
    client.put_item(TableName=table, Item=_item(4097))
    with ledger(client) as cost:
        client.get_item(TableName=table, Key=KEY)
        client.get_item(TableName=table, Key=KEY, ConsistentRead=True)
        client.get_item(TableName=table, Key={"pk": {"S": "none"}, "sk": {"S": "none"}})
    assert [entry.charge.read_units for entry in cost.entries] == [1, 2, 0.5]
    assert cost.guessed == 0


def _query(client: Any, table: str, **more: Any) -> Any:
    values = {":p": {"S": "p"}, **more.pop("values", {})}
    return client.query(TableName=table, KeyConditionExpression="pk = :p", ExpressionAttributeValues=values, **more)


def _fill_page(store: Store, count: int, size: int) -> str:
    table = store.table()
    for number in range(count):
        item = {"pk": {"S": "p"}, "sk": {"S": str(number)}, "v": {"B": b"x" * (size - 7)}}
        store.client.put_item(TableName=table, Item=item)
    return table


def test_a_query_adds_its_items_up_before_it_rounds(store: Store) -> None:
    table, client = _fill_page(store, 9, 500), store.client
    with ledger(client) as cost:
        _query(client, table)
        _query(client, table, Limit=3)
        _query(client, table, ConsistentRead=True)
        _query(client, table, values={":p": {"S": "nobody"}})
    assert [entry.charge.read_units for entry in cost.entries] == [1, 0.5, 2, 0.5]
    assert cost.scans == 0


def test_a_filter_and_a_projection_do_not_make_a_query_cheaper(store: Store, reader: Any) -> None:
    table, client = _fill_page(store, 9, 500), store.client
    with ledger(client, reader=reader) as cost:
        _query(client, table, FilterExpression="v = :v", values={":v": {"S": "no"}})
        _query(client, table, ProjectionExpression="sk")
        _query(client, table, Select="COUNT")
    assert [entry.charge.read_units for entry in cost.entries] == [1, 1, 1]
    assert cost.guessed == 0


def test_a_scan_is_counted_as_one(moto_store: Store) -> None:
    table = moto_store.table()
    with ledger(moto_store.client) as cost:
        moto_store.client.scan(TableName=table)
        moto_store.client.list_tables()
    assert (cost.scans, cost.read_units) == (1, 0.5)
    assert cost.by_operation == {"Scan": 1, "ListTables": 1}


def test_a_batch_get_rounds_item_by_item_and_charges_for_the_absent(store: Store) -> None:
    table, client = store.table(), store.client
    client.put_item(TableName=table, Item=_item(4097, "a"))
    client.put_item(TableName=table, Item=_item(100, "b"))
    keys = [{"pk": {"S": name}, "sk": {"S": name}} for name in "abc"]
    with ledger(client) as cost:
        client.batch_get_item(RequestItems={table: {"Keys": keys}})
    assert (cost.read_units, cost.guessed) == (2, 0)


@pytest.mark.needs("transactions")
def test_a_transactional_read_costs_four_times_an_ordinary_one(store: Store) -> None:
    table, client = store.table(), store.client
    client.put_item(TableName=table, Item=_item(100))
    with ledger(client) as cost:
        client.transact_get_items(TransactItems=[{"Get": {"TableName": table, "Key": KEY}}])
    assert cost.read_units == 2


def test_faults_are_counted_and_cost_nothing(moto_store: Store) -> None:
    table, client = moto_store.table(), moto_store.client
    with ledger(client) as cost, FaultPlan(client) as plan:
        plan.on("PutItem", faults.throttled(), nth=1)
        plan.on("PutItem", faults.internal_error(), nth=2)
        plan.on("PutItem", faults.lost_reply(), nth=3)
        for _ in range(3):
            with pytest.raises((botocore.exceptions.ClientError, botocore.exceptions.ReadTimeoutError)):
                client.put_item(TableName=table, Item=_item(100))
    assert (cost.calls, cost.throttled, cost.unanswered, cost.write_units) == (3, 1, 1, 0)


@pytest.mark.server
def test_each_retry_of_the_sdk_that_was_answered_costs(ministack: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)  # the SDK's back-off
    client, table = ministack.new_client(Config()), ministack.table()
    with ledger(client) as cost, FaultPlan(client) as plan:
        plan.on("PutItem", faults.throttled())
        client.put_item(TableName=table, Item=_item(100))
    assert (cost.calls, len(cost.entries), cost.throttled, cost.write_units) == (1, 2, 1, 1)


def test_threads_are_counted_without_loss(moto_store: Store) -> None:
    table, client, start = moto_store.table(), moto_store.client, threading.Barrier(8)

    def put(number: int) -> None:
        start.wait()
        for turn in range(10):
            client.put_item(TableName=table, Item=_item(100, f"{number}-{turn}"))

    with ledger(client) as cost, ThreadPoolExecutor(8) as pool:
        list(pool.map(put, range(8)))
    assert (cost.calls, cost.write_units) == (80, 80)


def test_after_the_block_nothing_is_counted(moto_store: Store) -> None:
    table, client = moto_store.table(), moto_store.client
    with ledger(client) as outer, ledger(client) as inner:
        client.get_item(TableName=table, Key=KEY)
    client.get_item(TableName=table, Key=KEY)
    assert (outer.calls, inner.calls) == (1, 1)


def test_a_client_cannot_be_its_own_reader(moto_client: Any) -> None:
    with pytest.raises(ValueError, match="second client"), ledger(moto_client, reader=moto_client):
        pass


def test_the_report_names_each_request_and_the_sums(moto_store: Store) -> None:
    table = moto_store.table()
    with ledger(moto_store.client) as cost:
        moto_store.client.put_item(TableName=table, Item=_item(100))
    assert str(cost).splitlines() == ["PutItem              1 WU, 0 RU at least", "1 WU, 0 RU in 1 calls"]


# --- against the look-alikes' own count -----------------------------------------------------------


def _random_value(dice: random.Random, depth: int = 0) -> dict[str, Any]:
    kinds = ["S", "N", "B", "BOOL", "NULL", "SS", "NS", "BS"] + ["L", "M"] * (depth < 3)
    kind = dice.choice(kinds)
    number = dice.choice(["0", "-1", "1.10", "100200", "1E30", "-0.00123", "12345678901234567890", "7e-5"])
    text = "".join(dice.choices("aé漢😀 z", k=dice.randrange(0, 300)))
    plain: dict[str, Any] = {
        "S": text,
        "N": number,
        "B": text.encode(),
        "BOOL": dice.random() < 0.5,
        "NULL": True,
        "SS": [f"{text}{place}" for place in range(dice.randrange(1, 4))],
        "NS": dice.sample(["1", "-20", "3.5", "1000000"], dice.randrange(1, 4)),
        "BS": [bytes([place]) * dice.randrange(1, 99) for place in range(dice.randrange(1, 4))],
    }
    if kind == "L":
        return {"L": [_random_value(dice, depth + 1) for _ in range(dice.randrange(0, 4))]}
    if kind == "M":
        return {"M": {f"é{place}": _random_value(dice, depth + 1) for place in range(dice.randrange(0, 4))}}
    return {kind: plain[kind]}


def _random_item(dice: random.Random, name: str) -> dict[str, Any]:
    values = {f"a{place}": _random_value(dice) for place in range(dice.randrange(0, 8))}
    return {"pk": {"S": name}, "sk": {"S": name}, **values}


@pytest.mark.server
@pytest.mark.parametrize("seed", range(3))
def test_write_units_are_those_that_ministack_reports(ministack: Store, reader: Any, seed: int) -> None:
    dice, table, client = random.Random(seed), ministack.table(), ministack.client
    told: list[float] = []

    def told_by(reply: Any) -> None:
        capacity = reply["ConsumedCapacity"]
        told.append(sum(one["CapacityUnits"] for one in (capacity if isinstance(capacity, list) else [capacity])))

    def write(name: str) -> Any:
        item = _random_item(dice, name)
        key = {"pk": item["pk"], "sk": item["sk"]}
        total = {"ReturnConsumedCapacity": "TOTAL"}
        update = {"UpdateExpression": "SET w = :w", "ExpressionAttributeValues": {":w": _random_value(dice)}}
        match dice.randrange(5):
            case 0:
                return client.put_item(TableName=table, Item=item, **total)
            case 1:
                return client.update_item(TableName=table, Key=key, **update, **total)
            case 2:
                return client.delete_item(TableName=table, Key=key, **total)
            case 3:
                return client.batch_write_item(RequestItems={table: [{"PutRequest": {"Item": item}}]}, **total)
            case _:
                action = {"TableName": table, "Key": key, **update}
                return client.transact_write_items(TransactItems=[{"Update": action}], **total)

    with ledger(client, reader=reader) as cost:
        for _ in range(150):
            told_by(write(dice.choice("abc")))
    assert [entry.charge.write_units for entry in cost.entries] == told
    assert cost.guessed == 0
    assert len(set(told)) > 3  # the items were of many sizes


@pytest.mark.server
@pytest.mark.parametrize("seed", range(3))
def test_read_units_are_those_that_dynalite_reports(dynalite: Store, reader: Any, seed: int) -> None:
    """With plain texts only: dynalite measures numbers, binaries and wide characters a few bytes off."""
    dice, table, client = random.Random(seed), dynalite.table(), dynalite.client
    for number in range(12):
        text = "x" * dice.choice([1, 500, 4088, 4089, 9000])
        item = {"pk": {"S": "p"}, "sk": {"S": f"{number:02}"}, "v": {"S": text}}
        client.put_item(TableName=table, Item=item)
    told: list[float] = []
    with ledger(client, reader=reader) as cost:
        for _ in range(60):
            options = {"ConsistentRead": dice.random() < 0.5, "ReturnConsumedCapacity": "TOTAL"}
            key = {"pk": {"S": "p"}, "sk": {"S": f"{dice.randrange(14):02}"}}
            if dice.random() < 0.5:
                reply = client.get_item(TableName=table, Key=key, **options)
            else:
                reply = _query(client, table, Limit=dice.randrange(1, 14), **options)
            told.append(reply["ConsumedCapacity"]["CapacityUnits"])
    assert [entry.charge.read_units for entry in cost.entries] == told
    assert len(set(told)) > 3
