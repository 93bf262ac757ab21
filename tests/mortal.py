"""A process that dies at one of its writes: what it did before stays done, and it does nothing after."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime
from typing import Any

from dynadurable import App, Worker
from dynadurable.testing.memory import MemoryClient

WRITES = frozenset({"put_item", "update_item", "delete_item", "transact_write_items", "batch_write_item"})


class GoneError(BaseException):
    """The process is dead."""


class MortalClient:
    """A ``MemoryClient`` whose process dies at its ``nth`` write, before that is applied or (``applied``) after."""

    def __init__(self, client: MemoryClient, *, nth: int | None = None, applied: bool = False) -> None:
        self._client = client
        self._nth = nth
        self._applied = applied
        self._lock = threading.Lock()
        self.meta = client.meta
        self.exceptions = client.exceptions
        self.writes: list[str] = []
        self.is_dead = False

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._client, name)

        def called(**request: Any) -> Any:
            with self._lock:
                return self._call(name, method, request)

        return called

    def _call(self, name: str, method: Callable[..., Any], request: dict[str, Any]) -> Any:
        if self.is_dead:
            raise GoneError
        if name not in WRITES:
            return method(**request)
        self.writes.append(name)
        dies = self._nth == len(self.writes)
        if dies and not self._applied:
            self.is_dead = True
            raise GoneError
        try:
            return method(**request)
        finally:
            if dies:
                self.is_dead = True
                raise GoneError


def drain(app: App, **options: Any) -> datetime | None:
    """Drain with one thread; a process that dies leaves no threads behind."""
    worker: Worker = app.worker(**{"concurrency": 1, **options})
    try:
        return worker.drain()
    except GoneError:
        for lane in worker._lanes:
            lane.close(abandon=True)
        worker.engine.keeper.stop()
        raise
