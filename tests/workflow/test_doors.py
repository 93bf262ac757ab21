"""Values, errors and limits are the same by every door of a workflow: first run and replay see the same."""

from __future__ import annotations

import logging
import math
import random
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from dynadurable import App, Retry
from dynadurable.errors import BranchesFailedError, ChildFailedError, InputRefusedError, StepFailedError
from dynadurable.storage.items import DEAD
from dynadurable.workflow.context import WorkflowContext
from dynadurable.workflow.waits import NotYet
from tests.unit.codec_samples import same
from tests.workflow.conftest import MakeRig
from tests.workflow.rig import Rig
from tests.workflow.test_siblings import NONE, Code, finished, flow_of


@pytest.fixture(autouse=True)
def _unlogged(caplog: pytest.LogCaptureFixture) -> None:
    """What is captured goes to pytest-xdist, which cannot carry lone surrogates and ends the whole run over one."""
    caplog.set_level(logging.CRITICAL + 1, "dynadurable")


HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)

# --- PUB-24 to 28, 44: values, by every door ------------------------------------------------------

VALUES: dict[str, Any] = {
    "nothing": None,
    "zero": 0,
    "false": False,
    "empty": ["", [], {}, b"", set(), ()],
    "special numbers": [math.nan, math.inf, -0.0],
    "int keys": {1: "passed", (1, 2): {3}},
    "tuples": ((1, (2,)), [(3,)]),
    "decimals": [Decimal("1.10"), 10**40, 0.1 + 0.2],
    "large": random.Random(5).randbytes(60_000),
}


def by_event(ctx: WorkflowContext, rig: Rig) -> Any:
    return ctx.wait_event("told")


def by_event_default(ctx: WorkflowContext, rig: Rig) -> Any:
    return ctx.wait_event("never", timeout=MINUTE, default=rig.notes["value"])


def by_callback(ctx: WorkflowContext, rig: Rig) -> Any:
    callback = ctx.callback("asked")
    rig.notes["token"] = callback.token
    return callback.result()


def by_child(ctx: WorkflowContext, rig: Rig) -> Any:
    return ctx.call(rig.outside.job("gives"))


def by_map(ctx: WorkflowContext, rig: Rig) -> Any:
    return ctx.map(lambda _: rig.notes["value"], [1], name="only")[0]


def by_branch(ctx: WorkflowContext, rig: Rig) -> Any:
    def branch(ctx: WorkflowContext, value: Any) -> Any:
        return ctx.step(lambda: value, name="leaf")

    return ctx.map(branch, [rig.notes["value"]])[0]


def by_state(ctx: WorkflowContext, rig: Rig) -> Any:
    """What a condition keeps between two looks."""

    def look(*, state: Any) -> Any:
        return [state] if rig.note("look") > 1 else NotYet(state=state)

    return ctx.wait_for(look, every=MINUTE, initial=rig.notes["value"])[0]


def by_argument(ctx: WorkflowContext, rig: Rig) -> Any:
    return ctx.step(lambda value: value, rig.notes["value"], name="argument")


DOORS = [by_event, by_event_default, by_callback, by_child, by_map, by_branch, by_state, by_argument]


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("door", DOORS)
def test_a_value_is_the_same_in_the_first_run_and_on_replay(make_rig: MakeRig, door: Code, name: str) -> None:
    value, seen = VALUES[name], []

    def code(ctx: WorkflowContext, rig: Rig) -> None:
        seen.append(door(ctx, rig))
        ctx.sleep(HOUR)

    def tell(rig: Rig) -> bool:
        if rig.notes.get("told"):
            return False
        rig.notes["told"] = True
        if door is by_event:
            return rig.outside.app.run(rig.notes["run_id"]).send_event("told", value)
        return door is by_callback and rig.outside.app.callbacks.complete(rig.notes["token"], value)

    rig = make_rig(flow_of(code))
    rig.notes["value"], rig.outside_world = value, tell
    rig.start("flow")
    rig.finish()
    assert len(seen) >= 2
    assert all(same(one, value) for one in seen), seen


@pytest.mark.parametrize("name", VALUES)
def test_what_a_workflow_is_given_and_returns_is_the_same(make_rig: MakeRig, name: str) -> None:
    """Its input after a replay, its result, and both again as a child's."""
    value, seen = VALUES[name], []

    def define(app: App, rig: Rig) -> None:
        @app.workflow(keep_result=timedelta(days=1))
        def back(ctx: WorkflowContext, given: Any) -> Any:
            seen.append(given)
            ctx.sleep(HOUR)
            return given

        @app.workflow(keep_result=timedelta(days=1))
        def parent(ctx: WorkflowContext, given: Any) -> Any:
            return ctx.call(rig.outside.job("back"), given)

    rig = make_rig(define)
    for workflow in ("back", "parent"):
        rig.start(workflow, value)
        rig.finish()
        assert same(rig.result(), value)
    assert len(seen) >= 4
    assert all(same(one, value) for one in seen)


