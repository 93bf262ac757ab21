"""A schedule as it is told to people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from . import codec
from .payload_text import payload_text

ACTIVE = "active"
PAUSED = "paused"
OVER = "over"
UNREADABLE = "unreadable"


@dataclass(frozen=True, kw_only=True, slots=True)
class ScheduleInfo:
    """A schedule as it stood when it was read."""

    name: str
    state: str
    """``"active"``, ``"paused"``, ``"over"`` (no slot is left), or ``"unreadable"`` for this process."""
    rule: str
    """The cron expression and its zone, or the interval; for one that is unreadable, why."""
    tz: str
    job: str
    queue: str
    arguments: Mapping[str, Any]
    next_slot: datetime | None
    """The next slot, as far as is known now; not of one that is paused."""
    last_slot: datetime | None
    """The last slot that ran, or the instant at which a run was triggered by hand."""
    last_run_id: str | None
    queued_slot: datetime | None
    """The slot that waits for the end of the last run."""
    skipped: int
    """Slots that did not run: missed ones, and those that overlapped."""
    catch_up: str
    overlap: str
    jitter: timedelta
    start: datetime | None
    end: datetime | None
    from_code: bool
    """Whether a definition in code stands behind it."""
    paused_at: datetime | None
    deployed_at: datetime
    """When what is in force was put in force."""

    def to_record(self) -> dict[str, Any]:
        """Plain JSON values; the arguments as text."""
        return {
            "name": self.name,
            "state": self.state,
            "rule": self.rule,
            "tz": self.tz,
            "job": self.job,
            "queue": self.queue,
            "arguments": payload_text(codec.encode(dict(self.arguments), path="arguments")),
            "next_slot": _text(self.next_slot),
            "last_slot": _text(self.last_slot),
            "last_run_id": self.last_run_id,
            "queued_slot": _text(self.queued_slot),
            "skipped": self.skipped,
            "catch_up": self.catch_up,
            "overlap": self.overlap,
            "jitter_seconds": self.jitter.total_seconds(),
            "start": _text(self.start),
            "end": _text(self.end),
            "from_code": self.from_code,
            "paused_at": _text(self.paused_at),
            "deployed_at": _text(self.deployed_at),
        }


def _text(instant: datetime | None) -> str | None:
    return None if instant is None else instant.isoformat()
