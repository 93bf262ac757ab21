"""Dead letters: look at them, bring them back, forget them. The plans; the shells stand in ``dead_letters.py``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from ..errors import ConfigurationError, InputRefusedError, ItemUnreadableError, RunUnknownError
from ..model import codec, instant
from ..model.dead_letter import DeadFilter, DeadGroup, DeadLetter, Grouping
from ..model.replay import FAILED, NEITHER, SUCCEEDED, UNKNOWN, ReplayReport, Tally, Watch
from ..model.run_info import DEAD, RunInfo
from ..operations import MAX_INPUT_BYTES, Operations
from ..storage import dead, formats, items, lookup, runs, workers
from ..storage.call import Pause
from .runs import RunPlans, chosen_queues
from .telling import to_dead_letter

LOOK_SECONDS = 0.5
PATIENCE = timedelta(minutes=1)
"""How long a replay that is to stop after failures waits for the outcome of one it has sent."""

Progress = Callable[[int], None]
"""Told how many letters have been dealt with so far."""
Each = Callable[[items.DeadLetter, DeadLetter], Any]
"""Deals with one letter; a plan that gives false to go no further."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplaySettings:
    """How letters are replayed."""

    dry_run: bool = False
    rate: float | None = None
    stop_after: int | None = None
    arguments: dict[str, Any] | None = None
    patience: timedelta = PATIENCE

    def __post_init__(self) -> None:
        if self.rate is not None and not self.rate > 0:
            raise InputRefusedError(f"rate must be more than 0 runs per second, not {self.rate!r}")
        if self.stop_after is not None and self.stop_after < 1:
            raise InputRefusedError(f"stop_after must be at least 1, not {self.stop_after!r}")


