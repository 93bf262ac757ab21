"""The in-memory store beyond what every DynamoDB does: sharing, determinism, speed, our own errors."""

from __future__ import annotations

import doctest
import importlib
import os
import pkgutil
import subprocess
import sys
import threading
from typing import Any

import pytest
from pynamodb.attributes import BinaryAttribute, NumberAttribute, UnicodeAttribute
from pynamodb.expressions.update import Action
from pynamodb.models import Model

from dynadurable.errors import (
    ConditionFailedError,
    RequestRefusedError,
    TransactionFailedError,
)
from dynadurable.storage.call import Call
from dynadurable.testing import memory
from dynadurable.testing.memory import MemoryClient, MemoryStore
from dynadurable.testing.memory.expressions import _compiled
from tests.unit.memory_tasks import TABLE, StoppedClock, add, key, new_store, put, run


@pytest.fixture
def store() -> MemoryStore:
    return new_store()


# --- what is shared with callers ------------------------------------------------------------------


def test_what_a_caller_does_to_its_request_later_changes_nothing(store: MemoryStore) -> None:
    item = {**key(), "l": {"L": [{"M": {"a": {"SS": ["x"]}}}]}, "b": {"B": bytearray(b"x")}}
    values = {":v": {"L": [{"S": "x"}]}}
    run(store, "PutItem", Item=item)
    run(store, "UpdateItem", Key=key(), UpdateExpression="SET v = :v", ExpressionAttributeValues=values)
    item["l"]["L"][0]["M"]["a"]["SS"].append("y")
    item["l"]["L"].append({"S": "z"})
    item["b"]["B"].extend(b"y")
    item["pk"]["S"] = "q"
    values[":v"]["L"].clear()
    assert store.items(TABLE) == [
        {**key(), "l": {"L": [{"M": {"a": {"SS": ["x"]}}}]}, "b": {"B": b"x"}, "v": {"L": [{"S": "x"}]}}
    ]


def test_what_a_caller_does_to_a_reply_of_the_client_changes_nothing(store: MemoryStore) -> None:
    put(store, l={"L": [{"S": "x"}]})
    client = MemoryClient(store)
    client.get_item(TableName=TABLE, Key=key())["Item"]["l"]["L"].clear()
    client.scan(TableName=TABLE)["Items"][0].clear()
    with pytest.raises(client.exceptions.ConditionalCheckFailedException) as caught:
        client.delete_item(
            TableName=TABLE,
            Key=key(),
            ConditionExpression="attribute_not_exists(pk)",
            ReturnValuesOnConditionCheckFailure="ALL_OLD",
        )
    caught.value.response["Item"]["l"]["L"].clear()
    assert store.items(TABLE) == [{**key(), "l": {"L": [{"S": "x"}]}}]


def test_an_update_leaves_the_item_that_was_read_before_as_it_was(store: MemoryStore) -> None:
    put(store, m={"M": {"a": {"N": "1"}, "l": {"L": [{"N": "1"}, {"N": "2"}]}}}, n={"N": "1"})
    before = run(store, "GetItem", Key=key())["Item"]
    copy = MemoryClient(store).get_item(TableName=TABLE, Key=key())["Item"]
    values = {":v": {"N": "9"}}
    update = "SET m.a = :v, m.l[0] = :v REMOVE m.l[1] ADD n :v"
    run(store, "UpdateItem", Key=key(), UpdateExpression=update, ExpressionAttributeValues=values)
    assert before == copy
    assert run(store, "GetItem", Key=key())["Item"] != copy


# --- determinism ----------------------------------------------------------------------------------


def test_items_are_listed_by_partition_and_sort_key(store: MemoryStore) -> None:
    for pk, sk in [("q", "b"), ("p", "c"), ("q", "a"), ("p", "a"), ("é", "a")]:
        put(store, sk, pk)
    listed = [(item["pk"]["S"], item["sk"]["S"]) for item in store.items(TABLE)]
    assert listed == [("p", "a"), ("p", "c"), ("q", "a"), ("q", "b"), ("é", "a")]


def test_the_order_of_a_scan_does_not_depend_on_the_order_of_writes() -> None:
    names = [f"{pk}{sk}" for pk in "abcdef" for sk in "xyz"]
    orders = []
    for ordered in (names, names[::-1], sorted(names, key=lambda name: name[1])):
        store = new_store()
        for name in ordered:
            put(store, name[1], name[0])
        orders.append([item["pk"]["S"] + item["sk"]["S"] for item in run(store, "Scan")["Items"]])
    assert orders[0] == orders[1] == orders[2] != names


