"""Schedules at run time: create, change, pause, resume, trigger, delete, list."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

from ..clock import to_datetime
from ..errors import (
    ConfigurationError,
    InputRefusedError,
    PayloadUnreadableError,
    ScheduleExistsError,
    ScheduleUnknownError,
)
from ..model import codec
from ..model.instant import check_aware
from ..model.job import Job
from ..model.schedule import Schedule
from ..model.schedule_info import ACTIVE, OVER, PAUSED, UNREADABLE, ScheduleInfo
from ..model.slots import CatchUp
from ..model.timing import Overlap, Timing
from ..operations import Operations
from ..storage import schedules
from ..storage.items import ScheduleRecord
from ..storage.keys import check_name
from ..worker.deployment import MAX_LOOKS, busy
from ..worker.rescheduling import Rescheduling
from ..worker.timetable import Timetable, definition_of
from .steppers import Stepper

MAX_ARGUMENTS_BYTES = 4_096
"""Each slot's write is billed by the whole item, arguments included."""
KEPT_AFTER_DELETE_SECONDS = 30 * 86_400
DEFAULT_LIMIT = 1_000
MAX_NEXT = 1_000

Change = Callable[[ScheduleRecord], Awaitable[ScheduleRecord | None]]


def make_schedule(
    name: str | None, timing: Timing, job: Job[Any, Any], *, arguments: Mapping[str, Any] | None, queue: str | None
) -> Schedule:
    """A definition, checked.

    Raises:
        ConfigurationError: a name or a job that cannot be scheduled.
        InputRefusedError: arguments that do not fit the job.
    """
    if not isinstance(job, Job):
        raise ConfigurationError(f"a schedule takes a job, made with @app.job or @app.workflow, not {job!r}")
    if replace(job.options, queue=None) != type(job.options)():
        raise ConfigurationError(f"key=, unique_for=, delay= and at= of {job.name!r} are not for a schedule to take")
    payload = job.to_payload((), dict(arguments or {}))
    codec.check_size(payload, f"the arguments of schedule {name or job.name!r}", MAX_ARGUMENTS_BYTES)
    return Schedule(
        name=check_name("a schedule's name", name if name is not None else job.name),
        timing=timing,
        job=job.name,
        queue=check_name("a queue's name", _first_given(queue, job.options.queue, job.queue)),
        input=payload,
        workflow=job.is_workflow,
        keep_seconds=None if job.keep_result is None else round(job.keep_result.total_seconds()),
    )


def _first_given(*names: str | None) -> str:
    return next(name for name in names if name is not None)


