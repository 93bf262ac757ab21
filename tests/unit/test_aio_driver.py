"""The driver for event loops: what a cancellation does to the request under way, and to the plan."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from botocore.exceptions import ReadTimeoutError

from dynadurable.drivers.aio import CANCEL_SECONDS, AioDriver
from dynadurable.errors import StoreUnavailableError
from dynadurable.storage.call import Call, Response, Several, Work
from dynadurable.testing.clock import ManualClock

REPLY: Response = {"Item": {}}
GET = Call(operation="GetItem", params={"TableName": "t"})


class Wire:
    """A transport whose replies the test gives."""

    def __init__(self) -> None:
        self.sent: list[Call] = []
        self.cut = 0
        self._replies: asyncio.Queue[Response | Exception] = asyncio.Queue()
        self._under_way = asyncio.Semaphore(0)

    async def send(self, call: Call) -> Response:
        self.sent.append(call)
        self._under_way.release()
        try:
            reply = await self._replies.get()
        except asyncio.CancelledError:
            self.cut += 1
            raise
        if isinstance(reply, Exception):
            raise reply
        return reply

    async def close(self) -> None:
        """Nothing to close."""

    async def under_way(self) -> None:
        await self._under_way.acquire()

    def answer(self, reply: Response | Exception = REPLY) -> None:
        self._replies.put_nowait(reply)


class Body(Work):
    """Work that waits for ever."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()

    async def perform_async(self) -> None:
        self.begun.set()
        await asyncio.Event().wait()


Scenario = Callable[[Wire, AioDriver], Coroutine[Any, Any, None]]


def play(scenario: Scenario, clock: ManualClock | None = None) -> None:
    """Run a scenario on a loop of its own, and see that it leaves no task behind."""

    async def main() -> None:
        wire = Wire()
        await scenario(wire, AioDriver(wire, clock or ManualClock()))
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())


async def two_calls(seen: list[Any]) -> str:
    """A plan that notes what reaches it."""
    for _ in range(2):
        try:
            seen.append(await GET)
        except BaseException as error:
            seen.append(type(error))
            raise
    return "done"


def test_a_cancellation_ends_the_request_at_once() -> None:
    seen: list[Any] = []

    async def scenario(wire: Wire, driver: AioDriver) -> None:
        plan = two_calls(seen)
        task = asyncio.create_task(driver.run(plan))
        await wire.under_way()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert wire.cut == 1
        assert inspect.getcoroutinestate(plan) == inspect.CORO_CLOSED

    play(scenario)
    assert seen == [asyncio.CancelledError]


def test_a_plan_that_is_seen_through_learns_the_reply_before_the_cancellation() -> None:
    seen: list[Any] = []

    async def scenario(wire: Wire, driver: AioDriver) -> None:
        task = asyncio.create_task(driver.see_through(two_calls(seen)))
        await wire.under_way()
        task.cancel()
        wire.answer()
        await wire.under_way()
        wire.answer()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert wire.cut == 0

    play(scenario)
    assert seen == [REPLY, REPLY]


def test_the_cancellation_reaches_the_plan_at_its_next_work() -> None:
    seen: list[Any] = []

    async def claim_and_work() -> str:
        seen.append(await GET)
        try:
            await Body()
        except asyncio.CancelledError:
            seen.append("cancelled")
            seen.append(await GET)
            return "handed back"
        return "worked"

    async def scenario(wire: Wire, driver: AioDriver) -> None:
        task = asyncio.create_task(driver.see_through(claim_and_work()))
        await wire.under_way()
        task.cancel()
        wire.answer()
        await wire.under_way()
        wire.answer()
        assert await task == "handed back"

    play(scenario)
    assert seen == [REPLY, "cancelled", REPLY]


def test_work_under_way_is_cancelled_at_once() -> None:
    body_ended: list[str] = []

    async def scenario(wire: Wire, driver: AioDriver) -> None:
        body = Body()

        async def working() -> None:
            try:
                await body
            finally:
                body_ended.append("yes")

        task = asyncio.create_task(driver.see_through(working()))
        await body.begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    play(scenario)
    assert body_ended == ["yes"]


def test_a_second_cancellation_does_not_wait() -> None:
    seen: list[Any] = []

    async def scenario(wire: Wire, driver: AioDriver) -> None:
        task = asyncio.create_task(driver.see_through(two_calls(seen)))
        await wire.under_way()
        task.cancel()
        await asyncio.sleep(0)
        assert not task.done()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(0)
        assert wire.cut == 1

    play(scenario)
    assert seen == [asyncio.CancelledError]


def test_a_loop_that_cancels_everything_still_learns_what_came_of_a_request() -> None:
    """The end of ``asyncio.run`` cancels the request too: it is sent once more, as one that may have been applied."""
    seen: list[Any] = []

    async def scenario(wire: Wire, driver: AioDriver) -> None:
        task = asyncio.create_task(driver.see_through(two_calls(seen)))
        await wire.under_way()
        for one in asyncio.all_tasks() - {asyncio.current_task()}:
            one.cancel()
        await wire.under_way()
        wire.answer()
        await wire.under_way()
        wire.answer()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (wire.cut, len(wire.sent)) == (1, 3)

    play(scenario)
    assert seen == [REPLY, REPLY]


def test_a_cancelled_plan_does_not_try_for_ever() -> None:
    clock = ManualClock()

    async def scenario(wire: Wire, driver: AioDriver) -> None:
        task = asyncio.create_task(driver.see_through(two_calls([])))
        await wire.under_way()
        task.cancel()
        await asyncio.sleep(0)
        began = clock.monotonic()
        while not task.done():
            wire.answer(ReadTimeoutError(endpoint_url="x"))
            for _ in range(5):
                await asyncio.sleep(0)
        with pytest.raises(StoreUnavailableError):
            task.result()
        assert clock.monotonic() - began <= CANCEL_SECONDS

    play(scenario, clock)


def test_plans_side_by_side_are_cancelled_together() -> None:
    seen: list[Any] = []

    async def scenario(wire: Wire, driver: AioDriver) -> None:
        plans = [two_calls(seen) for _ in range(5)]

        async def several() -> Any:
            return await Several(plans, limit=2)

        task = asyncio.create_task(driver.run(several()))
        await wire.under_way()
        await wire.under_way()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert {inspect.getcoroutinestate(plan) for plan in plans} == {inspect.CORO_CLOSED}

    play(scenario)
    assert seen == [asyncio.CancelledError, asyncio.CancelledError]


def test_a_failing_request_is_tried_again() -> None:
    seen: list[Any] = []

    async def scenario(wire: Wire, driver: AioDriver) -> None:
        wire.answer(ReadTimeoutError(endpoint_url="x"))
        wire.answer()
        wire.answer()
        assert await driver.run(two_calls(seen)) == "done"
        assert len(wire.sent) == 3

    play(scenario)
    assert seen == [REPLY, REPLY]
