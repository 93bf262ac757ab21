"""Delays and instants as users give them, turned into the whole milliseconds that the table holds.

Everything here is integer arithmetic: no float ever carries a time, and the process's own time zone is never asked.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from ..errors import DynadurableError, InputRefusedError

MAX_DELAY = timedelta(days=36_500)
"""The longest delay, about 100 years. Longer ones are taken as this, so that no sum of times can overflow."""
MAX_DUE_MS = 253_402_300_799_999
"""The last instant that can be stored: 9999-12-31T23:59:59.999Z, in milliseconds since 1970."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def clamp_delay(delay: timedelta, what: str, *, error: type[DynadurableError] = InputRefusedError) -> timedelta:
    """The delay, at most ``MAX_DELAY``. ``what`` names it in the error's message.

    >>> clamp_delay(timedelta(days=999_999_999), "the delay")
    datetime.timedelta(days=36500)

    Raises:
        InputRefusedError: not a timedelta, or negative; ``error`` asks for another class.
    """
    if not isinstance(delay, timedelta):
        raise error(f"{what} must be a timedelta, such as timedelta(seconds=30), not {shown(delay)}")
    if delay < timedelta():
        raise error(f"{what} must not be negative, and is {delay.total_seconds():,.6g} seconds")
    return min(timedelta(days=delay.days, seconds=delay.seconds, microseconds=delay.microseconds), MAX_DELAY)


def check_aware(instant: datetime, what: str, *, error: type[DynadurableError] = InputRefusedError) -> datetime:
    """The instant itself, if it says which instant it is.

    Raises:
        InputRefusedError: not a datetime, or a naive one; ``error`` asks for another class.
    """
    if not isinstance(instant, datetime):
        raise error(f"{what} must be an aware datetime, such as datetime.now(UTC), not {shown(instant)}")
    if instant.utcoffset() is None:
        raise error(
            f"{what} must be an aware datetime: {instant.isoformat()} has no time zone, and none is guessed; "
            "give one, such as tzinfo=datetime.UTC or tzinfo=ZoneInfo('Europe/Berlin')"
        )
    return instant


def epoch_ms(instant: datetime, what: str = "the instant") -> int:
    """Milliseconds since 1970, rounded up, so that nothing is ever due before its instant.

    Exact: half a microsecond is not lost to a float, and the year 9999 in any zone is no overflow.

    >>> epoch_ms(datetime(2027, 1, 15, 12, tzinfo=UTC))
    1800014400000
    >>> epoch_ms(datetime(2027, 1, 15, 12, 0, 0, 1, tzinfo=UTC))
    1800014400001

    Raises:
        InputRefusedError: not an aware datetime.
    """
    return -((_EPOCH - check_aware(instant, what)) // _MILLISECOND)


def due_ms(now_ms: int, *, delay: timedelta | None = None, at: datetime | None = None) -> int:
    """When work is due: after a delay, at an instant, or now. In milliseconds since 1970.

    An instant in the past is due now. A delay is at most ``MAX_DELAY``, an instant at most ``MAX_DUE_MS``.

    >>> due_ms(1_800_014_400_000, delay=timedelta(minutes=5))
    1800014700000

    Raises:
        InputRefusedError: a negative delay, a naive instant, a wrong type, or both delay and instant.
    """
    if delay is not None and at is not None:
        raise InputRefusedError("give either a delay or an instant, not both")
    due = now_ms
    if delay is not None:
        due = now_ms - (-clamp_delay(delay, "the delay") // _MILLISECOND)
    elif at is not None:
        due = epoch_ms(at, "the instant to start at")
    return min(max(due, now_ms), MAX_DUE_MS)


def shown(value: object) -> str:
    """A value and its type for an error's message, however it prints itself."""
    try:
        return f"{value!r:.80} ({type(value).__name__})"
    except Exception:  # noqa: BLE001 - whatever a stranger's __repr__ raises, the message must come out
        return f"a {type(value).__name__}"
