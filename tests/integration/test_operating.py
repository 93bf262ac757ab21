"""Cancelling runs and moving them, whoever else is at them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from dynadurable import App, JobContext, LeaseBusyError, Retry, RunHandle
from dynadurable.clock import SystemClock
from dynadurable.errors import InputRefusedError
from dynadurable.testing.clock import ManualClock
from tests import faults
from tests.faults import FaultPlan, Hold
from tests.integration.test_asking import claim, drain

ItemsIn = Callable[[App], list[dict[str, Any]]]
TIERS = ("mark", "run")
HOUR = timedelta(hours=1)
LEASE = timedelta(seconds=9)
RETRY = Retry(max_attempts=3, delay=timedelta(minutes=10), jitter=0.0)


@pytest.fixture
def starts() -> list[int]:
    return []


@pytest.fixture(params=TIERS)
def job(request: pytest.FixtureRequest, app: App, starts: list[int]) -> Any:
    """A job that notes its starts: as a plain one, and with a key."""

    @app.job(retry=RETRY)
    def job(ctx: JobContext, fails: bool = False) -> None:
        starts.append(ctx.attempt)
        if fails:
            raise ValueError("not yet")

    return job if request.param == "mark" else job.using(key="k")


def later(job: Any) -> Any:
    return job.using(key=job.options.key, delay=HOUR)


def marks_in(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [item for item in items if item["pk"]["S"].startswith("queue#")]


# --- cancel ---------------------------------------------------------------------------------------


def test_a_pending_run_is_gone_at_once(app: App, job: Any, starts: list[int], items_in: ItemsIn) -> None:
    run = app.enqueue(job)
    assert run.cancel() == "cancelled"
    assert marks_in(items_in(app)) == []
    assert run.status() == "cancelled"
    assert run.cancel() == "cancelled"
    drain(app)
    assert starts == []


def test_a_run_between_two_attempts_is_gone_at_once(app: App, job: Any, starts: list[int], items_in: ItemsIn) -> None:
    run = app.enqueue(job, fails=True)
    drain(app)
    assert run.cancel() == "cancelled"
    assert marks_in(items_in(app)) == []
    assert [failure.message for failure in run.info().failures] == ["not yet"]
    assert starts == [1]


def test_a_run_of_a_lost_worker_is_gone_at_once(app: App, job: Any, clock: ManualClock, starts: list[int]) -> None:
    run = app.enqueue(job)
    claim(app, run.id)
    assert run.cancel() == "cancelling"
    assert run.info().cancel_requested
    clock.advance(timedelta(seconds=31))
    assert run.cancel() == "cancelled"
    drain(app)
    assert starts == []


def test_a_wish_that_nobody_heard_is_met_by_the_next_worker(
    app: App, job: Any, clock: ManualClock, starts: list[int]
) -> None:
    run = app.enqueue(job)
    claim(app, run.id)
    run.cancel()
    clock.advance(timedelta(seconds=31))
    drain(app)
    assert run.status() == "cancelled"
    assert starts == []


@pytest.mark.parametrize("ending", ["returns", "raises", "is interrupted"])
def test_a_running_run_is_told_and_ends_as_cancelled_and_not_failed(make_app: Callable[..., App], ending: str) -> None:
    """Within one renewal period, although all slots are busy, and whatever its body makes of it."""
    app = make_app(clock=SystemClock())
    begun, told = threading.Event(), []

    @app.job(retry=RETRY)
    def busy(ctx: JobContext) -> None:
        begun.set()
        ctx.stopping.wait(30)
        told.append(ctx.stop_reason)
        if ending == "raises":
            raise ValueError("stopped half-way")
        if ending == "is interrupted":
            ctx.raise_if_stopping()

    worker = app.worker(concurrency=1, lease=LEASE)
    worker.start()
    try:
        run = app.enqueue(busy)
        assert begun.wait(30)
        assert run.cancel() == "cancelling"
        asked = app.clock.monotonic()
        assert run.wait(timeout=timedelta(seconds=30)) == "cancelled"
        assert app.clock.monotonic() - asked < LEASE.total_seconds()  # a third of it, and room for a slow machine
    finally:
        worker.stop()
    assert told == ["cancelled"]
    assert app.dead.list() == []


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("end", ["fails for now", "fails for good"])
def test_a_wish_that_comes_too_late_to_be_told_still_counts(app: App, items_in: ItemsIn, tier: str, end: str) -> None:
    """The body fails before any renewal: the run neither waits for its next attempt nor dies, it is cancelled."""

    @app.job(retry=RETRY if end == "fails for now" else Retry.none())
    def fails(ctx: JobContext) -> None:
        app.run(ctx.run_id).cancel()
        raise ValueError("not yet")

    run = app.enqueue(fails if tier == "mark" else fails.using(key="k"))
    drain(app)
    assert run.status() == "cancelled"
    assert marks_in(items_in(app)) == []
    assert app.dead.list() == []


def test_a_body_that_succeeds_before_it_is_told_has_succeeded(app: App) -> None:
    @app.job(keep_result=HOUR)
    def quick(ctx: JobContext) -> str:
        return app.run(ctx.run_id).cancel()

    run = app.enqueue(quick)
    drain(app)
    assert run.result() == "cancelling"


def test_an_operator_that_read_before_the_end_changes_nothing(
    app: App, make_app: Callable[..., App], moto_client: Any, job: Any, starts: list[int]
) -> None:
    """PUB-07: its decision was made on what is no longer so; its write fails, and it looks again."""
    run = app.enqueue(later(job))
    app.run(run.id).run_now()
    hold = Hold(applied=True)
    outcome: list[Any] = []

    def operate() -> None:
        try:
            outcome.append(app.run(run.id).cancel())
        except Exception as error:  # noqa: BLE001 - whatever it is, the test looks at it
            outcome.append(type(error).__name__)

    with FaultPlan(moto_client) as plan:
        plan.on("GetItem", hold, nth=1 if job.options.key else 3)  # its last read before it writes
        thread = threading.Thread(target=operate)
        thread.start()
        hold.wait_until_reached()
        drain(make_app_with(app, make_app))
        hold.release()
        thread.join()
    assert starts == [1]
    assert outcome == ["succeeded"]
    assert run.status() == "succeeded"


def make_app_with(app: App, make_app: Callable[..., App]) -> App:
    """Another process with the same jobs."""
    other = make_app()
    for job in app.registry.jobs():
        other.registry.add(job)
    return other


def test_a_worker_that_claims_between_an_operators_look_and_its_write_keeps_the_run(
    app: App, moto_client: Any, job: Any, starts: list[int]
) -> None:
    run = app.enqueue(job)
    hold = Hold()
    outcome: list[str] = []
    with FaultPlan(moto_client) as plan:
        plan.on("UpdateItem", hold, nth=1)  # the operator's claim
        thread = threading.Thread(target=lambda: outcome.append(run.cancel()))
        thread.start()
        hold.wait_until_reached()
        claim(app, run.id)
        hold.release()
        thread.join()
    assert outcome == ["cancelling"]
    assert run.explain().code == "cancelling"
    assert starts == []


# --- move -----------------------------------------------------------------------------------------


def test_a_delayed_run_can_be_hurried_and_put_off(
    app: App, job: Any, clock: ManualClock, starts: list[int], items_in: ItemsIn
) -> None:
    run = app.enqueue(later(job))
    at = clock.now() + 3 * HOUR
    run.delay_until(at)
    assert run.info().due_at == at
    assert len(marks_in(items_in(app))) == 1
    clock.advance(2 * HOUR)
    drain(app)
    assert starts == []
    run.run_now()
    assert len(marks_in(items_in(app))) == 1
    drain(app)
    assert starts == [1]


def test_a_run_that_waits_for_its_next_attempt_can_be_hurried(app: App, job: Any, starts: list[int]) -> None:
    run = app.enqueue(job, fails=True)
    drain(app)
    for _ in range(2):
        run.run_now()
        run.run_now()
        drain(app)
    assert starts == [1, 2, 3]
    assert run.status() == "dead"


def test_a_running_run_is_not_moved(app: App, job: Any, clock: ManualClock) -> None:
    run = app.enqueue(job)
    claim(app, run.id)
    for move in (run.run_now, lambda: run.delay_until(clock.now() + HOUR)):
        with pytest.raises(LeaseBusyError, match="pod-3"):
            move()


def test_a_naive_instant_is_refused(app: App, job: Any) -> None:
    run = app.enqueue(job)
    with pytest.raises(InputRefusedError, match="aware"):
        run.delay_until(datetime(2027, 1, 1))  # noqa: DTZ001 - that is the point


def test_a_run_whose_mark_was_lost_gets_it_back(
    app: App, clock: ManualClock, moto_client: Any, starts: list[int], items_in: ItemsIn
) -> None:
    """Nothing does that by itself; whoever deleted it by hand can put it right."""

    @app.job
    def kept() -> None:
        starts.append(1)

    run: RunHandle[Any] = app.enqueue(kept.using(key="k"))
    (mark,) = marks_in(items_in(app))
    moto_client.delete_item(TableName=app.schema.table, Key={"pk": mark["pk"], "sk": mark["sk"]})
    assert run.explain().code == "moving"
    run.run_now()
    drain(app)
    assert starts == [1]


# --- transactions ---------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", ["cancel", "replay", "promote"])
def test_a_conflicting_transaction_is_tried_again_and_applied_once(
    app: App, moto_client: Any, operation: str, items_in: ItemsIn
) -> None:
    """PUB-47: three conflicts, then success, with growing pauses; one logical effect."""

    @app.job(retry=Retry.none())
    def hopeless() -> None:
        raise ValueError("no")

    run = app.enqueue(hopeless.using(delay=HOUR if operation == "cancel" else None))
    if operation == "replay":
        drain(app)
    with FaultPlan(moto_client) as plan:
        conflict = faults.cancelled("None", "TransactionConflict", "None")
        plan.on("TransactWriteItems", conflict, nth=(1, 2, 3))
        if operation == "cancel":
            assert run.cancel() == "cancelled"
        elif operation == "replay":
            assert app.dead.replay(run.id).done == 1
        else:
            drain(app)
            assert run.status() == "dead"
        transactions = plan.of("TransactWriteItems")
    assert len(transactions) == 4
    assert len({call.params["ClientRequestToken"] for call in transactions}) == 1


def test_a_transaction_whose_condition_fails_is_not_tried_again(app: App, moto_client: Any) -> None:
    """PUB-47: the reasons tell a loss from a conflict; a loss is told as what it means."""

    @app.job(retry=Retry.none())
    def hopeless() -> None:
        raise ValueError("no")

    run = app.enqueue(hopeless)
    drain(app)
    with FaultPlan(moto_client) as plan:
        hold = Hold(applied=True)
        plan.on("GetItem", hold, nth=3)  # the replay's read of the run
        reports = []
        thread = threading.Thread(target=lambda: reports.append(app.dead.replay(run.id)))
        thread.start()
        hold.wait_until_reached()
        assert app.dead.replay(run.id).done == 1
        hold.release()
        thread.join()
        transactions = plan.of("TransactWriteItems")
    assert [report.skipped for report in reports] == [1]
    assert len(transactions) == 2
    assert run.status() == "pending"
