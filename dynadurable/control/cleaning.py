"""The cleaner's pass over the table: segment by segment, at a bounded rate, from where the last one stopped."""

from __future__ import annotations

import json
import logging
import math
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from ..errors import ConditionFailedError, ConfigurationError, ItemUnreadableError, PermissionMissingError
from ..model.clean_report import CleanEstimate, CleanReport
from ..operations import Operations
from ..storage import cleaning, formats, table
from ..storage.call import Pause, Several
from ..storage.cleaning import Place
from ..storage.leftovers import KINDS, PAY, REMOVE, RESTORE, STAMP, Terms
from .pace import Pace

log = logging.getLogger("dynadurable.cleaner")

DEFAULT_RATE = 100.0
DEFAULT_READ_RATE = 1_000.0
PAGE_ITEMS = 1_000
SEGMENT_BYTES = 256_000_000
MAX_SEGMENTS = 16
WALKER_RATE = 100.0
"""Deletes a second that one request after the other is good for; for more there are more walkers."""
MAX_WALKERS = 8
SAVE_SECONDS = 10.0
SAVE_REMOVED = 1_000
"""How much is done at most before it is noted how far the pass has come."""

Progress = Callable[[CleanReport], None]
"""Told after each page what was done so far."""


class Holding(Protocol):
    """The lease under which a pass is made."""

    def raise_if_lost(self) -> None:
        """Raises ``LeaseLostError`` if it is not held any more."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CleanSettings:
    """How a pass is made; see ``App.cleaner``."""

    rate: float = DEFAULT_RATE
    read_rate: float = DEFAULT_READ_RATE
    dry_run: bool = False

    def __post_init__(self) -> None:
        for name, value in (("rate", self.rate), ("read_rate", self.read_rate)):
            if not 0 < value < math.inf:
                raise ConfigurationError(f"{name} must be more than 0 units per second, and finite, not {value!r}")


class CleanPlans:
    """What the cleaner can be asked for."""

    def __init__(self, operations: Operations, settings: CleanSettings) -> None:
        self._operations = operations
        self._settings = settings

    async def estimate(self) -> CleanEstimate:
        """What a pass costs, by what DynamoDB says of the table."""
        items = self._operations.items
        described = (await table.describe(items))["Table"]
        try:
            resumes = bool(cleaning.places_of(await cleaning.read_cleaning(items)))
        except ItemUnreadableError:
            resumes = False
        return CleanEstimate(
            items=int(described.get("ItemCount", 0)),
            size_bytes=int(described.get("TableSizeBytes", 0)),
            read_rate=self._settings.read_rate,
            resumes=resumes and not self._settings.dry_run,
        )

    async def run(
        self, lease: Holding | None, stopping: threading.Event | None, progress: Progress | None
    ) -> CleanReport:
        """Make the pass, or go on with one. ``lease`` is ``None`` for a dry run, which writes nothing."""
        walk = Walk(self._operations, self._settings, lease, stopping, progress)
        await walk.begin(await self._segments())
        return await walk.run()

    async def _segments(self) -> int:
        try:
            size_bytes = (await self.estimate()).size_bytes
        except PermissionMissingError:
            size_bytes = 0
        wanted = max(_walkers(self._settings), math.ceil(size_bytes / SEGMENT_BYTES))
        return min(MAX_SEGMENTS, wanted)


class Walk:
    """One pass, as far as this process makes it."""

    def __init__(
        self,
        operations: Operations,
        settings: CleanSettings,
        lease: Holding | None,
        stopping: threading.Event | None,
        progress: Progress | None,
    ) -> None:
        self._items, self._clock = operations.items, operations.clock
        self._settings, self._lease = settings, lease
        self._stopping, self._progress = stopping, progress
        self._writes, self._reads = Pace(settings.rate), Pace(settings.read_rate)
        self._native = True
        self._began_ms = 0
        self._started = self._saved_at = 0.0
        self._saved_count = 0
        self._saves = not settings.dry_run
        self._broken = False
        self._resumed = False
        self._places: list[Place | bool] = []
        self._counts: Counter[str] = Counter()
        self._units: Counter[str] = Counter()
        self._lock = threading.Lock()

    async def begin(self, segments: int) -> None:
        """Find out where to begin, and what is left to the table's own TTL."""
        clock = self._clock
        self._started = self._saved_at = clock.monotonic()
        self._began_ms = clock.now_ms()
        self._native = await table.has_native_ttl(self._items)
        self._places = [None] * segments
        if not self._saves:
            return
        try:
            noted = await cleaning.read_cleaning(self._items)
            places = cleaning.places_of(noted)
        except ItemUnreadableError as error:
            log.warning("%s; this pass cannot be gone on with, should it be stopped", error)
            self._saves = False
            return
        if noted is not None and places:
            self._places, self._began_ms, self._resumed = places, int(noted.began_ms), True

    async def run(self) -> CleanReport:
        """Walk all segments to their ends.

        Raises:
            LeaseLostError: another cleaner has taken over; it goes on from here.
        """
        open_ones = [number for number, place in enumerate(self._places) if place is not True]
        walkers = _walkers(self._settings)
        if walkers == 1 or len(open_ones) == 1:
            for number in open_ones:
                await self._segment(number)
        else:
            outcomes = await Several([self._segment(number) for number in open_ones], limit=walkers)
            for outcome in outcomes:
                if isinstance(outcome, Exception):
                    raise outcome
        await self._save(finished=self.is_finished)
        return self.report()

    @property
    def is_finished(self) -> bool:
        """Whether every segment has been walked to its end."""
        return all(place is True for place in self._places)

    def report(self) -> CleanReport:
        """What was done so far."""
        with self._lock:
            counts, units = Counter(self._counts), Counter(self._units)
        return CleanReport(
            scanned=counts["scanned"],
            ours=counts["ours"],
            newer=counts["newer"],
            damaged=counts["damaged"],
            removed={kind: counts[kind] for kind in KINDS if counts[kind]},
            stamped=counts[STAMP],
            restored=counts[RESTORE],
            left=counts["left"],
            read_units=units["read"],
            write_units=units["write"],
            seconds=self._clock.monotonic() - self._started,
            finished=self.is_finished,
            resumed=self._resumed,
            dry_run=self._settings.dry_run,
        )

    # --- a segment --------------------------------------------------------------------------------

    async def _segment(self, number: int) -> None:
        try:
            while self._places[number] is not True and not self._is_to_stop():
                if not await self._page(number):
                    return
        except BaseException:
            self._broken = True  # the others stop at their next step
            raise

    async def _page(self, number: int) -> bool:
        """Deal with one page; false if it was not dealt with to its end: then the place stays where it was."""
        place = self._places[number]
        assert not isinstance(place, bool)
        await self._pause(self._reads)
        self._check_lease()
        page = await cleaning.look(
            self._items, segment=number, segments=len(self._places), start=place, limit=PAGE_ITEMS
        )
        terms = Terms(now_ms=self._clock.earliest_ms(), native=self._native)
        found = await cleaning.tasks(self._items, page.raws, terms)
        self._reads.spend(page.read_units + found.read_units, now=self._clock.monotonic())
        for error in found.damaged:
            self._skip(error)
        for task in found.tasks:
            if self._is_to_stop():
                return False
            await self._do(task)
        self._add("read", page.read_units + found.read_units, scanned=page.scanned, ours=found.ours, newer=found.newer)
        self._places[number] = page.next_start or True
        if self._is_time_to_save():
            await self._save(finished=False)
        if self._progress is not None:
            self._progress(self.report())
        return True

    async def _do(self, task: cleaning.Task) -> None:
        await self._pause(self._writes)
        self._check_lease()
        try:
            done = await cleaning.carry_out(self._items, task, dry_run=self._settings.dry_run)
        except ItemUnreadableError as error:
            self._skip(error)
            return
        if done.write_units:
            self._writes.spend(done.write_units, now=self._clock.monotonic())
        self._add("write", done.write_units, **{_counted(task, done): 1})

    def _skip(self, error: ItemUnreadableError) -> None:
        """It is left alone, so that the pass comes to its end."""
        formats.warn(error)
        self._add("write", 0.0, damaged=1)

    async def _pause(self, pace: Pace) -> None:
        seconds = pace.wait(now=self._clock.monotonic())
        if seconds > 0:
            await Pause(seconds, self._clock)

    def _is_to_stop(self) -> bool:
        return self._broken or (self._stopping is not None and self._stopping.is_set())

    def _check_lease(self) -> None:
        if self._lease is not None:
            self._lease.raise_if_lost()

    def _add(self, what: str, units: float, **counts: int) -> None:
        with self._lock:
            self._units[what] += units  # type: ignore[assignment]  # a Counter may hold fractions
            self._counts.update(counts)

    # --- noting how far it has come ---------------------------------------------------------------

    def _is_time_to_save(self) -> bool:
        removed = sum(self._counts[kind] for kind in KINDS)
        late = self._clock.monotonic() - self._saved_at >= SAVE_SECONDS
        return late or removed - self._saved_count >= SAVE_REMOVED

    async def _save(self, *, finished: bool) -> None:
        """Note it, unless another cleaner goes on from what was noted."""
        if not self._saves:
            return
        self._check_lease()
        self._saved_at = self._clock.monotonic()
        self._saved_count = sum(self._counts[kind] for kind in KINDS)
        try:
            units = await cleaning.save_cleaning(
                self._items,
                began_ms=self._began_ms,
                places=list(self._places),
                report=json.dumps(self.report().to_record()),
                ended_ms=self._clock.now_ms() if finished else None,
            )
        except ConditionFailedError:
            log.warning("an item that is not dynadurable's lies where the cleaner notes how far it has come")
            self._saves = False
            return
        self._writes.spend(units, now=self._clock.monotonic())
        self._add("write", units)


def _counted(task: cleaning.Task, done: cleaning.Done) -> str:
    """As what it counts."""
    if not done.done:
        return "in order" if task.verdict == RESTORE else "left"
    return task.seen.kind if task.verdict in {REMOVE, PAY} else task.verdict


def _walkers(settings: CleanSettings) -> int:
    """How many segments are walked at a time."""
    return max(1, min(MAX_WALKERS, math.ceil(settings.rate / WALKER_RATE)))
