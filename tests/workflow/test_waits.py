"""Sleeps, events, callbacks and conditions: no worker is held, and no restart begins a wait anew."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from dynadurable import App, Retry, RunUnknownError
from dynadurable.errors import CallbackFailedError, InputRefusedError, StepFailedError, WaitTimeoutError
from dynadurable.storage.items import DEAD
from dynadurable.workflow.context import WorkflowContext
from dynadurable.workflow.waits import NotYet
from tests.workflow.conftest import MakeRig
from tests.workflow.rig import Rig

DAY, HOUR, MINUTE = timedelta(days=1), timedelta(hours=1), timedelta(minutes=1)


def test_a_sleep_holds_nothing_and_ends_on_time(make_rig: MakeRig) -> None:
    def define(app: App, rig: Rig) -> None:
        @app.workflow(keep_result=DAY)
        def flow(ctx: WorkflowContext) -> list[str]:
            times = [ctx.now().isoformat()]
            ctx.sleep(HOUR)
            times.append(ctx.now().isoformat())
            ctx.sleep_until(ctx.now() + HOUR)
            times.append(ctx.now().isoformat())
            ctx.sleep_until(ctx.now() - HOUR)
            return times

    rig = make_rig(define)
    rig.start("flow")
    worker = rig.process()
    assert worker.work() == ["parked"]
    [mark] = worker.marks()
    assert mark.token is None
    assert mark.lease_until_ms is None
    rig.finish(worker)
    assert rig.result() == ["2027-01-15T12:00:00+00:00", "2027-01-15T13:00:00+00:00", "2027-01-15T14:00:00+00:00"]


def test_a_crash_does_not_begin_a_sleep_anew(make_rig: MakeRig) -> None:
    """PUB-43: begun at 12:00 for an hour, crash at 12:50, goes on at 13:00; the timeout of a wait likewise."""
    ended: list[str] = []

    def define(app: App, rig: Rig) -> None:
        @app.workflow
        def sleeper(ctx: WorkflowContext) -> None:
            ctx.sleep(HOUR)
            ended.append(f"sleep {rig.clock.now():%H:%M}")

        @app.workflow
        def waiter(ctx: WorkflowContext) -> None:
            ctx.wait_event("never", timeout=HOUR, default=None)
            ended.append(f"wait {rig.clock.now():%H:%M}")

    rig = make_rig(define)
    rig.start("sleeper")
    rig.start("waiter")
    rig.process().work()
    rig.clock.advance(50 * MINUTE)
    rig.outside.app.run(rig.notes["run_id"]).run_now()  # as a take-over would: it looks, and waits on
    rig.process().work()
    assert ended == []
    rig.finish()
    assert sorted(ended) == ["sleep 13:00", "wait 13:00"]


def test_a_long_wait_looks_up_once_a_day(make_rig: MakeRig) -> None:
    def define(app: App, rig: Rig) -> None:
        @app.workflow(keep_result=timedelta(days=1000))
        def flow(ctx: WorkflowContext) -> str:
            ctx.sleep(timedelta(days=90))
            return "woke"

    rig = make_rig(define)
    began = rig.clock.now()
    rig.start("flow")
    rig.finish()
    assert rig.clock.now() - began == timedelta(days=90)
    assert len(rig.records()) == 1  # what ends in success needs no further record


# --- events ---------------------------------------------------------------------------------------


def waiting(app: App, rig: Rig) -> None:
    @app.workflow(keep_result=DAY)
    def flow(ctx: WorkflowContext) -> Any:
        return ctx.wait_event("approved", timeout=48 * HOUR, default="nobody")

    @app.workflow
    def strict(ctx: WorkflowContext) -> None:
        ctx.wait_event("approved", timeout=HOUR)

    @app.job(keep_result=DAY)
    def plain() -> None: ...


@pytest.mark.parametrize("value", ["yes", None, 0, False, {"by": ("a", 1)}, "x" * 100_000])
def test_an_event_wakes_the_run_at_once(make_rig: MakeRig, value: Any) -> None:
    rig = make_rig(waiting)
    run = rig.start("flow")
    worker = rig.process()
    assert worker.work() == ["parked"]
    rig.clock.advance(5 * MINUTE)
    assert run.send_event("approved", value)
    assert worker.work() == ["succeeded"]
    assert rig.result() == value
    assert worker.marks() == []


def test_an_event_before_the_wait_is_not_lost(make_rig: MakeRig) -> None:
    rig = make_rig(waiting)
    run = rig.start("flow")
    assert run.send_event("approved", "early")
    assert rig.process().work() == ["succeeded"]
    assert rig.result() == "early"


def test_the_first_value_counts(make_rig: MakeRig) -> None:
    rig = make_rig(waiting)
    run = rig.start("flow")
    assert run.send_event("approved", 1)
    assert not run.send_event("approved", 2)
    assert run.send_event("approved", 1), "the same once more is the same"
    rig.finish()
    assert rig.result() == 1
    assert not run.send_event("approved", 1), "it has ended"


def test_another_event_does_not_wake_it(make_rig: MakeRig) -> None:
    rig = make_rig(waiting)
    run = rig.start("flow")
    worker = rig.process()
    worker.work()
    run.send_event("something else", 1)
    assert worker.work() == []


def test_without_an_event_the_wait_ends_in_time(make_rig: MakeRig) -> None:
    rig = make_rig(waiting)
    began = rig.clock.now()
    rig.start("flow")
    rig.finish()
    assert rig.result() == "nobody"
    assert rig.clock.now() - began == 48 * HOUR


def test_a_timeout_that_was_recorded_stays_one(make_rig: MakeRig) -> None:
    seen: list[Any] = []

    def define(app: App, rig: Rig) -> None:
        @app.workflow
        def flow(ctx: WorkflowContext) -> None:
            seen.append(ctx.wait_event("late", timeout=HOUR, default="timed out"))
            ctx.sleep(HOUR)

    rig = make_rig(define)
    run = rig.start("flow")
    rig.finish(until=HOUR)
    assert run.send_event("late", "too late") or True
    rig.finish()
    assert seen == ["timed out", "timed out"]


def test_a_strict_wait_raises(make_rig: MakeRig) -> None:
    rig = make_rig(waiting)
    rig.start("strict")
    rig.finish()
    assert rig.run().state == DEAD
    assert "event 'approved' did not arrive in time" in rig.run().error
    assert rig.failure().type == f"dynadurable.errors.{WaitTimeoutError.__name__}"


def test_events_go_to_workflows_only(make_rig: MakeRig) -> None:
    rig = make_rig(waiting)
    plain = rig.outside.app.enqueue(rig.outside.job("plain"))
    with pytest.raises(RunUnknownError, match="no workflow"):
        plain.send_event("x")
    with pytest.raises(RunUnknownError):
        rig.outside.app.run("default~0~0mywy3k00~0000000000000000000000").send_event("x")
    with pytest.raises(InputRefusedError):
        rig.start("flow").send_event("x", object())


# --- callbacks ------------------------------------------------------------------------------------


def calling_back(app: App, rig: Rig) -> None:
    def submit(token: str) -> None:
        rig.note("submit")
        rig.notes["token"] = token

    @app.workflow(keep_result=DAY)
    def flow(ctx: WorkflowContext, heartbeat: timedelta | None = None) -> Any:
        approval = ctx.callback("approval", timeout=2 * HOUR, heartbeat=heartbeat)
        ctx.step(submit, approval.token)
        try:
            return approval.result()
        except CallbackFailedError as error:
            return f"failed: {error.reason}"
        except WaitTimeoutError as error:
            return f"late: {error.what}"


def test_the_outside_completes_a_callback(make_rig: MakeRig) -> None:
    rig = make_rig(calling_back)
    rig.start("flow")
    worker = rig.process()
    worker.work()
    assert rig.outside.app.callbacks.complete(rig.notes["token"], {"approved": True})
    assert not rig.outside.app.callbacks.fail(rig.notes["token"], "too late")
    assert worker.work() == ["succeeded"]
    assert rig.result() == {"approved": True}
    assert rig.effects["submit"] == 1


def test_a_callback_that_was_completed_is_the_same_on_every_replay(make_rig: MakeRig) -> None:
    tokens = set()

    def define(app: App, rig: Rig) -> None:
        @app.workflow(keep_result=DAY)
        def flow(ctx: WorkflowContext) -> Any:
            callback = ctx.callback("approval")
            tokens.add(callback.token)
            value = callback.result()
            ctx.sleep(HOUR)
            return value

    rig = make_rig(define)
    rig.start("flow")
    rig.finish(until=MINUTE)
    assert rig.outside.app.callbacks.complete(next(iter(tokens)), "yes")
    rig.finish()
    assert rig.result() == "yes"
    assert len(tokens) == 1


def test_the_outside_fails_a_callback(make_rig: MakeRig) -> None:
    rig = make_rig(calling_back)
    rig.start("flow")
    worker = rig.process()
    worker.work()
    assert rig.outside.app.callbacks.fail(rig.notes["token"], "not approved")
    worker.work()
    assert rig.result() == "failed: not approved"
    assert not rig.outside.app.callbacks.complete(rig.notes["token"], 1), "nobody waits any more"
    assert not rig.outside.app.callbacks.heartbeat(rig.notes["token"])


def test_a_callback_times_out(make_rig: MakeRig) -> None:
    rig = make_rig(calling_back)
    began = rig.clock.now()
    rig.start("flow")
    rig.finish()
    assert rig.result() == "late: callback 'approval'"
    assert rig.clock.now() - began == 2 * HOUR


def test_a_heartbeat_keeps_a_callback_alive(make_rig: MakeRig) -> None:
    rig = make_rig(calling_back)
    began = rig.clock.now()
    rig.start("flow", heartbeat=10 * MINUTE)
    worker = rig.process()
    for _ in range(5):
        rig.finish(worker, until=8 * MINUTE)
        assert rig.outside.app.callbacks.heartbeat(rig.notes["token"])
    rig.finish(worker)
    assert rig.result() == "late: a heartbeat of callback 'approval'"
    assert rig.clock.now() - began == 50 * MINUTE


@pytest.mark.parametrize("token", ["", "nonsense", "ddcb1.", "ddcb1.!!!", "ddcb1.YWJj", None, 5])
def test_what_is_no_token_is_refused(make_rig: MakeRig, token: Any) -> None:
    rig = make_rig(calling_back)
    with pytest.raises(InputRefusedError, match="token"):
        rig.outside.app.callbacks.complete(token, 1)


# --- conditions -----------------------------------------------------------------------------------


def test_a_condition_is_looked_at_until_it_is_true(make_rig: MakeRig) -> None:
    def define(app: App, rig: Rig) -> None:
        def ready() -> str | None:
            return "ready" if rig.note("look") == 4 else None

        @app.workflow(keep_result=DAY)
        def flow(ctx: WorkflowContext) -> str | None:
            return ctx.wait_for(ready, every=MINUTE)

    rig = make_rig(define)
    began = rig.clock.now()
    rig.start("flow")
    rig.finish()
    assert rig.result() == "ready"
    assert rig.effects["look"] == 4
    assert rig.clock.now() - began == 3 * MINUTE
    assert rig.told() == ["poll ready: began", "poll ready: done"], "a poll takes the place of the one before"


def test_a_condition_may_keep_state_and_back_off(make_rig: MakeRig) -> None:
    def define(app: App, rig: Rig) -> None:
        def count(step: int, *, state: int) -> Any:
            return state if state >= 6 else NotYet(state=state + step)

        @app.workflow(keep_result=DAY)
        def flow(ctx: WorkflowContext) -> Any:
            every = Retry(delay=MINUTE, backoff=2.0, jitter=0.0)
            return ctx.wait_for(count, 2, every=every, initial=0)

    rig = make_rig(define)
    began = rig.clock.now()
    rig.start("flow")
    rig.finish()
    assert rig.result() == 6
    assert rig.clock.now() - began == (1 + 2 + 4) * MINUTE


def test_a_condition_times_out(make_rig: MakeRig) -> None:
    def define(app: App, rig: Rig) -> None:
        def never() -> bool:
            rig.note("look")
            return False

        @app.workflow(keep_result=DAY)
        def flow(ctx: WorkflowContext) -> str:
            try:
                ctx.wait_for(never, every=MINUTE, timeout=timedelta(minutes=2, seconds=30))
            except WaitTimeoutError as error:
                return error.what
            return "true"

    rig = make_rig(define)
    began = rig.clock.now()
    rig.start("flow")
    rig.finish()
    assert rig.result() == "condition 'never'"
    assert rig.clock.now() - began == timedelta(minutes=2, seconds=30)
    assert rig.effects["look"] == 4


def test_what_a_condition_raises_is_tried_again_and_then_final(make_rig: MakeRig) -> None:
    def define(app: App, rig: Rig) -> None:
        def broken() -> bool:
            if rig.note("look") in (1, 2):
                raise OSError("flaky")
            if rig.effects["look"] == 3:
                return False
            raise ValueError("broken")

        @app.workflow(keep_result=DAY)
        def flow(ctx: WorkflowContext) -> str:
            try:
                ctx.wait_for(broken, every=MINUTE, retry=Retry(max_attempts=3))
            except StepFailedError as error:
                return f"{error.failure.message} {len(error.attempts)}"
            return "true"

    rig = make_rig(define)
    rig.start("flow")
    rig.finish()
    assert rig.result() == "broken 3"
    assert rig.effects["look"] == 6
