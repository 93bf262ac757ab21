"""What can be told of a queue."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueInfo:
    """A queue as it stands in the table. Instants are aware, in UTC."""

    name: str
    paused: bool = False
    paused_at: datetime | None = None
    reason: str | None = None
    """Why it was paused, in the words of whoever did it."""
    waiting: int = 0
    """Due and not started."""
    in_flight: int = 0
    """Held by a worker."""
    delayed: int = 0
    """Not due yet: delayed, or waiting for another attempt."""
    dead: int = 0
    oldest_due_at: datetime | None = None
    """Since when the longest waiting run is due."""
    more: bool = False
    """Counting ended at its limit: each number is a lower bound."""
    workers: int = 0
    """Live workers that serve it."""

    def to_record(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "name": self.name,
            "paused": self.paused,
            "paused_at": None if self.paused_at is None else self.paused_at.isoformat(),
            "reason": self.reason,
            "waiting": self.waiting,
            "in_flight": self.in_flight,
            "delayed": self.delayed,
            "dead": self.dead,
            "oldest_due_at": None if self.oldest_due_at is None else self.oldest_due_at.isoformat(),
            "more": self.more,
            "workers": self.workers,
        }
