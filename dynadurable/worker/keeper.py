"""Renews the leases of running bodies, on threads of its own that no body can block.

A lease is renewed at every third of its length. A renewal that fails for a passing reason is tried again until the
lease has run out by our own clock; shortly before that the body is told, so that it stops before anybody else starts.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import threading

from ..clock import Clock
from ..drivers.boto3 import Boto3Driver
from ..errors import DynadurableError, LeaseLostError
from ..forks import renew_after_fork
from ..storage import marks
from ..storage.items import Items
from .held import LOST, Held

log = logging.getLogger("dynadurable.worker")

MAX_THREADS = 4
MIN_WAIT_SECONDS = 0.02
WARN_AT = 0.9  # of the lease: then the body is told that it is lost, with a tenth of the lease to spare


class Keeper:
    """Keeps leases alive. Threads start when the first lease comes and end with ``stop``."""

    def __init__(self, items: Items, driver: Boto3Driver, clock: Clock) -> None:
        self._items = items
        self._driver = driver
        self._clock = clock
        self._wake = threading.Condition()
        self._due: list[tuple[float, int, Held]] = []
        self._count = itertools.count()
        self._threads: list[threading.Thread] = []
        self._stopped = False
        renew_after_fork(self)

    def after_fork(self) -> None:
        """A child holds no leases: the parent goes on renewing its own."""
        self._wake, self._due, self._threads = threading.Condition(), [], []

    def keep(self, held: Held) -> None:
        """Renew from now on, until it is closed."""
        with self._wake:
            first = not self._due or held.renew_at < self._due[0][0]
            heapq.heappush(self._due, (held.renew_at, next(self._count), held))
            if not self._threads:
                self._start_thread()
            if first:
                self._wake.notify()

    def stop(self) -> None:
        """End the threads; what is still held is not renewed any more."""
        with self._wake:
            self._stopped = True
            self._wake.notify_all()
        for thread in list(self._threads):
            thread.join(timeout=10)

    def _start_thread(self) -> None:
        name = f"dynadurable-keeper-{len(self._threads)}"
        thread = threading.Thread(target=self._loop, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _loop(self) -> None:
        while (held := self._next()) is not None:
            self._renew(held)

    def _next(self) -> Held | None:
        with self._wake:
            while not self._stopped:
                now = self._clock.monotonic()
                while self._due and (self._due[0][2].closed or self._due[0][0] <= now):
                    held = heapq.heappop(self._due)[2]
                    if held.closed:
                        continue
                    if self._due and self._due[0][0] <= now and len(self._threads) < MAX_THREADS:
                        self._start_thread()  # more is due: a slow reply must not make the others wait
                    return held
                delay = self._due[0][0] - now if self._due else None
                self._wake.wait(None if delay is None else max(MIN_WAIT_SECONDS, delay))
            return None

    def _renew(self, held: Held) -> None:
        if held.renew_at > self._clock.monotonic():  # a checkpoint has renewed it meanwhile
            self._again(held, held.renew_at)
            return
        sent = self._clock.monotonic()
        last_try_at = held.deadline - held.lease_seconds * (1 - WARN_AT)
        if sent >= last_try_at:
            self._lost(held, "it could not be renewed in time")
            return
        until = self._clock.latest_ms() + round(held.lease_seconds * 1000)
        try:
            plan = marks.renew(self._items, held.mark, lease_until_ms=until)
            mark = self._driver.run(plan, give_up_at=min(last_try_at, sent + held.lease_seconds / 3))
        except LeaseLostError:
            self._lost(held, "another worker took it over, or the run is gone")
        except DynadurableError as error:
            log.warning("renewing the lease on run %s failed, trying again: %s", held.run_id, error)
            self._again(held, min(sent + held.lease_seconds / 6, last_try_at))
        except Exception:  # a defect must not end the renewal of the other leases
            log.exception("renewing the lease on run %s failed, trying again", held.run_id)
            self._again(held, min(sent + held.lease_seconds / 6, last_try_at))
        else:
            held.extended(sent=sent, cancelled=bool(mark.cancelled))
            self._again(held, held.renew_at)

    def _again(self, held: Held, at: float) -> None:
        with self._wake:
            heapq.heappush(self._due, (at, next(self._count), held))

    def _lost(self, held: Held, why: str) -> None:
        if not held.closed:
            log.warning("lost the lease on run %s: %s", held.run_id, why)
            held.tell(LOST)
