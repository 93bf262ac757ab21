"""Puts the schedules that stand in code into the table, and looks after marks that were never put.

A definition that a schedule has never had takes effect at once: the newest one wins. One that it had before takes
effect when no worker with the one in force is alive any more. So an older version of the code beside a newer one never
flips it back, and a version that was rolled back to comes into force when the other one is gone.
"""

from __future__ import annotations

import logging
from collections.abc import Coroutine
from typing import Any

from ..errors import ConfigurationError, LeaseBusyError, NewerFormatError, PermissionMissingError
from ..log import careful_log
from ..model.schedule import Schedule
from ..storage import schedules, workers
from ..storage.items import ScheduleRecord
from .rescheduling import Rescheduling
from .timetable import Timetable

log = careful_log("dynadurable.schedules")

OVERTAKEN_MS = 600_000  # so long after it was deployed or seen at work a definition is not replaced by an older one
OVERDUE_MS = 60_000  # then the mark is looked for, in case it was never put
MAX_SCHEDULES = 10_000
MAX_LOOKS = 10


class Deployment:
    """The code's schedules, as far as one process knows them; all plans."""

    def __init__(self, timetable: Timetable) -> None:
        self._timetable = timetable
        self._changes = Rescheduling(timetable)
        self._items = timetable.items
        self._clock = timetable.clock

    async def look(self) -> None:
        """Put the code's definitions in force, and look after what is overdue. Only reads, if all is well."""
        ours = self._timetable.registry.schedules
        if not ours and not self._timetable.met:
            return
        stored = await schedules.list_schedules(self._items, limit=MAX_SCHEDULES)
        records = {record.sk: record for record in stored}
        for schedule in ours.values():
            record = records.get(schedule.name)
            if record is None or record.digest != schedule.digest:
                await self._unless_unreadable(schedule.name, self._deploy(schedule))
        for record in stored:
            if record.mark and int(record.next_ms) <= self._clock.now_ms() - OVERDUE_MS:
                await self._unless_unreadable(record.sk, self._heal(record.sk))

    async def _unless_unreadable(self, name: str, plan: Coroutine[Any, Any, None]) -> None:
        try:
            await plan
        except (ConfigurationError, NewerFormatError) as error:
            if isinstance(error, PermissionMissingError):
                raise
            self._timetable.tell_once(logging.WARNING, f"schedule {name!r} is left alone here: {error}")

    async def _deploy(self, schedule: Schedule) -> None:
        """Put the code's definition in force, unless that is done, or a newer one is at work."""
        for _ in range(MAX_LOOKS):
            record = await schedules.read(self._items, schedule.name)
            if record is None:
                if await self._changes.create(schedule, digest=schedule.digest):
                    return
            elif record.digest == schedule.digest:
                return
            elif await self._is_overtaken(record, schedule.digest):
                message = "a newer definition is in force; this one takes effect when no worker with that is left"
                self._timetable.tell_once(logging.INFO, f"schedule {schedule.name!r}: {message}")
                return
            elif await self._changes.replace(record, schedule, digest=schedule.digest) is not None:
                log.info("schedule %r: the definition of this code is in force now", schedule.name)
                return
        raise busy(schedule.name)

    async def _is_overtaken(self, record: ScheduleRecord, digest: str) -> bool:
        if digest not in (record.past or "").split():
            return False
        now_ms = self._clock.now_ms()
        if now_ms - max(int(record.deployed_ms), int(record.affirmed_ms or 0)) < OVERTAKEN_MS:
            return True
        live = await workers.live(self._items, now_ms=now_ms)
        return any(record.digest in (worker.schedules or ()) for worker in live)

    async def _heal(self, name: str) -> None:
        """A mark that should have come due: a crash may have come before it was put."""
        record = await schedules.read(self._items, name)
        if record is not None and not await schedules.is_settled(self._items, record):
            await self._timetable.settle(record, old=[], began=self._clock.monotonic(), fresh=True)


def busy(name: str) -> LeaseBusyError:
    return LeaseBusyError(f"schedule {name!r} changes faster than it can be looked at; try again")
