"""One at a time: what guards the journal of a run while its branches record side by side."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator
from typing import Any, Protocol

from ..storage.call import Work


class Turn(Protocol):
    """Awaited to get one's turn inside a plan; given back with ``release``."""

    def __await__(self) -> Generator[Work, Any, Any]: ...

    def release(self) -> None: ...


class ThreadTurn(Work):
    """For the threads of a ``def`` workflow."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def perform(self) -> None:
        self._lock.acquire()

    def release(self) -> None:
        self._lock.release()


class TaskTurn(Work):
    """For the tasks of an ``async def`` workflow."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    async def perform_async(self) -> None:
        await self._lock.acquire()

    def release(self) -> None:
        self._lock.release()
