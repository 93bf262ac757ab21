"""Where attempts run: threads for ``def`` jobs; ``loop_lane.py`` has the event loop for ``async def`` ones."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Protocol

from ..errors import ConfigurationError, DynadurableError
from ..log import careful_log
from .attempt import AttemptPlan, Attempts
from .engine import Engine

log = careful_log("dynadurable.worker")


class OnDone(Protocol):
    """Told how each attempt ended, in the lane's thread or task."""

    def __call__(self, event: str | None, *, idle: bool) -> None:
        """``event`` is ``None`` if another worker had the mark; ``idle``: the slot is free again."""


More = Callable[["Lane"], AttemptPlan | None]
"""Asked for the next attempt when one has ended, so that a busy lane goes on without waiting for the dispatcher."""
OnFatal = Callable[[BaseException], None]
"""Told what must end the worker: a missing permission, or what a body raised that is no ``Exception``."""


class Lane(Protocol):
    """Runs a limited number of attempts at once."""

    attempts: Attempts
    is_async: bool
    """Which kind of bodies it runs."""

    def reserve(self) -> bool:
        """Take a free slot, if there is one."""
        ...

    def cancel_reservation(self) -> None:
        """Give a reserved slot back."""

    def submit(self, plan: AttemptPlan) -> None:
        """Run the plan in the slot that was reserved."""

    def wait_idle(self, seconds: float) -> bool:
        """Wait until no attempt runs; false if some still do after so long."""
        ...

    def free_slots(self) -> int:
        """How many attempts could be started now."""
        ...

    def close(self, *, abandon: bool) -> None:
        """End the threads or tasks. With ``abandon``, running ``async def`` bodies are cancelled first."""


class Slots:
    """Counts free slots; shared by both kinds of lanes."""

    def __init__(self, number: int) -> None:
        if number < 1:
            raise ConfigurationError(f"concurrency must be at least 1, not {number!r}")
        self.number = number
        self._free = number
        self._changed = threading.Condition()

    def reserve(self) -> bool:
        with self._changed:
            if self._free == 0:
                return False
            self._free -= 1
            return True

    def give_back(self) -> None:
        with self._changed:
            self._free += 1
            self._changed.notify_all()

    def wait_idle(self, seconds: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: self._free == self.number, timeout=max(0.0, seconds))

    def free(self) -> int:
        return self._free


class ThreadLane:
    """A pool of daemon threads: a body that will not end cannot keep the process alive."""

    is_async = False

    def __init__(
        self,
        engine: Engine,
        attempts: Attempts,
        *,
        concurrency: int,
        on_done: OnDone,
        on_fatal: OnFatal,
        more: More,
    ) -> None:
        self._more = more
        self.attempts = attempts
        self._engine = engine
        self._slots = Slots(concurrency)
        self._plans: queue.SimpleQueue[AttemptPlan | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._waiting = 0
        self._lock = threading.Lock()
        self._on_done = on_done
        self._on_fatal = on_fatal

    def reserve(self) -> bool:
        return self._slots.reserve()

    def cancel_reservation(self) -> None:
        self._slots.give_back()

    def free_slots(self) -> int:
        return self._slots.free()

    def submit(self, plan: AttemptPlan) -> None:
        with self._lock:
            if self._waiting == 0 and len(self._threads) < self._slots.number:
                name = f"dynadurable-{self._engine.worker_id}-{len(self._threads)}"
                thread = threading.Thread(target=self._loop, name=name, daemon=True)
                self._threads.append(thread)
                thread.start()
            else:
                self._waiting -= 1
        self._plans.put(plan)

    def wait_idle(self, seconds: float) -> bool:
        return self._slots.wait_idle(seconds)

    def close(self, *, abandon: bool) -> None:
        for _ in self._threads:
            self._plans.put(None)
        if not abandon:
            for thread in self._threads:
                thread.join(timeout=5)

    def _loop(self) -> None:
        while (plan := self._plans.get()) is not None:
            while plan is not None:
                event = self._run(plan)
                plan = self._more(self) if event is not None else None
                if plan is None:
                    with self._lock:
                        self._waiting += 1
                    self._slots.give_back()
                self._on_done(event, idle=plan is None)

    def _run(self, plan: AttemptPlan) -> str | None:
        try:
            return self._engine.driver.run(plan)
        except BaseException as error:  # noqa: BLE001 - report() passes on what is not ours to swallow
            report(error, self._on_fatal)
            return "error"


def report(error: BaseException, on_fatal: OnFatal) -> None:
    """What an attempt let out: log it, or end the worker with it."""
    if isinstance(error, ConfigurationError) or not isinstance(error, Exception):
        on_fatal(error)
    elif isinstance(error, DynadurableError):
        log.warning("an attempt could not be recorded; its lease runs out and it is tried again: %s", error)
    else:
        log.error("an attempt met a defect; its lease runs out and it is tried again", exc_info=error)
