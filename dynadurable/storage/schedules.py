"""Plans about schedule items and their marks.

The item holds what is done (the last slot dealt with) and names the schedule's one mark; the mark lies among the marks
of the queue, due at the next slot. A tick writes in this order, and a crash anywhere in it is repaired by whoever finds
the old mark, which goes last:

1. *advance*: the item, if it is as it was read. It names the slots whose runs are now *owed*, and the next mark. Of
   several workers one gets here.
2. the owed runs, each under a key of schedule and slot, so that a repeat meets the run that is there
3. the next mark, if it is absent. So that mark is there only if nothing is owed any more.
4. the old mark is deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from pynamodb.expressions.condition import Condition
from pynamodb.expressions.update import Action

from ..clock import to_datetime
from ..errors import ConditionFailedError
from ..model.instant import epoch_ms
from . import formats, marks, requests
from .births import place_of
from .items import Items, ScheduleRecord
from .keys import mark_sort_key, queue_partition, schedules_partition

SCHEDULE_JOB = "!schedule"
"""What a schedule's mark names as its job. A worker that does not know it leaves the mark alone."""
_RUN_PREFIX = f"{SCHEDULE_JOB}@"
PAGE_ITEMS = 200


def name_of(run_id: str) -> str:
    """The schedule that a mark belongs to."""
    return run_id.removeprefix(_RUN_PREFIX)


def mark_key(name: str, *, due_ms: int, generation: str, rev: int) -> str:
    """The sort key of a schedule's mark: another one for each revision of the schedule."""
    return mark_sort_key(due_ms, _RUN_PREFIX + name, place=place_of(generation, rev))


def partition_of(items: Items, record: ScheduleRecord) -> str:
    """Where the schedule's mark lies."""
    return queue_partition(items.schema, record.queue, int(record.shard))


# --- the item -------------------------------------------------------------------------------------


async def read(items: Items, name: str) -> ScheduleRecord | None:
    """The schedule as it stands; one that was deleted is there for a while, as a note that it is.

    Raises:
        NewerFormatError: a newer version of this library has written it.
    """
    reply = await requests.get(items.schedule, schedules_partition(items.schema), name)
    raw = formats.checked(reply.get("Item"), f"schedule {name!r}")
    return items.schedule.from_raw_data(dict(raw)) if raw else None


async def list_schedules(items: Items, *, limit: int, consistent: bool = False) -> list[ScheduleRecord]:
    """All schedules, by name, those that were deleted among them; at most ``limit``."""
    model = items.schedule
    found: list[ScheduleRecord] = []
    start: Mapping[str, Any] | None = None
    while True:
        key = model.pk == schedules_partition(items.schema)
        size = min(PAGE_ITEMS, limit - len(found))
        reply = await requests.query(model, key, limit=size, start=start, consistent=consistent)
        found += formats.models(model, reply.get("Items", ()), "some schedules")
        start = reply.get("LastEvaluatedKey")
        if start is None or len(found) >= limit:
            return found


async def create(items: Items, record: ScheduleRecord) -> bool:
    """Put a new schedule; false if there is one of that name."""
    try:
        await requests.put(record, items.schedule.pk.does_not_exist())
    except ConditionFailedError as error:
        stands = await marks.as_it_stands(items.schedule, record.pk, record.sk, error)
        return stands is not None and stands.token == record.token
    return True


async def change(items: Items, seen: ScheduleRecord, actions: Sequence[Action], *, token: str) -> ScheduleRecord | None:
    """Change a schedule that is as it was seen; ``None`` if it is not: look again.

    ``token`` is of this change alone: by it an own write whose reply was lost is known again.
    """
    model = items.schedule
    written = [*actions, model.rev.set(int(seen.rev) + 1), model.token.set(token)]
    try:
        reply = await requests.update(model, seen.pk, seen.sk, written, _as_seen(items, seen), returning="ALL_NEW")
    except ConditionFailedError as error:
        stands = await marks.as_it_stands(model, seen.pk, seen.sk, error)
        return stands if stands is not None and stands.token == token else None
    return model.from_raw_data(reply["Attributes"])


async def note_run(items: Items, name: str, *, run_id: str, slot_ms: int) -> None:
    """Remember a run that was asked for by hand as the schedule's last one."""
    model = items.schedule
    actions: list[Action] = [model.run_id.set(run_id), model.slot_ms.set(slot_ms)]
    try:
        await requests.update(model, schedules_partition(items.schema), name, actions, model.pk.exists())
    except ConditionFailedError:
        return


def _as_seen(items: Items, seen: ScheduleRecord) -> Condition:
    model = items.schedule
    as_seen: Condition = (model.generation == seen.generation) & (model.rev == seen.rev)
    return as_seen


def to_owed(slots: Iterable[datetime]) -> str:
    """Slots as the item keeps them."""
    return " ".join(str(epoch_ms(slot)) for slot in slots)


def from_owed(owed: str | None) -> list[datetime]:
    """The opposite of ``to_owed``."""
    return [to_datetime(int(slot_ms)) for slot_ms in (owed or "").split()]


# --- its mark -------------------------------------------------------------------------------------


async def place_mark(items: Items, record: ScheduleRecord, *, now_ms: int) -> None:
    """Put the mark that the schedule names, if it is absent."""
    pk = partition_of(items, record)
    await marks.place(items, items.mark(pk=pk, sk=record.mark, job=SCHEDULE_JOB, placed_ms=now_ms))


async def is_settled(items: Items, record: ScheduleRecord) -> bool:
    """Whether nothing is owed any more: its mark, put after all else, is there; or it has none and owes nothing."""
    if not record.mark:
        return not record.owed
    return await marks.read(items, partition_of(items, record), record.mark) is not None


async def delete_mark(items: Items, pk: str, sk: str) -> None:
    """A mark has done its duty, or is of no use. Its key is never used again."""
    await requests.delete(items.mark, pk, sk)
