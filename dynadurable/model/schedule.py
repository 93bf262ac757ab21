"""A schedule's definition: which job it enqueues with which arguments, and when."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from ..errors import ConfigurationError
from .timing import Timing

DIGEST_CHARACTERS = 16


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """What is in force under a schedule's name."""

    name: str
    timing: Timing
    job: str
    queue: str
    input: bytes
    """The arguments, encoded."""
    workflow: bool = False
    keep_seconds: int | None = None
    """How long each run's result is kept."""

    @property
    def digest(self) -> str:
        """The same for the same definition, in every process and version of the code."""
        hashed = hashlib.sha256(self.to_text().encode())
        hashed.update(b"\0" + self.input)
        return hashed.hexdigest()[:DIGEST_CHARACTERS]

    def to_text(self) -> str:
        """What is stored beside the name and the arguments."""
        record: dict[str, Any] = {"job": self.job, "queue": self.queue, **self.timing.to_record()}
        if self.workflow:
            record["workflow"] = True
        if self.keep_seconds is not None:
            record["keep"] = self.keep_seconds
        return json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=False)

    @classmethod
    def from_text(cls, name: str, text: str, data: bytes) -> Schedule:
        """The opposite of ``to_text``.

        Raises:
            ConfigurationError: it cannot be used by this version, or on this machine.
        """
        try:
            record = json.loads(text)
            return cls(
                name=name,
                timing=Timing.from_record(record),
                job=record["job"],
                queue=record["queue"],
                input=data,
                workflow=bool(record.get("workflow")),
                keep_seconds=record.get("keep"),
            )
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
            raise ConfigurationError(f"the definition of schedule {name!r} cannot be read: {error!r}") from error

    def key_of(self, slot: datetime) -> str:
        """The business key of a slot's run: one run per schedule and slot.

        >>> from datetime import timedelta
        >>> from .every import Every
        >>> timing = Timing(rule=Every(timedelta(hours=1)))
        >>> nightly = Schedule(name="nightly", timing=timing, job="sweep", queue="default", input=b"")
        >>> nightly.key_of(datetime(2027, 1, 15, 12, tzinfo=UTC))
        '!schedule nightly 2027-01-15T12:00:00+00:00'
        """
        return f"!schedule {self.name} {slot.astimezone(UTC).isoformat()}"
