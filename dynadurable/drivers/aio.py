"""Steps plans on an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from ..clock import Clock
from ..storage.call import Call, Plan, Response, Several, Work
from .retries import Tries
from .transports import Transport

Result = TypeVar("Result")

CANCEL_SECONDS = 2.0
"""How long, after a cancellation, a request that must be known about is tried again."""


class AioDriver:
    """Runs plans with ``await``; made for one event loop."""

    def __init__(self, transport: Transport, clock: Clock) -> None:
        self._transport = transport
        self._clock = clock

    async def run(self, plan: Plan[Result], *, give_up_at: float | None = None) -> Result:
        """The plan's result; see ``Boto3Driver.run``. A cancellation ends the request under way at once."""

        async def send(call: Call) -> Response:
            return await self.send(call, give_up_at=give_up_at)

        async def perform(work: Work) -> Any:
            return await _perform(work, lambda plan: self.run(plan, give_up_at=give_up_at))

        return await _stepped(plan, send, perform)

    async def see_through(self, plan: Plan[Result], *, give_up_at: float | None = None) -> Result:
        """The plan's result, for plans that hold something: a cancellation never leaves a request's outcome unknown.

        It waits for the reply of the request under way (for ``CANCEL_SECONDS`` at most), reaches the plan where that
        next performs some work, and is raised at the end if the plan performed none. A second cancellation does not
        wait.
        """
        waiting = _Uncut(self, self._transport, self._clock, give_up_at)
        result = await _stepped(plan, waiting.send, waiting.perform)
        if waiting.cancellation is not None:
            raise waiting.cancellation
        return result

    async def send(self, call: Call, *, give_up_at: float | None = None) -> Response:
        """One request with its retries."""
        tries = Tries(call=call, give_up_at=give_up_at)
        while True:
            delay = await _try(self._transport.send(tries.call), tries, self._clock)
            if isinstance(delay, dict):
                return delay
            await self._clock.sleep_async(delay)

    async def close(self) -> None:
        """Close the transport. May be called twice."""
        await self._transport.close()


async def _stepped(
    plan: Plan[Result], send: Callable[[Call], Awaitable[Response]], perform: Callable[[Work], Awaitable[Any]]
) -> Result:
    try:
        step = plan.send(None)
        while True:
            try:
                reply = await send(step) if isinstance(step, Call) else await perform(step)
            except BaseException as error:  # noqa: BLE001 - the plan decides, also about a cancellation
                step = plan.throw(error)
            else:
                step = plan.send(reply)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]
    finally:
        plan.close()


async def _perform(work: Work, run: Callable[[Plan[Any]], Awaitable[Any]]) -> Any:
    return await _side_by_side(work, run) if isinstance(work, Several) else await work.perform_async()


async def _side_by_side(several: Several, run: Callable[[Plan[Any]], Awaitable[Any]]) -> list[Any]:
    free = asyncio.Semaphore(several.limit)

    async def settled(plan: Plan[Any]) -> Any:
        async with free:
            try:
                return await run(plan)
            except Exception as error:  # noqa: BLE001 - handed to the plan that asked, which decides
                return error

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(settled(plan)) for plan in several.plans]
        return [task.result() for task in tasks]
    finally:
        several.close()


async def _try(reply: Awaitable[Response], tries: Tries, clock: Clock) -> Response | float:
    """The reply of one try, or the seconds to wait before the next. Raises the mapped error if there is no next."""
    sent = clock.monotonic()
    try:
        got = await reply
    except Exception as error:  # noqa: BLE001 - `delay_after` raises what cannot be tried again
        return tries.delay_after(error, now=clock.monotonic())
    received = clock.monotonic()
    clock.observe(sent=sent, received=received, date=got.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date"))
    delay = tries.leftovers(got, now=received)
    return got if delay is None else delay


class _Uncut:
    """Sends a plan's requests so that a cancellation is kept until the outcome of the one under way is known."""

    def __init__(self, driver: AioDriver, transport: Transport, clock: Clock, give_up_at: float | None) -> None:
        self._driver = driver
        self._transport = transport
        self._clock = clock
        self._give_up_at = give_up_at
        self._cut = False
        self.cancellation: asyncio.CancelledError | None = None

    async def perform(self, work: Work) -> Any:
        cancellation, self.cancellation = self.cancellation, None
        if cancellation is not None:
            raise cancellation
        return await _perform(work, lambda plan: self._driver.see_through(plan, give_up_at=self._give_up_at))

    async def send(self, call: Call) -> Response:
        tries = Tries(call=call, give_up_at=self._give_up_at)
        known = asyncio.get_running_loop().create_task(self._send(tries))
        already = self.cancellation
        while not known.done():
            try:
                await asyncio.wait([known])
            except asyncio.CancelledError as cancellation:
                if self.cancellation is not already:  # the second one while we wait
                    self._cut = True
                    known.cancel()
                    raise
                self.cancellation = cancellation
                limit = self._clock.monotonic() + CANCEL_SECONDS
                tries.give_up_at = limit if tries.give_up_at is None else min(limit, tries.give_up_at)
        answer = known.result()
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def _send(self, tries: Tries) -> Response | Exception:
        """An error is returned: of a task that raises one while its loop ends, asyncio says that nobody handled it."""
        while True:
            try:
                delay = await _try(self._transport.send(tries.call), tries, self._clock)
            except asyncio.CancelledError:  # by us, or by a loop that ends and cancels all of its tasks
                if self._cut or not tries.cut_off():
                    raise
                delay = 0.0  # the plan must know what came of it: ask again
            except Exception as error:  # noqa: BLE001 - raised where the task is waited for
                return error
            if isinstance(delay, dict):
                return delay
            await self._clock.sleep_async(delay)
