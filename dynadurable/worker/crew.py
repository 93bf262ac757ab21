"""Puts a worker together: engine, poller, and one lane for each kind of body."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from ..clock import Clock, UniqueIds
from ..drivers.boto3 import Boto3Driver
from ..drivers.loops import LoopDrivers
from ..errors import ConfigurationError
from ..model.queue import Queue
from ..model.registry import Registry
from ..storage.environment import wants_metrics
from ..storage.items import Items
from ..workflow.body import WorkflowRunner
from ..workflow.kind_tasks import TaskKind
from ..workflow.kind_threads import ThreadKind
from .attempt import Attempts
from .context import JobContext
from .context_aio import AsyncJobContext
from .engine import DEFAULT_GRACE, DEFAULT_LEASE, Engine, Hook
from .heartbeat import Heartbeat
from .lane import ThreadLane
from .loop_lane import LoopLane
from .poller import MAX_INTERVAL, MIN_INTERVAL, Poller
from .registrar import Registrar
from .reporter import Reporter, to_stdout
from .worker import Worker

MIN_LEASE = timedelta(seconds=1)
DEFAULT_CONCURRENCY = 10
DEFAULT_ASYNC_CONCURRENCY = 100
DEFAULT_POLL = (MIN_INTERVAL, MAX_INTERVAL)


@dataclass(frozen=True, kw_only=True)
class WorkerSettings:
    """What ``app.worker`` takes; see there."""

    concurrency: int = DEFAULT_CONCURRENCY
    async_concurrency: int = DEFAULT_ASYNC_CONCURRENCY
    lease: timedelta = DEFAULT_LEASE
    grace: timedelta = DEFAULT_GRACE
    name: str | None = None
    hook: Hook | None = None
    poll: tuple[timedelta, timedelta] = DEFAULT_POLL
    metrics: bool | None = None

    def __post_init__(self) -> None:
        if self.lease < MIN_LEASE:
            raise ConfigurationError(
                f"lease must be at least {MIN_LEASE}, so that it can be renewed in time, not {self.lease}"
            )


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What an app and its workers share."""

    items: Items
    driver: Boto3Driver
    loops: LoopDrivers
    clock: Clock
    ids: UniqueIds
    registry: Registry
    build: str | None
    shards_of: Callable[[str], int]
    """How many shards a queue has, for the children that workflows start."""


def make_worker(parts: Parts, queues: Sequence[Queue], settings: WorkerSettings) -> tuple[Worker, LoopLane]:
    """A worker, and its lane for ``async def`` bodies: on a loop of its own, unless that is told of another."""
    engine = Engine(
        items=parts.items,
        driver=parts.driver,
        loops=parts.loops,
        clock=parts.clock,
        ids=parts.ids,
        registry=parts.registry,
        worker_id=settings.name or f"{socket.gethostname()}-{os.getpid()}",
        build=parts.build,
        lease_seconds=settings.lease.total_seconds(),
        hook=settings.hook,
        shards_of=parts.shards_of,
        heartbeat=Heartbeat.from_environment(os.environ),
    )
    poller = Poller(engine, queues, intervals=settings.poll)
    loop_lanes: list[LoopLane] = []

    def lanes(worker: Worker) -> tuple[ThreadLane, LoopLane]:
        loop_lanes.append(
            LoopLane(
                engine,
                Attempts(engine, AsyncJobContext, WorkflowRunner(TaskKind())),
                concurrency=settings.async_concurrency,
                on_done=worker.on_done,
                on_fatal=worker.on_fatal,
                more=worker.more,
            )
        )
        threads = ThreadLane(
            engine,
            Attempts(engine, JobContext, WorkflowRunner(ThreadKind())),
            concurrency=settings.concurrency,
            on_done=worker.on_done,
            on_fatal=worker.on_fatal,
            more=worker.more,
        )
        return threads, loop_lanes[0]

    reports = wants_metrics(os.environ) if settings.metrics is None else settings.metrics
    registrar = Registrar(
        engine,
        [queue.name for queue in queues],
        concurrency=settings.concurrency,
        async_concurrency=settings.async_concurrency,
        reports=reports,
    )
    reporter = Reporter(engine, queues, poller, registrar, write=to_stdout if reports else None)
    worker = Worker(engine, poller, lanes, registrar, reporter, grace=settings.grace)
    engine.look_again = worker.wake
    return worker, loop_lanes[0]
