"""What was promised to whom: every run that was asked for, and what operators were told about it."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any


@dataclass(kw_only=True)
class Promise:
    """One run that was asked for. Without ``run_id`` nobody knows whether it was accepted."""

    kind: str
    number: int
    run_id: str | None = None
    key: str | None = None
    unique: bool = False
    cancels: list[str] = field(default_factory=list)
    """What operators who cancelled it were told; ``"?"`` where they were told nothing."""
    replays: list[str] = field(default_factory=list)
    event_told: bool = False
    """Whether the event that a workflow waits for was acknowledged."""


class Book:
    """All of them; written by many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._promises: list[Promise] = []
        self._number = 0

    def next_number(self) -> int:
        with self._lock:
            self._number += 1
            return self._number

    def add(self, promise: Promise) -> None:
        with self._lock:
            self._promises.append(promise)

    def all(self) -> list[Promise]:
        with self._lock:
            return list(self._promises)

    def accepted(self) -> list[Promise]:
        """Those whose ids are known."""
        return [promise for promise in self.all() if promise.run_id is not None]

    def of(self, run_id: str) -> list[Promise]:
        return [promise for promise in self.all() if promise.run_id == run_id]

    def counts(self) -> dict[str, Any]:
        found = self.all()
        return {
            "asked": len(found),
            "accepted": sum(promise.run_id is not None for promise in found),
            "cancels": sum(len(promise.cancels) for promise in found),
            "replays": sum(len(promise.replays) for promise in found),
        }
