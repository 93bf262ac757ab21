"""A worker that lost its lease, a record that was lost, a journal that cannot be read: nothing further is done."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ReadTimeoutError

from dynadurable import App, Retry
from dynadurable.storage.items import DEAD
from dynadurable.testing.memory import MemoryClient
from dynadurable.workflow.context import WorkflowContext
from tests.integration.stepping import TABLE
from tests.workflow.conftest import MakeRig
from tests.workflow.rig import Process, Rig

DAY, HOUR = timedelta(days=1), timedelta(hours=1)
FROZEN = timedelta(seconds=35)


def two_steps(app: App, rig: Rig) -> None:
    """The first call of step "a" takes longer than the lease, and another worker takes over meanwhile."""

    def a() -> int:
        if rig.note("a") == 1 and rig.notes.get("freezes"):
            rig.clock.advance(FROZEN)
            rig.process().work()
            return 1
        return 2

    def b() -> None:
        rig.note("b")

    @app.workflow(keep_result=DAY)
    def flow(ctx: WorkflowContext) -> int:
        value = None
        for _ in range(2):
            try:
                value = ctx.step(a, name="a")
                break
            except Exception:  # noqa: BLE001 - as some code does
                rig.note("swallowed")
        ctx.step(b)
        assert value is not None
        return value


def test_a_stale_worker_records_nothing_and_starts_no_further_step(make_rig: MakeRig) -> None:
    """PUB-14: it freezes for 35 s in step "a"; the other records a = 2; its own record is refused."""
    rig = make_rig(two_steps)
    rig.notes["freezes"] = True
    rig.start("flow")
    stale = rig.process()
    assert stale.work()[0] == "lost"
    assert rig.result() == 2
    assert rig.effects == {"a": 2, "b": 1}


def test_a_lease_counts_from_before_its_claim_was_sent(make_rig: MakeRig) -> None:
    """PUB-21: the reply to the claim took longer than the lease, so no body may run under it."""
    rig = make_rig(two_steps)
    rig.start("flow")
    slow = rig.process()
    inner = slow.client.inner.update_item

    def late(**params: Any) -> Any:
        reply = inner(**params)
        rig.clock.advance(FROZEN)
        slow.client.inner.update_item = inner
        return reply

    slow.client.inner.update_item = late
    assert slow.work()[0] == "lost"
    assert rig.result() == 2, "another attempt of the same process"
    assert rig.effects == {"a": 1, "b": 1}


def test_a_stale_worker_is_stopped_whatever_its_code_catches(make_rig: MakeRig) -> None:
    def define(app: App, rig: Rig) -> None:
        @app.workflow(keep_result=DAY)
        def flow(ctx: WorkflowContext) -> str:
            for n in range(4):
                try:
                    ctx.step(body, n)
                except BaseException:  # noqa: BLE001 - as some code does
                    rig.note("caught")
            return "done"

        def body(n: int) -> None:
            if rig.note(f"body {n}") == 1 and n == 0:
                rig.clock.advance(FROZEN)
                rig.process().work()

    rig = make_rig(define)
    rig.start("flow")
    assert rig.process().work()[0] == "lost"
    rig.finish()
    assert rig.result() == "done"
    assert rig.effects == {"body 0": 2, "body 1": 1, "body 2": 1, "body 3": 1, "caught": 4}


# --- a lost record --------------------------------------------------------------------------------


@pytest.mark.parametrize("applied", [True, False])
def test_a_lost_record_stops_the_workflow_before_anything_else(make_rig: MakeRig, applied: bool) -> None:
    """The store is out of reach for every try of one record; whether it was applied nobody knows."""
    rig = make_rig(two_steps)
    rig.start("flow")
    worker = rig.process()
    broken = unreachable(worker, rig, lambda params: b"dd_tail" in repr(params).encode(), applied=applied)
    assert worker.work()[0] == "handed back"
    assert broken["tries"] > 3
    assert rig.effects["b"] == 0
    rig.finish()
    assert rig.result() == 2
    assert rig.effects == {"a": 1 if applied else 2, "b": 1}


def unreachable(
    process: Process, rig: Rig, matches: Callable[[dict[str, Any]], bool], *, applied: bool
) -> dict[str, int]:
    """Requests that match break until their driver gives up, and then never again."""
    inner, broken = process.client.inner.update_item, {"tries": 0}

    def update_item(**params: Any) -> Any:
        if matches(params) and broken["tries"] < 10:
            broken["tries"] += 1
            if applied and broken["tries"] == 1:
                inner(**params)
            raise ReadTimeoutError(endpoint_url="memory://")
        return inner(**params)

    process.client.inner.update_item = update_item
    return broken


# --- a damaged journal ----------------------------------------------------------------------------


def long_flow(app: App, rig: Rig) -> None:
    @app.workflow(keep_result=DAY, retry=Retry.fixed(timedelta(minutes=1), max_attempts=3))
    def flow(ctx: WorkflowContext) -> int:
        for n in range(130):
            ctx.step(rig.note, "body", name=f"step {n}")
        ctx.sleep(timedelta(hours=30))
        return ctx.step(rig.note, "last")


def damage_tail(rig: Rig, row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "dd_tail": {"B": row["dd_tail"]["B"][:-3]}}


def newer_tail(rig: Rig, row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "dd_tail": {"B": b"7" + row["dd_tail"]["B"][1:]}}


def lose_page(rig: Rig, row: dict[str, Any]) -> dict[str, Any]:
    key = {"pk": row["pk"], "sk": row["dd_page"]}
    MemoryClient(rig.store).delete_item(TableName=TABLE, Key=key)
    return row


@pytest.mark.parametrize("damage", [damage_tail, newer_tail, lose_page])
def test_a_damaged_journal_is_an_error_and_never_a_restart(
    make_rig: MakeRig, damage: Callable[[Rig, dict[str, Any]], dict[str, Any]]
) -> None:
    rig = make_rig(long_flow)
    rig.start("flow")
    rig.process().work()
    [row] = [row for row in rig.rows("run") if row["sk"]["S"] == "run"]
    MemoryClient(rig.store).put_item(TableName=TABLE, Item=damage(rig, row))
    rig.finish()
    assert rig.effects == {"body": 130}
    assert rig.run().state == DEAD
    assert "PayloadUnreadableError" in rig.run().error
    assert len(rig.outside.app.run(rig.notes["run_id"]).info().failures) == 3


def test_a_result_whose_class_is_gone_is_an_error_that_code_cannot_swallow(make_rig: MakeRig) -> None:
    def define(app: App, rig: Rig) -> None:
        @app.workflow(keep_result=DAY, retry=Retry.none())
        def flow(ctx: WorkflowContext) -> str:
            try:
                ctx.step(int, name="typed")
            except Exception:  # noqa: BLE001 - as some code does
                rig.note("swallowed")
            ctx.sleep(HOUR)
            ctx.step(rig.note, "after")
            return "done"

    rig = make_rig(define)
    rig.start("flow")
    rig.process().work()
    [row] = [row for row in rig.rows("run") if row["sk"]["S"] == "run"]
    from dataclasses import replace

    from dynadurable.model.record import pack, unpack

    records = [
        replace(one, value=b'1t{"$instance":["gone.module","Gone",{}]}') if one.value else one
        for one in unpack(row["dd_tail"]["B"])
    ]
    row["dd_tail"] = {"B": pack(records)}
    MemoryClient(rig.store).put_item(TableName=TABLE, Item=row)
    rig.finish()
    assert rig.effects == {}
    assert rig.run().state == DEAD
    assert "PayloadUnreadableError" in rig.run().error


# --- attempts -------------------------------------------------------------------------------------


def test_a_crash_after_progress_uses_up_no_more_than_its_own_attempt(make_rig: MakeRig) -> None:
    """Killed after every one of ten steps, with three attempts: what got on begins to count anew."""
    from tests.integration.stepping import Died, Fault

    def define(app: App, rig: Rig) -> None:
        @app.workflow(keep_result=DAY, retry=Retry(max_attempts=3))
        def flow(ctx: WorkflowContext) -> int:
            return sum(ctx.step(lambda n=n: rig.note(f"step {n}"), name=f"step {n}") for n in range(10))

    rig = make_rig(define)
    rig.start("flow")
    for _ in range(9):
        with pytest.raises(Died):  # claim, the fence (from the second on), one record, and the next is lost
            rig.process(Fault(nth=4 if rig.effects else 3, applied=False, dies=True)).work()
        rig.clock.advance(timedelta(seconds=31))
    rig.finish()
    assert rig.result() >= 10
    assert max(rig.effects.values()) == 2


def test_a_workflow_that_kills_its_process_without_getting_on_dies(make_rig: MakeRig) -> None:
    from tests.integration.stepping import Died

    def define(app: App, rig: Rig) -> None:
        def body() -> None:
            rig.note("body")
            raise Died

        @app.workflow(keep_result=DAY, retry=Retry(max_attempts=3))
        def flow(ctx: WorkflowContext) -> None:
            ctx.step(int, name="before")
            ctx.step(body)

    rig = make_rig(define)
    rig.start("flow")
    for _ in range(5):
        worker = rig.process()
        try:
            worker.work()
        except Died:
            rig.clock.advance(timedelta(seconds=31))
    assert rig.effects == {"body": 3}
    assert rig.run().state == DEAD
