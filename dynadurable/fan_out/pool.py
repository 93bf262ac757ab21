"""A few threads that never keep a process alive."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future


class DaemonPool:
    """Like ``ThreadPoolExecutor``, but a worker that has abandoned a body may exit without waiting for its threads.

    >>> pool = DaemonPool(2, name="sums")
    >>> pool.submit(lambda: 1 + 1).result()
    2
    >>> pool.close()
    """

    def __init__(self, size: int, *, name: str) -> None:
        self._size = size
        self._name = name
        self._tasks: queue.SimpleQueue[tuple[Future[None], Callable[[], None]] | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []

    def submit(self, task: Callable[[], None]) -> Future[None]:
        """Do it in one of the threads; at most ``size`` at once."""
        if len(self._threads) < self._size:
            thread = threading.Thread(target=self._loop, name=f"{self._name}-{len(self._threads)}", daemon=True)
            self._threads.append(thread)
            thread.start()
        future: Future[None] = Future()
        self._tasks.put((future, task))
        return future

    def close(self) -> None:
        """End the threads once they have done what was submitted; does not wait for that."""
        for _ in self._threads:
            self._tasks.put(None)

    def _loop(self) -> None:
        while (given := self._tasks.get()) is not None:
            future, task = given
            try:
                future.set_result(task())
            except BaseException as error:  # noqa: BLE001 - handed to whoever asks for the result
                future.set_exception(error)
