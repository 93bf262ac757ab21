"""A workflow's journal as people read it: what happened, when, how often it was tried, and who did it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from .record import BEGAN, CHILD, DONE, Identity, Record

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
CONTROL_SCOPE = "!"


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """One operation of a workflow, as far as it has come."""

    kind: str
    name: str
    scope: str
    number: int
    state: str
    """"done", "failed", or "began": it waits, is retried later, or was interrupted."""
    began_at: datetime
    ended_at: datetime | None = None
    took: timedelta = timedelta()
    """How long its last body ran."""
    tries: int = 0
    worker: str = ""
    wakes_at: datetime | None = None
    child: str | None = None
    """The run id of the child."""
    why: str | None = None
    """For one that failed: what kind of failure."""

    @property
    def label(self) -> str:
        """Its name with the branch it belongs to, and "#2" for a repeat."""
        place = f"{self.scope}/" if self.scope else ""
        return f"{place}{self.name}" + (f"#{self.number}" if self.number > 1 else "")

    def to_record(self) -> dict[str, Any]:
        """Plain JSON values; what is not known is left out."""
        record = {
            "kind": self.kind,
            "name": self.label,
            "state": self.state,
            "began_at": self.began_at.isoformat(),
            "ended_at": self.ended_at.isoformat() if self.ended_at else None,
            "took_seconds": self.took.total_seconds() or None,
            "tries": self.tries or None,
            "worker": self.worker or None,
            "wakes_at": self.wakes_at.isoformat() if self.wakes_at else None,
            "child": self.child,
            "why": self.why,
        }
        return {name: value for name, value in record.items() if value is not None}


def timeline(records: Iterable[Record]) -> list[Event]:
    """The operations of a journal in the order in which they were begun. No value of the user's is decoded."""
    by_identity: dict[Identity, list[Record]] = {}
    for record in records:
        if record.identity.scope != CONTROL_SCOPE:
            by_identity.setdefault(record.identity, []).append(record)
    return [_event(identity, found) for identity, found in by_identity.items()]


def _event(identity: Identity, records: list[Record]) -> Event:
    first, last = records[0], records[-1]
    facts = {name: value for record in records for name, value in record.facts.items()}
    wake_ms = facts.get("wake") or facts.get("next") or facts.get("until")
    began_ms = first.at_ms - (first.took_ms if first.is_end else 0)
    return Event(
        kind=identity.kind,
        name=identity.name,
        scope=identity.scope,
        number=identity.number,
        state="began" if last.phase == BEGAN else "done" if last.phase == DONE else "failed",
        began_at=_at(began_ms),
        ended_at=_at(last.at_ms) if last.is_end else None,
        took=timedelta(milliseconds=last.took_ms),
        tries=last.tries,
        worker=last.worker,
        wakes_at=_at(int(wake_ms)) if wake_ms and not last.is_end else None,
        child=facts.get("run") if identity.kind == CHILD else None,
        why=facts.get("why"),
    )


def _at(instant_ms: int) -> datetime:
    return EPOCH + timedelta(milliseconds=instant_ms)
