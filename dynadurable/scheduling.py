"""``@app.schedule``: a part of ``App``."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Concatenate, ParamSpec, TypeVar, cast, overload

from .control.schedules import make_schedule
from .errors import ConfigurationError
from .model.job import AsyncJob, Job
from .model.registry import Registry
from .model.retry import Retry
from .model.slots import CatchUp
from .model.timing import Overlap, Timing
from .worker.context import JobContext
from .worker.context_aio import AsyncJobContext

Params = ParamSpec("Params")
Returned = TypeVar("Returned")
JobType = TypeVar("JobType", bound=Job[Any, Any])


class ScheduleDefinitions:
    """Defines schedules in an app's registry."""

    registry: Registry

    def schedule(
        self,
        cron: str | None = None,
        /,
        *,
        every: timedelta | None = None,
        tz: str = "UTC",
        name: str | None = None,
        arguments: Mapping[str, Any] | None = None,
        start: datetime | None = None,
        end: datetime | None = None,
        jitter: timedelta = timedelta(),
        catch_up: CatchUp = "latest",
        overlap: Overlap = "allow",
        queue: str | None = None,
        retry: Retry | None = None,
        keep_result: timedelta | None = None,
        keep_failed: timedelta | None = None,
    ) -> ScheduleDecorator:
        """Run a job or a workflow by the clock. Of a plain function it makes a job first, with the job's options.

        Either a ``cron`` expression (five fields, in the zone ``tz``) or ``every``, which counts real time from
        ``start``, or from 1970. ``name`` is the schedule's (default: the job's). ``arguments`` of the job, by name.
        No slot lies before ``start`` or after ``end``. ``jitter`` delays each run by up to so much. ``catch_up``: of
        the slots that nobody was there for, run the ``"latest"``, ``"all"`` or ``"none"``. ``overlap``, while the last
        run has not ended: ``"allow"`` another, ``"skip"`` the slot, or ``"queue"`` one run to begin after it.

        Each slot gets one run, however many workers there are; the body can ask ``ctx.slot``. The schedule is put into
        the table when a worker starts, and a changed one takes effect then.

        >>> @app.schedule("*/5 * * * *", tz="Europe/Berlin", overlap="skip")  # doctest: +SKIP
        ... def refresh(ctx: JobContext) -> None: ...
        >>> @app.schedule(every=timedelta(hours=1))  # doctest: +SKIP
        ... @app.job(queue="night")
        ... def sweep() -> None: ...

        Raises:
            ConfigurationError: an expression, a zone or an option that cannot be used; a name that is taken.
            InputRefusedError: arguments that do not fit the job.
        """
        timing = Timing.of(cron, every, tz, start=start, end=end, jitter=jitter, catch_up=catch_up, overlap=overlap)
        options = {"retry": retry, "keep_result": keep_result, "keep_failed": keep_failed}
        return ScheduleDecorator(
            app=self, timing=timing, name=name, arguments=arguments, queue=queue, job_options=options
        )


@dataclass(frozen=True, kw_only=True)
class ScheduleDecorator:
    """What ``app.schedule(...)`` gives: takes a function or a job, gives the job."""

    app: ScheduleDefinitions
    timing: Timing
    name: str | None
    arguments: Mapping[str, Any] | None
    queue: str | None
    job_options: Mapping[str, Any]

    @overload
    def __call__(self, job: JobType, /) -> JobType: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[AsyncJobContext, Params], Coroutine[Any, Any, Returned]], /
    ) -> AsyncJob[Params, Returned]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[JobContext, Params], Returned], /) -> Job[Params, Returned]: ...
    @overload
    def __call__(self, function: Callable[Params, Coroutine[Any, Any, Returned]], /) -> AsyncJob[Params, Returned]: ...
    @overload
    def __call__(self, function: Callable[Params, Returned], /) -> Job[Params, Returned]: ...
    def __call__(self, function: Any, /) -> Any:
        """Register the schedule."""
        job = function if isinstance(function, Job) else self._job_of(function)
        given = sorted(option for option, value in self.job_options.items() if value is not None)
        if job is function and given:
            raise ConfigurationError(f"{', '.join(given)} of job {job.name!r} stand in its own decorator")
        schedule = make_schedule(self.name, self.timing, job, arguments=self.arguments, queue=self.queue)
        self.app.registry.add_schedule(schedule, job.function)
        return job

    def _job_of(self, function: Any) -> Job[Any, Any]:
        options = {option: value for option, value in self.job_options.items() if value is not None}
        if self.queue is not None:
            options["queue"] = self.queue
        made: Job[Any, Any] = cast(Any, self.app).job(**options)(function)
        return made
