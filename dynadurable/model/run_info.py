"""What can be told of a run: its state, and what it is made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from . import codec
from .failure import Failure

PENDING = "pending"
RUNNING = "running"
SUCCEEDED = "succeeded"
DEAD = "dead"
CANCELLED = "cancelled"
ENDS = (SUCCEEDED, DEAD, CANCELLED)


@dataclass(frozen=True, kw_only=True, slots=True)
class RunInfo:
    """A run as it stands in the table. Instants are aware, in UTC."""

    run_id: str
    job: str
    queue: str
    state: str
    """``"pending"``, ``"running"``, ``"succeeded"``, ``"dead"`` or ``"cancelled"``."""
    attempts: int = 0
    """Starts of the body so far that count, the running one included."""
    snoozes: int = 0
    due_at: datetime | None = None
    """When it may start, while it has not ended."""
    worker: str | None = None
    """Who works on it, or did last."""
    lease_until: datetime | None = None
    cancel_requested: bool = False
    key: str | None = None
    created_at: datetime | None = None
    ended_at: datetime | None = None
    expires_at: datetime | None = None
    """When what was kept of it may go."""
    build: str | None = None
    """Of an ended run: the version of the code that ended it; else of the code that enqueued it."""
    error: str | None = None
    fingerprint: str | None = None
    failures: Sequence[Failure] = ()
    """The failed attempts, oldest first, bounded."""
    payload: bytes | None = None
    """The arguments as stored; ``arguments()`` decodes them."""
    has_result: bool = False
    has_progress: bool = False
    """Whether it has recorded any: a cursor, or steps."""
    is_workflow: bool = False
    waits_for: Sequence[str] = ()
    """What a parked workflow waits for, in words, such as ``event 'packed'``."""

    @property
    def has_ended(self) -> bool:
        return self.state in ENDS

    def arguments(self) -> dict[str, Any]:
        """The arguments by name, as the body got them.

        Raises:
            PayloadUnreadableError: they cannot be decoded here.
        """
        given: dict[str, Any] = codec.decode(self.payload or b"")
        return given

    def to_record(self) -> dict[str, Any]:
        """Plain JSON values; what is not known is left out."""
        return {
            "run_id": self.run_id,
            "job": self.job,
            "queue": self.queue,
            "state": self.state,
            "attempts": self.attempts,
            **_known(
                snoozes=self.snoozes or None,
                due_at=_text(self.due_at),
                worker=self.worker,
                lease_until=_text(self.lease_until),
                cancel_requested=self.cancel_requested or None,
                key=self.key,
                created_at=_text(self.created_at),
                ended_at=_text(self.ended_at),
                expires_at=_text(self.expires_at),
                build=self.build,
                error=self.error,
                fingerprint=self.fingerprint,
                failures=[failure.to_record() for failure in self.failures] or None,
                has_result=self.has_result or None,
                has_progress=self.has_progress or None,
                is_workflow=self.is_workflow or None,
                waits_for=list(self.waits_for) or None,
            ),
        }


def _known(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _text(instant: datetime | None) -> str | None:
    return None if instant is None else instant.isoformat()
