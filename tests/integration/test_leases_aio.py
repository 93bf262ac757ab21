"""Named leases on an event loop: the guarded task is cancelled when its lease is lost; a blocked loop keeps its own."""

from __future__ import annotations

import asyncio
import inspect
import os
import threading
from collections.abc import Callable, Coroutine, Iterator
from datetime import timedelta
from typing import Any

import pytest

from dynadurable import App, LeaseLostError
from dynadurable.control.leases import AioLeases, Leases
from dynadurable.errors import LeaseBusyError
from dynadurable.lease import Lease
from dynadurable.lease_aio import AioLease
from dynadurable.testing.clock import ManualClock
from dynadurable.testing.memory import MemoryClient, MemoryStore
from tests.patience import LOOK_SECONDS, LOOKS, pass_time

SECOND = timedelta(seconds=1)
MakeApp = Callable[[], App]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def client() -> MemoryClient:
    return MemoryClient(MemoryStore(locked=True))


@pytest.fixture
def make_app(client: MemoryClient, clock: ManualClock) -> Iterator[MakeApp]:
    made: list[App] = []

    def make() -> App:
        made.append(App("table", client=client, clock=clock))
        return made[-1]

    make().create_table()
    yield make
    for app in made:
        app.lease_parts.keeper.stop()


async def until(condition: Callable[[], Any], what: str) -> None:
    for _ in range(LOOKS):
        if condition():
            return
        await asyncio.sleep(LOOK_SECONDS)
    raise AssertionError(f"waited in vain: {what}")


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(test())


def test_the_guarded_task_is_cancelled_when_the_lease_is_lost(make_app: MakeApp, clock: ManualClock) -> None:
    app, events = make_app(), []

    async def guarded() -> None:
        async with app.aio.lease("refresher", ttl=9 * SECOND, on_lost=lambda lease: events.append(lease.name)) as lease:
            await make_app().aio.leases.break_("refresher")
            clock.advance(3 * SECOND)
            try:
                await asyncio.Event().wait()
            finally:
                events.append(f"lost: {lease.lost.is_set()}, valid: {lease.is_valid()}")

    async def test() -> None:
        with pytest.raises(LeaseLostError, match="moved on"):
            await guarded()
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0
        await asyncio.sleep(0)  # the next await is not cancelled

    run(test)
    assert events == ["refresher", "lost: True, valid: False"]


def test_a_cancellation_from_outside_stays_one_and_releases_the_lease(make_app: MakeApp) -> None:
    app = make_app()

    async def guarded(entered: asyncio.Event) -> None:
        async with app.aio.lease("refresher", ttl=900 * SECOND):
            entered.set()
            await asyncio.Event().wait()

    async def test() -> None:
        entered = asyncio.Event()
        task = asyncio.create_task(guarded(entered))
        await entered.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await make_app().aio.lease("refresher", ttl=9 * SECOND).try_acquire()

    run(test)


def test_a_cancelled_acquisition_does_not_keep_the_lease(make_app: MakeApp, client: MemoryClient) -> None:
    """Whether the request under way was applied is found out, and what it took is given back."""
    app = make_app()
    arrived, go_on = threading.Event(), threading.Event()
    original = client.update_item

    def slow(**request: Any) -> Any:
        reply = original(**request)
        if not arrived.is_set():
            arrived.set()
            go_on.wait(10)
        return reply

    client.update_item = slow  # type: ignore[method-assign]

    async def test() -> None:
        task = asyncio.create_task(app.aio.lease("refresher", ttl=900 * SECOND).acquire())
        await until(arrived.is_set, "the request")
        task.cancel()
        await asyncio.sleep(0)
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await make_app().aio.lease("refresher", ttl=9 * SECOND).try_acquire()

    run(test)


def test_a_cancelled_wait_ends_at_once(make_app: MakeApp) -> None:
    app = make_app()

    async def test() -> None:
        async with app.aio.lease("refresher", ttl=900 * SECOND):
            task = asyncio.create_task(make_app().aio.lease("refresher", ttl=9 * SECOND).acquire(wait=None))
            await asyncio.sleep(0.05)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    run(test)


