"""When a schedule's slots are, and what becomes of those that overlap or were missed."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, get_args

from ..errors import ConfigurationError
from .cron import Cron
from .every import Every
from .instant import check_aware, clamp_delay, epoch_ms, shown
from .slots import CatchUp, check_catch_up

Overlap = Literal["allow", "skip", "queue"]
"""When the last slot's run has not ended: ``"allow"`` another beside it, ``"skip"`` the slot, or ``"queue"`` one run to
begin when it has ended (further slots are skipped meanwhile)."""

MAX_JITTER = timedelta(days=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_TICK = timedelta(microseconds=1)
_HASHES = 2**32


@dataclass(frozen=True, kw_only=True)
class Timing:
    """A rule within its bounds, and its policies. Checked when it is made.

    >>> Timing(rule=Cron("0 3 * * *", tz="Europe/Berlin"), overlap="skip").told
    '0 3 * * * Europe/Berlin'

    Raises:
        ConfigurationError: a field that cannot be used.
    """

    rule: Cron | Every
    catch_up: CatchUp = "latest"
    overlap: Overlap = "allow"
    jitter: timedelta = timedelta()
    """Runs are due later than their slots by up to so much, by chance but for each slot the same."""
    start: datetime | None = None
    """No slot lies before it."""
    end: datetime | None = None
    """No slot lies after it."""

    def __post_init__(self) -> None:
        check_catch_up(self.catch_up)
        if self.overlap not in get_args(Overlap):
            raise ConfigurationError(f"overlap must be 'allow', 'skip' or 'queue', not {shown(self.overlap)}")
        if clamp_delay(self.jitter, "jitter", error=ConfigurationError) > MAX_JITTER:
            raise ConfigurationError(f"jitter may be {MAX_JITTER} at most, not {self.jitter}")
        for what, bound in (("start", self.start), ("end", self.end)):
            if bound is not None:
                check_aware(bound, f"the {what}", error=ConfigurationError)
        if self.start is not None and self.end is not None and self.end < self.start:
            raise ConfigurationError(f"the end {self.end.isoformat()} lies before the start {self.start.isoformat()}")

    @classmethod
    def of(
        cls,
        cron: str | None,
        every: timedelta | None,
        tz: str,
        *,
        start: datetime | None = None,
        **policies: Any,
    ) -> Timing:
        """From what users write: either a cron expression or an interval. An interval counts from ``start``.

        Raises:
            ConfigurationError: none or both of them, or a field that cannot be used.
        """
        if (cron is None) == (every is None):
            raise ConfigurationError("give either a cron expression or every=, for instance every=timedelta(minutes=5)")
        if cron is not None:
            return cls(rule=Cron(cron, tz=tz), start=start, **policies)
        if tz != "UTC":
            raise ConfigurationError("every= counts real time, which knows no zones: leave tz= out, or use cron")
        assert every is not None
        return cls(rule=Every(every, start=start), start=start, **policies)

    # --- slots ------------------------------------------------------------------------------------

    def next_after(self, instant: datetime) -> datetime | None:
        """The first slot after an instant, in UTC; ``None`` if there is none any more."""
        if self.start is not None and instant < self.start:
            instant = self.start - _TICK
        slot = self.rule.next_after(instant)
        return None if slot is None or (self.end is not None and slot > self.end) else slot

    def latest_at_or_before(self, instant: datetime) -> datetime | None:
        """The last slot that does not lie after an instant, in UTC; ``None`` if there was none yet."""
        slot = self.rule.latest_at_or_before(instant if self.end is None else min(instant, self.end))
        return None if slot is None or (self.start is not None and slot < self.start) else slot

    def due_ms(self, name: str, slot: datetime) -> int:
        """When the run of a slot is due: the slot, and its share of the jitter."""
        slot_ms = epoch_ms(slot)
        share = zlib.crc32(f"{name} {slot_ms}".encode("utf-8", "surrogatepass"))
        return slot_ms + share * (self.jitter // _MILLISECOND) // _HASHES

    @property
    def told(self) -> str:
        """The rule for people."""
        if isinstance(self.rule, Every):
            return f"every {self.rule.interval}"
        return self.rule.expression if self.rule.tz == "UTC" else f"{self.rule.expression} {self.rule.tz}"

    # --- stored -----------------------------------------------------------------------------------

    def to_record(self) -> dict[str, Any]:
        """What is stored; what is as usual is left out."""
        record: dict[str, Any] = {}
        if isinstance(self.rule, Every):
            record["every"] = self.rule.interval // _MILLISECOND
        else:
            record["cron"] = self.rule.expression
            if self.rule.tz != "UTC":
                record["tz"] = self.rule.tz
        if self.catch_up != "latest":
            record["catch_up"] = self.catch_up
        if self.overlap != "allow":
            record["overlap"] = self.overlap
        if self.jitter:
            record["jitter"] = self.jitter // _MILLISECOND
        for what, bound in (("start", self.start), ("end", self.end)):
            if bound is not None:
                record[what] = (bound - _EPOCH) // _TICK
        return record

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> Timing:
        """The opposite of ``to_record``.

        Raises:
            ConfigurationError: a rule that this version, or this machine's zone database, does not know.
        """
        bounds = {what: _EPOCH + record[what] * _TICK for what in ("start", "end") if what in record}
        every = timedelta(milliseconds=record["every"]) if "every" in record else None
        return cls.of(
            record.get("cron"),
            every,
            record.get("tz", "UTC"),
            catch_up=record.get("catch_up", "latest"),
            overlap=record.get("overlap", "allow"),
            jitter=timedelta(milliseconds=record.get("jitter", 0)),
            **bounds,
        )
