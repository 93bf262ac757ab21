"""Dead letters as people look at them: one, those that fit a filter, and groups of the same cause."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ..errors import InputRefusedError
from .instant import check_aware

MAX_NAMES = 20
"""Jobs and builds that a group lists."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DeadLetter:
    """A dead run, with what one looks for in a list."""

    run_id: str
    job: str
    queue: str
    died_at: datetime
    attempts: int
    error: str
    """Type and message of the last failure, cut short."""
    fingerprint: str
    """The same for failures of the same cause."""
    build: str | None
    """The version of the code that failed."""
    generation: str
    """Which life of the run it was."""

    def to_record(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "run_id": self.run_id,
            "job": self.job,
            "queue": self.queue,
            "died_at": self.died_at.isoformat(),
            "attempts": self.attempts,
            "error": self.error,
            "fingerprint": self.fingerprint,
            "build": self.build,
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class DeadFilter:
    """Which letters are meant: those that fit all that is given; without anything, all.

    ``fingerprint`` may be its beginning. ``before_build`` means: died of a build that was started before that one, or
    of an unknown one. ``since`` and ``until`` are aware.

    >>> DeadFilter(job="mail").wants_queue("any")
    True
    """

    queue: str | None = None
    job: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    fingerprint: str | None = None
    build: str | None = None
    before_build: str | None = None
    run_id: str | None = None

    def __post_init__(self) -> None:
        for name in ("since", "until"):
            if getattr(self, name) is not None:
                check_aware(getattr(self, name), name)
        if self.build is not None and self.before_build is not None:
            raise InputRefusedError("give either build= or before_build=, not both")

    def wants_queue(self, queue: str) -> bool:
        return self.queue is None or queue == self.queue

    def matches(self, letter: DeadLetter, builds: Mapping[str, int]) -> bool:
        """Whether it is meant. ``builds``: when each known build was first started."""
        return (
            self.wants_queue(letter.queue)
            and (self.job is None or letter.job == self.job)
            and (self.since is None or letter.died_at >= self.since)
            and (self.until is None or letter.died_at <= self.until)
            and (self.fingerprint is None or letter.fingerprint.startswith(self.fingerprint))
            and (self.build is None or letter.build == self.build)
            and (self.run_id is None or letter.run_id == self.run_id)
            and (self.before_build is None or is_before(letter.build, self.before_build, builds))
        )


def is_before(build: str | None, other: str, builds: Mapping[str, int]) -> bool:
    """Whether a build is older than another one, by when their first workers were started.

    Names of builds have no order of their own. One that no worker was seen of is taken for older than all that were,
    except for ``other`` itself: if that was never started, everything else came before it.

    >>> is_before("v1", "v2", {"v1": 100, "v2": 200}), is_before("v3", "v2", {"v2": 200, "v3": 300})
    (True, False)
    """
    if build is None:
        return True
    if build == other:
        return False
    if other not in builds:
        return True
    return builds.get(build, -1) < builds[other]


@dataclass(frozen=True, kw_only=True, slots=True)
class DeadGroup:
    """Letters of one cause."""

    fingerprint: str
    count: int
    error: str
    """Of the latest of them."""
    jobs: Sequence[str]
    builds: Sequence[str]
    first_at: datetime
    last_at: datetime
    example: str
    """The run id of the latest of them."""

    def to_record(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "fingerprint": self.fingerprint,
            "count": self.count,
            "error": self.error,
            "jobs": list(self.jobs),
            "builds": list(self.builds),
            "first_at": self.first_at.isoformat(),
            "last_at": self.last_at.isoformat(),
            "example": self.example,
        }


class Grouping:
    """Collects letters into groups, one by one, keeping the groups only."""

    def __init__(self) -> None:
        self._groups: dict[str, DeadGroup] = {}

    def add(self, letter: DeadLetter) -> None:
        known = self._groups.get(letter.fingerprint)
        latest = known is None or letter.died_at >= known.last_at
        self._groups[letter.fingerprint] = DeadGroup(
            fingerprint=letter.fingerprint,
            count=1 if known is None else known.count + 1,
            error=letter.error if known is None or latest else known.error,
            jobs=_with(() if known is None else known.jobs, letter.job),
            builds=_with(() if known is None else known.builds, letter.build),
            first_at=letter.died_at if known is None else min(known.first_at, letter.died_at),
            last_at=letter.died_at if known is None else max(known.last_at, letter.died_at),
            example=letter.run_id if known is None or latest else known.example,
        )

    def groups(self) -> list[DeadGroup]:
        """The largest first."""
        return sorted(self._groups.values(), key=lambda group: (-group.count, group.fingerprint))


def grouped(letters: Iterable[DeadLetter]) -> list[DeadGroup]:
    """Letters by their cause, the largest group first."""
    grouping = Grouping()
    for letter in letters:
        grouping.add(letter)
    return grouping.groups()


def _with(names: Sequence[str], name: str | None) -> Sequence[str]:
    return names if name is None or name in names or len(names) == MAX_NAMES else (*names, name)
