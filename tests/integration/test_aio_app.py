"""``app.aio``: the client's methods and a worker, inside an event loop of the app's own."""

from __future__ import annotations

import asyncio
import multiprocessing
import signal
import threading
import time
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any

import pytest

from dynadurable import AioWorker, App, AsyncJobContext, ConfigurationError, JobContext, KeyConflictError
from dynadurable.errors import InputRefusedError, TableMissingError
from tests.faults import Hold
from tests.integration.world import World, our_threads, play
from tests.patience import LOOK_SECONDS, LOOKS
from tests.servers import Store

NOW = timedelta(0)
QUICK = (timedelta(seconds=0.02), timedelta(seconds=0.1))
NEVER = (timedelta(minutes=1), timedelta(minutes=1))


async def until(condition: Callable[[], Any], what: str) -> None:
    """Look often and briefly; fails after about fifteen seconds."""
    for _ in range(LOOKS):
        if condition():
            return
        await asyncio.sleep(LOOK_SECONDS)
    raise AssertionError(f"waited in vain: {what}")


class Gate:
    """A job whose bodies wait for ever, and the event that the first of them sets."""

    def __init__(self, app: App) -> None:
        self.begun = asyncio.Event()
        self.ended: list[str] = []

        @app.job
        async def waits(ctx: AsyncJobContext) -> None:
            self.begun.set()
            try:
                await asyncio.sleep(3600)
            finally:
                self.ended.append(ctx.stop_reason or "told nothing")

        self.job = waits


# --- the client -----------------------------------------------------------------------------------


def test_every_method_works_on_a_loop(world: World) -> None:
    app, ran = world.app, []

    @app.job(keep_result=timedelta(days=1))
    async def double(number: int) -> int:
        ran.append(number)
        return 2 * number

    async def main() -> None:
        assert await app.aio.create_table() is False
        await app.aio.check_table()
        run = await app.aio.enqueue(double.using(key="k"), 21)
        assert await app.aio.enqueue(double.using(key="k"), 21) == run
        with pytest.raises(KeyConflictError):
            await app.aio.enqueue(double.using(key="k"), 22)
        with pytest.raises(InputRefusedError):
            await app.aio.enqueue(double, 1, 2)  # type: ignore[call-arg]
        assert await run.status() == "pending"
        assert [one.run_id for one in await app.aio.runs.list()] == [run.id]
        assert await app.aio.worker().drain() is None
        assert await app.aio.run(run.id).result(timeout=timedelta(seconds=5)) == 42
        assert await app.aio.dead.list() == []
        elements = app.aio.transact_items(double, 4)
        await asyncio.to_thread(world.store.client.transact_write_items, TransactItems=elements)
        await app.aio.worker().drain()
        await app.aio.close()
        await app.aio.close()

    play(main)
    assert ran == [21, 4]


def test_two_loops_one_after_the_other_work(world: World) -> None:
    ran: list[int] = []

    @world.app.job
    async def work(number: int) -> None:
        ran.append(number)

    async def main() -> None:
        await asyncio.gather(*(world.app.aio.enqueue(work, number) for number in range(20)))
        await world.app.aio.worker().drain()

    play(main)
    play(main)
    assert sorted(ran) == sorted([*range(20), *range(20)])
    assert world.session is None or world.session.made == 2


