"""Marks, runs and dead letters that do not fit together, as crashes leave them: found by Query, put right by claims.

Whoever claims a mark repairs it (``settle.py``). What is found here is what nobody has claimed for long: its queue has
no worker, or it is due far in the future.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..clock import Clock, UniqueIds
from . import batches, dead, formats, marks, requests, runs, settle
from .items import DeadLetter, Items, Mark, Run, is_ours
from .keys import MAX_SHARDS, RUN_SORT_KEY, parse_mark_sort_key, queue_partition, run_partition
from .operate import LEASE_MS, OPERATOR, is_held

PAGE_ITEMS = 500
ABANDONED = "was never acknowledged"
ENDED = "its run has ended"
MOVED = "its run names another mark"


@dataclass(frozen=True, kw_only=True, slots=True)
class Odd:
    """A mark that does not fit its run, and how."""

    pk: str
    sk: str
    run_id: str
    how: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Looked:
    """What was found in a queue. ``newer``: items in a newer format. ``more``: looking ended at its limit."""

    odd: Sequence[Odd]
    stray: Sequence[DeadLetter]
    newer: int
    more: bool


async def look(items: Items, queue: str, *, now_ms: int, limit: int) -> Looked:
    """The marks and dead letters of a queue that do not fit; at most ``limit`` of each shard are looked at."""
    odd: list[Odd] = []
    stray: list[DeadLetter] = []
    newer, more = 0, False
    for shard in range(MAX_SHARDS):
        found = await _marks(items, queue, shard, now_ms=now_ms, limit=limit)
        odd += found.odd
        letters, goes_on = await _letters(items, queue, shard, now_ms=now_ms, limit=limit)
        stray += letters
        newer, more = newer + found.newer, more or found.more or goes_on
    return Looked(odd=odd, stray=stray, newer=newer, more=more)


async def _marks(items: Items, queue: str, shard: int, *, now_ms: int, limit: int) -> Looked:
    model = items.mark
    odd: list[Odd] = []
    seen = newer = 0
    start: Mapping[str, Any] | None = None
    while True:
        key = model.pk == queue_partition(items.schema, queue, shard)
        reply = await requests.query(model, key, limit=PAGE_ITEMS, start=start, fields=_fields(items))
        raws = reply.get("Items", ())
        newer += sum(formats.is_newer(raw) for raw in raws)
        odd += await _odd(items, formats.models(model, raws, f"a mark of queue {queue!r}", whole=False), now_ms)
        seen += len(raws)
        start = reply.get("LastEvaluatedKey")
        if start is None or seen >= limit:
            return Looked(odd=odd, stray=(), newer=newer, more=start is not None)


async def _odd(items: Items, seen: Sequence[Mark], now_ms: int) -> list[Odd]:
    pointers = [mark for mark in seen if mark.is_pointer and not is_held(mark, now_ms)]
    keys = {mark.sk: run_partition(items.schema, _run_id(mark.sk)) for mark in pointers}
    found = await batches.read(
        items, items.run, [(pk, RUN_SORT_KEY) for pk in keys.values()], fields=_fields(items)[2:]
    )
    odd = []
    for mark in pointers:
        raw = found.get((keys[mark.sk], RUN_SORT_KEY))
        if raw is not None and not is_ours(raw):
            continue
        how = how_odd(mark, None if raw is None else items.run.from_raw_data(dict(raw)), now_ms)
        if how is not None:
            odd.append(Odd(pk=mark.pk, sk=mark.sk, run_id=_run_id(mark.sk), how=how))
    return odd


def how_odd(mark: Mark, run: Run | None, now_ms: int) -> str | None:
    """In which way a pointer mark does not fit its run; ``None`` if it does, or is so young that it may yet."""
    if now_ms - int(mark.placed_ms or now_ms) < runs.GRACE_MS:
        return None
    if run is None or run.generation != mark.generation:
        return ABANDONED
    if not run.is_live:
        return ENDED
    return MOVED if run.mark != mark.sk else None


async def _letters(items: Items, queue: str, shard: int, *, now_ms: int, limit: int) -> tuple[list[DeadLetter], bool]:
    span = dead.Span(until_ms=now_ms - runs.GRACE_MS)
    stray: list[DeadLetter] = []
    seen, start = 0, None
    while True:
        page = await dead.page(items, queue, shard, span=span, now_ms=now_ms, start=start)
        keys = {one.sk: run_partition(items.schema, dead.run_id_of(one)) for one in page.letters}
        asked = [(pk, RUN_SORT_KEY) for pk in keys.values()]
        found = await batches.read(items, items.run, asked, fields=_fields(items)[2:])
        for letter in page.letters:
            raw = found.get((keys[letter.sk], RUN_SORT_KEY))
            if raw is None or (is_ours(raw) and not dead.is_of(letter, items.run.from_raw_data(dict(raw)))):
                stray.append(letter)
        seen, start = seen + len(page.letters), page.next_start
        if start is None or seen >= limit:
            return stray, start is not None


def _run_id(sort_key: str) -> str:
    key = parse_mark_sort_key(sort_key)
    return "" if key is None else key.run_id


def _fields(items: Items) -> list[str]:
    mark, run = items.mark, items.run
    attributes: list[Any] = [mark.pk, mark.sk, mark.version, mark.generation, mark.placed_ms, mark.lease_until_ms]
    attributes += [mark.token, run.state, run.mark]
    return [attribute.attr_name for attribute in attributes]


# --- putting right --------------------------------------------------------------------------------


async def mend(items: Items, odd: Odd, *, clock: Clock, ids: UniqueIds) -> bool:
    """Claim the mark as an operator, and do what a worker would; false if it was nothing to be mended any more."""
    mark = await marks.claim(
        items,
        pk=odd.pk,
        sk=odd.sk,
        token=ids.make(clock.now_ms()),
        now_ms=clock.earliest_ms(),
        lease_until_ms=clock.latest_ms() + LEASE_MS,
        worker=OPERATOR,
        counts=0,
    )
    if mark is None:
        return False
    run = await settle.settle(items, mark, run_id=odd.run_id, now_ms=clock.earliest_ms())
    if run is not None:
        await marks.hand_back(items, mark, refund=0)
    return run is None
