"""Changes of schedules: create, put another definition in force, pause, resume, delete, trigger.

Each is one conditional write of the schedule, after what it owes was settled; then its new mark is put and its old one
deleted. A crash in between is repaired by whoever finds the old mark, or by ``Deployment`` where there was none.
"""

from __future__ import annotations

from collections.abc import Sequence

from pynamodb.expressions.update import Action

from ..clock import to_datetime
from ..errors import ConfigurationError
from ..model.instant import epoch_ms
from ..model.schedule import Schedule
from ..storage import runs, schedules
from ..storage.items import ScheduleRecord
from ..storage.keys import schedules_partition
from .timetable import Timetable, definition_of

MAX_PAST = 8
MAX_CATCH_UP_TICKS = 40


class Rescheduling:
    """The changes, as plans. Where they give ``None``, the schedule has changed meanwhile: look again."""

    def __init__(self, timetable: Timetable) -> None:
        self._timetable = timetable
        self._items = timetable.items
        self._clock = timetable.clock

    async def create(self, schedule: Schedule, *, digest: str | None) -> bool:
        """Put a new schedule; false if there is one of that name. ``digest``: of a definition in code."""
        now_ms, generation = self._clock.now_ms(), self._timetable.unique()
        record: ScheduleRecord = self._items.schedule(
            pk=schedules_partition(self._items.schema),
            sk=schedule.name,
            definition=schedule.to_text(),
            input=schedule.input,
            digest=digest,
            deployed_ms=now_ms,
            generation=generation,
            token=generation,
            queue=schedule.queue,
            shard=self._timetable.shard(schedule.queue, schedule.name),
            last_done_ms=now_ms,
        )
        due = schedule.timing.next_after(to_datetime(now_ms))
        if due is not None:
            record.next_ms = epoch_ms(due)
            record.mark = schedules.mark_key(schedule.name, due_ms=epoch_ms(due), generation=generation, rev=0)
        if not await schedules.create(self._items, record):
            return False
        if due is not None:
            await schedules.place_mark(self._items, record, now_ms=now_ms)
        return True

    async def replace(self, record: ScheduleRecord, schedule: Schedule, *, digest: str | None) -> ScheduleRecord | None:
        """Put another definition in force. What was due under the old one is dealt with first."""
        settled = await self._caught_up(record)
        if settled is None:
            return None
        model, now_ms = self._items.schedule, self._clock.now_ms()
        due = None if settled.paused_ms else schedule.timing.next_after(to_datetime(now_ms))
        actions: list[Action] = [
            model.definition.set(schedule.to_text()),
            model.input.set(schedule.input),
            model.queue.set(schedule.queue),
            model.shard.set(self._timetable.shard(schedule.queue, schedule.name)),
            model.last_done_ms.set(max(now_ms, int(settled.last_done_ms))),
            model.deployed_ms.set(now_ms),
            model.affirmed_ms.remove(),
            model.deleted_ms.remove(),
            model.ttl.remove(),
        ]
        if digest is not None and digest != settled.digest:
            before = [*(settled.past or "").split(), settled.digest or digest]
            past = [one for one in before if one != digest][-MAX_PAST:]
            actions += [model.digest.set(digest), model.past.set(" ".join(past)) if past else model.past.remove()]
        return await self._change(settled, [*actions, *self._timetable.marking(settled, due)])

    async def pause(self, record: ScheduleRecord) -> ScheduleRecord | None:
        """No slot runs from now on."""
        if record.paused_ms:
            return record
        return await self._stop(record, [self._items.schedule.paused_ms.set(self._clock.now_ms())])

    async def resume(self, record: ScheduleRecord) -> ScheduleRecord | None:
        """Slots run again, from the next one on."""
        if not record.paused_ms:
            return record
        model = self._items.schedule
        since_ms = max(self._clock.now_ms(), int(record.last_done_ms))  # a clock that is behind takes no slot back
        due = definition_of(record).timing.next_after(to_datetime(since_ms))
        actions: list[Action] = [model.paused_ms.remove(), model.last_done_ms.set(since_ms)]
        return await self._change(record, [*actions, *self._timetable.marking(record, due)])

    async def delete(self, record: ScheduleRecord, *, ttl: int | None) -> ScheduleRecord | None:
        """No slot runs any more. ``ttl``: when the note of it may go."""
        model = self._items.schedule
        actions: list[Action] = [model.deleted_ms.set(self._clock.now_ms()), model.paused_ms.remove()]
        if ttl is not None:
            actions.append(model.ttl.set(ttl))
        return await self._stop(record, actions)

    async def trigger(self, record: ScheduleRecord) -> str:
        """Start a run now, beside the slots; gives its id."""
        timetable, began = self._timetable, self._clock.monotonic()
        now_ms = self._clock.now_ms()
        born = timetable.born(definition_of(record), to_datetime(now_ms), keyed=False)
        assert born.run is not None
        await runs.start(
            self._items,
            born.run,
            born.mark,
            run_id=born.run_id,
            now_ms=now_ms,
            elapsed_ms=lambda: round((self._clock.monotonic() - began) * 1000),
            page=born.page,
        )
        await schedules.note_run(self._items, record.sk, run_id=born.run_id, slot_ms=now_ms)
        timetable.look_again()
        return born.run_id

    async def _caught_up(self, record: ScheduleRecord) -> ScheduleRecord | None:
        """The schedule with what was due by now dealt with, where its definition can be read here."""
        for _ in range(MAX_CATCH_UP_TICKS):
            if not record.mark or int(record.next_ms) > self._clock.now_ms():
                break
            try:
                definition_of(record)
            except ConfigurationError:
                break
            advanced = await self._timetable.advance(record, due_ms=int(record.next_ms))
            if advanced is None:
                return None
            old = [(schedules.partition_of(self._items, record), record.mark)]
            await self._timetable.settle(advanced, old=old, began=self._clock.monotonic(), fresh=True)
            record = advanced
        return record

    async def _stop(self, record: ScheduleRecord, actions: Sequence[Action]) -> ScheduleRecord | None:
        queue_nothing = self._items.schedule.queued_ms.remove()
        return await self._change(record, [*actions, queue_nothing, *self._timetable.marking(record, None)])

    async def _change(self, record: ScheduleRecord, actions: Sequence[Action]) -> ScheduleRecord | None:
        """Change the schedule, put its new mark, delete its old one. What it owed is done before."""
        if not await schedules.is_settled(self._items, record):
            await self._timetable.settle(record, old=[], began=self._clock.monotonic(), fresh=True)
        written = [*actions, self._items.schedule.owed.remove()]
        changed = await schedules.change(self._items, record, written, token=self._timetable.unique())
        if changed is None:
            return None
        if changed.mark:
            await schedules.place_mark(self._items, changed, now_ms=self._clock.now_ms())
        if record.mark:
            await schedules.delete_mark(self._items, schedules.partition_of(self._items, record), record.mark)
        return changed
