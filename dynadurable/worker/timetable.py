"""Schedules at work: what a worker does when a schedule's mark comes due.

No leader is needed, and no claim: of several workers at one mark the first to *advance* the schedule goes on, and what
a crash leaves half done is finished by whoever finds the mark next. ``storage/schedules.py`` has the order of writes.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from pynamodb.expressions.update import Action

from ..clock import Clock, UniqueIds, to_datetime
from ..errors import ConfigurationError, KeyConflictError, LeaseLostError, NewerFormatError
from ..log import careful_log
from ..model.instant import epoch_ms
from ..model.registry import Registry
from ..model.schedule import Schedule
from ..model.tick import Tick, decide
from ..storage import births, runs, schedules
from ..storage.births import Birth, Newborn
from ..storage.items import Items, ScheduleRecord
from ..storage.keys import keyed_run_id
from ..storage.marks import Candidate

log = careful_log("dynadurable.schedules")

TICKED = "scheduled"
REPAIRED = "repaired"
LEFT = "left alone"

SLOT_DIGEST = "slot"  # the same for all: a slot's run is the slot's run, whatever was deployed since
HELD_AT_LEAST = timedelta(days=1)  # no second run of a slot within that time, also after its run has ended
HELD_BEYOND = timedelta(hours=1)  # and not before so long after the next slot
LATE_SECONDS = 300.0  # a worker that was frozen longer leaves the rest of a tick to those who repair it
MAX_TOLD = 1_000


@dataclass(kw_only=True)
class Timetable:
    """The ticks of an app's schedules, as plans."""

    items: Items
    clock: Clock
    ids: UniqueIds
    registry: Registry
    shards_of: Callable[[str], int]
    build: str | None = None
    look_again: Callable[[], None] = lambda: None
    """Called when a run was enqueued that may be due at once."""
    met: bool = False
    """Whether a schedule's mark was met here: then somebody should look after all of them."""
    _told: set[str] = field(default_factory=set)

    async def tick(self, seen: Candidate) -> str | None:
        """Work on a schedule's mark that came due. The event it was; ``None`` if another worker was quicker."""
        self.met = True
        name = schedules.name_of(seen.run_id)
        try:
            return await self._tick(name, seen)
        except (ConfigurationError, NewerFormatError) as error:  # not to be read here; perhaps by another worker
            self.tell_once(logging.WARNING, f"schedule {name!r} is left alone here: {error}")
            return LEFT
        except LeaseLostError as error:
            log.warning("%s", error)
            return REPAIRED

    async def _tick(self, name: str, seen: Candidate) -> str | None:
        began, old = self.clock.monotonic(), [(seen.pk, seen.sk)]
        record = await schedules.read(self.items, name)
        if record is None or record.mark != seen.sk or schedules.partition_of(self.items, record) != seen.pk:
            await self.settle(record, old=old, began=began)
            return REPAIRED
        advanced = await self.advance(record, due_ms=seen.due_ms)
        if advanced is None:
            return None
        await self.settle(advanced, old=old, began=began, fresh=True)
        return TICKED

    # --- advance ----------------------------------------------------------------------------------

    async def advance(self, record: ScheduleRecord, *, due_ms: int) -> ScheduleRecord | None:
        """Decide what is due, and write it down; ``None`` if the schedule is not any more as it was read."""
        schedule = definition_of(record)
        busy = False
        if schedule.timing.overlap != "allow" and record.run_id:
            last = await runs.read(self.items, record.run_id)
            busy = last is not None and last.is_live
        tick = decide(
            schedule.timing,
            last_done=to_datetime(int(record.last_done_ms)),
            queued=to_datetime(int(record.queued_ms)) if record.queued_ms else None,
            now=to_datetime(max(self.clock.now_ms(), due_ms)),  # it is due: whoever looks after the queue has said so
            busy=busy,
        )
        actions = self._advancing(record, schedule, tick)
        return await schedules.change(self.items, record, actions, token=self.unique())

    def _advancing(self, record: ScheduleRecord, schedule: Schedule, tick: Tick) -> list[Action]:
        model = self.items.schedule
        actions: list[Action] = [model.last_done_ms.set(epoch_ms(tick.last_done))]
        if tick.run:
            actions += [
                model.owed.set(schedules.to_owed(tick.run)),
                model.slot_ms.set(epoch_ms(tick.run[-1])),
                model.run_id.set(keyed_run_id(schedule.job, schedule.key_of(tick.run[-1]))),
            ]
        else:
            actions.append(model.owed.remove())
        if tick.queued is not None:
            actions.append(model.queued_ms.set(epoch_ms(tick.queued)))
        elif record.queued_ms:
            actions.append(model.queued_ms.remove())
        if tick.skipped:
            actions.append(model.skipped.add(tick.skipped))
        known = self.registry.schedules.get(schedule.name)
        if known is not None and known.digest == record.digest:
            actions.append(model.affirmed_ms.set(self.clock.now_ms()))
        return [*actions, *self.marking(record, tick.next_due)]

    def marking(self, record: ScheduleRecord, due: datetime | None) -> list[Action]:
        """Name the schedule's next mark, or none."""
        model = self.items.schedule
        if due is None:
            return [model.mark.remove(), model.next_ms.remove()]
        due_ms, rev = epoch_ms(due), int(record.rev) + 1
        key = schedules.mark_key(record.sk, due_ms=due_ms, generation=record.generation, rev=rev)
        return [model.mark.set(key), model.next_ms.set(due_ms)]

    # --- settle -----------------------------------------------------------------------------------

    async def settle(
        self,
        record: ScheduleRecord | None,
        *,
        old: Sequence[tuple[str, str]],
        began: float,
        fresh: bool = False,
    ) -> None:
        """What the schedule owes: its runs, then its mark; then the old marks go. Harmless when done twice.

        Raises:
            LeaseLostError: this process was frozen meanwhile; whoever finds the mark goes on.
        """
        if record is not None and (fresh or not await schedules.is_settled(self.items, record)):
            for slot in schedules.from_owed(record.owed):
                if self.clock.monotonic() - began > LATE_SECONDS:
                    raise LeaseLostError(f"a tick of schedule {record.sk!r} took too long; it is repaired by others")
                await self._start(definition_of(record), slot)
            if record.mark:
                await schedules.place_mark(self.items, record, now_ms=self.clock.now_ms())
            elif record.owed:  # there is no mark any more that could tell that this is done
                forget = [self.items.schedule.owed.remove()]
                await schedules.change(self.items, record, forget, token=self.unique())
        for pk, sk in old:
            await schedules.delete_mark(self.items, pk, sk)

    async def _start(self, schedule: Schedule, slot: datetime) -> None:
        """The slot's run, unless there is one, or was one."""
        born, began = self.born(schedule, slot, keyed=True), self.clock.monotonic()
        assert born.run is not None
        try:
            await runs.start(
                self.items,
                born.run,
                born.mark,
                run_id=born.run_id,
                now_ms=int(born.run.created_ms),
                elapsed_ms=lambda: round((self.clock.monotonic() - began) * 1000),
                page=born.page,
                once=True,
            )
        except KeyConflictError:
            return  # somebody has used this very key for a run of his own
        self.look_again()

    def born(self, schedule: Schedule, slot: datetime, *, keyed: bool) -> Newborn:
        """The items of a run for a slot, or (not ``keyed``) of one beside the slots that is due now."""
        now_ms, unique, key = self.clock.now_ms(), self.unique(), schedule.key_of(slot)
        following = schedule.timing.next_after(slot)
        held_until = to_datetime(now_ms) + HELD_AT_LEAST
        if following is not None:
            held_until = max(held_until, following + HELD_BEYOND)
        birth = Birth(
            job=schedule.job,
            queue=schedule.queue,
            shard=self.shard(schedule.queue, key if keyed else unique),
            due_ms=schedule.timing.due_ms(schedule.name, slot) if keyed else now_ms,
            now_ms=now_ms,
            unique=unique,
            input=schedule.input,
            digest=SLOT_DIGEST if keyed else None,
            key=key if keyed else None,
            unique_until_ms=epoch_ms(held_until) if keyed else None,
            keep_seconds=schedule.keep_seconds,
            build=self.build,
            workflow=schedule.workflow,
            slot_ms=epoch_ms(slot),
        )
        return births.newborn(self.items, birth, needs_run=True)

    # --- small things -----------------------------------------------------------------------------

    def shard(self, queue: str, key: str) -> int:
        """In which of the queue's shards something with that key lies."""
        return zlib.crc32(key.encode("utf-8", "surrogatepass")) % self.shards_of(queue)

    def unique(self) -> str:
        return self.ids.make(self.clock.now_ms())

    def tell_once(self, level: int, message: str) -> None:
        """Log it, the first time."""
        if message not in self._told and len(self._told) < MAX_TOLD:
            self._told.add(message)
            log.log(level, "%s", message)


def definition_of(record: ScheduleRecord) -> Schedule:
    """What is in force.

    Raises:
        ConfigurationError: it cannot be used by this version, or on this machine.
    """
    return Schedule.from_text(record.sk, record.definition, record.input)
