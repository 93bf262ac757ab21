"""Runs that a workflow starts and whose ends it may wait for."""

from __future__ import annotations

import zlib
from typing import Any

from ..errors import ConfigurationError
from ..model import instant
from ..model.history import Past
from ..model.job import Job
from ..model.record import BEGAN
from ..model.retention import to_seconds
from ..storage import births, ends, runs
from ..storage.births import ENDED_SECONDS, Birth
from ..storage.keys import check_name, keyed_run_id
from .execution import Execution
from .waits import Awaited

MAX_INPUT_BYTES = 300_000


def child_key(execution: Execution, past: Past) -> str:
    """What a child's id is derived from: its parent's run and journal, and the operation that starts it."""
    life = f"\nlife {past.life}" if past.life else ""
    return f"child of {execution.held.run_id}\n{execution.journal_id}\n{past.identity}{life}"


def child_id(execution: Execution, past: Past, job: Job[Any, Any]) -> str:
    """The run id of the child: the same however often the parent comes to this place."""
    return keyed_run_id(job.name, child_key(execution, past))


def end_of(execution: Execution, past: Past, job: Job[Any, Any]) -> Awaited:
    """The child's end, as something to wait for."""
    run_id = child_id(execution, past, job)
    return Awaited(topic=ends.child_topic(run_id), what=run_id)


async def start(execution: Execution, past: Past, job: Job[Any, Any], payload: bytes) -> None:
    """Start the child, unless that was done before, and record that it was."""
    engine, clock = execution.engine, execution.engine.clock
    await execution.settle_waits()
    sent = clock.monotonic()
    born = births.newborn(execution.items, _birth(execution, past, job, payload), needs_run=True)
    assert born.run is not None
    await runs.start(
        execution.items,
        born.run,
        born.mark,
        run_id=born.run_id,
        now_ms=clock.now_ms(),
        elapsed_ms=lambda: round((clock.monotonic() - sent) * 1000),
        page=born.page,
        once=True,
    )
    engine.look_again()
    await execution.record(execution.entry(past, BEGAN, facts={"run": born.run_id}))


def _birth(execution: Execution, past: Past, job: Job[Any, Any], payload: bytes) -> Birth:
    engine, options = execution.engine, job.options
    now_ms = engine.clock.now_ms()
    unique = engine.ids.make(now_ms)
    queue = check_name("a queue's name", job.queue if options.queue is None else options.queue)
    keep = to_seconds(job.keep_result)
    return Birth(
        job=job.name,
        queue=queue,
        shard=zlib.crc32(unique.encode()) % engine.shards_of(queue),
        due_ms=instant.due_ms(now_ms, delay=options.delay, at=options.at),
        now_ms=now_ms,
        unique=unique,
        input=payload,
        key=child_key(execution, past),
        keep_seconds=ENDED_SECONDS if keep is None else keep,
        history_seconds=to_seconds(job.keep_history),
        build=engine.build,
        workflow=job.is_workflow,
        parent=execution.held.run_id,
        parent_journal=execution.journal_id,
    )


def checked(job: Any) -> Job[Any, Any]:
    """The job, if a workflow can start it.

    Raises:
        ConfigurationError: not a job, or one with a key of its own.
    """
    if not isinstance(job, Job):
        raise ConfigurationError(
            f"a child is started from a job or workflow, not from {job!r}; for functions use ctx.step"
        )
    if job.options.key is not None:
        raise ConfigurationError(
            f"a child gets its id from its parent: start {job.name!r} without key=, or enqueue it in a step"
        )
    return job
