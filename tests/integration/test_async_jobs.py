"""``async def`` jobs in an ordinary worker: on an event loop in a thread of its own, beside plain jobs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from datetime import timedelta
from typing import Any

import pytest

from dynadurable import App, AsyncJobContext, ConfigurationError, Fail, JobContext, LeaseLostError, Retry, Snooze
from dynadurable.errors import BodyCancelledError, RunDeadError
from dynadurable.storage import marks
from dynadurable.worker import loop_lane
from tests.faults import Hold
from tests.integration.world import NOW, Log, World, in_background, our_threads, started
from tests.patience import until

AT_ONCE = Retry(max_attempts=3, delay=timedelta(0))


def drain(app: App) -> None:
    """Until nothing is pending, with retries that come due at once."""
    until(lambda: app.worker().drain() is None, "everything done")


# --- what a body can do ---------------------------------------------------------------------------


def test_async_and_plain_jobs_run_in_one_worker(world: World, log: Log) -> None:
    @world.app.job
    async def on_loop(number: int) -> None:
        await asyncio.sleep(0)
        log(("loop", number, threading.current_thread().name))

    @world.app.job
    def on_thread(number: int) -> None:
        log(("thread", number, threading.current_thread().name.rpartition("-")[0]))

    for number in range(5):
        world.app.enqueue(on_loop, number)
        world.app.enqueue(on_thread, number)
    assert world.app.worker(name="w").drain() is None
    expected = {("loop", number, "dynadurable-loop") for number in range(5)}
    assert set(log.lines) == expected | {("thread", number, "dynadurable-w") for number in range(5)}
    assert len(log.lines) == 10
    assert world.rows() == []
    assert our_threads() == []


def test_a_context_tells_and_records_the_same_as_a_plain_one(world: World, log: Log) -> None:
    @world.app.job(retry=AT_ONCE)
    async def counts(ctx: AsyncJobContext, limit: int) -> None:
        log((ctx.attempt, ctx.cursor, ctx.fence >= ctx.attempt, ctx.job, ctx.stopping.is_set()))
        await ctx.checkpoint((ctx.cursor or 0) + 1)
        ctx.raise_if_stopping()
        if ctx.cursor < limit:
            raise ValueError("not yet")

    world.app.enqueue(counts, 3)
    drain(world.app)
    assert log.lines == [(1, None, True, "counts", False), (2, 1, True, "counts", False), (3, 2, True, "counts", False)]


def test_fail_snooze_and_results(world: World, log: Log) -> None:
    @world.app.job(keep_result=timedelta(days=1))
    async def work(ctx: AsyncJobContext, how: str) -> str:
        log((how, ctx.attempt))
        if how == "fail":
            raise Fail("never")
        if how == "snooze" and log.lines.count((how, 1)) == 1:
            raise Snooze(NOW)
        return how.upper()

    runs = {how: world.app.enqueue(work, how) for how in ("fail", "snooze", "fine")}
    drain(world.app)
    assert sorted(log.lines) == [("fail", 1), ("fine", 1), ("snooze", 1), ("snooze", 1)]
    assert [runs[how].result() for how in ("snooze", "fine")] == ["SNOOZE", "FINE"]
    with pytest.raises(RunDeadError, match="never"):
        runs["fail"].result()


def test_each_kind_has_its_own_limit(world: World) -> None:
    running, most = {"async": 0, "plain": 0}, {"async": 0, "plain": 0}
    lock, go_on = threading.Lock(), threading.Event()

    def enter(kind: str) -> None:
        with lock:
            running[kind] += 1
            most[kind] = max(most[kind], running[kind])

    def leave(kind: str) -> None:
        with lock:
            running[kind] -= 1

    @world.app.job
    async def on_loop() -> None:
        enter("async")
        while not go_on.is_set():  # noqa: ASYNC110 - set by another thread
            await asyncio.sleep(0.005)
        leave("async")

    @world.app.job
    def on_thread() -> None:
        enter("plain")
        go_on.wait()
        leave("plain")

    for _ in range(8):
        world.app.enqueue(on_thread)
        world.app.enqueue(on_loop)
    worker = started(world.app, concurrency=2, async_concurrency=3)
    until(lambda: running == {"async": 3, "plain": 2}, "all slots busy")
    go_on.set()
    until(lambda: not world.rows(), "everything done")
    worker.stop()
    assert most == {"async": 3, "plain": 2}


def test_a_backlog_of_one_kind_does_not_hide_the_other(world: World, log: Log) -> None:
    go_on = threading.Event()

    @world.app.job
    def slow(number: int) -> None:
        log("slow")
        go_on.wait()

    @world.app.job
    async def quick() -> None:
        log("quick")

    for number in range(60):
        world.app.enqueue(slow, number)
    worker = started(world.app, concurrency=1)
    log.wait("slow")
    assert worker.reserve(job="slow", queue="default") is None
    _, born = world.app.operations.born(quick, (), {})
    world.app.driver.run(marks.place(world.app.items, born.mark))  # as another process would: nobody is woken
    log.wait("quick")
    assert log.lines == ["slow", "quick"]
    go_on.set()
    worker.stop()
    assert log.lines.count("quick") == 1


def test_an_enqueue_beside_the_worker_starts_at_once(world: World, log: Log) -> None:
    @world.app.job
    async def work() -> None:
        log("ran")

    worker = world.app.worker(poll=(timedelta(minutes=1), timedelta(minutes=1)))
    worker.start()
    world.app.enqueue(work)
    log.wait("ran")
    worker.stop()
    claims = [call for call in world.plan.of("UpdateItem") if "token" in str(call.params)]
    assert claims == []


# --- bodies that end in odd ways ------------------------------------------------------------------


def test_a_cancellation_from_inside_the_body_is_a_failure(world: World, log: Log) -> None:
    """PUB-05: nobody cancelled it, so it must use attempts: else it would come back for ever."""

    @world.app.job(retry=AT_ONCE)
    async def cancels_itself(ctx: AsyncJobContext) -> None:
        log(ctx.attempt)
        inner = asyncio.ensure_future(asyncio.sleep(60))
        inner.cancel()
        await inner

    run = world.app.enqueue(cancels_itself)
    drain(world.app)
    assert log.lines == [1, 2, 3]
    with pytest.raises(RunDeadError, match=BodyCancelledError.__name__):
        run.result()


def test_a_timeout_inside_the_body_is_an_ordinary_failure(world: World, log: Log) -> None:
    @world.app.job(retry=AT_ONCE)
    async def late(ctx: AsyncJobContext) -> None:
        log(ctx.attempt)
        if ctx.attempt == 1:
            async with asyncio.timeout(0.01):
                await asyncio.sleep(60)

    world.app.enqueue(late)
    drain(world.app)
    assert log.lines == [1, 2]


@pytest.mark.parametrize("leaving", [SystemExit(3), KeyboardInterrupt()], ids=["SystemExit", "KeyboardInterrupt"])
def test_what_wants_to_leave_the_process_leaves_the_worker(world: World, leaving: BaseException, log: Log) -> None:
    """PUB-05: its run is pending again, its neighbours are handed back, and the exception comes out."""

    @world.app.job(name="a")
    async def leaves() -> None:
        log("leaves")
        raise leaving

    @world.app.job(name="b")
    async def neighbour(ctx: AsyncJobContext) -> None:
        log("neighbour")
        await ctx.wait_stopping()
        raise asyncio.CancelledError

    world.app.enqueue(neighbour)
    world.app.enqueue(leaves)
    with pytest.raises(type(leaving)):
        world.app.worker(grace=timedelta(seconds=1)).drain()
    assert {row["dd_job"]["S"] for row in world.rows()} >= {"a"}
    assert all("dd_token" not in row for row in world.rows())
    assert our_threads() == []


def test_a_plain_job_that_turns_out_to_be_async_is_no_success(world: World, log: Log) -> None:
    async def real() -> None:
        log("ran")

    def hides() -> Coroutine[Any, Any, None]:
        return real()

    run = world.app.enqueue(world.app.job(retry=Retry(max_attempts=1))(hides))
    drain(world.app)
    assert log.lines == []
    with pytest.raises(RunDeadError, match="async def"):
        run.result()


@pytest.mark.parametrize("wrong", ["async with JobContext", "plain with AsyncJobContext", "not a function"])
def test_a_context_of_the_other_kind_is_refused_at_the_definition(wrong: str) -> None:
    app = App("table")

    async def on_loop(ctx: JobContext) -> None:
        """Takes the wrong one."""

    def plain(ctx: AsyncJobContext) -> None:
        """Takes the wrong one."""

    class Callable_:  # noqa: N801 - a callable object
        async def __call__(self) -> None:
            """Has no name."""

    job: dict[str, Any] = {
        "async with JobContext": on_loop,
        "plain with AsyncJobContext": plain,
        "not a function": Callable_(),
    }
    with pytest.raises(ConfigurationError, match=r"JobContext|function with a name"):
        app.job(job[wrong])


def test_an_unannotated_context_fits_either_kind(world: World, log: Log) -> None:
    @world.app.job
    async def on_loop(ctx) -> None:  # type: ignore[no-untyped-def]
        log(type(ctx))

    @world.app.job
    def on_thread(ctx) -> None:  # type: ignore[no-untyped-def]
        log(type(ctx))

    world.app.enqueue(on_loop)
    world.app.enqueue(on_thread)
    drain(world.app)
    assert set(log.lines) == {AsyncJobContext, JobContext}


# --- the end of a worker --------------------------------------------------------------------------


def test_a_body_may_end_within_the_grace_period(world: World, log: Log) -> None:
    @world.app.job
    async def patient(ctx: AsyncJobContext) -> None:
        log("started")
        log(await ctx.wait_stopping())
        await asyncio.sleep(0.05)
        log("ended")

    world.app.enqueue(patient)
    worker = started(world.app)
    log.wait("started")
    report = worker.stop()
    assert log.lines == ["started", "stopping", "ended"]
    assert report.abandoned == []
    assert world.rows() == []


def test_a_body_that_does_not_end_is_cancelled_and_handed_back(world: World, log: Log) -> None:
    @world.app.job
    async def stays() -> None:
        log("started")
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            log("cancelled")
            raise

    world.app.enqueue(stays)
    worker = started(world.app, grace=NOW)
    log.wait("started")
    report = worker.stop()
    assert log.lines == ["started", "cancelled"]
    assert (report.abandoned, report.exit_code) == ([], 0)
    assert world.mark() == (None, 0)
    assert our_threads() == []


@pytest.mark.parametrize("stubborn", ["swallows", "blocks"])
def test_a_body_that_will_not_end_is_left_behind(
    world: World, stubborn: str, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its run is handed back all the same, and it can write nothing more."""
    monkeypatch.setattr(loop_lane, "CANCEL_SECONDS", (0.1, 0.1))
    monkeypatch.setattr(loop_lane, "CLOSE_SECONDS", 0.5)
    go_on = threading.Event()

    @world.app.job
    async def stays(ctx: AsyncJobContext) -> None:
        log("started")
        while not go_on.is_set():
            try:
                if stubborn == "blocks":
                    go_on.wait(30)
                await asyncio.sleep(0.02)
            except asyncio.CancelledError:
                log("cancelled")
        try:
            await ctx.checkpoint("too late")
        except LeaseLostError:
            log("lost")

    world.app.enqueue(stays)
    worker = started(world.app, grace=NOW)
    log.wait("started")
    report = worker.stop()
    assert len(report.abandoned) == 1
    assert report.exit_code == 2
    assert world.mark() == (None, 0)
    go_on.set()
    log.wait("lost")
    until(lambda: not our_threads(), "the loop's thread")
    assert world.mark() == (None, 0)


