"""A mark that this worker holds: until when, and what its body has to be told."""

from __future__ import annotations

import threading
from collections.abc import Callable

from ..storage.items import Mark

STOPPING = "stopping"
LOST = "lease lost"
CANCELLED = "cancelled"


class Held:
    """One claim. Shared by the thread that runs the body and the threads that renew; all methods are thread-safe.

    ``deadline`` is in monotonic seconds and counts from *before* the request that took or extended the lease was sent,
    so the holder gives up before anybody else may take over.
    """

    def __init__(self, mark: Mark, *, run_id: str, lease_seconds: float, sent: float) -> None:
        self.mark = mark
        self.run_id = run_id
        self.lease_seconds = lease_seconds
        self.deadline = sent + lease_seconds
        self.renew_at = sent + lease_seconds / 3
        self.stopping = threading.Event()
        self.cursor = mark.cursor
        self.reason: str | None = None
        self.closed = False
        self._lock = threading.Lock()
        self._listeners: list[Callable[[str], None]] = []

    def extended(self, *, sent: float, cancelled: bool) -> None:
        """A renewal or checkpoint that was sent then has succeeded."""
        with self._lock:
            self.deadline = max(self.deadline, sent + self.lease_seconds)
            self.renew_at = max(self.renew_at, sent + self.lease_seconds / 3)
        if cancelled:
            self.tell(CANCELLED)

    def tell(self, reason: str) -> None:
        """Tell the body to end. The strongest reason stays: a lost lease, then a cancellation, then a shutdown."""
        strength = (STOPPING, CANCELLED, LOST)
        with self._lock:
            if self.closed or (self.reason and strength.index(reason) <= strength.index(self.reason)):
                return
            self.reason = reason
            listeners = list(self._listeners)
        self.stopping.set()
        for listener in listeners:
            listener(reason)

    def listen(self, listener: Callable[[str], None]) -> None:
        """Call ``listener(reason)`` when the body is told something (at once, if it was already)."""
        with self._lock:
            self._listeners.append(listener)
            reason = self.reason
        if reason:
            listener(reason)

    def unlisten(self, listener: Callable[[str], None]) -> None:
        """Call it no more."""
        with self._lock:
            self._listeners.remove(listener)

    def is_valid(self, now: float) -> bool:
        """Whether the lease still stands by the local clock."""
        return not self.closed and self.reason != LOST and now < self.deadline

    def close(self) -> None:
        """The attempt has ended: no further renewal counts, nothing is told any more."""
        with self._lock:
            self.closed = True