def test_loops_in_many_threads_have_clients_of_their_own(world: World) -> None:
    """PUB-59."""

    @world.app.job
    async def work(number: int) -> None:
        """Never runs."""

    failed: list[BaseException] = []
    start = threading.Barrier(12)

    def enqueue() -> None:
        start.wait()
        try:
            asyncio.run(_enqueue_five())
        except BaseException as error:
            failed.append(error)
            raise

    async def _enqueue_five() -> None:
        await asyncio.gather(*(world.app.aio.enqueue(work, number) for number in range(5)))

    threads = [threading.Thread(target=enqueue) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert len(world.rows()) == 60
    assert world.session is None or world.session.made == 12


@pytest.mark.server
def test_forked_children_and_their_parent_work_each_with_a_client_of_its_own(
    ministack: Store, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PUB-59: forked while the parent's loop runs and has connections open; 3 processes enqueue 40 runs each."""
    for name, value in (("ACCESS_KEY_ID", "aws_access_key_id"), ("SECRET_ACCESS_KEY", "aws_secret_access_key")):
        monkeypatch.setenv(f"AWS_{name}", ministack.client_kwargs[value])
    session = None if world.session is None else _plain_session()
    app = App(ministack.table(), region="us-east-1", endpoint_url=ministack.endpoint_url, aio_session=session)

    @app.job
    async def work(number: int) -> None:
        """Never runs."""

    async def enqueue() -> None:
        await asyncio.gather(*(app.aio.enqueue(work, number) for number in range(40)))

    def child() -> None:
        asyncio.events._set_running_loop(None)  # a fork inside a running loop copies that it runs
        asyncio.run(enqueue())

    async def main() -> None:
        await app.aio.check_table()
        children = [multiprocessing.get_context("fork").Process(target=child) for _ in range(2)]
        for one in children:
            one.start()
        await enqueue()
        await asyncio.gather(*(asyncio.to_thread(one.join, 60) for one in children))
        assert [one.exitcode for one in children] == [0, 0]
        await app.aio.check_table()

    asyncio.run(main())
    assert ministack.client.scan(TableName=app.schema.table)["Count"] == 120


def _plain_session() -> Any:
    from aiobotocore.session import AioSession

    return AioSession()


def test_a_cancelled_enqueue_leaves_nothing_held(world: World) -> None:
    """Eager start claims with the write that enqueues; cancelled in between, the run is free for others at once."""
    gate = Gate(world.app)

    async def main() -> None:
        hold = Hold(applied=True)
        async with world.app.aio.worker(poll=NEVER, grace=NOW):
            world.plan.on("PutItem", hold, when=lambda call: "dd_token" in str(call.params))
            enqueue = asyncio.create_task(world.app.aio.enqueue(gate.job))
            await asyncio.to_thread(hold.wait_until_reached)
            enqueue.cancel()
            with pytest.raises(asyncio.CancelledError):
                await enqueue
            hold.release()
            await gate.begun.wait()  # freed, it was found and begun at once

    asyncio.run(main())
    assert world.mark() == (None, 0)


# --- a worker inside the loop ---------------------------------------------------------------------


def test_bodies_run_on_the_loop_and_plain_ones_on_threads(world: World) -> None:
    seen: list[Any] = []

    @world.app.job
    async def on_loop() -> None:
        seen.append(asyncio.get_running_loop())

    @world.app.job
    def on_thread(ctx: JobContext) -> None:
        seen.append(threading.current_thread().name.startswith("dynadurable-"))

    async def main() -> None:
        async with world.app.aio.worker():
            await world.app.aio.enqueue(on_loop)
            await world.app.aio.enqueue(on_thread)
            await until(lambda: len(seen) == 2, "both bodies")
        assert set(seen) == {asyncio.get_running_loop(), True}

    play(main)
    assert world.rows() == []


def test_a_body_may_enqueue_and_wait_for_another(world: World) -> None:
    @world.app.job(keep_result=timedelta(days=1))
    async def inner(number: int) -> int:
        return number + 1

    @world.app.job(keep_result=timedelta(days=1))
    async def outer() -> int:
        run = await world.app.aio.enqueue(inner, 1)
        return await run.result(timeout=timedelta(seconds=20)) + 1

    async def main() -> None:
        async with world.app.aio.worker():
            run = await world.app.aio.enqueue(outer)
            assert await run.result(timeout=timedelta(seconds=30)) == 3

    play(main)


def test_a_graceful_end_lets_bodies_end(world: World) -> None:
    ended: list[str] = []

    @world.app.job
    async def patient(ctx: AsyncJobContext) -> None:
        begun.set()
        ended.append(await ctx.wait_stopping())

    begun = asyncio.Event()

    async def main() -> None:
        async with world.app.aio.worker():
            await world.app.aio.enqueue(patient)
            await begun.wait()

    play(main)
    assert ended == ["stopping"]
    assert world.rows() == []


def test_the_end_of_the_grace_period_hands_back(world: World) -> None:
    gate = Gate(world.app)

    async def main() -> None:
        worker = world.app.aio.worker()
        await worker.start()
        await world.app.aio.enqueue(gate.job)
        await gate.begun.wait()
        report = await worker.stop(grace=timedelta(seconds=0.05))
        assert report.exit_code == 0
        assert await worker.stop() is report

    play(main)
    assert gate.ended == ["stopping"]
    assert world.mark() == (None, 0)


Caller = Callable[[AioWorker], Coroutine[Any, Any, Any]]


async def _in_a_block(worker: AioWorker) -> None:
    async with worker:
        await asyncio.sleep(3600)


CALLERS: dict[str, Caller] = {"run": AioWorker.run, "drain": AioWorker.drain, "async with": _in_a_block}


@pytest.mark.parametrize("caller", CALLERS)
def test_a_cancelled_worker_hands_back_and_lets_the_cancellation_out(world: World, caller: str) -> None:
    """PUB-05: item pending, no attempt used, and the awaiting caller sees CancelledError; without the grace period."""
    gate = Gate(world.app)

    async def main() -> None:
        await world.app.aio.enqueue(gate.job)
        task = asyncio.create_task(CALLERS[caller](world.app.aio.worker(grace=timedelta(hours=1))))
        await gate.begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    play(main)
    assert gate.ended == ["stopping"]
    assert world.mark() == (None, 0)


def test_a_worker_that_is_cancelled_at_its_start_is_stopped(world: World) -> None:
    gate = Gate(world.app)

    async def main() -> None:
        hold = Hold()
        world.plan.on("DescribeTable", hold, times=1)
        task = asyncio.create_task(world.app.aio.worker().start())
        await asyncio.to_thread(hold.wait_until_reached)
        task.cancel()
        await asyncio.sleep(0)
        hold.release()
        with pytest.raises(asyncio.CancelledError):
            await task

    play(main)
    assert gate.ended == []


def test_a_loop_that_ends_under_a_worker_hands_back(world: World) -> None:
    """``asyncio.run`` cancels all tasks at its end; nobody waits for the worker's."""
    gate = Gate(world.app)

    async def main() -> None:
        await world.app.aio.enqueue(gate.job)
        _running.append(asyncio.create_task(world.app.aio.worker().run()))
        await gate.begun.wait()

    _running: list[asyncio.Task[int]] = []
    asyncio.run(main())
    assert _running[0].cancelled()
    assert world.mark() == (None, 0)
    assert our_threads() == []


@pytest.mark.parametrize("where", ["run", "async with"])
def test_what_wants_to_leave_the_process_comes_out_of_the_worker(world: World, where: str) -> None:
    @world.app.job
    async def leaves() -> None:
        raise SystemExit(3)

    async def main() -> None:
        await world.app.aio.enqueue(leaves)
        worker = world.app.aio.worker()
        if where == "run":
            await worker.run()
            return
        async with worker:
            await until(lambda: not worker._worker.is_running, "the end of the worker")

    with pytest.raises(SystemExit) as left:
        asyncio.run(main())
    assert left.value.code == 3
    assert world.mark() == (None, 1)


def test_a_signal_ends_it_gracefully(world: World) -> None:
    ended: list[str] = []

    @world.app.job
    async def patient(ctx: AsyncJobContext) -> None:
        signal.raise_signal(signal.SIGTERM)
        ended.append(await ctx.wait_stopping())

    async def main() -> None:
        await world.app.aio.enqueue(patient)
        assert await world.app.aio.worker().run() == 0

    before = signal.getsignal(signal.SIGTERM)
    play(main)
    assert ended == ["stopping"]
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_second_signal_ends_it_at_once(world: World) -> None:
    gate = Gate(world.app)

    async def main() -> None:
        await world.app.aio.enqueue(gate.job)
        running = asyncio.create_task(world.app.aio.worker(grace=timedelta(hours=1)).run())
        await gate.begun.wait()
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
        assert await running == 0

    play(main)
    assert world.mark() == (None, 0)


def test_a_loop_whose_thread_pool_is_full_can_stop_its_worker(world: World) -> None:
    go_on = threading.Event()
    gate = Gate(world.app)

    async def main() -> None:
        others = [asyncio.create_task(asyncio.to_thread(go_on.wait)) for _ in range(64)]
        async with world.app.aio.worker(grace=NOW):
            await world.app.aio.enqueue(gate.job)
            await gate.begun.wait()
        go_on.set()
        await asyncio.gather(*others)

    play(main)
    assert world.mark() == (None, 0)


def test_a_body_that_blocks_the_loop_keeps_its_lease(world: World) -> None:
    """PUB-13, on the app's own loop."""
    attempts: list[int] = []

    def renewals() -> int:
        return sum(1 for call in world.plan.of("UpdateItem") if call.params["UpdateExpression"].count("=") == 1)

    @world.app.job
    async def blocks(ctx: AsyncJobContext) -> None:
        attempts.append(ctx.attempt)
        while renewals() < 4:
            time.sleep(0.01)  # noqa: ASYNC251 - that is the point

    async def main() -> None:
        rival = world.app.worker(lease=timedelta(seconds=1), poll=QUICK)
        async with world.app.aio.worker(lease=timedelta(seconds=1)):
            await world.app.aio.enqueue(blocks)
            await until(lambda: attempts, "the body")
            await asyncio.to_thread(rival.start)
            await until(lambda: not world.rows(), "the end of the body")
            await asyncio.to_thread(rival.stop)

    play(main)
    assert attempts == [1]


def test_a_worker_is_used_once(world: World) -> None:
    async def main() -> None:
        worker = world.app.aio.worker(queues=["default"])
        await worker.drain()
        for again in (worker.drain, worker.start, worker.run):
            with pytest.raises(ConfigurationError, match=r"app\.aio\.worker\(\)"):
                await again()

    play(main)


def test_a_missing_table_is_one_clear_error(world: World) -> None:
    app = App("missing", client=world.store.client, aio_session=world.session)

    @app.job
    async def work() -> None:
        """Never runs."""

    async def main() -> None:
        with pytest.raises(TableMissingError, match="create_table"):
            await app.aio.check_table()
        for start in (
            lambda: app.aio.worker().run(),
            lambda: app.aio.worker().drain(),
            lambda: app.aio.worker().start(),
        ):
            with pytest.raises(TableMissingError):
                await start()

    play(main)


def test_a_worker_without_anything_to_do_is_refused_before_it_starts() -> None:
    with pytest.raises(ConfigurationError, match="nothing to work on"):
        App("table").aio.worker()
    with pytest.raises(ConfigurationError, match="concurrency"):
        App("table").aio.worker(queues=["q"], async_concurrency=0)
