"""Renews leases, of running bodies and named ones, on threads of its own that no user code can block.

A renewal that fails for a passing reason is tried again until nine tenths of the lease are over by our own clock. Then
the holder is told, so that it stops before anybody else starts. One thread watches and sends nothing: so the holder is
told in time although every request hangs. A few others send.
"""

from __future__ import annotations

import math
import queue
import random
import threading
from dataclasses import dataclass

from ..clock import Clock
from ..drivers.boto3 import Boto3Driver
from ..errors import DynadurableError, LeaseLostError
from ..forks import renew_after_fork
from ..log import careful_log
from ..storage.items import Items
from .tenure import LOST, Tenure

log = careful_log("dynadurable.worker")

MAX_SENDERS = 4
MIN_WAIT_SECONDS = 0.005
FIRST_DELAY_SECONDS = 0.1
LINGER_SECONDS = 5.0
STOP_SECONDS = 3.0


@dataclass(slots=True)
class _Kept:
    """What the keeper knows of one lease."""

    tenure: Tenure
    try_at: float
    sending: bool = False
    failures: int = 0

    @property
    def wake_at(self) -> float:
        """When something is to be done about it. While a request is under way, that is only to give up."""
        return self.tenure.last_try_at if self.sending else min(self.try_at, self.tenure.last_try_at)


class Keeper:
    """Keeps leases alive. Threads start when the first lease comes, and end when there is none for a while.

    ``linger_seconds``: for how long they stay without one.
    """

    def __init__(
        self, items: Items, driver: Boto3Driver, clock: Clock, *, linger_seconds: float = LINGER_SECONDS
    ) -> None:
        self._items = items
        self._driver = driver
        self._clock = clock
        self._linger_seconds = linger_seconds
        self._begin()
        renew_after_fork(self)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._nudge = threading.Event()
        self._kept: dict[Tenure, _Kept] = {}
        self._wake_at = -math.inf
        self._watcher: threading.Thread | None = None
        self._to_send: queue.SimpleQueue[_Kept | None] = queue.SimpleQueue()
        self._senders: list[threading.Thread] = []
        self._sending = 0
        self._stopped = False

    def after_fork(self) -> None:
        """A child holds no leases: the parent goes on renewing its own."""
        self._begin()

    def keep(self, tenure: Tenure) -> None:
        """Renew from now on, until it is closed or forgotten."""
        with self._lock:
            self._kept[tenure] = kept = _Kept(tenure, tenure.renew_at)
            if self._watcher is None and not self._stopped:
                self._wake_at = -math.inf
                self._watcher = threading.Thread(target=self._watch, name="dynadurable-keeper", daemon=True)
                self._watcher.start()
            elif kept.wake_at < self._wake_at:
                self._nudge.set()

    def forget(self, tenure: Tenure) -> None:
        """Renew it no more."""
        with self._lock:
            self._kept.pop(tenure, None)
            if not self._kept and self._linger_seconds <= 0:
                self._nudge.set()

    def stop(self) -> None:
        """End the threads; what is still held is not renewed any more."""
        with self._lock:
            self._stopped = True
            self._nudge.set()
            threads = [*self._senders, *([self._watcher] if self._watcher else [])]
        for thread in threads:
            thread.join(timeout=STOP_SECONDS)
            if thread.is_alive():
                return  # a request hangs; the others would be waited for no less in vain

    # --- the thread that watches ------------------------------------------------------------------

    def _watch(self) -> None:
        lingered = False
        while True:
            with self._lock:
                self._nudge.clear()
                if self._stopped or (not self._kept and (lingered or self._linger_seconds <= 0)):
                    self._end()
                    return
                late = self._look(self._clock.monotonic())
                wait = self._linger_seconds if not self._kept else self._wake_at - self._clock.monotonic()
                lingered = not self._kept
            for tenure in late:
                self._lost(tenure, "it could not be renewed in time")
            self._clock.wait(self._nudge, max(MIN_WAIT_SECONDS, min(wait, threading.TIMEOUT_MAX)))

    def _look(self, now: float) -> list[Tenure]:
        """Have what is due renewed, and give what is too late for that."""
        for tenure in [tenure for tenure in self._kept if tenure.closed]:
            del self._kept[tenure]
        late = [tenure for tenure in self._kept if now >= tenure.last_try_at]
        for tenure in late:
            del self._kept[tenure]
        for kept in self._kept.values():
            if not kept.sending and kept.try_at <= now:
                self._send(kept)
        self._wake_at = min((kept.wake_at for kept in self._kept.values()), default=math.inf)
        return late

    def _send(self, kept: _Kept) -> None:
        if kept.tenure.renew_at > self._clock.monotonic():  # a checkpoint has renewed it meanwhile
            kept.try_at, kept.failures = kept.tenure.renew_at, 0
            return
        kept.sending = True
        self._sending += 1
        if self._sending > len(self._senders) and len(self._senders) < MAX_SENDERS:
            name = f"dynadurable-renewal-{len(self._senders)}"
            sender = threading.Thread(target=self._renew_all, args=(self._to_send,), name=name, daemon=True)
            self._senders.append(sender)
            sender.start()
        self._to_send.put(kept)

    def _end(self) -> None:
        for _ in self._senders:
            self._to_send.put(None)
        self._senders, self._watcher = [], None
        self._to_send, self._sending = queue.SimpleQueue(), 0

    # --- the threads that send --------------------------------------------------------------------

    def _renew_all(self, to_send: queue.SimpleQueue[_Kept | None]) -> None:
        while (kept := to_send.get()) is not None:
            again_at = None if kept.tenure.closed else self._renew(kept)
            with self._lock:
                if to_send is self._to_send:
                    self._sending -= 1
                kept.sending = False
                if again_at is None:
                    self._kept.pop(kept.tenure, None)
                    continue
                kept.try_at = again_at
                if kept.wake_at < self._wake_at:
                    self._nudge.set()

    def _renew(self, kept: _Kept) -> float | None:
        """Renew it once; when to do so again, or ``None`` for never."""
        tenure, sent = kept.tenure, self._clock.monotonic()
        until_ms = self._clock.latest_ms() + round(tenure.lease_seconds * 1000)
        try:
            plan = tenure.renewal(self._items, lease_until_ms=until_ms)
            # One try: what is given up meanwhile must not be sent again, so it is tried again from here.
            cancelled = self._driver.run(plan, give_up_at=sent - 1)
        except LeaseLostError:
            self._lost(tenure, "somebody else has taken it over, or it is gone")
            return None
        except DynadurableError as error:
            log.warning("renewing %s failed, trying again: %s", tenure.what, error)
        except Exception:  # a defect must not end the renewal of the other leases
            log.exception("renewing %s failed, trying again", tenure.what)
        else:
            tenure.extended(sent=sent, cancelled=cancelled)
            kept.failures = 0
            return tenure.renew_at
        kept.failures += 1
        delay: float = min(tenure.renew_seconds / 2, FIRST_DELAY_SECONDS * 2 ** min(kept.failures, 16))
        return self._clock.monotonic() + delay * (0.5 + 0.5 * random.random())

    def _lost(self, tenure: Tenure, why: str) -> None:
        if not tenure.closed:
            tenure.tell(LOST)
            log.warning("lost %s: %s", tenure.what, why)
