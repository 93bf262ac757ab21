"""Cases of the field beside those that were reported: the same trouble, by another door of a workflow."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from dynadurable import App, Fail, Retry
from dynadurable.storage.items import DEAD
from dynadurable.workflow.context import WorkflowContext
from dynadurable.workflow.context_aio import AsyncWorkflowContext
from tests.integration.stepping import Fault
from tests.workflow.conftest import MakeRig
from tests.workflow.rig import Define, Rig

DAY, HOUR, MINUTE = timedelta(days=1), timedelta(hours=1), timedelta(minutes=1)
FROZEN = timedelta(seconds=35)
NONE = Retry.none()
AT_ONCE = Retry(max_attempts=3, delay=timedelta(0), jitter=0.0)
Code = Callable[[WorkflowContext, Rig], Any]


def flow_of(code: Code, **options: Any) -> Define:
    def define(app: App, rig: Rig) -> None:
        @app.workflow(**{"keep_result": DAY, "retry": Retry(max_attempts=4, delay=MINUTE), **options})
        def flow(ctx: WorkflowContext) -> Any:
            return code(ctx, rig)

        @app.job
        def gives() -> Any:
            return rig.notes["value"]

        @app.job(retry=NONE)
        def raises() -> Any:
            raise rig.notes["error"]

        @app.job
        def takes(value: Any) -> None: ...

    return define


def finished(make_rig: MakeRig, code: Code, **options: Any) -> Rig:
    rig = make_rig(flow_of(code, **options))
    rig.start("flow")
    rig.finish()
    return rig


# --- PUB-14: a stale worker, wherever it was frozen -----------------------------------------------


def freeze(rig: Rig, name: str) -> int:
    """At its first call the worker is frozen past its lease, and another one takes over and goes on."""
    number = rig.note(name)
    if number == 1:
        rig.clock.advance(FROZEN)
        rig.process().work()
    return number


def in_a_branch(ctx: WorkflowContext, rig: Rig) -> Any:
    results = ctx.map(lambda n: freeze(rig, f"branch {n}") if n == 1 else n, range(3), name="branch", max_concurrency=1)
    return [list(results), ctx.step(lambda: rig.note("after"), name="after")]


def in_a_group(ctx: WorkflowContext, rig: Rig) -> Any:
    def part(ctx: WorkflowContext) -> Any:
        return ctx.step(freeze, rig, "part"), ctx.step(lambda: rig.note("after"), name="after")

    return ctx.group(part)


def in_a_condition(ctx: WorkflowContext, rig: Rig) -> Any:
    return ctx.wait_for(freeze, rig, "look", every=MINUTE), ctx.step(lambda: rig.note("after"), name="after")


def before_a_child(ctx: WorkflowContext, rig: Rig) -> Any:
    ctx.step(freeze, rig, "step")
    rig.notes["value"] = "gone"
    return ctx.call(rig.outside.job("gives")), ctx.step(lambda: rig.note("after"), name="after")


@pytest.mark.parametrize("code", [in_a_branch, in_a_group, in_a_condition, before_a_child])
def test_a_stale_worker_goes_no_further_wherever_it_was_frozen(make_rig: MakeRig, code: Code) -> None:
    rig = make_rig(flow_of(code))
    rig.start("flow")
    assert rig.process().work()[0] == "lost"
    rig.finish()
    assert rig.effects["after"] == 1
    assert "2" in str(rig.result()) or "gone" in str(rig.result())
    identities = [record.identity for record in rig.records() if record.is_end]
    assert len(identities) == len(set(identities))


def test_a_stale_worker_undoes_nothing_twice(make_rig: MakeRig) -> None:
    """Frozen in the first of two compensations."""

    def code(ctx: WorkflowContext, rig: Rig) -> None:
        ctx.on_failure(lambda: rig.note("last"), name="last")
        ctx.on_failure(freeze, rig, "first", name="first")
        ctx.sleep(MINUTE)
        raise Fail("no")

    rig = finished(make_rig, code)
    assert rig.run().state == DEAD
    assert rig.effects == {"first": 2, "last": 1}


# --- PUB-21: every request counts from before it was sent -----------------------------------------


def test_a_record_whose_reply_is_slow_is_the_last_thing_done_under_that_lease(make_rig: MakeRig) -> None:
    def code(ctx: WorkflowContext, rig: Rig) -> Any:
        return [ctx.step(lambda n=n: rig.note(f"step {n}"), name=f"step {n}") for n in range(3)]

    rig = make_rig(flow_of(code))
    rig.start("flow")
    slow = rig.process()
    inner = slow.client.inner.update_item

    def late(**params: Any) -> Any:
        reply = inner(**params)
        if "dd_tail" in repr(params):
            slow.client.inner.update_item = inner
            rig.clock.advance(FROZEN)
        return reply

    slow.client.inner.update_item = late
    assert slow.work()[0] == "lost"
    rig.finish()
    assert rig.result() == [1, 1, 1]
    assert rig.effects == {"step 0": 1, "step 1": 1, "step 2": 1}


# --- PUB-42: concurrency, in other shapes ---------------------------------------------------------


async def one_fails(ctx: AsyncWorkflowContext, rig: Rig) -> Any:
    async def body(name: str) -> str:
        rig.note(name)
        await asyncio.sleep(rig.notes["dice"].random() * 0.002)
        if name == "b":
            raise ValueError("b")
        return name

    found = await asyncio.gather(*(ctx.step(body, n, name=n, retry=NONE) for n in "abc"), return_exceptions=True)
    return [one if isinstance(one, str) else type(one).__name__ for one in found]


async def the_rest_is_cancelled(ctx: AsyncWorkflowContext, rig: Rig) -> Any:
    async def body(name: str) -> str:
        rig.note(name)
        await asyncio.sleep(0.001 if name == "quick" else 0.003)
        return name

    tasks = {asyncio.ensure_future(ctx.step(body, name, name=name)): name for name in ("quick", "slow", "slower")}
    done, left = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in left:
        task.cancel()
    first = sorted(tasks[one] for one in done)
    after = await ctx.step(body, "quick", name="after")
    await ctx.sleep(MINUTE)
    return [len(first) >= 1, after, rig.notes.setdefault("first", first) == first]


@pytest.mark.parametrize(
    ("code", "expected"), [(one_fails, ["a", "StepFailedError", "c"]), (the_rest_is_cancelled, [True, "quick", True])]
)
def test_concurrency_in_other_shapes_is_replayed_as_it_was(code: Any, expected: Any) -> None:
    def define(app: App, rig: Rig) -> None:
        @app.workflow(keep_result=DAY)
        async def flow(ctx: AsyncWorkflowContext) -> Any:
            return await code(ctx, rig)

    for seed in range(24):
        rig = Rig(define=define)
        rig.notes["dice"] = random.Random(seed)
        rig.start("flow")
        rig.finish(rig.process(Fault(nth=2 + seed % 8, applied=bool(seed % 3), dies=True)))
        assert rig.result() == expected, seed
        rig.close()


# --- PUB-43: no wait begins anew ------------------------------------------------------------------


def retry_of_a_step(ctx: WorkflowContext, rig: Rig) -> None:
    def flaky() -> None:
        if rig.note("try") == 1:
            raise ValueError("not yet")

    ctx.step(flaky, retry=Retry(delay=HOUR, jitter=0.0))


def heartbeat(ctx: WorkflowContext, rig: Rig) -> None:
    ctx.callback("silent", heartbeat=HOUR).result(default=None)


def condition(ctx: WorkflowContext, rig: Rig) -> None:
    ctx.wait_for(lambda: rig.note("look") > 1, every=HOUR, name="look")


def timeout_of_a_condition(ctx: WorkflowContext, rig: Rig) -> None:
    ctx.wait_for(lambda: False, every=DAY, timeout=HOUR, name="look", default=None)


def in_branches(ctx: WorkflowContext, rig: Rig) -> None:
    def branch(ctx: WorkflowContext, n: int) -> None:
        ctx.sleep(n * HOUR / 2)

    ctx.map(branch, [1, 2])


@pytest.mark.parametrize("wait", [retry_of_a_step, heartbeat, condition, timeout_of_a_condition, in_branches])
def test_no_wait_begins_anew_however_often_it_is_looked_at(make_rig: MakeRig, wait: Code) -> None:
    ended: list[str] = []

    def code(ctx: WorkflowContext, rig: Rig) -> None:
        wait(ctx, rig)
        ended.append(f"{rig.clock.now():%H:%M}")

    rig = make_rig(flow_of(code))
    run = rig.start("flow")
    rig.process().work()
    for _ in range(5):
        rig.clock.advance(10 * MINUTE)
        run.run_now()
        rig.process().work()
    assert ended == []
    rig.finish()
    assert ended == ["13:00"]


# --- PUB-58: what a body does to what it was given ------------------------------------------------


@pytest.mark.parametrize("delay", [timedelta(0), MINUTE], ids=["at once", "later"])
def test_each_try_of_a_step_gets_the_argument_as_it_was_given(make_rig: MakeRig, delay: timedelta) -> None:
    got: list[Any] = []

    def body(order: dict[str, list[int]]) -> None:
        got.append({"items": list(order["items"])})
        order["items"].append(2)
        if len(got) == 1:
            raise ValueError("once more")

    def code(ctx: WorkflowContext, rig: Rig) -> Any:
        order = {"items": [1]}
        ctx.step(body, order, retry=Retry(max_attempts=3, delay=delay, jitter=0.0))
        return order

    rig = finished(make_rig, code)
    assert got == [{"items": [1]}, {"items": [1]}]
    assert rig.result() == {"items": [1]}


def test_a_branch_that_is_begun_again_gets_its_item_as_it_was_given(make_rig: MakeRig) -> None:
    """Also within one attempt: a branch that waits is begun again while others are at work."""

    def code(ctx: WorkflowContext, rig: Rig) -> Any:
        def branch(ctx: WorkflowContext, item: dict[str, int]) -> int:
            item["n"] += 1
            if item["n"] == 2:
                ctx.sleep(timedelta(milliseconds=80))
            else:
                ctx.step(rig.clock.sleep, 0.2, name="works")
            return int(ctx.step(lambda one: one["n"], item, name="leaf"))

        items = [{"n": 1}, {"n": 10}]
        first = list(ctx.map(branch, items))
        ctx.sleep(HOUR)
        return first, items

    assert finished(make_rig, code).result() == ([2, 11], [{"n": 1}, {"n": 10}])


def test_what_a_condition_does_to_its_state_does_not_count_unless_it_returns_it(make_rig: MakeRig) -> None:
    def code(ctx: WorkflowContext, rig: Rig) -> Any:
        def look(given: list[int], *, state: list[int]) -> Any:
            given.append(1)
            state.append(rig.note("look"))
            if rig.effects["look"] == 1:
                raise ValueError("once more")
            return [given, state]

        mine = [0]
        return ctx.wait_for(look, mine, every=MINUTE, initial=[], retry=Retry(delay=timedelta(0), jitter=0.0)), mine

    assert finished(make_rig, code).result() == ([[0, 1], [2]], [0])


def test_what_is_no_data_is_given_as_it_is(make_rig: MakeRig) -> None:
    """A client, a lock, a function: a step gets the very same."""

    def code(ctx: WorkflowContext, rig: Rig) -> Any:
        return ctx.step(lambda one, two: (one is rig, two is code), rig, code, name="same")

    assert finished(make_rig, code).result() == (True, True)
