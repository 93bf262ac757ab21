"""A worker inside an event loop: ``async def`` bodies on that loop, everything that may block on threads."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from types import TracebackType
from typing import Self, TypeVar

from ..log import careful_log
from .loop_lane import LoopLane
from .signals import Flag, stop_on_signals
from .worker import SIGNAL_WAIT_SECONDS, StopReport, Worker

log = careful_log("dynadurable.worker")

Result = TypeVar("Result")


class AioWorker:
    """Made by ``app.aio.worker(...)``. Used once, on one event loop.

    ``async def`` jobs run as tasks of that loop, other jobs on threads. Looking for work and renewing leases happen on
    threads too, so that a body that blocks the loop neither loses its lease nor stops the others.

    >>> async with app.aio.worker():  # doctest: +SKIP
    ...     await serve_the_web()
    """

    def __init__(self, worker: Worker, lane: LoopLane) -> None:
        self._worker = worker
        self._lane = lane
        self._hurry = Flag()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, asyncio.CancelledError):
            self._hurry.set()
        report = await self.stop()
        if error is None:
            self._worker.exit_code(report)

    async def run(self) -> int:
        """Work until SIGTERM or SIGINT, then stop gracefully; a second signal stops at once, as a cancellation does.

        Returns the exit code for the process: 0, or 2 if a body would not end within the grace period.

        Raises:
            ConfigurationError: the table is missing, has other keys, or may not be used.
            CancelledError: after what was running has been handed back.
        """
        with stop_on_signals(self._worker.engine.stopping, self._hurry):
            async with self:
                while self._worker.is_running:  # noqa: ASYNC110 - a signal handler can set no event of the loop
                    await asyncio.sleep(SIGNAL_WAIT_SECONDS)
                report = await self.stop()
        return self._worker.exit_code(report)

    async def drain(self, *, timeout: timedelta | None = None) -> datetime | None:  # noqa: ASYNC109 - as in Worker
        """Work until nothing is due, then stop; see ``Worker.drain``.

        Raises:
            ConfigurationError: the table is missing, has other keys, or may not be used.
            CancelledError: after what was running has been handed back.
        """
        await self._settle_on_loop()
        with stop_on_signals(self._worker.engine.stopping, self._hurry):
            return await self._on_thread(lambda: self._worker.work_off(timeout=timeout, hurry=self._hurry))

    async def start(self) -> None:
        """Work in the background. End it with ``await stop()``; ``async with`` does both.

        Raises:
            ConfigurationError: the table is missing, has other keys, or may not be used.
        """
        await self._settle_on_loop()
        try:
            await self._on_thread(self._worker.start)
        except asyncio.CancelledError:
            await self.stop()
            raise

    async def stop(self, *, grace: timedelta | None = None) -> StopReport:
        """Claim nothing more, let bodies end within the grace period, cancel and hand back what has not ended.

        May be called twice. A cancellation ends the grace period early and is raised when everything is handed back.
        """
        return await self._on_thread(lambda: self._worker.stop(grace=grace, hurry=self._hurry))

    def wake(self) -> None:
        """Look for work at once."""
        self._worker.wake()

    async def _settle_on_loop(self) -> None:
        self._lane.use(asyncio.get_running_loop())
        await self._worker.engine.loop_driver()  # what is wrong with it comes out here, and not at the first claim

    async def _on_thread(self, function: Callable[[], Result]) -> Result:
        """Call what blocks on a thread of its own (the loop's pool may be full of others) and see it through.

        A cancellation makes the worker hurry to its end, and is raised after that.
        """
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[Result] = loop.create_future()
        thread = threading.Thread(target=_call, args=(function, ended), name="dynadurable-aio-worker", daemon=True)
        thread.start()
        cancellation: asyncio.CancelledError | None = None
        while not ended.done():
            try:
                await asyncio.wait([ended])
            except asyncio.CancelledError as error:
                cancellation = error
                self._hurry.set()
                self._worker.engine.stopping.set()
        thread.join()  # it has said its last word
        if cancellation is not None:
            if (failed := ended.exception()) is not None:
                log.error("the worker met an error while it was being cancelled", exc_info=failed)
            raise cancellation
        return ended.result()


def _call(function: Callable[[], Result], ended: asyncio.Future[Result]) -> None:
    try:
        result = function()
    except BaseException as error:  # noqa: BLE001 - raised on the loop
        ended.get_loop().call_soon_threadsafe(ended.set_exception, error)
    else:
        ended.get_loop().call_soon_threadsafe(ended.set_result, result)