SCRIPT = """
from tests.unit.memory_tasks import TABLE, add, key, new_store, put, run
store = new_store()
for name in ("b", "a", "d", "c"):
    put(store, name, name, s={"SS": ["z", "y", "x"]}, n={"NS": ["3", "20", "1"]}, b={"BS": [b"b", b"a"]})
values = {":v": {"SS": ["w", "q", "y"]}}
update = {"UpdateExpression": "ADD s :v", "ExpressionAttributeValues": values, "ReturnValues": "ALL_NEW"}
print(run(store, "UpdateItem", Key=key("a", "a"), **update), run(store, "Scan"), store.items(TABLE))
"""


def test_the_same_calls_give_the_same_answers_in_every_process() -> None:
    def answers(seed: str) -> str:
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True
        )
        return done.stdout

    assert answers("1") == answers("2") != ""


# --- tokens and time ------------------------------------------------------------------------------


def test_a_token_is_forgotten_after_ten_minutes() -> None:
    clock = StoppedClock()
    store = new_store(clock)
    values = {":v": {"N": "1"}}
    element = {
        "Update": {
            "TableName": TABLE,
            "Key": key(),
            "UpdateExpression": "ADD n :v",
            "ExpressionAttributeValues": values,
        }
    }
    call = Call(operation="TransactWriteItems", params={"TransactItems": [element], "ClientRequestToken": "t"})
    store.execute(call)
    clock.ms += 10 * 60 * 1000 - 1
    store.execute(call)
    assert store.items(TABLE) == [{**key(), "n": {"N": "1"}}]
    clock.ms += 1
    store.execute(call)
    assert store.items(TABLE) == [{**key(), "n": {"N": "2"}}]


def test_a_repeated_token_costs_read_units(store: MemoryStore) -> None:
    put_ = {"Put": {"TableName": TABLE, "Item": {**key(), "load": {"S": "x" * 5000}}}}
    params = {"TransactItems": [put_], "ClientRequestToken": "t", "ReturnConsumedCapacity": "TOTAL"}
    call = Call(operation="TransactWriteItems", params=params)
    first, second = (store.execute(call)["ConsumedCapacity"][0] for _ in range(2))
    assert first == {"TableName": TABLE, "CapacityUnits": 10.0, "WriteCapacityUnits": 10.0}
    assert second == {"TableName": TABLE, "CapacityUnits": 4.0, "ReadCapacityUnits": 4.0}


def test_the_client_tells_the_time_of_the_store() -> None:
    reply = MemoryClient(new_store(StoppedClock())).get_item(TableName=TABLE, Key=key())
    assert reply["ResponseMetadata"]["HTTPHeaders"]["date"] == "Fri, 15 Jan 2027 08:00:00 GMT"
    reply = MemoryClient(new_store()).get_item(TableName=TABLE, Key=key())
    assert reply["ResponseMetadata"]["HTTPHeaders"] == {}


# --- errors ---------------------------------------------------------------------------------------


def test_a_failed_condition_is_our_error_and_carries_the_item(store: MemoryStore) -> None:
    put(store, n={"N": "1"})
    with pytest.raises(ConditionFailedError) as caught:
        run(
            store,
            "PutItem",
            Item=key(),
            ConditionExpression="attribute_not_exists(pk)",
            ReturnValuesOnConditionCheckFailure="ALL_OLD",
        )
    assert caught.value.item == {**key(), "n": {"N": "1"}}
    assert (caught.value.operation, caught.value.ambiguous) == ("PutItem", False)


def test_a_cancelled_transaction_is_our_error_and_carries_the_reasons(store: MemoryStore) -> None:
    elements = [
        {"Put": {"TableName": TABLE, "Item": key()}},
        {"Delete": {"TableName": TABLE, "Key": key("b"), "ConditionExpression": "attribute_exists(pk)"}},
    ]
    with pytest.raises(TransactionFailedError) as caught:
        store.execute(Call(operation="TransactWriteItems", params={"TransactItems": elements}))
    assert [reason.code for reason in caught.value.reasons] == ["None", "ConditionalCheckFailed"]
    assert caught.value.reasons[1].message


def test_an_invalid_request_is_our_error_and_names_the_code(store: MemoryStore) -> None:
    with pytest.raises(RequestRefusedError, match="GetItem: ValidationException: "):
        run(store, "GetItem", Key={"pk": {"S": "a"}})


