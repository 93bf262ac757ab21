"""Every feature, stopped at every write: the request lost, or applied and its reply lost; dying there, or going on.

The result is that of an undisturbed run. What is recorded is never done again: a worker that goes on repeats nothing,
and one that dies leaves at most the one body that was in flight to be repeated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from dynadurable import App, Fail, Retry
from dynadurable.errors import ChildFailedError, StepFailedError, StepInterruptedError
from dynadurable.model.completion import Completion
from dynadurable.model.derived import seed
from dynadurable.workflow.context import WorkflowContext
from tests.integration.stepping import Died, Fault
from tests.workflow.rig import Rig

DAY, HOUR, MINUTE = timedelta(days=1), timedelta(hours=1), timedelta(minutes=1)


@dataclass(frozen=True)
class Scenario:
    """A workflow's code; what the outside world does when nothing is due; how many bodies may be in flight at once."""

    code: Callable[[WorkflowContext, Rig], Any]
    outside: Callable[[Rig], bool] | None = None
    in_flight: int = 1
    helpers: Callable[[App, Rig], None] = lambda app, rig: None


def do(rig: Rig, name: str) -> str:
    """A body: it shows how often it was called, and its result does not depend on that."""
    rig.note(name)
    return name


def steps(ctx: WorkflowContext, rig: Rig) -> Any:
    return [ctx.step(do, rig, f"step {n}") for n in range(4)]


def retries(ctx: WorkflowContext, rig: Rig) -> Any:
    def flaky() -> str:
        if rig.effects["flaky"] < 2:
            rig.note("flaky")
            raise ValueError("not yet")
        rig.note("good")
        return "good"

    return ctx.step(flaky, retry=Retry(max_attempts=5, delay=timedelta(seconds=10)))


def quick_retries(ctx: WorkflowContext, rig: Rig) -> Any:
    def broken() -> None:
        rig.note("broken")
        raise ValueError("never")

    try:
        ctx.step(broken, retry=Retry.fixed(timedelta(), max_attempts=3))
    except StepFailedError as error:
        return [ctx.step(do, rig, "handled"), len(error.attempts)]


def whole_run_fails(ctx: WorkflowContext, rig: Rig) -> Any:
    first = ctx.step(do, rig, "first")
    if rig.effects["failures"] < 2:
        rig.note("failures")
        raise OSError("no file")
    return [first, ctx.step(do, rig, "second")]


def sleeps(ctx: WorkflowContext, rig: Rig) -> Any:
    ctx.step(do, rig, "a")
    ctx.sleep(HOUR)
    ctx.step(do, rig, "b")
    ctx.sleep(timedelta(days=2))
    ctx.sleep_until(ctx.now() - HOUR)
    return [ctx.now().isoformat()[:16], ctx.uuid("x").version]


def events(ctx: WorkflowContext, rig: Rig) -> Any:
    first = ctx.wait_event("first")
    ctx.step(do, rig, "between")
    late = ctx.wait_event("never", timeout=HOUR, default="late")
    return [first, ctx.wait_event("second", timeout=DAY), late, ctx.step(do, rig, "after")]


def send_events(rig: Rig) -> bool:
    run = rig.outside.app.run(rig.notes["run_id"])
    for name in ("second", "first"):
        if name not in rig.notes:
            rig.notes[name] = run.send_event(name, {"name": name})
            return True
    return False


def callbacks(ctx: WorkflowContext, rig: Rig) -> Any:
    approval = ctx.callback("approval", timeout=2 * HOUR, heartbeat=30 * MINUTE)
    ctx.step(lambda: rig.notes.__setitem__("token", approval.token), name="submit")
    ctx.step(do, rig, "submitted")
    return [approval.result(), ctx.step(do, rig, "after")]


def complete(rig: Rig) -> bool:
    if "token" not in rig.notes or rig.notes.get("completed"):
        return False
    rig.notes["completed"] = rig.outside.app.callbacks.complete(rig.notes["token"], "yes")
    return True


def conditions(ctx: WorkflowContext, rig: Rig) -> Any:
    return ctx.wait_for(lambda: rig.note("look") >= 3 and "ready", every=MINUTE, name="ready")


def children(ctx: WorkflowContext, rig: Rig) -> Any:
    started = [ctx.start(rig.outside.job("child"), n) for n in (1, 0)]
    dead = ""
    try:
        ctx.call(rig.outside.job("dies"))
    except ChildFailedError as error:
        dead = error.state
    return [*(one.result() for one in started), dead, ctx.step(do, rig, "after")]


def child_jobs(app: App, rig: Rig) -> None:
    @app.workflow
    def child(ctx: WorkflowContext, n: int) -> str:
        ctx.sleep(n * MINUTE)
        return ctx.step(lambda: do(rig, f"child {n}"), name="child")

    @app.job(retry=Retry(max_attempts=3))
    def dies() -> None:
        rig.note("dies")
        raise Fail("no")


def maps(ctx: WorkflowContext, rig: Rig) -> Any:
    def branch(ctx: WorkflowContext, n: int) -> int:
        ctx.step(do, rig, f"branch {n}")
        ctx.sleep(MINUTE)
        return ctx.step(lambda: n, name="value")

    packed = list(ctx.map(lambda x: do(rig, x), ["x", "y", "z"], max_concurrency=1, name="pack"))
    nested = list(ctx.map(branch, range(3), max_concurrency=2))
    return [packed, nested, ctx.step(do, rig, "after")]


