"""Actors whose requests happen in an order that the test chooses: one request at a time, on the memory store."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from dynadurable.testing.memory import MemoryClient, MemoryStore
from tests.integration.stepping import Died

PATIENCE_SECONDS = 100.0
READS = frozenset({"get_item", "query"})

Touched = tuple[str, str | None, bool]
"""What a request touches: a partition, a sort key (``None``: all of them), and whether it writes."""


class Actor:
    """A thread that stops before each of its requests until it is told to go on, or to die there."""

    def __init__(self, store: MemoryStore) -> None:
        self._client = MemoryClient(store)
        self.meta = self._client.meta
        self._changed = threading.Condition()
        self._is_waiting = False
        self._may_go = False
        self._is_free = False
        self._is_over = False
        self._thread: threading.Thread | None = None
        self.requests = 0
        self.touched: list[Touched] = []
        """By the last step."""
        self.dies_at: int | None = None
        self.error: BaseException | None = None

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)
        return lambda **params: self._request(name, method, params)

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
            self.touched = []
            if self._is_over:
                return False
            self._may_go, self._is_waiting = True, False
            self._changed.notify_all()
        self._until_it_stops()
        return True

    def go_to_the_end(self) -> None:
        with self._changed:
            self._is_free, self._is_waiting = True, False
            self._changed.notify_all()
        self._until_it_stops()
        assert self._thread is not None
        self._thread.join(PATIENCE_SECONDS)

    def _until_it_stops(self) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self._is_waiting or self._is_over, PATIENCE_SECONDS)

    def _request(self, name: str, method: Callable[..., Any], params: dict[str, Any]) -> Any:
        if self._thread is not threading.current_thread():
            self.touched += touched_by(name, params)
            return method(**params)
        with self._changed:
            if not self._is_free:
                self._is_waiting = True
                self._changed.notify_all()
                assert self._changed.wait_for(lambda: self._may_go or self._is_free, PATIENCE_SECONDS)
                self._may_go = False
        self.requests += 1
        self.touched += touched_by(name, params)
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


# --- which orders make no difference --------------------------------------------------------------


def touched_by(name: str, params: dict[str, Any]) -> list[Touched]:
    """What a request touches; of one that is not known here, everything."""
    if name == "transact_write_items":
        bodies = [body for element in params["TransactItems"] for body in element.values()]
    elif name in {"get_item", "query", "put_item", "update_item", "delete_item"}:
        bodies = [params]
    else:
        return [("", None, True)]
    return [(*_place(body), name not in READS) for body in bodies]


def _place(body: dict[str, Any]) -> tuple[str, str | None]:
    key = body.get("Key") or body.get("Item")
    if key is not None:
        return key["pk"]["S"], key["sk"]["S"]
    partitions = [value["S"] for value in body["ExpressionAttributeValues"].values() if "#" in value.get("S", "")]
    return (partitions[0] if len(partitions) == 1 else ""), None


def commute(one: Sequence[Touched], other: Sequence[Touched]) -> bool:
    """Whether two steps have the same effect in either order: what one of them writes the other does not touch."""
    return not any(
        (mine[2] or yours[2])
        and ("" in (mine[0], yours[0]) or mine[0] == yours[0])
        and (None in (mine[1], yours[1]) or mine[1] == yours[1])
        for mine in one
        for yours in other
    )


def alike(order: Sequence[int], steps: Sequence[Sequence[Touched]]) -> set[tuple[int, ...]]:
    """The orders that come to the same as this one, whose steps have touched that.

    >>> sorted(alike([0, 1], [[("a", "1", True)], [("b", "1", True)]]))
    [(0, 1), (1, 0)]
    """
    begin = tuple(zip(order, map(tuple, steps), strict=True))
    found, todo = {begin}, [begin]
    while todo:
        one = todo.pop()
        for at in range(len(one) - 1):
            (first, mine), (second, yours) = one[at], one[at + 1]
            swapped = (*one[:at], one[at + 1], one[at], *one[at + 2 :])
            if first != second and commute(mine, yours) and swapped not in found:
                found.add(swapped)
                todo.append(swapped)
    return {tuple(actor for actor, _ in one) for one in found}
