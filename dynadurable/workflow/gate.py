"""Keeps the threads of a ``def`` workflow from doing anything new before all of them have replayed what is recorded.

So a mismatch in one branch is found before any body runs in another. A thread that comes to something new waits at the
gate; the gate opens when no thread is left that could go on without passing it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable


class Gate:
    """Counts the threads that can still go on. ``check`` raises what ends the attempt."""

    def __init__(self, check: Callable[[], None]) -> None:
        self.changed = threading.Condition()
        self._check = check
        self._active = 1
        self.is_open = False
        """Whether all that is recorded has been replayed."""

    def go_through(self) -> None:
        """Wait until everything recorded has been replayed."""
        with self.changed:
            if not self.is_open:
                self._rest()
                self.changed.wait_for(lambda: self.is_open)
                self._active += 1
        self._check()

    def rest(self) -> None:
        """This thread waits for others; hold ``changed``."""
        self._rest()

    def resume(self, threads: int = 1) -> None:
        """So many threads more can go on; hold ``changed``."""
        self._active += threads

    def open(self) -> None:
        """Let everybody pass, because something has gone wrong that ``check`` will tell."""
        with self.changed:
            self.is_open = True
            self.changed.notify_all()

    def _rest(self) -> None:
        self._active -= 1
        if self._active == 0:
            self.is_open = True
            self.changed.notify_all()
