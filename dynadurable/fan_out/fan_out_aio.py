"""The fan-out for event loops: the same pages, the same checkpoints, batches in flight as tasks."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any

from ..drivers.aio import AioDriver
from ..drivers.transports import ClientTransport
from ..errors import ConfigurationError, LeaseLostError
from ..storage.call import Call
from ..worker.context_aio import AsyncJobContext
from ..worker.held import STOPPING
from .fan_out import MAX_OPEN_PAGES
from .items import batches, to_put, write_batch
from .ledger import OpenPage, PageLedger
from .progress import FanOutReport, Progress
from .sources import PageSource, QueryPages, RecipientPage
from .sources_aio import AsyncPageSource, pages_from

LAND_SECONDS = 1.0
"""How long a body that is being cancelled still waits for its batches, so that they need not be written again."""


async def fan_out_async(
    ctx: AsyncJobContext,
    source: QueryPages | AsyncPageSource | PageSource[Any],
    to_item: Callable[[Any], Any] | Callable[[Any], Awaitable[Any]],
    *,
    table: str | None = None,
    client: Any = None,
    in_flight: int = 4,
    name: str = "",
) -> FanOutReport:
    """``fan_out`` for ``async def`` jobs; its promises hold here too.

    ``source`` may be asynchronous (see ``async_iterable_pages``), and so may ``to_item``. ``client``: one of aioboto3
    or aiobotocore for reading and writing, if not the app's.

    >>> @app.job  # doctest: +SKIP
    ... async def deliver(ctx: AsyncJobContext, molt_id: str) -> None:
    ...     await fan_out_async(ctx, followers_of(molt_id), lambda follower: trench_item(follower, molt_id))

    Raises:
        ConfigurationError, InputRefusedError, LeaseLostError, RequestRefusedError, StoreUnavailableError, Interrupted:
            as ``fan_out`` does.
        CancelledError: what is done by then is recorded.
    """
    if in_flight < 1:
        raise ConfigurationError(f"in_flight must be at least 1, not {in_flight!r}")
    progress = Progress.of(ctx, name)
    if progress.finished:
        return progress.report()
    driver = await ctx.loop_driver() if client is None else _with_client(ctx, client)
    flight = _Flight(ctx, driver, progress, table=table, in_flight=in_flight)
    try:
        async with aclosing(pages_from(source, progress.cursor, driver.send)) as pages:
            async for page in pages:
                await flight.write(page, to_item)
        await flight.land()
    except asyncio.CancelledError:
        await flight.land_if_worth_it()
        raise
    except BaseException as error:
        await flight.land(raised=error)
        raise
    finally:
        await flight.end()
    return progress.report()


def _with_client(ctx: AsyncJobContext, client: Any) -> AioDriver:
    return AioDriver(ClientTransport(client, meter=ctx.driver.meter), ctx.clock)


class _Flight:
    """The batches on their way."""

    def __init__(
        self, ctx: AsyncJobContext, driver: AioDriver, progress: Progress, *, table: str | None, in_flight: int
    ) -> None:
        self._ctx = ctx
        self._driver = driver
        self._progress = progress
        self._table = table
        self._limit = in_flight
        self._flying: dict[asyncio.Task[Exception | None], OpenPage] = {}
        self._ledger = PageLedger()

    async def write(self, page: RecipientPage[Any], to_item: Callable[[Any], Any]) -> None:
        """Give the page's batches out as slots come free."""
        while self._ledger.open_pages >= MAX_OPEN_PAGES:
            await self._wait()
        self._ctx.raise_if_stopping()
        opened = self._ledger.open(len(page.recipients), page.cursor)
        items = [item for recipient in page.recipients if (item := await _awaited(to_item(recipient))) is not None]
        for call in batches([to_put(item, table=self._table, default_table=self._ctx.table) for item in items]):
            while len(self._flying) >= self._limit:
                await self._wait()
            if self._ctx.stop_reason != STOPPING:  # a worker that only stops has the time to end a page
                self._ctx.raise_if_stopping()
            self._ledger.give_out(opened)
            self._flying[asyncio.get_running_loop().create_task(self._send(call))] = opened
        self._ledger.close(opened)
        if not opened.left:
            await self._advance()

    async def land(self, *, raised: BaseException | None = None) -> None:
        """Wait for what is on its way and record what is done without a gap; then raise what failed.

        ``raised``: what is being raised already; then what fails besides is logged.
        """
        failed: Exception | None = None
        while self._flying:
            try:
                await self._wait()
            except Exception as error:  # noqa: BLE001 - raised below, or something else is being raised already
                failed = failed or error
        if failed is None or (raised is not None and isinstance(failed, LeaseLostError)):
            return
        if raised is None:
            raise failed
        self._ctx.log.warning("while a fan-out ended, another of its batches failed: %s", failed)

    async def land_if_worth_it(self) -> None:
        """The body is being cancelled: land quickly, unless nobody wants what is done."""
        if self._ctx.stop_reason not in (None, STOPPING):
            return
        try:
            async with asyncio.timeout(LAND_SECONDS):
                await self.land(raised=asyncio.CancelledError())
        except TimeoutError:
            self._ctx.log.info("a fan-out was cancelled with %d batches on their way", len(self._flying))

    async def end(self) -> None:
        """Nothing is left on its way."""
        for task in self._flying:
            task.cancel()
        if self._flying:
            await asyncio.wait(self._flying)

    async def _send(self, call: Call) -> Exception | None:
        """Tried again for as long as the lease stands that we have now: whoever lost it writes nothing more."""
        give_up_at = self._ctx.clock.monotonic() + self._ctx.lease_remaining.total_seconds()
        try:
            await self._driver.run(write_batch(call), give_up_at=give_up_at)
        except Exception as error:  # noqa: BLE001 - raised by whoever waits for the batch
            return error
        return None

    async def _wait(self) -> None:
        """Until a batch has ended."""
        done, _ = await asyncio.wait(self._flying, return_when=asyncio.FIRST_COMPLETED)
        errors = []
        for task in done:
            page, error = self._flying.pop(task), task.result()
            if error is None:
                self._ledger.done(page)
            else:
                errors.append(error)
        await self._advance()
        if errors:
            raise errors[0]

    async def _advance(self) -> None:
        passed = self._ledger.advance()
        cursor = None if passed is None else self._progress.passed(passed, self._ledger)
        if cursor is not None:
            await self._ctx.checkpoint(cursor)
            self._ledger.recorded()


async def _awaited(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value
