"""What workers say of themselves, once a minute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerInfo:
    """A worker that was seen lately. A hint for people: no lease and no claim depends on it."""

    name: str
    queues: Sequence[str]
    """In the order of their priority."""
    jobs: Sequence[str]
    jobs_left_out: int = 0
    """So many more jobs than are listed."""
    concurrency: int = 0
    """Bodies at once."""
    build: str | None = None
    started_at: datetime
    seen_at: datetime

    def serves(self, queue: str) -> bool:
        return queue in self.queues

    def may_know(self, job: str) -> bool:
        """Whether it knows the job, or may: its list was too long to be kept whole."""
        return job in self.jobs or self.jobs_left_out > 0

    def to_record(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "name": self.name,
            "queues": list(self.queues),
            "jobs": list(self.jobs),
            "jobs_left_out": self.jobs_left_out,
            "concurrency": self.concurrency,
            "build": self.build,
            "started_at": self.started_at.isoformat(),
            "seen_at": self.seen_at.isoformat(),
        }
