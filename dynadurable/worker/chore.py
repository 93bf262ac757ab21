"""Something that a worker does now and then on a small thread of its own, and can do without."""

from __future__ import annotations

import threading
from collections.abc import Callable

from ..errors import DynadurableError
from ..log import careful_log

log = careful_log("dynadurable.worker")

STOP_SECONDS = 3.0


class Chore:
    """``act`` is called every so often. What it raises is logged (of the store's errors the first), and ends nothing.

    ``what`` completes "this worker cannot ...".
    """

    def __init__(self, name: str, act: Callable[[], None], *, every_seconds: float, what: str) -> None:
        self._name = name
        self._act = act
        self._every_seconds = every_seconds
        self._what = what
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._warned = False

    def start(self, *, after_seconds: float) -> None:
        """Begin after a while."""
        name = f"dynadurable-{self._name}"
        self._thread = threading.Thread(target=self._loop, args=(after_seconds,), name=name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Do it no more. Waits a little for what is under way."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(timeout=STOP_SECONDS)

    def do(self) -> None:
        """Do it now, in this thread."""
        try:
            self._act()
        except DynadurableError as error:
            if not self._warned:
                log.warning("this worker cannot %s, and works all the same: %s", self._what, error)
            self._warned = True
        except Exception:
            log.exception("this worker cannot %s: it met a defect, and works all the same", self._what)

    def _loop(self, wait: float) -> None:
        while not self._stopping.wait(wait):
            wait = self._every_seconds
            self.do()
