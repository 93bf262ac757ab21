"""Plans about queues as such: pause, resume, and how much lies in them. All by Query on the queue's own partitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pynamodb.expressions.condition import Condition

from ..errors import ConditionFailedError
from . import formats, marks, requests
from .call import Call, Several
from .items import Items, QueueSettings
from .keys import MAX_SHARDS, SETTINGS_SORT_KEY, dead_partition, queue_partition
from .marks import Candidate
from .schedules import SCHEDULE_JOB

PARALLEL = 8
PAGE_ITEMS = 500
SETTINGS_SHARD = 0
"""Every poll of a queue begins with this shard, so one item says for the whole queue, at once, that it is paused."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Counts:
    """What lies in a queue. ``more``: counting ended at its limit, so each number is a lower bound."""

    waiting: int
    in_flight: int
    delayed: int
    dead: int
    oldest_due_ms: int | None
    more: bool


# --- pause and resume -----------------------------------------------------------------------------


async def settings(items: Items, queue: str) -> QueueSettings | None:
    """What was set for the queue, if anything.

    Raises:
        NewerFormatError: a newer version of the library has set it.
    """
    raw = formats.checked(await _settings(items, queue), f"what is set for queue {queue!r}")
    return items.queue_settings.from_raw_data(dict(raw)) if raw else None


async def _settings(items: Items, queue: str) -> Mapping[str, Any] | None:
    key = queue_partition(items.schema, queue, SETTINGS_SHARD)
    raw: Mapping[str, Any] | None = (await requests.get(items.queue_settings, key, SETTINGS_SORT_KEY)).get("Item")
    return raw


async def is_paused(items: Items, queue: str) -> bool:
    """Whether no worker is to claim from it. What a newer version has set is heeded, as in a poll."""
    raw = await _settings(items, queue) or {}
    return bool(raw.get(items.queue_settings.paused.attr_name or "", {}).get("BOOL"))


async def pause(items: Items, queue: str, *, now_ms: int, reason: str | None) -> None:
    """No worker claims from this queue any more, from its next look on. What runs goes on. One write.

    Raises:
        NewerFormatError: a newer version of the library has set something for the queue; that is not written over.
    """
    model = items.queue_settings
    paused = model(
        pk=queue_partition(items.schema, queue, SETTINGS_SHARD),
        sk=SETTINGS_SORT_KEY,
        paused=True,
        changed_ms=now_ms,
        reason=reason,
    )
    await _set(items, queue, requests.put(paused, _may_be_set(items)))


async def resume(items: Items, queue: str) -> None:
    """Workers claim from it again. One write. Raises as ``pause``."""
    key = queue_partition(items.schema, queue, SETTINGS_SHARD)
    await _set(items, queue, requests.delete(items.queue_settings, key, SETTINGS_SORT_KEY, _may_be_set(items)))


def _may_be_set(items: Items) -> Condition:
    model = items.queue_settings
    condition: Condition = model.pk.does_not_exist() | formats.not_newer(model)
    return condition


async def _set(items: Items, queue: str, call: Call) -> None:
    try:
        await call
    except ConditionFailedError:
        await settings(items, queue)  # raises what stands in the way
        raise


# --- counting and listing -------------------------------------------------------------------------


async def counts(items: Items, queue: str, *, now_ms: int, limit: int) -> Counts:
    """How much lies in the queue; at most ``limit`` marks and ``limit`` dead letters of each shard are looked at."""
    shards = range(MAX_SHARDS)
    of_marks = [_count_marks(items, queue, shard, now_ms=now_ms, limit=limit) for shard in shards]
    of_dead = [_dead_counts(items, queue, shard, now_ms=now_ms, limit=limit) for shard in shards]
    parts: list[Counts] = raised(await Several([*of_marks, *of_dead], limit=PARALLEL))
    oldest = [part.oldest_due_ms for part in parts if part.oldest_due_ms is not None]
    return Counts(
        waiting=sum(part.waiting for part in parts),
        in_flight=sum(part.in_flight for part in parts),
        delayed=sum(part.delayed for part in parts),
        dead=sum(part.dead for part in parts),
        oldest_due_ms=min(oldest, default=None),
        more=any(part.more for part in parts),
    )


