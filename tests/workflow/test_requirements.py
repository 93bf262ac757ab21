"""What the conformance table (``tests/conformance/workflow_requirements.py``) asks for and no other test shows."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from dynadurable import App, Retry, WorkflowContext
from dynadurable.errors import CallbackFailedError, StepFailedError, WaitTimeoutError
from dynadurable.storage.items import DEAD
from dynadurable.workflow.waits import NotYet
from tests.workflow.conftest import MakeRig
from tests.workflow.rig import Rig

DAY, HOUR, MINUTE = timedelta(days=1), timedelta(hours=1), timedelta(minutes=1)
NONE = Retry.none()
Code = Callable[[WorkflowContext, Rig], Any]


class PassingError(Exception):
    """A kind of error that a policy may name."""


def played(make_rig: MakeRig, code: Code, outside: Callable[[Rig], bool] | None = None, *, retry: Retry = NONE) -> Rig:
    def define(app: App, rig: Rig) -> None:
        @app.workflow(keep_result=DAY, retry=retry)
        def flow(ctx: WorkflowContext) -> Any:
            return code(ctx, rig)

    rig = make_rig(define)
    rig.outside_world = outside
    rig.start("flow")
    rig.finish()
    return rig


def fails(rig: Rig, name: str, times: int, error: Exception) -> Callable[[], str]:
    def body() -> str:
        if rig.note(name) <= times:
            raise error
        return name

    return body


def test_steps(make_rig: MakeRig) -> None:
    """1-13 the default policy; 1-14 a policy of one's own; 1-15 and 1-16 errors that are, and are not, tried again."""

    def code(ctx: WorkflowContext, rig: Rig) -> Any:
        slow = Retry(delay=timedelta(seconds=2), backoff=3.0, jitter=0.0)
        default = ctx.step(fails(rig, "default", 2, ValueError()), name="default")
        own = ctx.step(fails(rig, "own", 2, ValueError()), name="own", retry=slow)
        named = ctx.step(fails(rig, "named", 1, PassingError()), name="named", retry=Retry(retry_on=(PassingError,)))
        try:
            ctx.step(fails(rig, "not", 9, PassingError()), name="not", retry=Retry(give_up_on=(PassingError,)))
        except StepFailedError as error:
            return [default, own, named, error.is_a(PassingError)]

    rig = played(make_rig, code)
    assert rig.result() == ["default", "own", "named", True]
    assert rig.effects == {"default": 3, "own": 3, "named": 2, "not": 1}


def test_a_sleep_may_have_a_name(make_rig: MakeRig) -> None:
    """2-2."""
    rig = played(make_rig, lambda ctx, rig: ctx.sleep(HOUR, name="pause"))
    assert rig.told()[0] == "sleep pause: began"


def test_groups(make_rig: MakeRig) -> None:
    """3-3 to 3-8, 3-15, 3-16: steps that depend, errors let out and caught, nesting, retries, nothing inside."""

    def code(ctx: WorkflowContext, rig: Rig) -> Any:
        def depends(ctx: WorkflowContext) -> str:
            first = ctx.step(lambda: "one", name="first")
            return str(ctx.step(lambda: first + " two", name="second"))

        def outer(ctx: WorkflowContext) -> list[str]:
            return [ctx.step(lambda: "outer", name="leaf"), ctx.group(inner)]

        def inner(ctx: WorkflowContext) -> str:
            return str(ctx.step(lambda: "inner", name="leaf"))

        def flaky(ctx: WorkflowContext) -> str:
            return str(ctx.step(fails(rig, "flaky", 1, ValueError()), name="flaky"))

        def broken(ctx: WorkflowContext) -> None:
            ctx.step(fails(rig, "broken", 9, ValueError("no")), name="broken", retry=Retry(max_attempts=2))

        def raises(ctx: WorkflowContext) -> None:
            raise KeyError("by itself")

        def nothing(ctx: WorkflowContext) -> None: ...

        seen: list[Any] = [ctx.group(depends), ctx.group(outer), ctx.group(flaky), ctx.group(nothing)]
        for part in (broken, raises):
            try:
                ctx.group(part)
            except (StepFailedError, KeyError) as error:
                seen.append(type(error).__name__)
        ctx.sleep(HOUR)
        return seen

    rig = played(make_rig, code)
    assert rig.result() == ["one two", ["outer", "inner"], "flaky", None, "StepFailedError", "KeyError"]
    assert rig.effects == {"flaky": 2, "broken": 2}
    assert "step outer/inner/leaf: done" in rig.told()


