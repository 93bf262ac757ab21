"""Finds work: reads the shards of a worker's queues by Query, and says what to try for next, and when to look again.

A poll reads a few items of each shard from the head. Where all of them are due it reads on in larger pages. What is
leased, or belongs to a job that this process does not know, does not hide what lies behind it: the poll goes on for a
bounded number of pages, and the next poll goes on where it stopped.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from ..log import careful_log
from ..model.queue import MAX_SHARDS, Queue
from ..storage import marks
from ..storage.call import Plan
from ..storage.marks import Candidate
from .engine import Engine

log = careful_log("dynadurable.worker")

PROBE_ITEMS = 4  # an idle look at a shard: half a read unit for marks of up to 1 KB
MAX_PAGE_ITEMS = 100  # a page grows while all that was found is taken at once, and shrinks when it goes stale
MAX_PAGES = 10
MIN_INTERVAL = timedelta(seconds=0.2)
MAX_INTERVAL = timedelta(seconds=20)
SHELF_SECONDS = 2.0  # what a poll saw longer ago is not worth a claim
CONTENDED_SECONDS = 5.0
SPREAD = 25  # among how many of the first a worker picks at random when others are at the same queue
RECENT_SECONDS = 5.0  # an eventually consistent read may still show what we have finished
LOW_TURN = 8  # every so many picks the order of queues is turned round, so that a low one does not starve
EXTRA_SHARDS_SECONDS = 900.0
PATIENCE_SECONDS = 30.0  # a poll whose requests fail for so long is given up, and begun anew
PAUSE_SECONDS = 3.0  # how long what is known of a pause counts, and how often a paused queue is looked at


@dataclass(slots=True)
class Shard:
    """Where reading of one shard stands."""

    queue: str
    number: int
    resume: Mapping[str, Any] | None = None
    found_last: bool = False


@dataclass(slots=True)
class Shelf:
    """What the last poll of a queue found, in due order."""

    candidates: list[Candidate] = field(default_factory=list)
    filled_at: float = 0.0


def _anything(_: Candidate) -> bool:
    return True


class Poller:
    """Decides what to try for. One thread polls; others may ``take``, and tell of what was ``lost``."""

    def __init__(
        self,
        engine: Engine,
        queues: Sequence[Queue],
        *,
        dice: random.Random | None = None,
        intervals: tuple[timedelta, timedelta] = (MIN_INTERVAL, MAX_INTERVAL),
    ) -> None:
        self._engine = engine
        self._queues = list(queues)
        self._shards = {queue.name: [Shard(queue.name, n) for n in range(queue.shards)] for queue in queues}
        self._lock = threading.Lock()
        self._shelves = {queue.name: Shelf() for queue in queues}
        self._dice = dice or random.Random()
        self._min, self._max = (interval.total_seconds() for interval in intervals)
        self._interval = self._min
        self._recent: dict[str, float] = {}
        self._contended_until = 0.0
        self._turn = 0
        self._warned: set[str] = set()
        self._extra_at = 0.0
        self._page_items = PROBE_ITEMS
        self._woken = False
        self.next_poll_at = 0.0
        self.next_due_ms: int | None = None
        """The earliest instant at which something that was seen comes due or free, as far as it is known."""
        self.paused: set[str] = set()
        self._pause_known_at: dict[str, float] = {}
        self.passed_over = False
        """Whether the last poll saw something due that was not wanted."""

    @property
    def longest_wait(self) -> float:
        """The longest time between two polls, in seconds."""
        return self._max

    @property
    def unfinished(self) -> bool:
        """Whether the last poll stopped before the end of what is due in some shard, and found nothing until there."""
        return any(shard.resume is not None for shards in self._shards.values() for shard in shards)

    def shards_of(self, queue: str) -> list[int]:
        """Which shards of that queue are looked at: as many as were declared, and those beyond that hold marks."""
        return [shard.number for shard in self._shards[queue]]

    def serves(self, queue: str) -> bool:
        """Whether this worker looks at that queue, and it is not paused as far as is known."""
        return queue in self._shards and queue not in self.paused

    def knows_pause(self, queue: str) -> bool:
        """Whether it was seen lately if that queue is paused."""
        known_at = self._pause_known_at.get(queue)
        return known_at is not None and self._engine.clock.monotonic() - known_at < PAUSE_SECONDS

    def learn_pause(self, queue: str, *, paused: bool) -> None:
        """It was seen just now whether that queue is paused. What was found in a paused one is not tried for."""
        self._pause_known_at[queue] = self._engine.clock.monotonic()
        if not paused:
            self.paused.discard(queue)
            return
        self.paused.add(queue)
        with self._lock:
            self._shelves[queue].candidates = []

    # --- picking ----------------------------------------------------------------------------------

    def take(self, accepts: Callable[[Candidate], bool]) -> Candidate | None:
        """The next mark to try for, of those that a lane would take."""
        with self._lock:
            return self._take(accepts)

    def _take(self, accepts: Callable[[Candidate], bool]) -> Candidate | None:
        now = self._engine.clock.monotonic()
        for name in self._order():
            shelf = self._shelves[name]
            if now - shelf.filled_at > SHELF_SECONDS:
                self._page_items = max(PROBE_ITEMS, self._page_items // 2) if shelf.candidates else self._page_items
                shelf.candidates = []
            index = self._pick(shelf, accepts, now)
            if index is not None:
                chosen = shelf.candidates.pop(index)
                self._recent[chosen.sk] = now + RECENT_SECONDS
                if not shelf.candidates:
                    self._page_items = min(MAX_PAGE_ITEMS, self._page_items * 4)
                    self.next_poll_at = now  # there may be more behind what we saw
                return chosen
        return None

    def _order(self) -> list[str]:
        names = [queue.name for queue in self._queues]
        self._turn += 1
        return names if self._turn % LOW_TURN else names[::-1]

    def _pick(self, shelf: Shelf, accepts: Callable[[Candidate], bool], now: float) -> int | None:
        contended = now < self._contended_until
        fitting: list[int] = []
        for index, candidate in enumerate(shelf.candidates):
            if accepts(candidate):
                fitting.append(index)
                if not contended or len(fitting) == SPREAD:
                    break
        if not fitting:
            return None
        return fitting[self._dice.randrange(len(fitting))] if contended else fitting[0]

    def lost(self) -> None:
        """Another worker was quicker: from now on for a while pick at random, from a fresh look."""
        self._contended_until = self._engine.clock.monotonic() + CONTENDED_SECONDS
        with self._lock:
            for shelf in self._shelves.values():
                shelf.candidates = []
        self.wake()

    def wake(self) -> None:
        """Look again at once, and often for a while: something was enqueued here."""
        self._interval = self._min
        self._woken = True
        self.next_poll_at = 0.0

    # --- looking ----------------------------------------------------------------------------------

    def poll(self, wanted: Callable[[Candidate], bool] = _anything) -> bool:
        """Look at every shard once; true if something that is wanted can be tried for.

        What is not wanted (bodies of a kind for which no slot is free) is kept in mind but does not end the search, so
        that a backlog of one kind does not hide the other.
        """
        now = self._engine.clock.monotonic()
        with self._lock:
            self._recent = {key: until for key, until in self._recent.items() if until > now}
        self.next_due_ms = None
        self._woken = self.passed_over = found = False
        if now >= self._extra_at:
            self._extra_at = now + EXTRA_SHARDS_SECONDS
            self._look_beyond(now)
        for queue in self._queues:
            found = self._poll_queue(queue.name, now, wanted) or found
        self._schedule(found)
        return found

    def _schedule(self, found: bool) -> None:
        clock = self._engine.clock
        self._interval = self._min if found else min(self._max, max(self._min, self._interval * 2))
        wait = self._interval * (0.9 + 0.2 * self._dice.random())
        if self.paused:
            wait = min(wait, PAUSE_SECONDS)
        if self.next_due_ms is not None:
            wait = min(wait, max(0.01, (self.next_due_ms - clock.now_ms()) / 1000))
        self.next_poll_at = 0.0 if self._woken else clock.monotonic() + wait

    def _poll_queue(self, name: str, now: float, wanted: Callable[[Candidate], bool]) -> bool:
        runs = []
        for shard in self._shards[name]:
            run = self._poll_shard(shard, now, wanted)
            if run is None:
                self.learn_pause(name, paused=True)
                return False
            runs.append(run)
        self.learn_pause(name, paused=False)
        horizon = min((last for _, last in runs if last is not None), default=None)
        merged = sorted((candidate for run, _ in runs for candidate in run), key=_due_order)
        if horizon is not None:  # beyond the last item of a full page another shard may hold something earlier
            merged = [candidate for candidate in merged if _due_order(candidate) <= horizon]
        with self._lock:
            shelf = self._shelves[name]
            shelf.candidates, shelf.filled_at = merged, now
        hits = sum(map(wanted, merged))
        self.passed_over = self.passed_over or hits < len(merged)
        return hits > 0

    def _poll_shard(
        self, shard: Shard, now: float, wanted: Callable[[Candidate], bool]
    ) -> tuple[list[Candidate], tuple[int, str] | None] | None:
        """What can be tried for, and the place of the last item seen if there may be more; ``None``: it is paused."""
        clock = self._engine.clock
        now_ms, free_before_ms = clock.now_ms(), clock.earliest_ms()
        found: list[Candidate] = []
        hits, gap_at = 0, None
        start: Mapping[str, Any] | None = None
        bulk = shard.found_last
        last: tuple[int, str] | None = None
        for page_number in range(MAX_PAGES):
            page = self._read(
                marks.poll(
                    self._engine.items,
                    queue=shard.queue,
                    shard=shard.number,
                    limit=min(MAX_PAGE_ITEMS, self._page_items << page_number) if bulk else PROBE_ITEMS,
                    until_ms=now_ms if bulk else None,
                    start=start,
                ),
                now,
            )
            if page.paused:
                return None
            before = len(found)
            all_due = self._sort_out(page.candidates, found, now, now_ms, free_before_ms)
            hits += sum(map(wanted, found[before:]))
            start = page.next_start
            last = _due_order(page.candidates[-1]) if page.candidates else last
            if start is None or not all_due:
                shard.resume, shard.found_last = None, bool(found)
                return _without_gap(found, gap_at, wanted), None
            if hits >= PROBE_ITEMS and (bulk or page_number > 0):
                break
            if bulk and page_number == 0 and not hits and shard.resume is not None:
                start, gap_at = shard.resume, len(found)  # nothing at the head: go on where the last poll stopped
            bulk = True
        shard.resume, shard.found_last = (None if hits else start), True
        return _without_gap(found, gap_at, wanted), last if found else None

    def _read(self, plan: Plan[marks.Page], now: float) -> marks.Page:
        """One page for the poll that began at ``now``. Each one is a beat: a slow store is no worker that hangs."""
        page = self._engine.driver.run(plan, give_up_at=now + PATIENCE_SECONDS)
        self._engine.heartbeat.beat()
        return page

    def _sort_out(
        self, seen: Sequence[Candidate], found: list[Candidate], now: float, now_ms: int, free_before_ms: int
    ) -> bool:
        """Add what can be tried for to ``found``; false once something is not due yet."""
        for candidate in seen:
            if candidate.due_ms > now_ms:
                self._note_due(candidate.due_ms)
                return False
            if not candidate.readable:
                self._warn_once(
                    f"item {candidate.sk!r} is unreadable, perhaps of a newer version of dynadurable; left alone"
                )
            elif candidate.lease_until_ms is not None and candidate.lease_until_ms >= free_before_ms:
                self._note_due(candidate.lease_until_ms)
                if candidate.token is not None and self._recent.get(candidate.sk, 0.0) <= now:
                    self._contended_until = now + CONTENDED_SECONDS
            elif not self._engine.knows(candidate.job):
                self._warn_once(
                    f"no job {candidate.job!r} is known here; its runs stay pending for a worker that knows it"
                )
            elif self._recent.get(candidate.sk, 0.0) <= now:
                found.append(candidate)
        return True

    def _note_due(self, instant_ms: int) -> None:
        if self.next_due_ms is None or instant_ms < self.next_due_ms:
            self.next_due_ms = instant_ms

    def _warn_once(self, message: str) -> None:
        if message not in self._warned and len(self._warned) < 1000:
            self._warned.add(message)
            log.warning("%s", message)

    def _look_beyond(self, now: float) -> None:
        """Marks in shards beyond the number set here: it was lowered, or an enqueuer knows a higher one."""
        for queue in self._queues:
            known = self._shards[queue.name]
            for number in range(queue.shards, MAX_SHARDS):
                if any(shard.number == number for shard in known):
                    continue
                plan = marks.poll(self._engine.items, queue=queue.name, shard=number, limit=2, until_ms=None)
                if self._read(plan, now).candidates:
                    log.warning(
                        "queue %r has marks in shard %d, beyond its %d shards", queue.name, number, queue.shards
                    )
                    known.append(Shard(queue.name, number))


def _without_gap(found: list[Candidate], gap_at: int | None, wanted: Callable[[Candidate], bool]) -> list[Candidate]:
    """Behind a part that was not read, only what is wanted: the rest would be tried for before what lies in the gap."""
    if gap_at is None:
        return found
    return found[:gap_at] + [candidate for candidate in found[gap_at:] if wanted(candidate)]


def _due_order(candidate: Candidate) -> tuple[int, str]:
    """By due time, then in the order of enqueueing."""
    return candidate.due_ms, candidate.order
