"""``ctx.commit``: the workflow's own writes happen exactly once, or it is told why not."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from dynadurable import App, Retry
from dynadurable.errors import CommitRefusedError, StepFailedError
from dynadurable.storage.items import DEAD
from dynadurable.testing.memory import MemoryClient
from dynadurable.workflow.context import WorkflowContext
from tests.integration.stepping import TABLE
from tests.workflow.conftest import MakeRig
from tests.workflow.rig import Define, Rig, stopped_everywhere

DAY, HOUR = timedelta(days=1), timedelta(hours=1)


def add(name: str, number: int = 1) -> dict[str, Any]:
    """Adds to a counter of the user's: a write that shows if it happens twice."""
    return {
        "Update": {
            "TableName": TABLE,
            "Key": {"pk": {"S": "stock"}, "sk": {"S": name}},
            "UpdateExpression": "ADD held :n",
            "ExpressionAttributeValues": {":n": {"N": str(number)}},
        }
    }


def put_once(name: str) -> dict[str, Any]:
    item = {"pk": {"S": "stock"}, "sk": {"S": name}}
    return {"Put": {"TableName": TABLE, "Item": item, "ConditionExpression": "attribute_not_exists(pk)"}}


def held(rig: Rig, name: str) -> int:
    [row] = [row for row in rig.items() if row["pk"]["S"] == "stock" and row["sk"]["S"] == name]
    return int(row["held"]["N"])


def reserving(app: App, rig: Rig) -> None:
    @app.workflow(keep_result=DAY)
    def flow(ctx: WorkflowContext) -> str:
        ctx.step(lambda: rig.note("before"), name="before")
        ctx.commit(add("shoes"), put_once("shirt"))
        ctx.sleep(HOUR)
        ctx.commit(add("shoes", 10), name="more")
        ctx.step(lambda: rig.note("after"), name="after")
        return "reserved"


def test_writes_and_their_record_are_one(make_rig: MakeRig) -> None:
    rig = make_rig(reserving)
    rig.start("flow")
    rig.finish()
    assert rig.result() == "reserved"
    assert held(rig, "shoes") == 11
    assert [line for line in rig.told() if "commit" in line] == ["commit commit: done", "commit more: done"]


def test_effects_in_dynamodb_happen_exactly_once_wherever_it_stops() -> None:
    """Every write, lost or applied with its reply lost, dying there or going on."""
    for fault, rig in stopped_everywhere(reserving, lambda rig: rig.start("flow")):
        assert rig.result() == "reserved", fault
        assert held(rig, "shoes") == 11, fault
        assert sum(rig.effects.values()) <= 3, fault
        rig.close()


def refused(app: App, rig: Rig) -> None:
    @app.workflow(keep_result=DAY)
    def flow(ctx: WorkflowContext) -> list[Any]:
        seen = []
        try:
            ctx.commit(add("shoes"), put_once("taken"))
        except CommitRefusedError as error:
            seen.append([reason.code for reason in error.reasons])
        ctx.sleep(HOUR)
        MemoryClient(rig.store).delete_item(TableName=TABLE, Key={"pk": {"S": "stock"}, "sk": {"S": "taken"}})
        ctx.commit(put_once("free"))
        return seen


def test_a_condition_of_ones_own_is_told_with_its_reasons(make_rig: MakeRig) -> None:
    """And it is told again on replay, although it would be met by then."""
    rig = make_rig(refused)
    MemoryClient(rig.store).put_item(TableName=TABLE, Item={"pk": {"S": "stock"}, "sk": {"S": "taken"}})
    rig.start("flow")
    rig.finish()
    assert rig.result() == [["None", "ConditionalCheckFailed"]]
    assert [row["sk"]["S"] for row in rig.store.items(TABLE) if row["pk"]["S"] == "stock"] == ["free"]


def committing(*writes: Any) -> Define:
    def define(app: App, rig: Rig) -> None:
        @app.workflow(keep_result=DAY, retry=Retry.none())
        def flow(ctx: WorkflowContext) -> str:
            try:
                ctx.commit(*writes)
            except StepFailedError as error:
                return str(error.failure.type)
            return "done"

    return define


def test_a_request_that_dynamodb_calls_invalid_is_an_error_of_the_commit(make_rig: MakeRig) -> None:
    bad = {"Put": {"TableName": TABLE, "Item": {"pk": {"S": "stock"}}}}
    rig = make_rig(committing(bad))
    rig.start("flow")
    rig.finish()
    assert rig.result() == "dynadurable.errors.RequestRefusedError"


def test_a_commit_can_enqueue(make_rig: MakeRig) -> None:
    def define(app: App, rig: Rig) -> None:
        @app.job
        def mail(to: str) -> None:
            rig.note(f"mail to {to}")

        @app.workflow(keep_result=DAY)
        def flow(ctx: WorkflowContext) -> str:
            ctx.commit(add("mails"), app.transact_items(mail, "a"), app.transact_items(mail, "b"))
            return "sent"

    rig = make_rig(define)
    rig.start("flow")
    rig.finish()
    assert rig.effects == {"mail to a": 1, "mail to b": 1}


def test_too_many_writes_are_refused(make_rig: MakeRig) -> None:
    rig = make_rig(committing(*[add(str(n)) for n in range(100)]))
    rig.start("flow")
    rig.finish()
    assert rig.run().state == DEAD
    assert "1 to 99 writes" in rig.run().error


@pytest.mark.parametrize("count", [1, 99])
def test_as_many_as_a_transaction_takes(make_rig: MakeRig, count: int) -> None:
    rig = make_rig(committing(*[add(str(n)) for n in range(count)]))
    rig.start("flow")
    rig.finish()
    assert rig.result() == "done"


def test_a_stale_workers_commit_changes_nothing(make_rig: MakeRig) -> None:
    """PUB-14: its lease was lost in the middle of a step; another worker went on."""

    def define(app: App, rig: Rig) -> None:
        def slow() -> None:
            if rig.note("slow") == 1:
                rig.clock.advance(timedelta(seconds=35))
                rig.process().work()

        @app.workflow(keep_result=DAY)
        def flow(ctx: WorkflowContext) -> str:
            ctx.step(slow)
            ctx.commit(add("shoes"))
            return "done"

    rig = make_rig(define)
    rig.start("flow")
    rig.process().work()
    rig.finish()
    assert rig.result() == "done"
    assert held(rig, "shoes") == 1
