"""A clock that stands still until it is told to go on."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime, timedelta

from ..clock import to_datetime
from ..model.instant import epoch_ms

REAL_WAIT_SECONDS = 0.02
START = datetime(2027, 1, 15, 12, tzinfo=UTC)


class ManualClock:
    """Time travel for tests: ``advance`` makes delays, retries and leases come due without waiting.

    ``skew`` is how far this clock is ahead of the real one that it stands for; two clocks made with ``also`` advance
    together. Threads that wait for an event really wait for it, briefly, and time does not pass by that; ``sleep``
    (back-off between tries of a request) passes time instead of waiting.

    >>> clock = ManualClock()
    >>> clock.advance(timedelta(days=3))
    >>> clock.now()
    datetime.datetime(2027, 1, 18, 12, 0, tzinfo=datetime.timezone.utc)
    """

    def __init__(
        self, start: datetime = START, *, skew: timedelta = timedelta(), also: ManualClock | None = None
    ) -> None:
        self._start_ms: int = epoch_ms(start) if also is None else also._start_ms  # noqa: SLF001 - another of its kind
        self._passed: _Passed = also._passed if also is not None else _Passed()  # noqa: SLF001 - as above
        self._skew_ms = skew // timedelta(milliseconds=1)

    def now(self) -> datetime:
        """What this clock shows, aware, in UTC."""
        return to_datetime(self.now_ms())

    def advance(self, by: timedelta) -> None:
        """Let time pass."""
        self._passed.add(by.total_seconds())

    def now_ms(self) -> int:
        return self._start_ms + self._skew_ms + round(self._passed.seconds * 1000)

    def earliest_ms(self) -> int:
        return self.now_ms()

    def latest_ms(self) -> int:
        return self.now_ms()

    def monotonic(self) -> float:
        return self._passed.seconds

    def observe(self, *, sent: float, received: float, date: str | None) -> None:
        """Replies teach this clock nothing."""

    def sleep(self, seconds: float) -> None:
        self._passed.add(max(0.0, seconds))

    async def sleep_async(self, seconds: float) -> None:
        self._passed.add(max(0.0, seconds))
        await asyncio.sleep(0)  # whoever waits on the same loop has a turn

    def wait(self, event: threading.Event, seconds: float) -> bool:
        return event.wait(min(REAL_WAIT_SECONDS, max(0.0, seconds)))


class _Passed:
    """How much time has passed, shared by clocks that go together."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._lock = threading.Lock()

    def add(self, seconds: float) -> None:
        with self._lock:
            self.seconds += seconds
