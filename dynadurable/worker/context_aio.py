"""What the body of an ``async def`` job is given."""

from __future__ import annotations

import asyncio
import contextlib

from ..drivers.aio import AioDriver
from .context import ContextBase


class AsyncJobContext(ContextBase):
    """Given to an ``async def`` job as its first argument.

    ``stopping`` is a ``threading.Event``: ask it with ``is_set()``, and wait with ``await ctx.wait_stopping()``.

    >>> @app.job  # doctest: +SKIP
    ... async def fan_out(ctx: AsyncJobContext, molt_id: str) -> None:
    ...     async for page in pages_of(molt_id, after=ctx.cursor):
    ...         await write(page)
    ...         await ctx.checkpoint(page.last)
    """

    async def checkpoint(self, cursor: object) -> None:
        """Record how far the body got, and renew the lease, in one write.

        A cancellation that comes meanwhile is raised once it is known whether the write was done.

        Raises:
            PayloadRefusedError: the cursor cannot be stored.
            LeaseLostError: the run is somebody else's now; nothing was recorded, end the body.
        """
        driver = await self.loop_driver()
        await driver.see_through(self._checkpoint(cursor), give_up_at=self._held.deadline)

    async def wait_stopping(self) -> str:
        """Wait until the body should end; gives the reason, see ``stop_reason``.

        >>> done, _ = await asyncio.wait(
        ...     [asyncio.ensure_future(socket.receive()), asyncio.ensure_future(ctx.wait_stopping())],
        ...     return_when=asyncio.FIRST_COMPLETED,
        ... )  # doctest: +SKIP
        """
        loop = asyncio.get_running_loop()
        told: asyncio.Future[str] = loop.create_future()

        def settle(reason: str) -> None:
            if not told.done():
                told.set_result(reason)

        def listener(reason: str) -> None:
            with contextlib.suppress(RuntimeError):  # the loop was closed: nobody waits any more
                loop.call_soon_threadsafe(settle, reason)

        self._held.listen(listener)
        try:
            return await told
        finally:
            self._held.unlisten(listener)

    async def loop_driver(self) -> AioDriver:
        """The driver of the running loop, for requests with its retries."""
        return await self._engine.loop_driver()