# --- PUB-29: errors, by every door ----------------------------------------------------------------


class ApiError(Exception):
    def __init__(self, *, status: int, detail: str) -> None:
        self.status, self.detail = status, detail


class SilentError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even this")


ERRORS: dict[str, Exception] = {
    "keywords only": ApiError(status=503, detail="x"),
    "no text": SilentError(),
    "a group": ExceptionGroup("several", [ValueError("a"), ApiError(status=1, detail="y")]),
    "huge": ValueError("krab" * 100_000),
    "surrogates": ValueError("\ud800\udfff\0"),
    "unpicklable": ValueError(lambda: 1),
}


def raised_by_step(ctx: WorkflowContext, rig: Rig) -> None:
    def body() -> None:
        raise rig.notes["error"]

    ctx.step(body, retry=NONE)


def raised_by_child(ctx: WorkflowContext, rig: Rig) -> None:
    ctx.call(rig.outside.job("raises"))


def raised_by_map(ctx: WorkflowContext, rig: Rig) -> None:
    def body(_n: int) -> None:
        raise rig.notes["error"]

    ctx.map(body, [1], retry=NONE)


def raised_by_condition(ctx: WorkflowContext, rig: Rig) -> None:
    def look() -> None:
        raise rig.notes["error"]

    ctx.wait_for(look, every=MINUTE, retry=NONE)


@pytest.mark.parametrize("name", ERRORS)
@pytest.mark.parametrize("door", [raised_by_step, raised_by_child, raised_by_map, raised_by_condition])
def test_an_error_is_the_same_in_the_first_run_and_on_replay(make_rig: MakeRig, door: Code, name: str) -> None:
    seen: list[Any] = []

    def code(ctx: WorkflowContext, rig: Rig) -> str:
        try:
            door(ctx, rig)
        except (StepFailedError, ChildFailedError, BranchesFailedError) as error:
            seen.append((type(error), str(error)))
        ctx.sleep(HOUR)
        return "went on"

    rig = make_rig(flow_of(code))
    rig.notes["error"] = ERRORS[name]
    rig.start("flow")
    rig.finish()
    assert rig.result() == "went on"
    assert len(seen) >= 2
    assert len(set(seen)) == 1


# --- PUB-31: too large, by every door -------------------------------------------------------------

TOO_LARGE = random.Random(6).randbytes(450_000)


def map_too_large(ctx: WorkflowContext, rig: Rig) -> Any:
    return ctx.map(lambda _: rig.note("body") and TOO_LARGE, [1], name="only", retry=Retry(max_attempts=5))


def state_too_large(ctx: WorkflowContext, rig: Rig) -> Any:
    def look(*, state: Any) -> Any:
        rig.note("body")
        return NotYet(state=TOO_LARGE)

    return ctx.wait_for(look, every=MINUTE, initial=None)


def argument_too_large(ctx: WorkflowContext, rig: Rig) -> Any:
    rig.note("body")
    return ctx.call(rig.outside.job("takes"), TOO_LARGE)


def result_too_large(ctx: WorkflowContext, rig: Rig) -> Any:
    rig.note("body")
    return TOO_LARGE


@pytest.mark.parametrize("code", [map_too_large, state_too_large, argument_too_large, result_too_large])
def test_what_is_too_large_is_permanent_and_says_so(make_rig: MakeRig, code: Code) -> None:
    rig = finished(make_rig, code)
    assert rig.run().state == DEAD
    assert rig.effects["body"] == 1
    assert "the limit is" in f"{rig.run().error} {rig.failure().message} {rig.failure()}"


def test_what_is_too_large_to_be_told_is_refused_to_the_teller(make_rig: MakeRig) -> None:
    rig = make_rig(flow_of(by_callback))
    run = rig.start("flow")
    rig.process().work()
    before = rig.items()
    with pytest.raises(InputRefusedError, match="the limit is"):
        run.send_event("told", TOO_LARGE)
    with pytest.raises(InputRefusedError, match="the limit is"):
        rig.outside.app.callbacks.complete(rig.notes["token"], TOO_LARGE)
    assert rig.items() == before
