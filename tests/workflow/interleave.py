"""Actors whose requests happen in an order that the test chooses: one request at a time, on the memory store."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from dynadurable.testing.memory import MemoryClient, MemoryStore
from tests.integration.stepping import Died

PATIENCE_SECONDS = 20.0


class Actor:
    """A thread that stops before each of its requests until it is told to go on, or to die there."""

    def __init__(self, store: MemoryStore) -> None:
        self._client = MemoryClient(store)
        self.meta = self._client.meta
        self._changed = threading.Condition()
        self._is_waiting = False
        self._may_go = False
        self._is_over = False
        self._thread: threading.Thread | None = None
        self.requests = 0
        self.dies_at: int | None = None
        self.error: BaseException | None = None

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)
        return lambda **params: self._request(method, params)

    def act(self, action: Callable[[], Any]) -> None:
        """Begin, up to the first request."""

        def run() -> None:
            try:
                action()
            except BaseException as error:  # noqa: BLE001 - looked at by the test
                self.error = error
            with self._changed:
                self._is_over = True
                self._changed.notify_all()

        self._thread = threading.Thread(target=run, daemon=True)
        self._thread.start()
        self._until_it_stops()

    def go_on(self) -> bool:
        """Let it do one request, up to the next; false if it has ended."""
        with self._changed:
            if self._is_over:
                return False
            self._may_go, self._is_waiting = True, False
            self._changed.notify_all()
        self._until_it_stops()
        return True

    def go_to_the_end(self) -> None:
        while self.go_on():
            pass
        assert self._thread is not None
        self._thread.join(PATIENCE_SECONDS)

    def _until_it_stops(self) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self._is_waiting or self._is_over, PATIENCE_SECONDS)

    def _request(self, method: Callable[..., Any], params: dict[str, Any]) -> Any:
        if self._thread is not threading.current_thread():
            return method(**params)
        with self._changed:
            self._is_waiting = True
            self._changed.notify_all()
            assert self._changed.wait_for(lambda: self._may_go, PATIENCE_SECONDS)
            self._may_go = False
        self.requests += 1
        if self.dies_at is not None and self.requests >= self.dies_at:
            raise Died
        return method(**params)


def orders(counts: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Every order of so many steps of each actor.

    >>> list(orders([2, 1]))
    [(0, 0, 1), (0, 1, 0), (1, 0, 0)]
    """
    total = sum(counts)
    if len(counts) == 1:
        yield (0,) * total
        return
    for places in itertools.combinations(range(total), counts[0]):
        for rest in orders(counts[1:]):
            others = iter(rest)
            yield tuple(0 if place in places else next(others) + 1 for place in range(total))