@pytest.mark.parametrize(
    ("operation", "params"),
    [
        ("PutItem", {"Item": key(), "Expected": {}}),
        ("GetItem", {"Key": key(), "AttributesToGet": ["n"]}),
        ("Query", {"KeyConditionExpression": "pk = :v", "IndexName": "other"}),
        ("Scan", {"ScanFilter": {}}),
        ("RestoreTable", {}),
    ],
)
def test_what_the_store_does_not_know_is_refused(store: MemoryStore, operation: str, params: dict[str, Any]) -> None:
    with pytest.raises(RequestRefusedError):
        run(store, operation, **params)


def test_a_name_that_is_no_text_is_refused(store: MemoryStore) -> None:
    with pytest.raises(RequestRefusedError):
        run(store, "GetItem", Key=key(), ProjectionExpression="#n", ExpressionAttributeNames={"#n": ["n"]})
    with pytest.raises(RequestRefusedError):
        run(store, "GetItem", Key=key(), ProjectionExpression=5)


# --- threads --------------------------------------------------------------------------------------


def test_a_locked_store_has_one_winner_and_loses_no_update() -> None:
    store = new_store(locked=True)
    wins: list[int] = []

    def work(worker: int) -> None:
        for turn in range(100):
            add(store)
            try:
                run(store, "PutItem", Item=key(str(turn)), ConditionExpression="attribute_not_exists(pk)")
            except ConditionFailedError:
                continue
            wins.append(turn)
            assert worker >= 0

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert run(store, "GetItem", Key=key())["Item"]["n"] == {"N": "800"}
    assert sorted(wins) == list(range(100))


# --- speed ----------------------------------------------------------------------------------------


def claim(store: MemoryStore, now_ms: int) -> None:
    """A conditional update such as a worker makes to claim a mark."""
    run(
        store,
        "UpdateItem",
        Key=key(),
        ConditionExpression="(attribute_exists (#0) AND (attribute_not_exists (#1) OR #1 < :0))",
        UpdateExpression="SET #2 = :1, #3 = #3 + :2, #1 = :3",
        ExpressionAttributeNames={"#0": "pk", "#1": "lease_until", "#2": "token_", "#3": "fence"},
        ExpressionAttributeValues={
            ":0": {"N": str(now_ms)},
            ":1": {"S": "t"},
            ":2": {"N": "1"},
            ":3": {"N": str(now_ms - 1)},
        },
        ReturnValues="ALL_NEW",
    )


def test_an_expression_is_compiled_once(store: MemoryStore) -> None:
    put(store, fence={"N": "0"})
    claim(store, 1)
    before = _compiled.cache_info()
    for now_ms in range(2, 100):
        claim(store, now_ms)
    after = _compiled.cache_info()
    assert (after.misses, after.hits - before.hits) == (before.misses, 98)


# --- PynamoDB -------------------------------------------------------------------------------------


class Mark(Model):
    class Meta:
        table_name = TABLE
        region = "us-east-1"

    pk = UnicodeAttribute(hash_key=True)
    sk = UnicodeAttribute(range_key=True)
    fence = NumberAttribute(null=True)
    token = UnicodeAttribute(null=True)
    load = BinaryAttribute(null=True, legacy_encoding=False)


def test_requests_that_pynamodb_builds_are_understood(store: MemoryStore) -> None:
    mark = Mark("p", "a", fence=1, load=b"\x00x")
    put_ = mark.get_save_kwargs_from_instance(Mark.pk.does_not_exist())
    store.execute(Call(operation="PutItem", params=put_))
    actions: list[Action] = [Mark.token.set("t"), Mark.fence.set(Mark.fence + 1)]
    condition = Mark.pk.exists() & (Mark.token.does_not_exist() | ~(Mark.fence > 5))
    update = mark.get_update_kwargs_from_instance(actions, condition)
    store.execute(Call(operation="UpdateItem", params=update))
    read = Mark()
    read.deserialize(store.items(TABLE)[0])
    assert (read.fence, read.token, read.load) == (2, "t", b"\x00x")
    delete = mark.get_delete_kwargs_from_instance(Mark.token == "t")
    store.execute(Call(operation="DeleteItem", params=delete))
    assert store.items(TABLE) == []


# --- examples --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(each.name for each in pkgutil.iter_modules(memory.__path__)))
def test_examples_in_docstrings_are_true(name: str) -> None:
    assert doctest.testmod(importlib.import_module(f"{memory.__name__}.{name}")).failed == 0