class SchedulePlans:
    """What can be asked of schedules and done to them."""

    def __init__(self, operations: Operations) -> None:
        self._items = operations.items
        self._clock = operations.clock
        self._registry = operations.registry
        timetable = Timetable(
            items=operations.items,
            clock=operations.clock,
            ids=operations.ids,
            registry=operations.registry,
            shards_of=lambda queue: operations.queue(queue).shards,
            build=operations.build,
            look_again=operations.wake,
        )
        self._changes = Rescheduling(timetable)

    # --- ask --------------------------------------------------------------------------------------

    async def list(self, limit: int) -> list[ScheduleInfo]:
        found = await schedules.list_schedules(self._items, limit=limit)
        return [self._told(record) for record in found if not record.deleted_ms]

    async def get(self, name: str) -> ScheduleInfo | None:
        record = await schedules.read(self._items, check_name("a schedule's name", name))
        return None if record is None or record.deleted_ms else self._told(record)

    async def next(self, name: str, count: int, after: datetime | None) -> Sequence[datetime]:
        if not 1 <= count <= MAX_NEXT:
            raise InputRefusedError(f"count must be 1 to {MAX_NEXT}, not {count!r}")
        since = to_datetime(self._clock.now_ms()) if after is None else check_aware(after, "after")
        timing = definition_of(await self._existing(name)).timing
        return next_slots(timing, since, count)

    def _told(self, record: ScheduleRecord) -> ScheduleInfo:
        known: dict[str, Any] = {
            "name": record.sk,
            "last_slot": to_datetime(int(record.slot_ms)) if record.slot_ms else None,
            "last_run_id": record.run_id,
            "queued_slot": to_datetime(int(record.queued_ms)) if record.queued_ms else None,
            "skipped": int(record.skipped or 0),
            "from_code": bool(record.digest),
            "paused_at": to_datetime(int(record.paused_ms)) if record.paused_ms else None,
            "deployed_at": to_datetime(int(record.deployed_ms)),
            "queue": record.queue,
        }
        try:
            return ScheduleInfo(**known, **self._defined(record))
        except (ConfigurationError, PayloadUnreadableError) as error:
            told: dict[str, Any] = {**known, "state": UNREADABLE, "rule": str(error), "arguments": {}}
            told |= dict.fromkeys(("tz", "job", "catch_up", "overlap"), "")
            told |= dict.fromkeys(("next_slot", "start", "end"), None)
            return ScheduleInfo(**told, jitter=timedelta())

    def _defined(self, record: ScheduleRecord) -> dict[str, Any]:
        schedule = definition_of(record)
        timing = schedule.timing
        since = max(self._clock.now_ms(), int(record.last_done_ms))
        following = None if record.paused_ms else timing.next_after(to_datetime(since))
        return {
            "state": PAUSED if record.paused_ms else ACTIVE if record.mark else OVER,
            "rule": timing.told,
            "tz": getattr(timing.rule, "tz", "UTC"),
            "job": schedule.job,
            "arguments": codec.decode(schedule.input),
            "next_slot": following,
            "catch_up": timing.catch_up,
            "overlap": timing.overlap,
            "jitter": timing.jitter,
            "start": timing.start,
            "end": timing.end,
        }

    # --- change -----------------------------------------------------------------------------------

    async def create(self, schedule: Schedule) -> ScheduleInfo:
        for _ in range(MAX_LOOKS):
            record = await schedules.read(self._items, schedule.name)
            if record is None:
                await self._changes.create(schedule, digest=None)
            elif not record.deleted_ms:
                raise ScheduleExistsError(schedule.name)
            else:
                await self._changes.replace(record, schedule, digest=None)
            stands = await schedules.read(self._items, schedule.name)
            if stands is not None and not stands.deleted_ms and stands.definition == schedule.to_text():
                return self._told(stands)
        raise busy(schedule.name)

    async def change(
        self,
        name: str,
        rule: tuple[str | None, timedelta | None, str | None],
        arguments: Mapping[str, Any] | None,
        policies: Mapping[str, Any],
    ) -> ScheduleInfo:
        async def changed(record: ScheduleRecord) -> ScheduleRecord | None:
            schedule = definition_of(record)
            timing = _changed_timing(schedule.timing, rule, policies)
            data = schedule.input if arguments is None else self._encoded(schedule, arguments)
            wanted = replace(schedule, timing=timing, input=data)
            return await self._changes.replace(record, wanted, digest=record.digest)

        return self._told(await self._until_done(name, changed))

    def _encoded(self, schedule: Schedule, arguments: Mapping[str, Any]) -> bytes:
        job = self._registry.get(schedule.job)
        given = dict(arguments)  # of a job that is not known here, its worker says whether they fit
        data = codec.encode(given, path=schedule.job) if job is None else job.to_payload((), given)
        codec.check_size(data, f"the arguments of schedule {schedule.name!r}", MAX_ARGUMENTS_BYTES)
        return data

    async def pause(self, name: str) -> None:
        await self._until_done(name, self._changes.pause)

    async def resume(self, name: str) -> None:
        await self._until_done(name, self._changes.resume)

    async def delete(self, name: str) -> None:
        async def deleted(record: ScheduleRecord) -> ScheduleRecord | None:
            ttl = None if record.digest else self._clock.now_ms() // 1000 + KEPT_AFTER_DELETE_SECONDS
            return await self._changes.delete(record, ttl=ttl)

        await self._until_done(name, deleted)

    async def trigger(self, name: str) -> str:
        return await self._changes.trigger(await self._existing(name))

    async def _until_done(self, name: str, change: Change) -> ScheduleRecord:
        for _ in range(MAX_LOOKS):
            changed = await change(await self._existing(name))
            if changed is not None:
                return changed
        raise busy(name)

    async def _existing(self, name: str) -> ScheduleRecord:
        record = await schedules.read(self._items, check_name("a schedule's name", name))
        if record is None or record.deleted_ms:
            raise ScheduleUnknownError(name)
        return record


def next_slots(timing: Timing, after: datetime, count: int) -> list[datetime]:
    """The first slots after an instant, in UTC."""
    return list(islice(_slots(timing, after), count))


def _slots(timing: Timing, after: datetime) -> Any:
    slot = timing.next_after(after)
    while slot is not None:
        yield slot
        slot = timing.next_after(slot)


