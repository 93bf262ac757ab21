"""SIGTERM and SIGINT: the first asks to stop, the second to hurry."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any


class Flag:
    """Like ``threading.Event`` without waiting, and without a lock: a signal handler may set it at any moment.

    (An event's own lock may be held by the very thread that the handler interrupts.)
    """

    __slots__ = ("_is_set",)

    def __init__(self) -> None:
        self._is_set = False

    def set(self) -> None:
        self._is_set = True

    def is_set(self) -> bool:
        return self._is_set


class StoppedEarly(BaseException):
    """A signal came while there was nothing to end gracefully."""


@contextlib.contextmanager
def stop_on_signals(stop: Flag, hurry: Flag, *, at_once: Callable[[], bool] = lambda: False) -> Iterator[None]:
    """Set ``stop`` at the first signal, ``hurry`` at the next. Outside the main thread nothing is installed.

    While ``at_once()`` is true, the handler raises ``StoppedEarly`` after that: whatever is under way is given up.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        (hurry if stop.is_set() else stop).set()
        if at_once():
            raise StoppedEarly

    before: dict[int, Any] = {}
    try:
        for name in (signal.SIGTERM, signal.SIGINT):
            before[int(name)] = signal.signal(name, on_signal)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
