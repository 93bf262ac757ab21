"""A schedule as it is told to people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

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