def _changed_timing(
    timing: Timing, rule: tuple[str | None, timedelta | None, str | None], policies: Mapping[str, Any]
) -> Timing:
    cron, every, tz = rule
    record = timing.to_record()
    kept = replace(timing, **{name: value for name, value in policies.items() if value is not None})
    if cron is None and every is None and tz is None:
        if "every" in record and policies.get("start") is not None:  # an interval counts from its start
            every = timedelta(milliseconds=record["every"])
        else:
            return kept
    if cron is None and every is None:
        cron = record.get("cron")
    new = Timing.of(cron, every, tz or (record.get("tz", "UTC") if cron is not None else "UTC"), start=kept.start)
    return replace(kept, rule=new.rule)


class Schedules:
    """``app.schedules``: what can be done to schedules while everything runs."""

    def __init__(self, plans: SchedulePlans, run: Stepper) -> None:
        self._plans = plans
        self._run = run

    def create(
        self,
        name: str,
        job: Job[Any, Any],
        cron: str | None = None,
        *,
        every: timedelta | None = None,
        tz: str = "UTC",
        arguments: Mapping[str, Any] | None = None,
        start: datetime | None = None,
        end: datetime | None = None,
        jitter: timedelta = timedelta(),
        catch_up: CatchUp = "latest",
        overlap: Overlap = "allow",
        queue: str | None = None,
    ) -> ScheduleInfo:
        """A schedule that stands in no code; see ``App.schedule`` for the options. It begins with its next slot.

        >>> app.schedules.create("nightly", sweep, "0 3 * * *", tz="Europe/Berlin")  # doctest: +SKIP

        Raises:
            ScheduleExistsError: there is one of that name.
            ConfigurationError, InputRefusedError: something that cannot be used.
        """
        timing = Timing.of(cron, every, tz, start=start, end=end, jitter=jitter, catch_up=catch_up, overlap=overlap)
        return self._run(self._plans.create(make_schedule(name, timing, job, arguments=arguments, queue=queue)))

    def change(
        self,
        name: str,
        cron: str | None = None,
        *,
        every: timedelta | None = None,
        tz: str | None = None,
        arguments: Mapping[str, Any] | None = None,
        start: datetime | None = None,
        end: datetime | None = None,
        jitter: timedelta | None = None,
        catch_up: CatchUp | None = None,
        overlap: Overlap | None = None,
    ) -> ScheduleInfo:
        """Change what is given, keep the rest. What was due before is dealt with first; then the next slot counts.

        A schedule that stands in code keeps the change until its definition there becomes another one.

        Raises:
            ScheduleUnknownError: there is none of that name.
            ConfigurationError, InputRefusedError: something that cannot be used.
        """
        policies = {"start": start, "end": end, "jitter": jitter, "catch_up": catch_up, "overlap": overlap}
        return self._run(self._plans.change(name, (cron, every, tz), arguments, policies))

    def pause(self, name: str) -> None:
        """No slot runs until ``resume``; those that pass meanwhile do not run later. What runs goes on.

        Raises:
            ScheduleUnknownError: there is none of that name.
        """
        self._run(self._plans.pause(name))

    def resume(self, name: str) -> None:
        """Go on with the next slot.

        Raises:
            ScheduleUnknownError: there is none of that name.
        """
        self._run(self._plans.resume(name))

    def trigger(self, name: str) -> str:
        """Start a run now, beside the slots, also of a paused schedule; gives its id.

        Raises:
            ScheduleUnknownError: there is none of that name.
        """
        return self._run(self._plans.trigger(name))

    def delete(self, name: str) -> None:
        """No slot runs any more. One that stands in code comes back when its definition there becomes another one.

        Raises:
            ScheduleUnknownError: there is none of that name.
        """
        self._run(self._plans.delete(name))

    def list(self, *, limit: int = DEFAULT_LIMIT) -> Sequence[ScheduleInfo]:
        """All schedules, by name, with their last and next slots; at most ``limit``."""
        return self._run(self._plans.list(limit))

    def get(self, name: str) -> ScheduleInfo | None:
        """The schedule as it stands; ``None`` if there is none of that name."""
        return self._run(self._plans.get(name))

    def next(self, name: str, count: int = 5, *, after: datetime | None = None) -> Sequence[datetime]:
        """The next slots, in UTC, paused or not: from now on, or after an aware instant.

        Raises:
            ScheduleUnknownError: there is none of that name.
        """
        return self._run(self._plans.next(name, count, after))
