"""Interval schedules: the same distance between all slots, in real time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from ..errors import ConfigurationError
from .instant import check_aware, clamp_delay
from .slots import slots_between

MIN_INTERVAL = timedelta(seconds=1)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


@dataclass(frozen=True)
class Every:
    """A slot each ``interval``, counted from ``start``, or from 1970 where none is given. Exact, and without zones.

    With a start, it is the first slot. It is taken to the millisecond, as instants are stored.

    >>> Every(timedelta(minutes=90)).next_after(datetime(2027, 1, 15, 12, tzinfo=UTC)).isoformat()
    '2027-01-15T13:30:00+00:00'

    Raises:
        ConfigurationError: an interval below a second or with parts of milliseconds, or a naive start.
    """

    interval: timedelta
    start: datetime | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        interval = clamp_delay(self.interval, "the interval", error=ConfigurationError)
        if interval < MIN_INTERVAL:
            raise ConfigurationError(f"the interval must be at least one second, not {interval.total_seconds():g} s")
        if interval % _MILLISECOND:
            raise ConfigurationError(f"the interval must be whole milliseconds, not {interval.total_seconds():f} s")
        object.__setattr__(self, "interval", interval)
        if self.start is not None:
            since = check_aware(self.start, "the start", error=ConfigurationError) - _EPOCH
            try:
                object.__setattr__(self, "start", _EPOCH + since // _MILLISECOND * _MILLISECOND)
            except OverflowError:
                raise ConfigurationError("the start lies outside the years 1 to 9999 of UTC") from None

    def next_after(self, instant: datetime) -> datetime | None:
        """The first slot after an instant, in UTC; ``None`` at the end of the calendar.

        Raises:
            InputRefusedError: a naive datetime.
        """
        since = check_aware(instant, "the instant") - (self.start or _EPOCH)
        if self.start is not None and since < timedelta():
            return self.start
        return self._slot(since // self.interval + 1)

    def latest_at_or_before(self, instant: datetime) -> datetime | None:
        """The last slot that does not lie after an instant, in UTC; ``None`` before the start.

        Raises:
            InputRefusedError: a naive datetime.
        """
        since = check_aware(instant, "the instant") - (self.start or _EPOCH)
        if self.start is not None and since < timedelta():
            return None
        return self._slot(since // self.interval)

    def slots_between(self, after: datetime, until: datetime) -> Iterator[datetime]:
        """Every slot after the one and not after the other instant, in order."""
        return slots_between(self, after, until)

    def _slot(self, number: int) -> datetime | None:
        try:
            return (self.start or _EPOCH) + number * self.interval
        except OverflowError:
            return None
