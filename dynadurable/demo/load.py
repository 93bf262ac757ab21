"""Fills a table of a local store, without an SDK: its checks of 90,000 items would take longer than all the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any

from ..fan_out.items import BATCH_ITEMS
from ..local import LocalStore

THREADS = 2
CHUNK_ITEMS = 20 * BATCH_ITEMS


def load(store: LocalStore, table: str, items: Iterable[Any], *, wrote: Callable[[int], None]) -> None:
    """Write the items, all different, which are PynamoDB models; ``wrote`` is told how many more there are."""

    def write(chunk: list[Any]) -> int:
        for first in range(0, len(chunk), BATCH_ITEMS):
            puts = [{"PutRequest": {"Item": item.serialize()}} for item in chunk[first : first + BATCH_ITEMS]]
            reply = store.call("BatchWriteItem", {"RequestItems": {table: puts}})
            assert not reply.get("UnprocessedItems"), "a local store takes everything"
        return len(chunk)

    with ThreadPoolExecutor(THREADS, thread_name_prefix="dynadurable-load") as pool:
        for number in pool.map(write, _chunks(items)):
            wrote(number)


def _chunks(items: Iterable[Any]) -> Iterator[list[Any]]:
    rest = iter(items)
    while chunk := list(islice(rest, CHUNK_ITEMS)):
        yield chunk
