"""A few threads that never keep a process alive."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

Tag = TypeVar("Tag")


class DaemonPool(Generic[Tag]):
    """Does tasks in threads and tells in one place which have ended.

    Unlike ``ThreadPoolExecutor``, a worker that has abandoned a body may exit without waiting for its threads.

    >>> pool = DaemonPool(2, name="sums")
    >>> pool.submit(lambda: None, "first")
    >>> pool.ended()
    [('first', None)]
    >>> pool.close()
    """

    def __init__(self, size: int, *, name: str) -> None:
        self._size = size
        self._name = name
        self._tasks: queue.SimpleQueue[tuple[Callable[[], None], Tag] | None] = queue.SimpleQueue()
        self._ended: queue.SimpleQueue[tuple[Tag, BaseException | None]] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self.flying = 0
        """Tasks that were submitted and have not been told of as ended."""

    def submit(self, task: Callable[[], None], tag: Tag) -> None:
        """Do it in one of the threads; at most ``size`` at once."""
        self.flying += 1
        if len(self._threads) < min(self._size, self.flying):
            thread = threading.Thread(target=self._loop, name=f"{self._name}-{len(self._threads)}", daemon=True)
            self._threads.append(thread)
            thread.start()
        self._tasks.put((task, tag))

    def ended(self) -> list[tuple[Tag, BaseException | None]]:
        """Waits until a task has ended; all that have, each with its tag and what it raised. Only while some fly."""
        assert self.flying, "nothing was submitted that could end"
        ended = [self._ended.get()]
        while True:
            try:
                ended.append(self._ended.get_nowait())
            except queue.Empty:
                self.flying -= len(ended)
                return ended

    def close(self) -> None:
        """End the threads once they have done what was submitted; does not wait for that."""
        for _ in self._threads:
            self._tasks.put(None)

    def _loop(self) -> None:
        while (given := self._tasks.get()) is not None:
            task, tag = given
            try:
                task()
            except BaseException as error:  # noqa: BLE001 - handed to whoever asks what has ended
                self._ended.put((tag, error))
            else:
                self._ended.put((tag, None))
