"""Named leases for event loops; what they give is told in ``lease.py``."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import timedelta
from types import TracebackType
from typing import Any, Self

from .errors import LeaseBusyError, LeaseLostError
from .lease import ONE_TRY, LeaseBase
from .storage import leases
from .worker.contest import NamedTenure


class AioLease(LeaseBase):
    """Made by ``app.aio.lease(...)``. Inside ``async with``, the task is cancelled when the lease is lost.

    The cancellation leaves the block as ``LeaseLostError``. Renewal goes on although the loop is blocked.

    >>> async with app.aio.lease("timeline-refresher", ttl=timedelta(seconds=15)) as lease:  # doctest: +SKIP
    ...     await refresh(lease)
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._guarded: asyncio.Task[Any] | None = None
        self._waiting: set[asyncio.Future[None]] = set()
        self._cancelling = 0
        self._cut = False

    async def acquire(self, *, wait: timedelta | None = ONE_TRY) -> Self:
        """Take the lease, and renew it from now on; see ``Lease.acquire``. Cancelled, it does not keep the lease."""
        driver = await self._parts.loops.get()
        self.begin(await driver.see_through(self._acquire(wait)))
        return self

    def begin(self, tenure: NamedTenure) -> None:
        """Hold what was acquired, and renew it from now on; on the loop."""
        self._loop = asyncio.get_running_loop()
        super().begin(tenure)

    async def try_acquire(self) -> bool:
        """The same in one try: whether it was free."""
        try:
            await self.acquire()
        except LeaseBusyError:
            return False
        return True

    async def release(self) -> bool:
        """Give it up: the name is free at once; see ``Lease.release``."""
        was_valid, tenure = self.is_valid(), self._end()
        if tenure is None:
            return True
        driver = await self._parts.loops.get()
        return await driver.see_through(self._release(tenure, was_valid=was_valid))

    async def wait_lost(self) -> None:
        """Wait until the lease is lost."""
        told: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(told)
        try:
            if not self.lost.is_set():
                await told
        finally:
            self._waiting.discard(told)

    async def __aenter__(self) -> Self:
        """Acquire it, as long as ``wait`` allows."""
        await self.acquire(wait=self._wait)
        task = asyncio.current_task()
        assert task is not None
        self._guarded, self._cut, self._cancelling = task, False, task.cancelling()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Release it.

        Raises:
            LeaseLostError: the block was cancelled for the loss, or ended well and the lease had moved on before.
        """
        task, self._guarded = self._guarded, None
        cut, self._cut = self._cut, False
        was_ours, cancellation = False, error if isinstance(error, asyncio.CancelledError) else None
        try:
            was_ours = await self.release()
        except asyncio.CancelledError as cancelled:  # the release was seen through all the same
            cancellation = cancelled
        if cut and task is not None and task.uncancel() <= self._cancelling and cancellation is not None:
            raise LeaseLostError(leases.lost_message(self.name)) from cancellation
        if cancellation is not None and cancellation is not error:
            raise cancellation
        if error is None and not was_ours:
            raise LeaseLostError(leases.lost_message(self.name))

    def _told(self, _reason: str) -> None:
        self.lost.set()
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop was closed: nobody is left to be told
                self._loop.call_soon_threadsafe(self._on_loop)

    def _on_loop(self) -> None:
        """Tell those on the loop."""
        for told in [told for told in self._waiting if not told.done()]:
            told.set_result(None)
        if self._guarded is not None and not self._cut:
            self._cut = True
            self._guarded.cancel()
        if self._on_lost is not None:
            self._call_back()
