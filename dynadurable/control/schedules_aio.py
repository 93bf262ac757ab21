"""Schedules at run time, for event loops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from ..model.job import Job
from ..model.schedule_info import ScheduleInfo
from ..model.slots import CatchUp
from ..model.timing import Overlap, Timing
from .schedules import DEFAULT_LIMIT, SchedulePlans, make_schedule
from .steppers import AioStepper


class AioSchedules:
    """``app.aio.schedules``: ``Schedules`` for event loops."""

    def __init__(self, plans: SchedulePlans, run: AioStepper) -> None:
        self._plans = plans
        self._run = run

    async def create(
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
        """A schedule that stands in no code; see ``Schedules.create``."""
        timing = Timing.of(cron, every, tz, start=start, end=end, jitter=jitter, catch_up=catch_up, overlap=overlap)
        return await self._run(self._plans.create(make_schedule(name, timing, job, arguments=arguments, queue=queue)))

    async def change(
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
        """Change what is given, keep the rest; see ``Schedules.change``."""
        policies = {"start": start, "end": end, "jitter": jitter, "catch_up": catch_up, "overlap": overlap}
        return await self._run(self._plans.change(name, (cron, every, tz), arguments, policies))

    async def pause(self, name: str) -> None:
        """No slot runs until ``resume``; see ``Schedules.pause``."""
        await self._run(self._plans.pause(name))

    async def resume(self, name: str) -> None:
        """Go on with the next slot; see ``Schedules.resume``."""
        await self._run(self._plans.resume(name))

    async def trigger(self, name: str) -> str:
        """Start a run now, beside the slots; see ``Schedules.trigger``."""
        return await self._run(self._plans.trigger(name))

    async def delete(self, name: str) -> None:
        """No slot runs any more; see ``Schedules.delete``."""
        await self._run(self._plans.delete(name))

    async def list(self, *, limit: int = DEFAULT_LIMIT) -> Sequence[ScheduleInfo]:
        """All schedules, by name; see ``Schedules.list``."""
        return await self._run(self._plans.list(limit))

    async def get(self, name: str) -> ScheduleInfo | None:
        """The schedule as it stands; see ``Schedules.get``."""
        return await self._run(self._plans.get(name))

    async def next(self, name: str, count: int = 5, *, after: datetime | None = None) -> Sequence[datetime]:
        """The next slots; see ``Schedules.next``."""
        return await self._run(self._plans.next(name, count, after))
