"""Something held for a time: until when, how it is renewed, and what its holder has to be told."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable

from ..storage.call import Plan
from ..storage.items import Items

STOPPING = "stopping"
LOST = "lease lost"
CANCELLED = "cancelled"

RENEWALS = 3  # in the length of a lease, unless said otherwise
TOLD_AT = 0.9  # of the lease: then its holder is told that it is lost, with a tenth of the lease to spare


class Tenure(ABC):
    """A claim or a named lease. Shared by its user's thread and those that renew; all methods are thread-safe.

    ``deadline`` is in monotonic seconds and counts from *before* the request that took or extended the lease was sent,
    so the holder gives up before anybody else may take over.
    """

    def __init__(self, what: str, *, lease_seconds: float, sent: float, renew_seconds: float | None = None) -> None:
        self.what = what
        self.lease_seconds = lease_seconds
        self.renew_seconds = lease_seconds / RENEWALS if renew_seconds is None else renew_seconds
        self.deadline = sent + lease_seconds
        self.renew_at = sent + self.renew_seconds
        self.stopping = threading.Event()
        self.reason: str | None = None
        self.closed = False
        self._lock = threading.Lock()
        self._listeners: list[Callable[[str], None]] = []

    @abstractmethod
    def renewal(self, items: Items, *, lease_until_ms: int) -> Plan[bool]:
        """The plan that extends the lease; gives whether what is held was cancelled.

        Raises:
            LeaseLostError: somebody else holds it.
        """

    @property
    def last_try_at(self) -> float:
        """From then on it is not renewed any more: its holder is told, before anybody else can own it."""
        return self.deadline - self.lease_seconds * (1 - TOLD_AT)

    def extended(self, *, sent: float, cancelled: bool = False) -> None:
        """A renewal that was sent then, or another write that renews too, has succeeded."""
        with self._lock:
            self.deadline = max(self.deadline, sent + self.lease_seconds)
            self.renew_at = max(self.renew_at, sent + self.renew_seconds)
        if cancelled:
            self.tell(CANCELLED)

    def tell(self, reason: str) -> None:
        """Tell the holder to end. The strongest reason stays: a lost lease, then a cancellation, then a shutdown."""
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
        """Call ``listener(reason)`` when the holder is told something (at once, if it was already).

        It is called in a thread that renews, so it must not wait for anything.
        """
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
        """It is held no more: no further renewal counts, nothing is told."""
        with self._lock:
            self.closed = True
