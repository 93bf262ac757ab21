"""For each recipient of a thing, write one item: page by page, several batches in flight, resumable after any crash."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

from ..drivers.boto3 import Boto3Driver
from ..errors import ConfigurationError, StoreUnavailableError
from ..storage.call import Call, Response
from ..worker.context import ContextBase, JobContext
from .items import BATCH_ITEMS, batch, distinct, to_put
from .ledger import OpenPage, PageLedger
from .sources import PageSource, QueryPages, RecipientPage

MAX_OPEN_PAGES = 2
"""Pages begun beyond the last checkpoint: what a kill repeats is at most so many pages."""
LOG_SECONDS = 5.0
_FORMAT = "fan_out"


@dataclass(frozen=True, kw_only=True, slots=True)
class FanOutReport:
    """What a fan-out did over all its attempts, as far as it is recorded, and where this attempt began."""

    recipients: int
    resumed_after: int


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
    ``None`` to leave the recipient out. ``table``: where to write (default: the app's table). ``client``: a boto3
    client for reading and writing, if not the app's. ``in_flight``: batches on their way at once. ``name``: tells two
    fan-outs of one body apart.

    >>> @app.job  # doctest: +SKIP
    ... def deliver(ctx: JobContext, molt_id: str) -> None:
    ...     fan_out(ctx, followers_of(molt_id), lambda follower: trench_item(follower, molt_id))

    Raises:
        LeaseLostError: the run is somebody else's now.
        StoreUnavailableError: batches could not be written after every retry; the next attempt goes on here.
        Interrupted: the worker stops or the run is cancelled; what is done is recorded.
    """
    state = Progress.of(ctx, name)
    if state.finished:
        return FanOutReport(recipients=state.written, resumed_after=state.written)
    driver = ctx.driver if client is None else Boto3Driver(lambda: client, ctx.clock)
    flight = _Flight(ctx, driver, state, table=table or ctx.table, in_flight=in_flight)
    try:
        for page in _pages(source, state.cursor, driver):
            flight.write(page, to_item)
            if page.cursor is None:
                break
    except BaseException:
        flight.land(raising=False)
        raise
    else:
        flight.land(raising=True)
    state.save_finished()
    return FanOutReport(recipients=state.written, resumed_after=state.resumed_after)


def _pages(source: QueryPages | PageSource[Any], cursor: Any, driver: Boto3Driver) -> Iterator[RecipientPage[Any]]:
    if not isinstance(source, QueryPages):
        yield from source(cursor)
        return
    while True:
        page = source.page(driver.send(source.call(cursor)))
        yield page
        cursor = page.cursor
        if cursor is None:
            return


class Progress:
    """What the run's cursor says about this fan-out; shared by the sync and the async primitive."""

    def __init__(self, ctx: ContextBase, name: str, all_states: dict[str, Any]) -> None:
        state = all_states.get(name, {})
        self._ctx = ctx
        self._name = name
        self._all = all_states
        self.cursor: Any = state.get("after")
        self.written: int = state.get("written", 0)
        self.finished: bool = state.get("finished", False)
        self.resumed_after = self.written
        self._logged_at = ctx.clock.monotonic()

    @classmethod
    def of(cls, ctx: ContextBase, name: str) -> Progress:
        """Read it from the context.

        Raises:
            ConfigurationError: the body also records cursors of its own.
        """
        cursor = ctx.cursor
        if cursor is not None and not (isinstance(cursor, dict) and cursor.keys() == {_FORMAT}):
            raise ConfigurationError(
                "a body that fans out leaves ctx.checkpoint to the fan-out; its cursor is not ours"
            )
        return cls(ctx, name, dict(cursor[_FORMAT]) if cursor else {})

    def passed(self, page: OpenPage, ledger: PageLedger) -> dict[str, Any]:
        """The cursor to record once the pages up to this one are done."""
        self.cursor, self.written = page.cursor, self.resumed_after + ledger.written
        self.finished = page.cursor is None
        self._log()
        return self._record()

    def save_finished(self) -> None:
        """Record the end where the last page did not say that it was the last."""
        if not self.finished and isinstance(self._ctx, JobContext):
            self.finished = True
            self._ctx.checkpoint(self._record())

    def _record(self) -> dict[str, Any]:
        state: dict[str, Any] = {"written": self.written, "after": self.cursor}
        if self.finished:
            state = {"written": self.written, "finished": True}
        return {_FORMAT: {**self._all, self._name: state}}

    def _log(self) -> None:
        now = self._ctx.clock.monotonic()
        if self.finished or now - self._logged_at >= LOG_SECONDS:
            self._logged_at = now
            self._ctx.log.info("fan-out %s: %s recipients written", self._name or self._ctx.job, f"{self.written:,}")


class _Flight:
    """The batches on their way."""

    def __init__(self, ctx: JobContext, driver: Boto3Driver, state: Progress, *, table: str, in_flight: int) -> None:
        if in_flight < 1:
            raise ConfigurationError(f"in_flight must be at least 1, not {in_flight!r}")
        self._ctx = ctx
        self._driver = driver
        self._state = state
        self._table = table
        self._limit = in_flight
        self._pool = ThreadPoolExecutor(max_workers=in_flight, thread_name_prefix="dynadurable-fan-out")
        self._ledger = PageLedger()
        self._flying: dict[Future[Response], OpenPage] = {}

    def write(self, page: RecipientPage[Any], to_item: Callable[[Any], Any]) -> None:
        """Give the page's batches out as slots come free."""
        while self._ledger.open_pages >= MAX_OPEN_PAGES:
            self._wait()
        opened = self._ledger.open(len(page.recipients), page.cursor)
        puts = [to_put(item) for item in map(to_item, page.recipients) if item is not None]
        for first in range(0, len(puts), BATCH_ITEMS):
            self._ctx.raise_if_stopping()
            while len(self._flying) >= self._limit:
                self._wait()
            self._ledger.give_out(opened)
            call = batch(self._table, distinct(puts[first : first + BATCH_ITEMS]))
            self._flying[self._pool.submit(self._send, call)] = opened
        self._ledger.close(opened)
        if not opened.left:
            self._advance()

    def land(self, *, raising: bool) -> None:
        """Wait for what is on its way and record what is done without a gap."""
        try:
            while self._flying:
                try:
                    self._wait()
                except Exception as error:
                    if raising:
                        raise
                    self._ctx.log.warning("fan-out: while ending, a batch failed too: %s", error)
        finally:
            self._pool.shutdown(wait=True, cancel_futures=True)

    def _send(self, call: Call) -> Response:
        reply = self._driver.send(call)
        left = sum(len(items) for items in (reply.get("UnprocessedItems") or {}).values())
        if left:
            raise StoreUnavailableError("BatchWriteItem", f"{left} items were left over after every retry")
        return reply

    def _wait(self) -> None:
        if not self._flying:
            self._advance()
            return
        done, _ = wait(self._flying, return_when=FIRST_COMPLETED)
        failed: BaseException | None = None
        for future in done:
            page = self._flying.pop(future)
            error = future.exception()
            if error is None:
                self._ledger.done(page)
            failed = failed or error
        if failed is not None:
            raise failed
        self._advance()

    def _advance(self) -> None:
        passed = self._ledger.advance()
        if passed is not None:
            self._ctx.checkpoint(self._state.passed(passed, self._ledger))
