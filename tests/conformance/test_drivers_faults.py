"""What goes wrong on the way to the store means the same on every driver."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from dynadurable import App, ConfigurationError, LeaseLostError
from dynadurable.clock import SystemClock
from dynadurable.errors import (
    ConditionFailedError,
    PermissionMissingError,
    RequestRefusedError,
    StoreUnavailableError,
    TransactionFailedError,
)
from dynadurable.storage import marks, requests
from dynadurable.storage.call import Call
from tests import faults
from tests.conformance.driven import Driven
from tests.faults import FaultPlan

PASSING = {
    "throttled": faults.throttled,
    "throttled account": faults.throttled_account,
    "internal error": faults.internal_error,
    "unreachable": faults.unreachable,
    "connect timeout": faults.connect_timeout,
    "lost request": faults.lost_request,
    "lost reply": faults.lost_reply,
}
WRITES = ("PutItem", "UpdateItem", "DeleteItem")


def _is_odd(write: dict[str, Any]) -> bool:
    return int(write["PutRequest"]["Item"]["sk"]["S"]) % 2 == 1


def nothing() -> None:
    """A body."""


@pytest.mark.parametrize("passing", PASSING)
def test_a_passing_fault_at_any_write_changes_nothing(driven: Driven, passing: str) -> None:
    """PUB-46: the body runs once, and an own write is never taken for somebody else's."""
    runs: list[int] = []
    with FaultPlan(driven.client) as plan:
        for operation in WRITES:
            plan.on(operation, PASSING[passing](), nth=1)
        driven.enqueue(driven.job(runs.append, keep_result=timedelta(days=1)), 1)
        driven.enqueue(driven.job(runs.append, keep_result=timedelta(days=1)), 2)
        ended = driven.work()
        assert {call.operation for call in plan.calls if call.faults} >= {"PutItem", "UpdateItem", "DeleteItem"}
    assert ended == ["succeeded", "succeeded"]
    assert sorted(runs) == [1, 2]
    assert driven.candidates() == []


def test_an_own_claim_whose_reply_was_lost_is_ours(driven: Driven) -> None:
    driven.enqueue(driven.job(nothing))
    with FaultPlan(driven.client) as plan:
        plan.on("UpdateItem", faults.lost_reply(), nth=1)
        mark = driven.claim("mine")
    assert (mark.token, int(mark.fence), int(mark.attempt)) == ("mine", 1, 1)


def test_a_foreign_claim_is_not_ours_although_a_reply_was_lost(driven: Driven) -> None:
    driven.enqueue(driven.job(nothing))
    [candidate] = driven.candidates()
    driven.claim("theirs")
    with FaultPlan(driven.client) as plan:
        plan.on("UpdateItem", faults.lost_request(), nth=1)
        assert driven.try_claim(candidate, "mine") is None


def test_a_finish_whose_reply_was_lost_is_no_lost_lease(driven: Driven) -> None:
    driven.enqueue(driven.job(nothing))
    mark = driven.claim()
    with FaultPlan(driven.client) as plan:
        plan.on("DeleteItem", faults.lost_reply(), nth=1)
        driven.step(marks.finish(driven.items, mark))
    with pytest.raises(LeaseLostError):
        driven.step(marks.finish(driven.items, mark))


@pytest.mark.parametrize("fault", ["throttled", "unreachable", "lost request", "internal error"])
def test_a_fault_that_does_not_pass_is_reported_as_one_error(driven: Driven, fault: str) -> None:
    with FaultPlan(driven.client) as plan:
        plan.on("GetItem", PASSING[fault]())
        with pytest.raises(StoreUnavailableError, match="GetItem"):
            driven.step(marks.read(driven.items, "queue#x#0", "none"))
        assert 2 < len(plan.calls) <= 11


def test_retries_end_with_the_time_that_is_given(driven: Driven) -> None:
    with FaultPlan(driven.client) as plan:
        plan.on("GetItem", faults.throttled())
        with pytest.raises(StoreUnavailableError):
            driven.step(marks.read(driven.items, "queue#x#0", "none"), give_up_at=driven.clock.monotonic())
        assert len(plan.calls) == 1


def test_a_request_that_may_not_be_repeated_is_not(driven: Driven) -> None:
    mark = driven.items.mark(pk="queue#x#0", sk="one", job="work")

    async def once() -> Any:
        return await Call(operation="PutItem", params=requests.put(mark).params, repeatable=False)

    with FaultPlan(driven.client) as plan:
        plan.on("PutItem", faults.lost_reply(), nth=1)
        with pytest.raises(StoreUnavailableError):
            driven.step(once())
        assert len(plan.calls) == 1


