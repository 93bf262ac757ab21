"""``async def`` workflows: the same features, and concurrency that is replayed as it was, or refused."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any

import pytest

from dynadurable import App, Fail, Retry
from dynadurable.errors import (
    BranchesFailedError,
    ChildFailedError,
    CommitRefusedError,
    StepFailedError,
    StepInterruptedError,
    WaitTimeoutError,
)
from dynadurable.model.completion import Completion
from dynadurable.storage.items import CANCELLED, DEAD
from dynadurable.workflow.context_aio import AsyncWorkflowContext
from tests.integration.stepping import Fault
from tests.workflow.conftest import MakeRig
from tests.workflow.rig import Define, Rig
from tests.workflow.test_commit import add, held, put_once

DAY, HOUR, MINUTE = timedelta(days=1), timedelta(hours=1), timedelta(minutes=1)
Code = Callable[[AsyncWorkflowContext, Rig], Coroutine[Any, Any, Any]]


def flow_of(code: Code, **options: Any) -> Define:
    def define(app: App, rig: Rig) -> None:
        @app.workflow(**{"keep_result": DAY, "retry": Retry(max_attempts=4, delay=timedelta(seconds=5)), **options})
        async def flow(ctx: AsyncWorkflowContext) -> Any:
            return await code(ctx, rig)

        @app.workflow
        async def child(ctx: AsyncWorkflowContext, n: int) -> int:
            await ctx.sleep(n * MINUTE)
            return await ctx.step(do, rig, n)

        @app.job(retry=Retry(max_attempts=3))
        async def dies() -> None:
            raise Fail("no")

    return define


def finished(make_rig: MakeRig, code: Code, **options: Any) -> Rig:
    rig = make_rig(flow_of(code, **options))
    rig.start("flow")
    rig.finish()
    return rig


async def do(rig: Rig, name: Any) -> Any:
    rig.note(str(name))
    await asyncio.sleep(0)
    return name


# --- features -------------------------------------------------------------------------------------


async def everything(ctx: AsyncWorkflowContext, rig: Rig) -> Any:
    ctx.on_failure(do, rig, "never")
    first = await ctx.step(do, rig, "first")
    blocking = await ctx.step(lambda: threading.current_thread() is not threading.main_thread(), name="blocking")
    await ctx.sleep(HOUR)
    packed = list(await ctx.map(lambda n: n * 2, [1, 2, 3], name="pack", max_concurrency=2))
    both = list(await ctx.parallel(("a", lambda: "a"), ("b", part)))
    late = await ctx.wait_event("never", timeout=HOUR, default="late")
    told = await ctx.wait_event("told")
    callback = ctx.callback("approval", timeout=DAY)
    rig.notes["token"] = callback.token
    answer = await callback.result()
    called = await ctx.call(rig.outside.job("child"), 3)
    handle = await ctx.start(rig.outside.job("child"), 2)
    await ctx.commit(add("shoes"))
    ready = await ctx.wait_for(lambda: rig.note("look") >= 3 and "ready", every=MINUTE, name="ready")
    grouped = await ctx.group(part)
    values = (ctx.now().isoformat()[:13], ctx.uuid("x"), ctx.random("y"))
    return [first, blocking, packed, both, late, told, answer, called, await handle.result(), ready, grouped, values]


async def part(ctx: AsyncWorkflowContext) -> str:
    await ctx.sleep(MINUTE)
    return str(await ctx.step(lambda: "b", name="leaf"))


def tell(rig: Rig) -> bool:
    if "told" not in rig.notes:
        rig.notes["told"] = rig.outside.app.run(rig.notes["run_id"]).send_event("told", [1])
        return True
    if "token" in rig.notes and "completed" not in rig.notes:
        rig.notes["completed"] = rig.outside.app.callbacks.complete(rig.notes["token"], "yes")
        return True
    return False


def test_everything_works_on_an_event_loop(make_rig: MakeRig) -> None:
    rig = make_rig(flow_of(everything))
    rig.outside_world = tell
    rig.start("flow")
    rig.finish()
    *most, values = rig.result()
    assert most == ["first", True, [2, 4, 6], ["a", "b"], "late", [1], "yes", 3, 2, "ready", "b"]
    assert values[0] == "2027-01-15T14"
    assert held(rig, "shoes") == 1
    assert rig.effects["first"] == 1


def test_errors_are_the_same_as_in_plain_workflows(make_rig: MakeRig) -> None:
    async def code(ctx: AsyncWorkflowContext, rig: Rig) -> Any:
        seen: list[Any] = []
        for attempt in (
            lambda: ctx.step(broken, retry=Retry.none()),
            lambda: ctx.call(rig.outside.job("dies")),
            lambda: ctx.wait_event("never", timeout=MINUTE),
            lambda: ctx.commit(put_once("taken")),
            lambda: ctx.map(broken_at_one, range(3), max_concurrency=1, retry=Retry.none()),
        ):
            try:
                await attempt()
            except (
                StepFailedError,
                ChildFailedError,
                WaitTimeoutError,
                CommitRefusedError,
                BranchesFailedError,
            ) as error:
                seen.append(type(error).__name__)
        return seen

    async def broken() -> None:
        raise ValueError("no")

    def broken_at_one(n: int) -> int:
        return 1 // (1 - n)

    rig = make_rig(flow_of(code))
    rig.put("taken")
    rig.start("flow")
    rig.finish()
    assert rig.result() == [
        "StepFailedError",
        "ChildFailedError",
        "WaitTimeoutError",
        "CommitRefusedError",
        "BranchesFailedError",
    ]


def test_an_async_step_may_be_too_slow(make_rig: MakeRig) -> None:
    async def slow() -> None:
        await asyncio.sleep(60)

    async def code(ctx: AsyncWorkflowContext, rig: Rig) -> Any:
        try:
            await ctx.step(slow, timeout=timedelta(milliseconds=20), retry=Retry.none())
        except StepFailedError as error:
            return error.failure.type

    assert finished(make_rig, code).result() == "dynadurable.errors.StepTimeoutError"


def test_a_step_is_tried_again_without_holding_a_worker(make_rig: MakeRig) -> None:
    async def flaky(rig: Rig) -> str:
        if rig.note("flaky") < 4:
            raise ValueError("not yet")
        return rig.clock.now().isoformat()

    async def code(ctx: AsyncWorkflowContext, rig: Rig) -> Any:
        return await ctx.step(flaky, rig, retry=Retry(max_attempts=4, delay=HOUR, backoff=1.0, jitter=0.0))

    rig = make_rig(flow_of(code))
    rig.start("flow")
    worker = rig.process()
    assert worker.work() == ["parked"]
    [mark] = rig.outside.marks()
    assert mark.token is None
    rig.finish(worker)
    assert rig.result() == "2027-01-15T15:00:00+00:00"
    assert rig.effects == {"flaky": 4}


def test_a_step_that_cancels_itself_has_failed(make_rig: MakeRig) -> None:
    async def cancels() -> None:
        raise asyncio.CancelledError

    async def code(ctx: AsyncWorkflowContext, rig: Rig) -> Any:
        try:
            await ctx.step(cancels, retry=Retry.none())
        except StepFailedError as error:
            return error.failure.type

    assert finished(make_rig, code).result() == "dynadurable.errors.BodyCancelledError"


def test_a_trip_is_undone(make_rig: MakeRig) -> None:
    async def cancel(what: str, rig: Rig) -> None:
        rig.notes.setdefault("log", []).append(f"cancel {what}")

    async def book(rig: Rig, what: str) -> str:
        rig.notes.setdefault("log", []).append(what)
        if what == "hotel":
            raise Fail("no hotel")
        return what

    async def code(ctx: AsyncWorkflowContext, rig: Rig) -> None:
        for what in ("flight", "car", "hotel"):
            await ctx.step(book, rig, what, compensate=lambda booked: cancel(booked, rig), name=what) if False else None
            ctx.on_failure(cancel, what, rig, name=f"cancel {what}") if what != "hotel" else None
            await ctx.step(book, rig, what)
            await ctx.sleep(MINUTE)

    rig = finished(make_rig, code)
    assert rig.notes["log"] == ["flight", "car", "hotel", "cancel car", "cancel flight"]
    assert rig.run().state == DEAD
    assert "no hotel" in rig.run().error


def test_a_cancelled_trip_is_undone(make_rig: MakeRig) -> None:
    async def code(ctx: AsyncWorkflowContext, rig: Rig) -> None:
        ctx.on_failure(do, rig, "undone")
        await ctx.step(do, rig, "done")
        await ctx.sleep(HOUR)

    rig = make_rig(flow_of(code))
    run = rig.start("flow")
    rig.process().work()
    run.cancel()
    rig.finish()
    assert rig.effects == {"done": 1, "undone": 1}
    assert rig.run().state == CANCELLED


# --- concurrency is replayed as it was ------------------------------------------------------------


async def delayed(rig: Rig, name: str) -> str:
    rig.note(name)
    await asyncio.sleep(rig.notes["dice"].random() * 0.004)
    return name


async def gathers(ctx: AsyncWorkflowContext, rig: Rig) -> Any:
    """The kinds of PUB-42: different steps, the same step several times, and steps that follow steps."""

    async def chain(n: int) -> str:
        first = await ctx.step(delayed, rig, f"x{n}", name="x")
        return await ctx.step(delayed, rig, f"y{first}", name="y")

    different = await asyncio.gather(*(ctx.step(delayed, rig, name, name=name) for name in "abc"))
    same = await asyncio.gather(*(ctx.step(delayed, rig, f"s{n}") for n in range(3)))
    chains = await asyncio.gather(*(chain(n) for n in range(3)))
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(chain(n)) for n in range(3, 5)]
    return [different, same, chains, [task.result() for task in tasks]]


def killed_at(make_rig: MakeRig, code: Code, seed: int, fault: Fault | None) -> tuple[Rig, Any]:
    rig = make_rig(flow_of(code))
    rig.notes["dice"] = random.Random(seed)
    rig.start("flow")
    rig.finish(rig.process(fault))
    return rig, rig.result()


def test_steps_that_run_side_by_side_are_never_mispaired(make_rig: MakeRig, one_in: int) -> None:
    """PUB-42: killed at every place under many seeds; results in their places, each recorded body once."""
    for seed in range(0, 60, one_in):
        fault = Fault(nth=2 + seed % 17, applied=bool(seed % 2), dies=True)
        rig, result = killed_at(make_rig, gathers, seed, fault)
        assert result == [
            ["a", "b", "c"],
            ["s0", "s1", "s2"],
            ["yx0", "yx1", "yx2"],
            ["yx3", "yx4"],
        ]
        assert sum(rig.effects.values()) <= 16 + 3, "at most those that were in flight are repeated"
        assert rig.outside.marks() == []
        rig.close()


def test_the_order_of_completion_is_the_recorded_one(make_rig: MakeRig, one_in: int) -> None:
    async def code(ctx: AsyncWorkflowContext, rig: Rig) -> Any:
        order = []
        for next_one in asyncio.as_completed([ctx.step(delayed, rig, name, name=name) for name in "abcdef"]):
            name = await next_one
            order.append(name)
            await ctx.step(delayed, rig, f"after {name}", name="after")
        rig.notes.setdefault("orders", []).append(list(order))
        await ctx.sleep(HOUR)
        return order

    for seed in range(0, 20, one_in):
        rig, result = killed_at(make_rig, code, seed, Fault(nth=3 + seed % 10, applied=False, dies=True))
        assert sorted(result) == list("abcdef")
        assert all(order == result for order in rig.notes["orders"])
        assert len(rig.notes["orders"]) >= 2
        rig.close()


def test_the_first_of_two_events_stays_the_first(make_rig: MakeRig) -> None:
    async def code(ctx: AsyncWorkflowContext, rig: Rig) -> Any:
        waits = {asyncio.ensure_future(ctx.wait_event(name)): name for name in ("a", "b")}
        done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        first = [waits[one] for one in done]
        await ctx.sleep(HOUR)
        return first

    rig = make_rig(flow_of(code))
    run = rig.start("flow")
    rig.process().work()
    run.send_event("b")
    rig.process().work()
    run.send_event("a")
    rig.finish()
    assert rig.result() == ["b"]


def test_an_operation_may_wait_while_another_works(make_rig: MakeRig) -> None:
    """A short sleep ends although a long body is still running; nothing is parked meanwhile."""

    async def long() -> float:
        await asyncio.sleep(0.3)
        return time.perf_counter()  # noqa: TID251 - real time, on a real loop

    async def short(ctx: AsyncWorkflowContext) -> float:
        await ctx.sleep(timedelta(milliseconds=60))
        return await ctx.step(time.perf_counter, name="woke")  # noqa: TID251 - as above

    async def code(ctx: AsyncWorkflowContext, rig: Rig) -> Any:
        ends = await asyncio.gather(ctx.step(long), ctx.group(short))
        return ends[0] > ends[1]

    from dynadurable import Queue
    from dynadurable.testing.memory import MemoryClient, MemoryStore

    app = App("real", client=MemoryClient(MemoryStore(locked=True)), queues=[Queue(name="default", shards=1)])
    app.create_table()

    @app.workflow(keep_result=DAY)
    async def flow(ctx: AsyncWorkflowContext) -> Any:
        return await code(ctx, None)  # type: ignore[arg-type]

    run = app.enqueue(flow)
    app.worker().drain()
    assert run.result() is True


# --- stopped anywhere -----------------------------------------------------------------------------


async def once(ctx: AsyncWorkflowContext, rig: Rig) -> Any:
    try:
        await ctx.step(do, rig, "charge", once=True)
    except StepInterruptedError:
        await ctx.step(do, rig, "asked")
    return "ended"


async def quickest(ctx: AsyncWorkflowContext, rig: Rig) -> Any:
    async def branch(ctx: AsyncWorkflowContext, n: int) -> int:
        await ctx.sleep(n * MINUTE)
        return int(await ctx.step(do, rig, n, name="body"))

    results = await ctx.map(branch, [30, 1, 20], completion=Completion.first(1))
    await ctx.sleep(HOUR)
    return [results.values, results.letters()]


async def undone(ctx: AsyncWorkflowContext, rig: Rig) -> Any:
    ctx.on_failure(do, rig, "undone last")
    await ctx.step(do, rig, "done", compensate=lambda _: do(rig, "undone first"))
    await ctx.sleep(HOUR)
    raise Fail("no")


@pytest.mark.parametrize(
    ("code", "expected", "in_flight"),
    [
        (everything, None, 2),
        (once, "ended", 1),
        (quickest, [[1], "asa"], 1),
        (undone, DEAD, 1),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
@pytest.mark.parametrize("dies", [True, False], ids=["dies", "goes on"])
def test_it_ends_as_if_nothing_had_happened(
    make_rig: MakeRig, one_in: int, code: Code, expected: Any, in_flight: int, dies: bool
) -> None:
    def play(fault: Fault | None) -> Rig:
        rig = make_rig(flow_of(code, retry=Retry(max_attempts=3)))
        rig.outside_world = tell if code is everything else None
        rig.start("flow")
        process = rig.process(fault)
        rig.notes["process"] = process
        rig.finish(process)
        return rig

    def outcome(rig: Rig) -> Any:
        return rig.run().state if expected == DEAD else rig.result()

    calm = play(None)
    writes = calm.notes["process"].client.writes
    known, effects = outcome(calm), +calm.effects
    assert expected is None or known == expected
    calm.close()
    for applied in (False, True):
        for nth in range(1 + applied, writes + 1, one_in * (5 if code is everything else 1)):
            fault = Fault(nth=nth, applied=applied, dies=dies)
            rig = play(fault)
            if code is everything:
                assert outcome(rig)[:-1] == known[:-1], fault
                assert held(rig, "shoes") == 1
            else:
                assert outcome(rig) == known, fault
            extra = rig.effects - effects
            if code is once:
                assert rig.effects["charge"] <= 1
            else:
                assert sum(extra.values()) <= (in_flight if dies else 0), (fault, extra)
                assert effects - rig.effects == {}, fault
            assert rig.outside.marks() == [], fault
            rig.close()
