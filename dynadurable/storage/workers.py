"""Plans about live workers and builds. What they write is a hint for people: no lease and no claim depends on it."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from ..errors import ConditionFailedError
from . import formats, requests
from .items import Item, Items, WorkerRecord
from .keys import escape, unescape, workers_partition

BEAT_MS = 60_000
LIVE_MS = 3 * BEAT_MS
"""A worker that was not seen for so long is taken for gone."""
KEPT_SECONDS = 900
BUILD_KEPT_SECONDS = 366 * 86_400
MAX_JOBS = 200
MAX_SCHEDULES = 200
MAX_PAGES = 20
WORKER_PREFIX = "worker#"
BUILD_PREFIX = "build#"
Record = TypeVar("Record", bound=Item)


def record(
    items: Items,
    *,
    name: str,
    unique: str,
    queues: Sequence[str],
    jobs: Sequence[str],
    concurrency: int,
    build: str | None,
    started_ms: int,
    now_ms: int,
    reports: bool = False,
    schedules: Sequence[str] = (),
) -> WorkerRecord:
    """The record of one worker process. ``unique`` tells it from another, or an earlier one, of the same name.

    ``schedules``: digests of the schedules that its code defines.
    """
    made: WorkerRecord = items.worker(
        pk=workers_partition(items.schema),
        sk=f"{WORKER_PREFIX}{escape(name)}#{unique}",
        name=name,
        queues=list(queues),
        jobs=list(jobs)[:MAX_JOBS],
        jobs_left_out=max(0, len(jobs) - MAX_JOBS),
        concurrency=concurrency,
        build=build,
        schedules=list(schedules)[:MAX_SCHEDULES] or None,
        started_ms=started_ms,
        seen_ms=now_ms,
        reports=reports or None,
        ttl=now_ms // 1000 + KEPT_SECONDS,
    )
    return made


async def beat(worker: WorkerRecord) -> None:
    """Say that it is alive."""
    await requests.put(worker)


async def forget(items: Items, worker: WorkerRecord) -> None:
    """It has stopped."""
    await requests.delete(items.worker, worker.pk, worker.sk)


async def note_build(items: Items, build: str, *, now_ms: int) -> None:
    """Remember when this build was first started."""
    model = items.build
    actions = [
        model.version.set(model.version | model().version),
        model.first_ms.set(model.first_ms | now_ms),
        model.ttl.set(now_ms // 1000 + BUILD_KEPT_SECONDS),
    ]
    condition = model.pk.does_not_exist() | formats.not_newer(model)
    with contextlib.suppress(ConditionFailedError):  # a newer version has noted it
        await requests.update(model, workers_partition(items.schema), BUILD_PREFIX + escape(build), actions, condition)


async def live(items: Items, *, now_ms: int) -> list[WorkerRecord]:
    """The workers that were seen within the last three minutes, by name."""
    found = await _records(items, items.worker, WORKER_PREFIX)
    return [worker for worker in found if int(worker.seen_ms) >= now_ms - LIVE_MS]


async def builds(items: Items) -> dict[str, int]:
    """When each build that is remembered was first started, in milliseconds since 1970."""
    found = {}
    for build in await _records(items, items.build, BUILD_PREFIX):
        found[unescape(build.sk.removeprefix(BUILD_PREFIX))] = int(build.first_ms)
    return found


async def _records(items: Items, model: type[Record], prefix: str) -> list[Record]:
    key = (model.pk == workers_partition(items.schema)) & model.sk.startswith(prefix)
    found: list[Record] = []
    start: Mapping[str, Any] | None = None
    for _ in range(MAX_PAGES):
        reply = await requests.query(model, key, limit=500, start=start)
        found += formats.models(model, reply.get("Items", ()), "a record of a worker or a build")
        start = reply.get("LastEvaluatedKey")
        if start is None:
            break
    return found