def test_a_failed_condition_says_whether_an_earlier_try_may_be_behind_it(driven: Driven) -> None:
    mark = driven.items.mark(pk="queue#x#0", sk="one", job="work")
    put = requests.put(mark, driven.items.mark.pk.does_not_exist())
    driven.send("PutItem", **requests.put(mark).params)
    with pytest.raises(ConditionFailedError) as plain:
        driven.send("PutItem", **put.params)
    assert not plain.value.ambiguous
    with FaultPlan(driven.client) as plan:
        plan.on("PutItem", faults.lost_request(), nth=1)
        with pytest.raises(ConditionFailedError) as after_a_loss:
            driven.send("PutItem", **put.params)
        plan.on("PutItem", faults.unreachable(), nth=3)
        with pytest.raises(ConditionFailedError) as never_sent:
            driven.send("PutItem", **put.params)
    assert after_a_loss.value.ambiguous
    assert not never_sent.value.ambiguous


def test_a_transaction_in_conflict_is_tried_again_and_a_failed_one_is_not(driven: Driven) -> None:
    mark = driven.items.mark(pk="queue#x#0", sk="one", job="work")
    put = requests.put(mark, driven.items.mark.pk.does_not_exist())
    element = requests.transact_element(put)
    with FaultPlan(driven.client) as plan:
        plan.on("TransactWriteItems", faults.cancelled("TransactionConflict"), nth=1)
        driven.send("TransactWriteItems", TransactItems=[element])
        with pytest.raises(TransactionFailedError) as failed:
            driven.send("TransactWriteItems", TransactItems=[element])
        assert len(plan.calls) == 3
    assert [reason.code for reason in failed.value.reasons] == ["ConditionalCheckFailed"]


def test_what_a_batch_leaves_over_is_sent_again(driven: Driven) -> None:
    puts = [{"PutRequest": {"Item": {"pk": {"S": "b"}, "sk": {"S": str(number)}}}} for number in range(9)]
    with FaultPlan(driven.client) as plan:
        plan.on("BatchWriteItem", faults.leftovers(_is_odd), nth=1)
        reply = driven.send("BatchWriteItem", RequestItems={driven.app.schema.table: puts})
        assert [len(call.params["RequestItems"][driven.app.schema.table]) for call in plan.calls] == [9, 4]
    assert not reply.get("UnprocessedItems")
    assert len(driven.rows()) == 9


@pytest.mark.parametrize(
    ("code", "expected", "words"),
    [
        ("AccessDeniedException", PermissionMissingError, "dynamodb:GetItem"),
        ("UnrecognizedClientException", PermissionMissingError, "credentials"),
        ("ValidationException", RequestRefusedError, "ValidationException"),
    ],
)
def test_what_is_wrong_for_good_is_one_clear_error(
    driven: Driven, code: str, expected: type[Exception], words: str
) -> None:
    with FaultPlan(driven.client) as plan:
        plan.on("GetItem", faults.refused(code))
        with pytest.raises(expected, match=words):
            driven.step(marks.read(driven.items, "queue#x#0", "none"))
        assert len(plan.calls) == 1


def test_parameters_that_the_sdk_refuses_are_a_refused_request(driven: Driven) -> None:
    with pytest.raises(RequestRefusedError, match="Nonsense"):
        driven.send("GetItem", TableName=driven.app.schema.table, Key={}, Nonsense=1)


def test_a_defect_of_the_client_comes_out_as_it_is(driven: Driven) -> None:
    with pytest.raises(AttributeError):
        driven.send("NoSuchOperation")


def test_every_reply_teaches_the_clock(driven: Driven) -> None:
    """Three minutes off by the machine's clock: the server's own time decides."""
    if driven.store.name == "moto":
        pytest.skip("moto in this process sends no Date")
    driven.driver._clock = clock = SystemClock()
    driven.step(marks.read(driven.items, "queue#x#0", "none"))
    assert clock.latest_ms() - clock.earliest_ms() < 1500


def test_no_region_is_one_clear_error(driven: Driven, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    app = App("table")
    with pytest.raises(ConfigurationError, match="AWS_DEFAULT_REGION"):
        driven.call(app.aio.check_table) if driven.is_async else app.check_table()
