"""Instants and spans of time in words."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_UNITS = (("day", 86_400), ("h", 3_600), ("min", 60), ("s", 1))


def span(length: timedelta) -> str:
    """A length of time with its two largest units.

    >>> span(timedelta(seconds=3_725)), span(timedelta(milliseconds=20)), span(timedelta(days=2, hours=5))
    ('1 h 2 min', '0 s', '2 days 5 h')
    """
    left = abs(round(length.total_seconds()))
    parts: list[str] = []
    for name, seconds in _UNITS:
        count, left = divmod(left, seconds)
        if count and len(parts) < 2:
            parts.append(f"{count} {name}{'s' if name == 'day' and count > 1 else ''}")
        elif parts:
            break
    return " ".join(parts) or "0 s"


def relative(instant: datetime, now: datetime) -> str:
    """How far away it is.

    >>> noon = datetime(2027, 1, 15, 12, tzinfo=UTC)
    >>> relative(noon + timedelta(minutes=5), noon), relative(noon - timedelta(minutes=5), noon)
    ('in 5 min', '5 min ago')
    """
    if abs(instant - now) < timedelta(seconds=1):
        return "now"
    return f"in {span(instant - now)}" if instant > now else f"{span(now - instant)} ago"


def moment(instant: datetime, now: datetime) -> str:
    """An instant, and how far away it is.

    >>> noon = datetime(2027, 1, 15, 12, tzinfo=UTC)
    >>> moment(noon + timedelta(seconds=90), noon)
    '2027-01-15 12:01:30 UTC (in 1 min 30 s)'
    """
    return f"{clock_time(instant)} ({relative(instant, now)})"


def clock_time(instant: datetime) -> str:
    """An instant to the second, in UTC."""
    return f"{instant.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
