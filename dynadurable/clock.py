"""The only file that reads the time.

Conditions in DynamoDB have no server time, and the clock of a worker may be minutes off. So the clock is calibrated
against the ``Date`` header of DynamoDB's own replies: a reply made at server second ``D`` arrived between two readings
of the monotonic clock, which bounds ``server time - monotonic`` from both sides. Intersecting many such intervals gives
a bound far below one second, and the machine's wall clock no longer matters.

Instants inside the library are whole milliseconds since 1970-01-01T00:00Z, as stored in the table.
"""

from __future__ import annotations

import asyncio
import email.utils
import functools
import os
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

from .forks import renew_after_fork

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FIRST, LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
DRIFT_PER_SECOND = 1e-4  # how fast a calibration loses worth: crystals drift by less than 100 millionths
UNCALIBRATED_MARGIN_SECONDS = 1.0
MAX_STAND_MS = 2_000  # a better estimate may be earlier than the last by this much; a clock that was set, by more


class Clock(Protocol):
    """What the library asks of a clock."""

    def now_ms(self) -> int:
        """The best estimate of DynamoDB's time."""
        ...

    def earliest_ms(self) -> int:
        """A lower bound of DynamoDB's time: what has lapsed by this has lapsed."""
        ...

    def latest_ms(self) -> int:
        """An upper bound of DynamoDB's time: a lease counted from this is never shorter than promised."""
        ...

    def monotonic(self) -> float:
        """Seconds from an arbitrary origin that never go back."""
        ...

    def observe(self, *, sent: float, received: float, date: str | None) -> None:
        """Learn from a reply: monotonic seconds before sending and after receiving, and its ``Date`` header."""

    def sleep(self, seconds: float) -> None:
        """Wait."""

    async def sleep_async(self, seconds: float) -> None:
        """Wait, on an event loop."""

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Wait for the event for at most so long; true if it is set."""
        ...


class SystemClock:
    """The machine's clock, calibrated by the replies of DynamoDB.

    While the calibration gets better, ``now_ms`` may stand still but does not go back: what this process has marked as
    due now stays due.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._shown_ms = 0
        self._low: float | None = None
        self._high = 0.0
        self._at = 0.0
        renew_after_fork(self)

    def after_fork(self) -> None:
        self._lock = threading.Lock()

    def now_ms(self) -> int:
        low, high = self._bounds()
        estimate_ms = round((low + high) * 500)
        with self._lock:
            if not estimate_ms < self._shown_ms <= estimate_ms + MAX_STAND_MS:
                self._shown_ms = estimate_ms
            return self._shown_ms

    def earliest_ms(self) -> int:
        return int(self._bounds()[0] * 1000)

    def latest_ms(self) -> int:
        return int(self._bounds()[1] * 1000) + 1

    def monotonic(self) -> float:
        return time.monotonic()

    def observe(self, *, sent: float, received: float, date: str | None) -> None:
        second = _http_date(date) if date else None
        if second is None:
            return
        low, high = second - received, second + 1 - sent
        with self._lock:
            self._widen(received)
            if self._low is None or low > self._high or high < self._low:
                self._low, self._high = low, high  # first sight, or a clock was set: begin anew
            else:
                self._low, self._high = max(low, self._low), min(high, self._high)

    def sleep(self, seconds: float) -> None:
        time.sleep(max(0.0, seconds))

    async def sleep_async(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, seconds))

    def wait(self, event: threading.Event, seconds: float) -> bool:
        return event.wait(max(0.0, seconds))

    def _bounds(self) -> tuple[float, float]:
        now = time.monotonic()
        with self._lock:
            if self._low is None:
                wall = time.time()
                return wall - UNCALIBRATED_MARGIN_SECONDS, wall + UNCALIBRATED_MARGIN_SECONDS
            self._widen(now)
            return now + self._low, now + self._high

    def _widen(self, now: float) -> None:
        if self._low is not None and now > self._at:
            slack = (now - self._at) * DRIFT_PER_SECOND
            self._low -= slack
            self._high += slack
        self._at = max(now, self._at)


def machine_ms() -> int:
    """What this machine's own clock says, uncorrected: to tell how far it is off."""
    return round(time.time() * 1000)


def http_date_ms(text: str) -> int | None:
    """The instant that a ``Date`` header tells, to the second; ``None`` for other text."""
    second = _http_date(text)
    return None if second is None else round(second * 1000)


@functools.lru_cache(maxsize=8)
def _http_date(text: str) -> float | None:
    try:
        return email.utils.parsedate_to_datetime(text).timestamp()
    except (TypeError, ValueError, OverflowError):
        return None


class UniqueIds:
    """Sortable unique text: 10 characters of time, 12 that grow within a millisecond and start at random.

    Two ids made by one process sort in the order in which they were made; a forked child starts its own sequence.

    >>> ids = UniqueIds(); ids.make(0) < ids.make(0)
    True
    """

    _ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last_ms = -1
        self._tail = 0
        renew_after_fork(self)

    def after_fork(self) -> None:
        self._lock, self._last_ms = threading.Lock(), -1

    def make(self, now_ms: int) -> str:
        """A new id of 22 characters."""
        with self._lock:
            if now_ms > self._last_ms:
                self._last_ms, self._tail = now_ms, int.from_bytes(os.urandom(7), "big")
            else:
                self._tail += 1  # a clock that stood still or went back: the order of making still holds
            return self._base32(self._last_ms, 10) + self._base32(self._tail, 12)

    @classmethod
    def made_ms(cls, unique: str) -> int | None:
        """When an id was made, in milliseconds since 1970; ``None`` for other text.

        >>> UniqueIds.made_ms(UniqueIds().make(1_800_014_400_000))
        1800014400000
        """
        if len(unique) != 22 or not set(unique) <= set(cls._ALPHABET):
            return None
        made_ms = 0
        for digit in unique[:10]:
            made_ms = made_ms << 5 | cls._ALPHABET.index(digit)
        return made_ms

    def _base32(self, number: int, width: int) -> str:
        digits = []
        for _ in range(width):
            digits.append(self._ALPHABET[number & 31])
            number >>= 5
        return "".join(reversed(digits))


def to_datetime(instant_ms: int) -> datetime:
    """An aware UTC datetime from stored milliseconds; what lies beyond the calendar is its first or last instant.

    >>> to_datetime(1_800_014_400_000).isoformat()
    '2027-01-15T12:00:00+00:00'
    """
    try:
        return EPOCH + timedelta(milliseconds=instant_ms)
    except OverflowError:
        return LAST if instant_ms > 0 else FIRST