def test_a_claim_under_way_at_the_end_is_handed_back(world: World, log: Log) -> None:
    @world.app.job
    async def work() -> None:
        log("ran")

    world.app.enqueue(work)
    hold = Hold(applied=True)
    world.plan.on("UpdateItem", hold, nth=1)
    worker = started(world.app, grace=NOW)
    hold.wait_until_reached()
    stopping = in_background(worker.stop)
    until(lambda: worker.engine.stopping.is_set(), "the stop")
    hold.release()
    stopping.join()
    assert log.lines == []
    assert world.mark() == (None, 0)
    assert our_threads() == []


def test_an_end_under_way_when_the_grace_period_is_over_is_seen_through(world: World, log: Log) -> None:
    """The body has succeeded: it would be a pity to do it again."""

    @world.app.job
    async def work() -> None:
        log("ran")

    world.app.enqueue(work)
    hold = Hold()
    world.plan.on("DeleteItem", hold, nth=1)
    worker = started(world.app, grace=NOW)
    hold.wait_until_reached()
    stopping = in_background(worker.stop)
    until(lambda: worker.engine.stopping.is_set(), "the stop")
    hold.release()
    stopping.join()
    assert log.lines == ["ran"]
    assert world.rows() == []
    assert worker.engine.counts["succeeded"] == 1


def test_a_worker_that_never_ran_an_async_body_starts_no_loop(world: World) -> None:
    @world.app.job
    def plain() -> None:
        assert "dynadurable-loop" not in our_threads()

    world.app.enqueue(plain)
    drain(world.app)