async def ahead(items: Items, *, pk: str, sk: str, limit: int) -> int:
    """How many marks of the same shard come due before this one; at most ``limit``."""
    model = items.mark
    key = (model.pk == pk) & (model.sk.between("0", sk))
    reply = await requests.query(model, key, limit=limit + 1, count_only=True)
    return min(limit, max(0, int(reply.get("Count", 0)) - 1))


async def pending(items: Items, queue: str, *, limit: int) -> list[Candidate]:
    """The first marks of a queue in due order, leased or not; at most ``limit``."""
    plans = [_first_marks(items, queue, shard, limit) for shard in range(MAX_SHARDS)]
    found: list[list[Candidate]] = raised(await Several(plans, limit=PARALLEL))
    return sorted((one for some in found for one in some), key=lambda one: one.sk)[:limit]


def raised(outcomes: Sequence[Any]) -> list[Any]:
    """The outcomes of several plans, or the first error among them, raised."""
    for outcome in outcomes:
        if isinstance(outcome, Exception):
            raise outcome
    return list(outcomes)


async def _first_marks(items: Items, queue: str, shard: int, limit: int) -> list[Candidate]:
    found: list[Candidate] = []
    start: Mapping[str, Any] | None = None
    while True:
        size = min(PAGE_ITEMS, limit - len(found))
        page = await marks.poll(items, queue=queue, shard=shard, limit=size, until_ms=None, start=start)
        found += [mark for mark in page.candidates if mark.job != SCHEDULE_JOB]  # a schedule's mark is no run
        start = page.next_start
        if start is None or len(found) >= limit:
            return found


async def _count_marks(items: Items, queue: str, shard: int, *, now_ms: int, limit: int) -> Counts:
    waiting = in_flight = delayed = seen = 0
    oldest: int | None = None
    start: Mapping[str, Any] | None = None
    while True:
        page = await marks.poll(items, queue=queue, shard=shard, limit=PAGE_ITEMS, until_ms=None, start=start)
        for mark in page.candidates:
            seen += 1
            if mark.due_ms > now_ms:
                delayed += mark.job != SCHEDULE_JOB  # one that is due stands for a run that waits
            elif mark.token is not None and mark.lease_until_ms is not None and mark.lease_until_ms >= now_ms:
                in_flight += 1
            else:
                waiting += 1
                oldest = mark.due_ms if oldest is None else min(oldest, mark.due_ms)
        start = page.next_start
        if start is None or seen >= limit:
            return Counts(
                waiting=waiting,
                in_flight=in_flight,
                delayed=delayed,
                dead=0,
                oldest_due_ms=oldest,
                more=start is not None,
            )


async def _dead_counts(items: Items, queue: str, shard: int, *, now_ms: int, limit: int) -> Counts:
    dead, more = await count_dead(items, queue, shard, now_ms=now_ms, limit=limit)
    return Counts(waiting=0, in_flight=0, delayed=0, dead=dead, oldest_due_ms=None, more=more)


async def count_dead(items: Items, queue: str, shard: int, *, now_ms: int, limit: int) -> tuple[int, bool]:
    """How many dead letters there are, and whether there may be more: about ``limit`` are looked at."""
    model = items.dead_letter
    key = model.pk == dead_partition(items.schema, queue, shard)
    fresh = model.ttl.does_not_exist() | (model.ttl > now_ms // 1000)  # an expired one may lie there for days
    dead, seen = 0, 0
    start: Mapping[str, Any] | None = None
    while True:
        size = min(PAGE_ITEMS, limit - seen)
        reply = await requests.query(model, key, limit=size, start=start, count_only=True, where=fresh)
        dead += int(reply.get("Count", 0))
        seen += int(reply.get("ScannedCount", size))
        start = reply.get("LastEvaluatedKey")
        if start is None or seen >= limit:
            return dead, start is not None
