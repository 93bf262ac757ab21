"""The jobs that this process knows, by name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..errors import ConfigurationError
from .job import Job


class Registry:
    """Jobs by name. A name means one job for ever: it stands in the table."""

    def __init__(self) -> None:
        self._jobs: dict[str, Job[Any, Any]] = {}
        self._kinds: set[bool] = set()

    def add(self, job: Job[Any, Any]) -> None:
        """Register a job.

        Raises:
            ConfigurationError: the name is taken by another function.
        """
        known = self._jobs.get(job.name)
        if known is not None and not _same_function(known, job):
            raise ConfigurationError(
                f"two jobs are called {job.name!r}: {_where(known)} and {_where(job)}; give one of them name="
            )
        self._jobs[job.name] = job
        self._kinds.add(job.is_async)

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
    """True for a module that was imported again, as reloaders and notebooks do."""
    return _where(one) == _where(other)


def _where(job: Job[Any, Any]) -> str:
    return f"{job.function.__module__}.{job.function.__qualname__}"
