"""A single attempt at a single run, in the thread that asks for it."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from dynadurable.app import App
from dynadurable.storage.marks import Candidate
from dynadurable.storage.schedules import SCHEDULE_JOB
from dynadurable.worker.attempt import Attempts
from dynadurable.worker.context import JobContext
from dynadurable.worker.context_aio import AsyncJobContext
from dynadurable.worker.engine import Engine, Hook
from dynadurable.workflow.body import WorkflowRunner
from dynadurable.workflow.kind_tasks import TaskKind
from dynadurable.workflow.kind_threads import ThreadKind


def attempt(app: App, candidate: Candidate, *, queues: list[str], hook: Hook) -> str | None:
    """Claim that mark and work on it; the event it ended with, ``None`` if it was not to be had."""
    engine = app.worker(queues=queues, hook=hook).engine
    job = engine.registry.get(candidate.job)
    try:
        if candidate.job != SCHEDULE_JOB and job is not None and job.is_async:
            with ThreadPoolExecutor(max_workers=1) as pool:  # there may be a loop in this thread
                return pool.submit(lambda: asyncio.run(_on_a_loop(engine, candidate))).result()
        return engine.driver.run(Attempts(engine, JobContext, WorkflowRunner(ThreadKind())).of(candidate))
    finally:
        engine.keeper.stop()


async def _on_a_loop(engine: Engine, candidate: Candidate) -> str | None:
    driver = await engine.loop_driver(worker_loop=True)
    return await driver.see_through(Attempts(engine, AsyncJobContext, WorkflowRunner(TaskKind())).of(candidate))