def test_an_error_of_a_group_that_nobody_catches(make_rig: MakeRig) -> None:
    """3-4."""

    def code(ctx: WorkflowContext, rig: Rig) -> Any:
        def broken(ctx: WorkflowContext) -> None:
            ctx.step(fails(rig, "broken", 9, ValueError("no")), name="broken", retry=NONE)

        ctx.group(broken)

    assert played(make_rig, code).run().state == DEAD


def test_callbacks(make_rig: MakeRig) -> None:
    """4-6 to 4-19: completed, failed or late while the run does something else, one after the other, in any order."""

    def code(ctx: WorkflowContext, rig: Rig) -> Any:
        tokens = rig.notes.setdefault("tokens", {})
        seen: list[Any] = []

        def ask(name: str, **options: Any) -> Any:
            callback = ctx.callback(name, **options)
            tokens[name] = callback.token
            return callback

        def answer(callback: Any) -> None:
            try:
                seen.append(callback.result())
            except (CallbackFailedError, WaitTimeoutError) as error:
                seen.append(type(error).__name__)

        early = ask("early")
        ctx.step(lambda: rig.note("between"), name="between")
        ctx.sleep(HOUR)  # completed during this sleep
        answer(early)
        broken = ask("broken")
        ctx.sleep(HOUR)  # failed during this one
        answer(broken)
        late = ask("late", timeout=MINUTE)
        ctx.sleep(HOUR)  # late during this one
        answer(late)
        ctx.sleep(HOUR)
        first, second = ask("first"), ask("second")
        answer(second)
        answer(first)
        ctx.sleep(HOUR)
        return seen

    def outside(rig: Rig) -> bool:
        callbacks, done = rig.outside.app.callbacks, rig.notes.setdefault("done", set())
        for name, token in list(rig.notes.get("tokens", {}).items()):
            if name not in done and name != "late":
                done.add(name)
                return callbacks.fail(token, "no") if name == "broken" else callbacks.complete(token, name)
        return False

    rig = played(make_rig, code, outside)
    assert rig.result() == ["early", "CallbackFailedError", "WaitTimeoutError", "second", "first"]
    assert rig.effects == {"between": 1}


def test_a_failure_that_nobody_catches_kills_the_run(make_rig: MakeRig) -> None:
    """4-6."""

    def code(ctx: WorkflowContext, rig: Rig) -> Any:
        callback = ctx.callback("approval")
        rig.notes["token"] = callback.token
        return callback.result()

    def outside(rig: Rig) -> bool:
        return rig.outside.app.callbacks.fail(rig.notes["token"], "rejected")

    rig = played(make_rig, code, outside)
    assert rig.run().state == DEAD
    assert "rejected" in rig.run().error


def test_conditions(make_rig: MakeRig) -> None:
    """6-2, 6-3, 6-7, 6-9, 6-12, 6-13: true at once, named, raising, with state, and what comes of it used later."""

    def code(ctx: WorkflowContext, rig: Rig) -> Any:
        def grow(*, state: dict[str, int]) -> Any:
            n = state["n"] + 1
            return {"n": n} if n >= 3 else NotYet(state={"n": n})

        at_once = ctx.wait_for(lambda: "yes", every=MINUTE, name="at once")
        grown = ctx.wait_for(grow, every=MINUTE, initial={"n": 0})
        again = ctx.wait_for(grow, every=MINUTE, initial=grown)
        doubled = ctx.step(lambda: again["n"] * 2, name="double")
        try:
            ctx.wait_for(fails(rig, "raises", 9, ValueError("no")), every=MINUTE, name="raises", retry=NONE)
        except StepFailedError as error:
            return [at_once, grown, again, doubled, error.failure.message]

    rig = played(make_rig, code)
    assert rig.result() == ["yes", {"n": 3}, {"n": 4}, 8, "no"]
    assert "poll at once: done" in rig.told()
    assert [line for line in rig.told() if "poll grow" in line and "done" in line] == [
        "poll grow: done",
        "poll grow#2: done",
    ]


def test_large_results_of_a_map(make_rig: MakeRig) -> None:
    """9-16: together they are more than an item holds."""
    dice = random.Random(9)
    texts = [dice.randbytes(120_000) for _ in range(4)]

    def code(ctx: WorkflowContext, rig: Rig) -> Any:
        def load(n: int) -> bytes:
            rig.note("load")
            return texts[n]

        results = ctx.map(load, range(4), max_concurrency=1)
        ctx.sleep(HOUR)
        return [len(value) for value in results], list(results) == texts

    rig = played(make_rig, code)
    assert rig.result() == ([120_000] * 4, True)
    assert rig.effects == {"load": 4}
