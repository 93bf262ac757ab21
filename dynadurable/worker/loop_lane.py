"""Where ``async def`` bodies run: tasks on an event loop, the app's own or one in a thread of ours."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

from ..drivers.aio import AioDriver
from .attempt import AttemptPlan, Attempts
from .engine import Engine
from .lane import OnDone, OnFatal, Slots, report

CLOSE_SECONDS = 10.0

MakeDriver = Callable[[], Coroutine[Any, Any, AioDriver]]
"""Makes the driver of an event loop, on that loop."""


class LoopLane:
    """Runs attempts as tasks. The keeper's threads renew: a body that blocks the loop does not lose its lease."""

    is_async = True

    def __init__(
        self,
        engine: Engine,
        attempts: Attempts,
        *,
        concurrency: int,
        make_driver: MakeDriver,
        on_done: OnDone,
        on_fatal: OnFatal,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self.attempts = attempts
        self._engine = engine
        self._slots = Slots(concurrency)
        self._make_driver = make_driver
        self._on_done = on_done
        self._on_fatal = on_fatal
        self._loop = loop
        self._thread: threading.Thread | None = None
        self._driver: asyncio.Task[AioDriver] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._lock = threading.Lock()

    def reserve(self) -> bool:
        return self._slots.reserve()

    def cancel_reservation(self) -> None:
        self._slots.give_back()

    def free_slots(self) -> int:
        return self._slots.free()

    def wait_idle(self, seconds: float) -> bool:
        return self._slots.wait_idle(seconds)

    def submit(self, plan: AttemptPlan) -> None:
        loop = self._running_loop()
        try:
            loop.call_soon_threadsafe(self._begin, plan)
        except RuntimeError:  # the app's loop was closed under us
            plan.close()
            self._slots.give_back()
            raise

    def close(self, *, abandon: bool) -> None:
        """End the tasks and let go of the driver. Not on the loop itself: there use ``aclose``."""
        loop = self._loop
        if loop is None or loop.is_closed():
            return
        future = asyncio.run_coroutine_threadsafe(self.aclose(abandon=abandon), loop)
        future.result(timeout=CLOSE_SECONDS)
        if self._thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            self._thread.join(timeout=CLOSE_SECONDS)

    async def aclose(self, *, abandon: bool) -> None:
        """Cancel what still runs (it is handed back), wait for it, close the driver."""
        tasks = list(self._tasks)
        if abandon:
            for task in tasks:
                task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=CLOSE_SECONDS / 2)
        driver, self._driver = self._driver, None
        if driver is not None:
            await (await driver).close()

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=_run_loop, args=(self._loop,), name="dynadurable-loop", daemon=True
                )
                self._thread.start()
            return self._loop

    def _begin(self, plan: AttemptPlan) -> None:
        task = asyncio.get_running_loop().create_task(self._attempt(plan))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _attempt(self, plan: AttemptPlan) -> None:
        event: str | None = "error"
        try:
            if self._driver is None:
                self._driver = asyncio.get_running_loop().create_task(self._make_driver())
            driver = await asyncio.shield(self._driver)
            event = await driver.run(plan)
        except asyncio.CancelledError:
            event = "handed back"  # by us, at the end of the grace period, or by a body that cancelled itself
            raise
        except BaseException as error:  # noqa: BLE001 - report() passes on what is not ours to swallow
            report(error, self._on_fatal)
        finally:
            plan.close()
            self._slots.give_back()
            self._on_done(event, idle=True)


def _run_loop(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
