"""For each recipient of a thing, write one item: page by page, several batches in flight, resumable after any crash."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ..drivers.boto3 import Boto3Driver
from ..drivers.replies import whole_replies_only
from ..errors import ConfigurationError, LeaseLostError
from ..storage.call import Call
from ..worker.context import JobContext
from ..worker.held import STOPPING
from .items import batches, to_put, write_batch
from .ledger import OpenPage, PageLedger
from .pool import DaemonPool
from .progress import FanOutReport, Progress
from .sources import PageSource, QueryPages, RecipientPage, pages_from

MAX_OPEN_PAGES = 2
"""Pages begun beyond the last checkpoint: what a kill repeats is at most so many pages."""


def fan_out(
    ctx: JobContext,
    source: QueryPages | PageSource[Any],
    to_item: Callable[[Any], Any],
    *,
    table: str | None = None,
    client: Any = None,
    in_flight: int = 4,
    name: str = "",
) -> FanOutReport:
    """Write ``to_item(recipient)`` for every recipient of ``source``, with BatchWriteItem, 25 at a time.

    Progress is recorded with the run after each page, as far as pages are done without a gap. After a crash, a stop or
    a failure the next attempt goes on there; at most two pages are written again. So the items' keys must come from the
    recipient: then a repeat writes the same item and nobody can tell.

    ``to_item`` gives a PynamoDB model or a dict (plain values, or typed as boto3's low-level client has them), or
    ``None`` to leave the recipient out. ``table``: where to write (default: a model's own table, else the app's).
    ``client``: a boto3 client for reading and writing, if not the app's. ``in_flight``: batches on their way at once.
    ``name``: tells two fan-outs of one body apart.

    >>> @app.job  # doctest: +SKIP
    ... def deliver(ctx: JobContext, molt_id: str) -> None:
    ...     fan_out(ctx, followers_of(molt_id), lambda follower: trench_item(follower, molt_id))

    Raises:
        ConfigurationError: the body records cursors of its own, or has two fan-outs of one name.
        InputRefusedError: ``to_item`` gave what is no item.
        LeaseLostError: the run is somebody else's now.
        RequestRefusedError: DynamoDB does not accept an item.
        StoreUnavailableError: batches could not be written after every retry; the next attempt goes on here.
        Interrupted: the worker stops or the run is cancelled; what is done is recorded.
    """
    if in_flight < 1:
        raise ConfigurationError(f"in_flight must be at least 1, not {in_flight!r}")
    progress = Progress.of(ctx, name)
    if progress.finished:
        return progress.report()
    driver = ctx.driver if client is None else _with_client(ctx, client)
    flight = _Flight(ctx, driver, progress, table=table, in_flight=in_flight)
    try:
        for page in pages_from(source, progress.cursor, driver.send):
            flight.write(page, to_item)
    except BaseException:
        flight.land(raising=False)
        raise
    flight.land(raising=True)
    return progress.report()


def _with_client(ctx: JobContext, client: Any) -> Boto3Driver:
    careful = whole_replies_only(client)
    return Boto3Driver(lambda: careful, ctx.clock, ctx.driver.meter)


class _Flight:
    """The batches on their way."""

    def __init__(
        self, ctx: JobContext, driver: Boto3Driver, progress: Progress, *, table: str | None, in_flight: int
    ) -> None:
        self._ctx = ctx
        self._driver = driver
        self._progress = progress
        self._table = table
        self._limit = in_flight
        self._pool: DaemonPool[OpenPage] = DaemonPool(in_flight, name="dynadurable-fan-out")
        self._ledger = PageLedger()

    def write(self, page: RecipientPage[Any], to_item: Callable[[Any], Any]) -> None:
        """Give the page's batches out as slots come free."""
        while self._ledger.open_pages >= MAX_OPEN_PAGES:
            self._wait()
        self._ctx.raise_if_stopping()
        opened = self._ledger.open(len(page.recipients), page.cursor)
        items = [item for item in map(to_item, page.recipients) if item is not None]
        for call in batches([to_put(item, table=self._table, default_table=self._ctx.table) for item in items]):
            while self._pool.flying >= self._limit:
                self._wait()
            if self._ctx.stop_reason != STOPPING:  # a worker that only stops has the time to end a page
                self._ctx.raise_if_stopping()
            self._ledger.give_out(opened)
            self._pool.submit(partial(self._send, call), opened)
        self._ledger.close(opened)
        if not opened.left:
            self._advance()

    def land(self, *, raising: bool) -> None:
        """Wait for what is on its way and record what is done without a gap; then raise what failed, or log it."""
        failed: Exception | None = None
        while self._pool.flying:
            try:
                self._wait()
            except Exception as error:  # noqa: BLE001 - raised below, or something else is being raised already
                failed = failed or error
        self._pool.close()
        if failed is None or (not raising and isinstance(failed, LeaseLostError)):
            return
        if raising:
            raise failed
        self._ctx.log.warning("while a fan-out ended, another of its batches failed: %s", failed)

    def _send(self, call: Call) -> None:
        """Tried again for as long as the lease stands that we have now: whoever lost it writes nothing more."""
        give_up_at = self._ctx.clock.monotonic() + self._ctx.lease_remaining.total_seconds()
        self._driver.run(write_batch(call), give_up_at=give_up_at)

    def _wait(self) -> None:
        """Until a batch has ended."""
        errors = []
        for page, error in self._pool.ended():
            if error is None:
                self._ledger.done(page)
            else:
                errors.append(error)
        self._advance()
        if errors:
            raise errors[0]

    def _advance(self) -> None:
        passed = self._ledger.advance()
        cursor = None if passed is None else self._progress.passed(passed, self._ledger)
        if cursor is not None:
            self._ctx.checkpoint(cursor)
            self._ledger.recorded()
