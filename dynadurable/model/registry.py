"""The jobs that this process knows, by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

from ..errors import ConfigurationError, NameRefusedError
from .job import Job
from .schedule import Schedule

RESERVED = "!"


class Registry:
    """Jobs by name. A name means one job for ever: it stands in the table."""

    def __init__(self) -> None:
        self._jobs: dict[str, Job[Any, Any]] = {}
        self._kinds: set[bool] = set()
        self.schedules: dict[str, Schedule] = {}
        """The schedules that this code defines, by name."""
        self._scheduled: dict[str, Callable[..., Any]] = {}

    def add(self, job: Job[Any, Any]) -> None:
        """Register a job.

        Raises:
            ConfigurationError: the name is taken by another function, or begins with ``!``.
        """
        if job.name.startswith(RESERVED):
            raise NameRefusedError(f"a job's name must not begin with {RESERVED!r}, as {job.name!r} does")
        known = self._jobs.get(job.name)
        if known is not None and not _same_function(known, job):
            raise ConfigurationError(
                f"two jobs are called {job.name!r}: {_where(known)} and {_where(job)}; give one of them name="
            )
        self._jobs[job.name] = job
        self._kinds.add(job.is_async)

    def add_schedule(self, schedule: Schedule, function: Callable[..., Any]) -> None:
        """Register a schedule of a job with that function. A module that was imported again replaces its own.

        Raises:
            ConfigurationError: another one has the name.
        """
        known = self.schedules.get(schedule.name)
        if known is not None and known.job != schedule.job:
            raise ConfigurationError(
                f"two schedules are called {schedule.name!r}, of jobs {known.job!r} and {schedule.job!r}; "
                "give one of them name="
            )
        if known is not None and known.digest != schedule.digest and self._scheduled[schedule.name] is function:
            raise ConfigurationError(
                f"job {schedule.job!r} has two schedules called {schedule.name!r}; give one of them name="
            )
        self.schedules[schedule.name] = schedule
        self._scheduled[schedule.name] = function

    def get(self, name: str) -> Job[Any, Any] | None:
        """The job of that name, if this process knows it."""
        return self._jobs.get(name)

    def has(self, *, is_async: bool) -> bool:
        """Whether any job is an ``async def``, or any is not."""
        return is_async in self._kinds

    def names(self) -> Iterable[str]:
        return sorted(self._jobs)

    def jobs(self) -> Iterable[Job[Any, Any]]:
        return list(self._jobs.values())


def _same_function(one: Job[Any, Any], other: Job[Any, Any]) -> bool:
    """True for a module that was imported again, as reloaders and notebooks do.

    Not for two that were made by one piece of code: methods of two objects, or inner functions that hold other values.
    """
    if _where(one) != _where(other):
        return False
    return _code(one) is not _code(other) or all(map(_same, _held(one), _held(other)))


def _code(job: Job[Any, Any]) -> object:
    return getattr(inspect.unwrap(job.function), "__code__", job.function)


def _held(job: Job[Any, Any]) -> list[object]:
    """What a function was made with, beside its code: its object, its defaults, and what it has closed over."""
    function: Any = inspect.unwrap(job.function)
    cells = getattr(function, "__closure__", None) or ()
    defaults = getattr(function, "__defaults__", None) or ()
    return [getattr(function, "__self__", None), *defaults, *map(_content, cells)]


def _same(one: object, other: object) -> bool:
    try:
        return one is other or bool(one == other)
    except Exception:  # noqa: BLE001 - whatever a stranger's __eq__ raises, such as an array's
        return False


def _content(cell: Any) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return None


def _where(job: Job[Any, Any]) -> str:
    return f"{job.function.__module__}.{job.function.__qualname__}"
