"""How a workflow's code is left before its end. None is an ``Exception``: ``except Exception`` lets them pass."""

from __future__ import annotations

from collections.abc import Iterable

from ..errors import Suspended


class Parked(Suspended):
    """It waits: until ``wake_ms`` (``None``: a day), or until one of ``topics`` is told to the run."""

    def __init__(self, *, wake_ms: int | None, topics: Iterable[str] = ()) -> None:
        super().__init__("parked")
        self.wake_ms = wake_ms
        self.topics = frozenset(topics)

    @classmethod
    def all_of(cls, parked: Iterable[Parked]) -> Parked:
        """Several branches wait: until the first of them can go on."""
        several = list(parked)
        wakes = [one.wake_ms for one in several if one.wake_ms is not None]
        topics = frozenset().union(*(one.topics for one in several))
        return cls(wake_ms=min(wakes, default=None), topics=topics)


class Halted(Suspended):
    """This attempt cannot go on; ``error`` says why, and whether another one may."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


class JournalLost(Suspended):
    """What was to be recorded may or may not have been: nothing further is done, the next attempt will see."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


class Rewound(Suspended):
    """The code has come to where it failed for good: from here on its compensations run."""


class Abandoned(Suspended):
    """A branch that nobody waits for any more."""
