"""Faults reach the SDK as the real ones would, and what they say about the server's state is true."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import botocore.exceptions
import pytest
from botocore.config import Config

from tests import faults
from tests.faults import FaultPlan, Hold
from tests.servers import Store

KEY = {"pk": {"S": "one"}, "sk": {"S": "one"}}


def _add(client: Any, table: str) -> None:
    client.update_item(
        TableName=table, Key=KEY, UpdateExpression="ADD n :one", ExpressionAttributeValues={":one": {"N": "1"}}
    )


def _count(store: Store, table: str) -> int:
    item = store.client.get_item(TableName=table, Key=KEY, ConsistentRead=True).get("Item", {})
    return int(item.get("n", {"N": "0"})["N"])


def _retrying_client(store: Store, mode: str) -> Any:
    retries: Any = {"total_max_attempts": 3, "mode": mode}
    return store.new_client(Config(retries=retries))


def _put_requests(*names: str) -> list[dict[str, Any]]:
    return [{"PutRequest": {"Item": {"pk": {"S": name}, "sk": {"S": name}}}} for name in names]


NOT_APPLIED = {
    "throttled": (faults.throttled, "ProvisionedThroughputExceededException"),
    "throttled account": (faults.throttled_account, "ThrottlingException"),
    "internal error": (faults.internal_error, "InternalServerError"),
    "refused": (lambda: faults.refused("AccessDeniedException"), "AccessDeniedException"),
}


@pytest.mark.parametrize(("fault", "code"), NOT_APPLIED.values(), ids=list(NOT_APPLIED))
def test_a_refusal_changes_nothing_and_carries_its_code(store: Store, fault: Any, code: str) -> None:
    table = store.table()
    with FaultPlan(store.client) as plan:
        plan.on("UpdateItem", fault())
        with pytest.raises(botocore.exceptions.ClientError) as error:
            _add(store.client, table)
    assert error.value.response["Error"]["Code"] == code
    assert _count(store, table) == 0


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (faults.unreachable, botocore.exceptions.EndpointConnectionError),
        (faults.connect_timeout, botocore.exceptions.ConnectTimeoutError),
        (faults.lost_request, botocore.exceptions.ReadTimeoutError),
    ],
)
def test_a_connection_that_breaks_before_sending_changes_nothing(
    store: Store, fault: Any, error: type[Exception]
) -> None:
    table = store.table()
    with FaultPlan(store.client) as plan:
        plan.on("UpdateItem", fault())
        with pytest.raises(error):
            _add(store.client, table)
    assert _count(store, table) == 0
    assert plan.of("UpdateItem")[0].arrived == 0


def test_a_lost_reply_is_a_timeout_after_the_server_has_done_it(store: Store) -> None:
    table = store.table()
    with FaultPlan(store.client) as plan:
        plan.on("UpdateItem", faults.lost_reply())
        with pytest.raises(botocore.exceptions.ReadTimeoutError):
            _add(store.client, table)
    assert _count(store, table) == 1
    assert plan.of("UpdateItem")[0].arrived == 1


@pytest.mark.parametrize("mode", ["legacy", "standard"])
@pytest.mark.server
def test_the_sdk_retries_after_a_lost_reply_and_applies_it_twice(ministack: Store, mode: str) -> None:
    """The trap that the library must live with: an SDK retry after a lost reply does the same write again."""
    table, client = ministack.table(), _retrying_client(ministack, mode)
    with FaultPlan(client) as plan:
        plan.on("UpdateItem", faults.lost_reply())
        _add(client, table)
    assert _count(ministack, table) == 2
    assert (plan.calls[0].attempts, plan.calls[0].arrived) == (2, 2)


@pytest.mark.parametrize("mode", ["legacy", "standard"])
@pytest.mark.parametrize("fault", [faults.throttled, faults.internal_error, faults.unreachable])
@pytest.mark.server
def test_the_sdk_sees_a_fault_below_its_retries(
    ministack: Store, mode: str, fault: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)  # the SDK's back-off
    table, client = ministack.table(), _retrying_client(ministack, mode)
    with FaultPlan(client) as plan:
        plan.on("UpdateItem", fault(), nth=1, attempts=2)
        _add(client, table)
        plan.on("UpdateItem", fault(), nth=2, attempts=None)
        with pytest.raises((botocore.exceptions.ClientError, botocore.exceptions.EndpointConnectionError)):
            _add(client, table)
    assert [(call.attempts, call.arrived) for call in plan.calls] == [(3, 1), (3, 0)]
    assert _count(ministack, table) == 1


def test_leftovers_are_not_written_and_are_named_in_the_reply(store: Store) -> None:
    table = store.table()
    writes = _put_requests("a", "b", "c")
    with FaultPlan(store.client) as plan:
        plan.on("BatchWriteItem", faults.leftovers(lambda write: write != writes[1]), nth=1)
        reply = store.client.batch_write_item(RequestItems={table: writes})
    assert reply["UnprocessedItems"] == {table: [writes[0], writes[2]]}
    assert [item["pk"]["S"] for item in store.client.scan(TableName=table)["Items"]] == ["b"]
    assert plan.calls[0].params == {"RequestItems": {table: writes}}


def test_a_batch_may_be_left_over_as_a_whole(store: Store) -> None:
    table = store.table()
    with FaultPlan(store.client) as plan:
        plan.on("BatchWriteItem", faults.leftovers(), times=1)
        first = store.client.batch_write_item(RequestItems={table: _put_requests("a", "b")})
        second = store.client.batch_write_item(RequestItems=first["UnprocessedItems"])
    assert plan.calls[0].arrived == 0
    assert second["UnprocessedItems"] == {}
    assert store.client.scan(TableName=table)["Count"] == 2


@pytest.mark.needs("transactions")
def test_a_cancelled_transaction_names_its_reasons_and_changes_nothing(store: Store) -> None:
    table = store.table()
    with FaultPlan(store.client) as plan:
        plan.on("TransactWriteItems", faults.cancelled("TransactionConflict", items={0: KEY}))
        with pytest.raises(store.client.exceptions.TransactionCanceledException) as cancelled:
            store.client.transact_write_items(TransactItems=[{"Put": {"TableName": table, "Item": KEY}}])
    reason = cancelled.value.response["CancellationReasons"][0]
    assert (reason["Code"], reason["Item"]) == ("TransactionConflict", KEY)
    assert store.client.scan(TableName=table)["Count"] == 0


@pytest.mark.server
def test_a_held_request_arrives_only_when_released(ministack: Store) -> None:
    table, hold = ministack.table(), Hold()
    with FaultPlan(ministack.client) as plan, ThreadPoolExecutor(1) as pool:
        plan.on("UpdateItem", hold)
        pending = pool.submit(_add, ministack.client, table)
        hold.wait_until_reached()
        assert _count(ministack, table) == 0
        hold.release()
        pending.result()
    assert _count(ministack, table) == 1


@pytest.mark.server
def test_a_held_reply_is_of_a_write_that_is_done(ministack: Store) -> None:
    table, hold = ministack.table(), Hold(applied=True)
    with FaultPlan(ministack.client) as plan, ThreadPoolExecutor(1) as pool:
        plan.on("UpdateItem", hold)
        pending = pool.submit(_add, ministack.client, table)
        hold.wait_until_reached()
        assert _count(ministack, table) == 1
        assert not pending.done()
        hold.release()
        pending.result()


def test_a_delay_takes_its_time_before_or_after(moto_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr("time.sleep", slept.append)
    table = moto_store.table()
    slept.clear()
    with FaultPlan(moto_store.client) as plan:
        plan.on("UpdateItem", faults.delayed(1.5), nth=1)
        plan.on("UpdateItem", faults.delayed(2.5, applied=True), nth=2)
        _add(moto_store.client, table)
        _add(moto_store.client, table)
    assert slept == [1.5, 2.5]


def test_rules_choose_by_number_by_look_and_by_limit(moto_store: Store) -> None:
    client, table = moto_store.client, moto_store.table()

    def outcome(key: str) -> bool:
        try:
            client.put_item(TableName=table, Item={"pk": {"S": key}, "sk": {"S": key}})
        except client.exceptions.ProvisionedThroughputExceededException:
            return False
        return True

    with FaultPlan(client) as plan:
        plan.on("PutItem", faults.throttled(), nth=[1, 3])
        assert [outcome("a") for _ in range(4)] == [False, True, False, True]
        plan.clear()
        plan.on(None, faults.throttled(), when=lambda call: call.params["Item"]["pk"]["S"] == "b", times=2)
        assert [outcome("b") for _ in range(3)] == [False, False, True]
        assert outcome("a")


def test_the_same_seed_draws_the_same_faults(moto_store: Store) -> None:
    client, table = moto_store.client, moto_store.table()

    def hits(seed: int) -> list[bool]:
        with FaultPlan(client, seed=seed) as plan:
            plan.on("GetItem", faults.lost_reply(), probability=0.5)
            for _ in range(20):
                try:
                    client.get_item(TableName=table, Key=KEY)
                except botocore.exceptions.ReadTimeoutError:
                    continue
        return [bool(call.faults) for call in plan.calls]

    assert hits(1) == hits(1)
    assert hits(1) != hits(2)
    assert 3 < sum(hits(1)) < 17


def test_every_call_is_recorded_with_its_params_and_reply(moto_store: Store) -> None:
    client, table = moto_store.client, moto_store.table()
    item = {**KEY, "v": {"B": b"\x00\xff"}}
    with FaultPlan(client) as plan:
        client.put_item(TableName=table, Item=item)
        item["v"] = {"B": b"changed by the caller later"}
        client.get_item(TableName=table, Key=KEY)
    client.get_item(TableName=table, Key=KEY)
    assert plan.operations == ["PutItem", "GetItem"]
    assert plan.calls[0].params["Item"]["v"] == {"B": b"\x00\xff"}
    assert plan.calls[1].reply is not None
    assert plan.calls[1].reply["Item"]["v"] == {"B": b"\x00\xff"}


def test_threads_share_a_plan(moto_store: Store) -> None:
    client, table, start = moto_store.client, moto_store.table(), threading.Barrier(8)

    def put(number: int) -> bool:
        start.wait()
        try:
            client.put_item(TableName=table, Item={"pk": {"S": str(number)}, "sk": {"S": "x"}})
        except client.exceptions.ProvisionedThroughputExceededException:
            return False
        return True

    with FaultPlan(client) as plan, ThreadPoolExecutor(8) as pool:
        plan.on("PutItem", faults.throttled(), nth=range(1, 4))
        assert sum(pool.map(put, range(8))) == 5
    assert len(plan.calls) == 8