def early_completion(ctx: WorkflowContext, rig: Rig) -> Any:
    def body(n: int) -> int:
        rig.note(f"body {n}")
        if n == 1:
            raise Fail("no")
        return n

    tolerant = ctx.map(body, range(4), max_concurrency=1, completion=Completion.first(2))
    ctx.sleep(MINUTE)
    return [tolerant.letters(), tolerant.values, ctx.step(do, rig, "after")]


def long_journal(ctx: WorkflowContext, rig: Rig) -> Any:
    """Sealed pages, and results in items of their own."""
    total = 0
    for n in range(2):
        value = seed("large", n) * 40
        total += len(ctx.step(lambda n=n, value=value: do(rig, f"large {n}") and value, name="large"))
    for n in range(10):
        text = seed(n).hex() * 3
        total += len(ctx.step(lambda n=n, text=text: do(rig, f"small {n}") and text, name=f"small {n}"))
    return total


SCENARIOS = {
    "steps": Scenario(steps),
    "retries": Scenario(retries),
    "quick retries": Scenario(quick_retries),
    "the whole run fails": Scenario(whole_run_fails),
    "sleeps": Scenario(sleeps),
    "events": Scenario(events, outside=send_events),
    "callbacks": Scenario(callbacks, outside=complete),
    "conditions": Scenario(conditions),
    "children": Scenario(children, helpers=child_jobs),
    "maps": Scenario(maps, in_flight=2),
    "early completion": Scenario(early_completion),
    "long journal": Scenario(long_journal),
}


def started(scenario: Scenario) -> Rig:
    def define(app: App, rig: Rig) -> None:
        scenario.helpers(app, rig)

        @app.workflow(keep_result=timedelta(days=30), retry=Retry(max_attempts=4, delay=timedelta(seconds=5)))
        def flow(ctx: WorkflowContext) -> Any:
            return scenario.code(ctx, rig)

    rig = Rig(define=define, outside_world=scenario.outside)
    rig.start("flow")
    return rig


@pytest.mark.parametrize("name", list(SCENARIOS))
@pytest.mark.parametrize("dies", [True, False], ids=["dies", "goes on"])
def test_it_ends_as_if_nothing_had_happened(name: str, dies: bool) -> None:
    scenario = SCENARIOS[name]
    calm = started(scenario)
    process = calm.process()
    calm.finish(process)
    expected, effects, count = calm.result(), +calm.effects, process.client.writes
    calm.close()
    assert count > 4
    for nth in range(1, count + 1):
        for applied in (False, True):
            fault = Fault(nth=nth, applied=applied, dies=dies)
            rig = started(scenario)
            process = rig.process(fault)
            rig.finish(process)
            assert process.client.fault_met, fault
            assert rig.result() == expected, fault
            extra = rig.effects - effects
            assert effects - rig.effects == {}, fault
            assert sum(extra.values()) <= (scenario.in_flight if dies else 0), (fault, extra)
            assert rig.outside.marks() == [], fault
            rig.close()


# --- at most once ---------------------------------------------------------------------------------


def test_a_once_step_is_never_called_twice() -> None:
    def code(ctx: WorkflowContext, rig: Rig) -> Any:
        ctx.step(do, rig, "before")
        try:
            ctx.step(do, rig, "charge", once=True)
        except StepInterruptedError:
            ctx.step(do, rig, "asked")
        return "ended"

    scenario = Scenario(code)
    calm = started(scenario)
    process = calm.process()
    calm.finish(process)
    asked = 0
    for nth in range(1, process.client.writes + 1):
        for applied in (False, True):
            for dies in (False, True):
                rig = started(scenario)
                rig.finish(rig.process(Fault(nth=nth, applied=applied, dies=dies)))
                assert rig.result() == "ended"
                assert rig.effects["charge"] <= 1
                assert rig.effects["charge"] + rig.effects["asked"] >= 1
                asked += rig.effects["asked"]
                rig.close()
    calm.close()
    assert asked == 2  # died before its record, and with its intent recorded and the reply lost


# --- whoever signals dies -------------------------------------------------------------------------


@pytest.mark.parametrize("parked", [True, False], ids=["parked", "not yet waiting"])
def test_an_event_whose_sender_died_and_sends_again_wakes_the_run(parked: bool) -> None:
    def code(ctx: WorkflowContext, rig: Rig) -> Any:
        return ctx.wait_event("go")

    for nth in range(1, 6):
        for applied in (False, True):
            rig = started(Scenario(code))
            worker = rig.process()
            if parked:
                worker.work()
            run_id = rig.notes["run_id"]
            sender = rig.process(Fault(nth=nth, applied=applied, dies=True))
            try:
                sender.app.run(run_id).send_event("go", "gone")
            except Died:
                assert rig.outside.app.run(run_id).send_event("go", "gone")
            worker.work()
            assert rig.outside.app.run(run_id).status() == "succeeded", (nth, applied)
            assert rig.result() == "gone"
            rig.finish(worker)
            rig.close()
