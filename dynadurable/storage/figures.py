"""What a queue's metrics are made of: bounded, eventually consistent Queries on the queue's own partitions.

An empty queue of four shards costs four read units: half a unit for the marks and half a unit for the dead letters of
each shard.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..model.metrics import MAX_BACKLOG, MAX_DEAD_LETTERS
from . import marks, queues, requests
from .items import Items
from .keys import MAX_SHARDS, due_bound, queue_partition

HEAD_ITEMS = 100
MAX_HEAD_PAGES = 10


@dataclass(frozen=True, kw_only=True, slots=True)
class Figures:
    """A queue at one moment: what is due (being worked on or not), since when, and what is dead."""

    backlog: int
    oldest_due_ms: int | None
    """When the oldest mark came due that nobody works on."""
    dead: int


async def read(items: Items, queue: str, *, shards: Sequence[int], dead_shards: Sequence[int], now_ms: int) -> Figures:
    """The figures of these shards. Counting ends at the limits: what is more is told as that many."""
    backlog = dead = 0
    oldest: int | None = None
    for shard in shards:
        due = await _due(items, queue, shard, now_ms=now_ms, limit=MAX_BACKLOG - backlog)
        backlog += due
        if due or backlog == MAX_BACKLOG:
            first = await _oldest_waiting(items, queue, shard, now_ms=now_ms)
            oldest = first if oldest is None or (first is not None and first < oldest) else oldest
    for shard in dead_shards:
        if dead < MAX_DEAD_LETTERS:
            dead += (await queues.count_dead(items, queue, shard, now_ms=now_ms, limit=MAX_DEAD_LETTERS - dead))[0]
    return Figures(backlog=backlog, oldest_due_ms=oldest, dead=dead)


async def shards_with_dead(items: Items, queue: str, *, now_ms: int) -> list[int]:
    """Those of all possible shards that hold dead letters: the queue may have had more shards once."""
    counts = [
        await queues.count_dead(items, queue, shard, now_ms=now_ms, limit=HEAD_ITEMS) for shard in range(MAX_SHARDS)
    ]
    return [shard for shard, (count, more) in enumerate(counts) if count or more]


async def _due(items: Items, queue: str, shard: int, *, now_ms: int, limit: int) -> int:
    model = items.mark
    key = (model.pk == queue_partition(items.schema, queue, shard)) & model.sk.between("0", due_bound(now_ms))
    count = 0
    start: Mapping[str, Any] | None = None
    while count < limit:
        reply = await requests.query(model, key, limit=limit - count, start=start, count_only=True)
        count += int(reply.get("Count", 0))
        start = reply.get("LastEvaluatedKey")
        if start is None:
            break
    return count


async def _oldest_waiting(items: Items, queue: str, shard: int, *, now_ms: int) -> int | None:
    """When the first mark came due that nobody holds; what is held lies before it, as it is claimed in due order."""
    start: Mapping[str, Any] | None = None
    for _ in range(MAX_HEAD_PAGES):
        page = await marks.poll(items, queue=queue, shard=shard, limit=HEAD_ITEMS, until_ms=now_ms, start=start)
        for mark in page.candidates:
            held = mark.token is not None and mark.lease_until_ms is not None and mark.lease_until_ms >= now_ms
            if not held:
                return mark.due_ms
        start = page.next_start
        if start is None:
            break
    return None
