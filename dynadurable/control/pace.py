"""Spreads what is spent over time."""

from __future__ import annotations

import threading


class Pace:
    """At most so many units per second, over all who spend at the same time. Thread-safe.

    Each waits until what was spent before it has had its time, so there is no burst, whatever came before.

    >>> pace = Pace(10.0)
    >>> [pace.wait(now=0.0), pace.spend(5.0, now=0.0), pace.wait(now=0.0)]
    [0.0, None, 0.5]
    """

    def __init__(self, per_second: float) -> None:
        self._per_second = per_second
        self._free_at = 0.0
        self._lock = threading.Lock()

    def wait(self, *, now: float) -> float:
        """The seconds to wait before something may be spent; ``now`` is monotonic."""
        with self._lock:
            return max(0.0, self._free_at - now)

    def spend(self, units: float, *, now: float) -> None:
        """So much was spent."""
        with self._lock:
            self._free_at = max(self._free_at, now) + units / self._per_second