class DeadPlans:
    """What can be done with dead letters."""

    def __init__(self, operations: Operations, run_plans: RunPlans) -> None:
        self._operations = operations
        self._items = operations.items
        self._clock = operations.clock
        self._run_plans = run_plans

    # --- look -------------------------------------------------------------------------------------

    async def latest(self, where: DeadFilter, limit: int) -> list[DeadLetter]:
        """The latest ones that fit."""
        found: list[DeadLetter] = []

        async def keep(_stored: items.DeadLetter, letter: DeadLetter) -> bool:
            found.append(letter)
            if len(found) > 2 * limit:  # no more than so many are held at a time
                found.sort(key=_newest_first)
                del found[limit:]
            return True

        await self._walk(where, keep, looking=True)
        return sorted(found, key=_newest_first)[:limit]

    async def groups(self, where: DeadFilter, progress: Progress | None) -> list[DeadGroup]:
        """Those that fit, by cause."""
        grouping, seen = Grouping(), 0

        async def add(_stored: items.DeadLetter, letter: DeadLetter) -> bool:
            nonlocal seen
            grouping.add(letter)
            seen += 1
            _tell(progress, seen)
            return True

        await self._walk(where, add, looking=True)
        return grouping.groups()

    async def count(self, where: DeadFilter) -> int:
        """How many fit."""
        return sum(group.count for group in await self.groups(where, None))

    async def get(self, run_id: str) -> RunInfo:
        """All that is known of one.

        Raises:
            RunUnknownError: there is no such run, or it is not dead.
        """
        told = await self._run_plans.info(run_id)
        if told.state != DEAD:
            raise RunUnknownError(run_id, f"it is not dead but {told.state}")
        return told

    # --- bring back -------------------------------------------------------------------------------

    async def replay_one(self, run_id: str, settings: ReplaySettings) -> ReplayReport:
        """Bring one back, by its run id; nothing happens if it is not dead any more."""
        tally = Tally(dry_run=settings.dry_run)
        found = await lookup.find(self._items, run_id)
        if found.unreadable:
            raise RunUnknownError(run_id, "it was written by a newer version of dynadurable")
        if found.run is None or runs.is_expired(found.run, self._clock.now_ms()):
            raise RunUnknownError(run_id, "there is no such dead letter")
        edited = self._edited(found.run, settings.arguments)
        if settings.dry_run or found.run.state != DEAD:
            tally.add(run_id, done=found.run.state == DEAD)
        else:
            outcome = await dead.replay(self._items, run_id, None, self._revival(edited))
            tally.add(run_id, done=outcome == dead.REPLAYED)
            self._operations.wake()
        return tally.report()

    async def replay(self, where: DeadFilter, settings: ReplaySettings, progress: Progress | None) -> ReplayReport:
        """Bring back all that fit, the oldest of each shard first."""
        if settings.arguments is not None:
            raise InputRefusedError("arguments can be edited for one run at a time: name its run id")
        tally = Tally(dry_run=settings.dry_run)
        watch = None if settings.stop_after is None or settings.dry_run else Watch(settings.stop_after)

        async def bring_back(_stored: items.DeadLetter, letter: DeadLetter) -> bool:
            if watch is not None and not await self._may_go_on(watch, tally, settings.patience):
                return False
            await self._replay_letter(_stored, letter, tally, watch)
            _tell(progress, tally.matched)
            if settings.rate is not None and not settings.dry_run:
                await Pause(1 / settings.rate, self._clock)
            return True

        await self._walk(where, bring_back, looking=settings.dry_run)
        if not settings.dry_run:
            self._operations.wake()
        tally.failed_again = 0 if watch is None else watch.failed_again
        return tally.report()

    async def _replay_letter(
        self, stored: items.DeadLetter, letter: DeadLetter, tally: Tally, watch: Watch | None
    ) -> None:
        if tally.dry_run:
            tally.add(letter.run_id, done=True)
            return
        revival = self._revival(None)
        try:
            outcome = await dead.replay(self._items, letter.run_id, letter.generation, revival)
        except ItemUnreadableError as error:
            formats.warn(error)
            tally.add(letter.run_id, done=False)
            return
        tally.add(letter.run_id, done=outcome == dead.REPLAYED)
        if outcome != dead.REPLAYED:
            await dead.drop_stale(self._items, stored)
        elif watch is not None:
            watch.sent(letter.run_id, revival.generation)
            self._operations.wake()

    async def _may_go_on(self, watch: Watch, tally: Tally, patience: timedelta) -> bool:
        """Wait until few enough outcomes are open; false if too many were failures, or none comes."""
        give_up_at = self._clock.monotonic() + patience.total_seconds()
        while True:
            for run_id, generation in list(watch.outstanding.items()):
                watch.learnt(run_id, await self._outcome(run_id, generation))
            if watch.has_seen_enough:
                runs_in_a_row = "1 run has" if watch.stop_after == 1 else f"{watch.stop_after} runs in a row have"
                tally.stopped = f"{runs_in_a_row} failed again"
                return False
            if not watch.is_full:
                return True
            if self._clock.monotonic() >= give_up_at:
                tally.stopped = (
                    f"no outcome of {watch.stop_after} replayed runs came within {patience}; is a worker up?"
                )
                return False
            await Pause(LOOK_SECONDS, self._clock)

    async def _outcome(self, run_id: str, generation: str) -> str:
        try:
            run = await runs.read(self._items, run_id)
        except ItemUnreadableError:
            return NEITHER
        if run is None:
            return SUCCEEDED  # only an end that keeps nothing leaves nothing
        if run.generation != generation:
            return NEITHER
        if run.is_live:
            return FAILED if int(run.attempts) > 0 else UNKNOWN  # an attempt counts here once it has failed
        return {items.DEAD: FAILED, items.SUCCEEDED: SUCCEEDED}.get(run.state, NEITHER)

    def _revival(self, edited: tuple[bytes, str | None] | None) -> dead.Revival:
        now_ms = self._clock.now_ms()
        data, digest = (None, None) if edited is None else edited
        return dead.Revival(generation=self._operations.ids.make(now_ms), due_ms=now_ms, input=data, digest=digest)

    def _edited(self, run: items.Run, arguments: dict[str, Any] | None) -> tuple[bytes, str | None] | None:
        """Other arguments for that run, and what a keyed run is compared by."""
        if arguments is None:
            return None
        job = self._operations.registry.get(run.job)
        if job is None:
            raise ConfigurationError(f"job {run.job!r} is not defined here, so its arguments cannot be checked")
        data = job.to_payload((), arguments)
        codec.check_size(data, f"the arguments of {run.job}", MAX_INPUT_BYTES)
        return data, None if run.key is None else job.digest(data)

    # --- forget -----------------------------------------------------------------------------------

    async def purge(self, where: DeadFilter, dry_run: bool, progress: Progress | None) -> ReplayReport:
        """Forget all that fit, runs and letters."""
        tally = Tally(dry_run=dry_run)

        async def forget(stored: items.DeadLetter, letter: DeadLetter) -> bool:
            tally.add(letter.run_id, done=dry_run or await self._purged(stored))
            _tell(progress, tally.matched)
            return True

        await self._walk(where, forget, looking=dry_run)
        return tally.report()

    async def _purged(self, letter: items.DeadLetter) -> bool:
        try:
            return await dead.purge(self._items, letter)
        except ItemUnreadableError as error:
            formats.warn(error)
            return False

    # --- walking ----------------------------------------------------------------------------------

    async def _walk(self, where: DeadFilter, each: Each, *, looking: bool) -> None:
        """Every letter that fits, page by page, up to now: what dies meanwhile is not met.

        ``looking``: without letters of runs whose key was used again, which tell of nothing any more. Whoever acts on
        letters meets these too, and clears them away.
        """
        now_ms = self._clock.now_ms()
        builds = await workers.builds(self._items) if where.before_build is not None else {}
        since = 0 if where.since is None else instant.epoch_ms(where.since)
        until = now_ms if where.until is None else min(now_ms, instant.epoch_ms(where.until))
        span = dead.Span(since_ms=max(0, since), until_ms=max(0, until))
        for queue in await chosen_queues(self._operations, where.queue):
            for shard, first in await dead.nonempty_shards(self._items, queue, span=span, now_ms=now_ms):
                page = first
                while await self._walk_page(page, queue, where, builds, each, looking):
                    if page.next_start is None:
                        break
                    page = await dead.page(self._items, queue, shard, span=span, now_ms=now_ms, start=page.next_start)
                else:
                    return

    async def _walk_page(
        self,
        page: dead.Page,
        queue: str,
        where: DeadFilter,
        builds: Mapping[str, int],
        each: Each,
        looking: bool,
    ) -> bool:
        """False if it is to go no further."""
        told = [(stored, to_dead_letter(stored, queue)) for stored in page.letters]
        fitting = {stored.sk: (stored, letter) for stored, letter in told if where.matches(letter, builds)}
        if looking:
            standing = await dead.standing(self._items, [stored for stored, _ in fitting.values()])
            fitting = {stored.sk: fitting[stored.sk] for stored in standing}
        for stored, letter in fitting.values():
            if not await each(stored, letter):
                return False
        return True


def _newest_first(letter: DeadLetter) -> tuple[float, str]:
    return (-letter.died_at.timestamp(), letter.run_id)


def _tell(progress: Progress | None, count: int) -> None:
    if progress is not None:
        progress(count)