def test_a_lease_that_is_lost_at_the_very_end_of_the_block_is_an_error_and_no_cancellation(
    make_app: MakeApp, clock: ManualClock
) -> None:
    """The cancellation is asked for but has not reached the task: it must not reach what comes after."""
    app = make_app()

    async def guarded() -> None:
        async with app.aio.lease("refresher", ttl=9 * SECOND) as lease:
            app.leases.break_("refresher")  # blocks the loop
            clock.advance(3 * SECOND)
            while not lease.lost.is_set():
                threading.Event().wait(0.001)
            lease._on_loop()

    async def test() -> None:
        with pytest.raises(LeaseLostError):
            await guarded()
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0
        await asyncio.sleep(0)

    run(test)


def test_an_error_of_the_block_is_not_replaced(make_app: MakeApp) -> None:
    app = make_app()

    async def guarded() -> None:
        async with app.aio.lease("refresher", ttl=9 * SECOND):
            await app.aio.leases.break_("refresher")
            raise KeyError("own")

    with pytest.raises(KeyError):
        asyncio.run(guarded())


def test_a_blocked_loop_keeps_its_lease(make_app: MakeApp, clock: ManualClock) -> None:
    app = make_app()

    async def test() -> None:
        async with app.aio.lease("refresher", ttl=3 * SECOND) as lease:
            pass_time(app.lease_parts.keeper, clock, 12.0)  # blocks the loop
            assert lease.is_valid()
            assert not await make_app().aio.lease("refresher", ttl=3 * SECOND).try_acquire()

    run(test)


def test_whoever_waits_for_the_loss_is_told(make_app: MakeApp, clock: ManualClock) -> None:
    app = make_app()

    async def test() -> None:
        lease = await app.aio.lease("refresher", ttl=9 * SECOND).acquire()
        waiting = asyncio.create_task(lease.wait_lost())
        await app.aio.leases.break_("refresher")
        clock.advance(3 * SECOND)
        await asyncio.wait_for(waiting, 10)
        await lease.wait_lost()
        with pytest.raises(LeaseLostError):
            lease.raise_if_lost()
        assert not await lease.release()

    run(test)


def test_both_kinds_contend_for_the_same_lease(make_app: MakeApp, clock: ManualClock) -> None:
    app = make_app()

    async def test() -> None:
        with app.lease("refresher", ttl=9 * SECOND) as lease:
            with pytest.raises(LeaseBusyError):
                await app.aio.lease("refresher", ttl=9 * SECOND).acquire()
            assert lease.fence == 1
        async with app.aio.lease("refresher", ttl=9 * SECOND) as other:
            assert other.fence == 2
            assert other.condition_check()["ConditionCheck"]["Key"] == lease.condition_check()["ConditionCheck"]["Key"]
        (told,) = await app.aio.leases.list()
        assert told == app.leases.list()[0] == await app.aio.leases.get("refresher")
        assert (told.state, told.fence) == ("free", 2)

    run(test)


@pytest.mark.parametrize(("one", "other"), [(Lease, AioLease), (Leases, AioLeases)])
def test_the_twins_have_the_same_methods(one: type, other: type) -> None:
    for name, method in inspect.getmembers(one, inspect.isfunction):
        if name.startswith("_"):
            continue
        twin = getattr(other, name)
        assert inspect.signature(twin).parameters.keys() == inspect.signature(method).parameters.keys(), name
        for parameter in inspect.signature(method).parameters.values():
            assert inspect.signature(twin).parameters[parameter.name].default == parameter.default


def test_a_forked_child_holds_nothing_and_releases_nothing(make_app: MakeApp) -> None:
    app = make_app()
    read_end, write_end = os.pipe()
    with app.lease("refresher", ttl=9 * SECOND) as lease:
        child = os.fork()
        if child == 0:
            told = f"{lease.is_valid()} {lease.release()} {lease.fence}"
            os.write(write_end, told.encode())
            os._exit(0)
        os.waitpid(child, 0)
        assert os.read(read_end, 100) == b"False True 1"
        assert lease.is_valid()
    os.close(read_end)
    os.close(write_end)
