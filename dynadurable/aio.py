"""The app for event loops: the same methods as ``App``, each one line over the same plan. Made by ``app.aio``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from .cleaner import AioCleaner
from .control.bulk import BulkPlans
from .control.cleaning import DEFAULT_RATE, DEFAULT_READ_RATE, CleanSettings
from .control.dead import DeadPlans
from .control.dead_letters import AioDeadLetters
from .control.doctor import AioDoctor, DoctorPlans
from .control.leases import AioLeases, LeasePlans
from .control.queues import AioQueues, QueuePlans
from .control.runs import AioRuns
from .control.schedules import SchedulePlans
from .control.schedules_aio import AioSchedules
from .control.signals import AioCallbacks
from .control.workers import AioWorkers, WorkerPlans
from .control.workflows import AioWorkflows
from .handle import AioRunHandle, TransactItems, TransactModels
from .leader import DEFAULT_TTL
from .leader_aio import AioLeader
from .lease import ONE_TRY
from .lease_aio import AioLease
from .ledger.ledger import Ledger
from .model.job import Job, JobCall
from .worker.crew import DEFAULT_ASYNC_CONCURRENCY, DEFAULT_CONCURRENCY, DEFAULT_POLL, WorkerSettings
from .worker.engine import DEFAULT_GRACE, DEFAULT_LEASE, Hook
from .worker.worker_aio import AioWorker

if TYPE_CHECKING:
    from .app import App

Params = ParamSpec("Params")
Returned = TypeVar("Returned")


class AioApp:
    """``App`` for event loops.

    With the extra ``dynadurable[aio]`` requests go through aioboto3, else through boto3 on a few threads; so they do
    where the app was given a boto3 client or session and no ``aio_session``. Each event loop of a process gets a client
    of its own, made at its first request and closed when ``asyncio.run`` ends, or by ``close()``.

    >>> run = await app.aio.enqueue(fan_out, molt_id="m1")  # doctest: +SKIP
    """

    def __init__(self, app: App) -> None:
        self._app = app
        self._operations = app.operations
        self._run = app.loops.run

    async def enqueue(
        self, job: Job[Params, Returned], /, *args: Params.args, **kwargs: Params.kwargs
    ) -> AioRunHandle[Returned]:
        """Accept a run of the job; see ``App.enqueue``. Cancelled, it may have been accepted all the same."""
        return AioRunHandle(self._app, await self._run(self._operations.enqueue(job, args, kwargs)))

    async def enqueue_many(self, calls: Iterable[JobCall[Returned]]) -> list[AioRunHandle[Returned]]:
        """Accept many runs; see ``App.enqueue_many``."""
        run_ids = await self._run(BulkPlans(self._operations).enqueue(calls))
        return [AioRunHandle(self._app, run_id) for run_id in run_ids]

    def transact_items(
        self, job: Job[Params, Returned], /, *args: Params.args, **kwargs: Params.kwargs
    ) -> TransactItems:
        """Elements for your own ``transact_write_items``; see ``App.transact_items``. Nothing is sent: do not await it.

        >>> await client.transact_write_items(
        ...     TransactItems=[put_molt, *app.aio.transact_items(fan_out, molt_id="m1")]
        ... )  # doctest: +SKIP
        """
        return self._app.transact_items(job, *args, **kwargs)

    def transact_models(
        self, job: Job[Params, Returned], /, *args: Params.args, **kwargs: Params.kwargs
    ) -> TransactModels:
        """The same for PynamoDB; see ``App.transact_models``. Nothing is sent: do not await it."""
        return self._app.transact_models(job, *args, **kwargs)

    def run(self, run_id: str) -> AioRunHandle[Any]:
        """The run of that id; see ``App.run``. Nothing is sent: do not await it."""
        return AioRunHandle(self._app, run_id)

    @cached_property
    def runs(self) -> AioRuns:
        """Lists of what is pending and running."""
        return AioRuns(self._app.run_plans, self._run)

    @cached_property
    def dead(self) -> AioDeadLetters:
        """Dead letters: list, group, replay, purge."""
        return AioDeadLetters(DeadPlans(self._operations, self._app.run_plans), self._run)

    @cached_property
    def queues(self) -> AioQueues:
        """Pause, resume, counts."""
        return AioQueues(QueuePlans(self._operations), self._run)

    @cached_property
    def workers(self) -> AioWorkers:
        """Who is at work."""
        return AioWorkers(WorkerPlans(self._operations), self._run)

    @cached_property
    def workflows(self) -> AioWorkflows:
        """Timelines, and whether today's code goes on with the runs under way."""
        return AioWorkflows(self._app.workflow_plans, self._run)

    @cached_property
    def callbacks(self) -> AioCallbacks:
        """For outside systems: complete, fail or prolong what a workflow waits for."""
        return AioCallbacks(self._app.signal_plans, self._run)

    @cached_property
    def schedules(self) -> AioSchedules:
        """Schedules at run time: create, change, pause, trigger, list."""
        return AioSchedules(SchedulePlans(self._operations), self._run)

    def lease(
        self,
        name: str,
        *,
        ttl: timedelta,
        wait: timedelta | None = ONE_TRY,
        renew_every: timedelta | None = None,
        on_lost: Callable[[AioLease], None] | None = None,
    ) -> AioLease:
        """A lease by name; see ``App.lease``. ``on_lost`` is called on the loop.

        >>> async with app.aio.lease("timeline-refresher", ttl=timedelta(seconds=15)) as lease:  # doctest: +SKIP
        ...     await refresh(lease)
        """
        return AioLease(self._app.lease_parts, name, ttl=ttl, wait=wait, renew_every=renew_every, on_lost=on_lost)

    def leader(
        self,
        name: str,
        duties: Sequence[Callable[..., Any]] = (),
        *,
        ttl: timedelta = DEFAULT_TTL,
        on_error: Callable[[str, BaseException], None] | None = None,
    ) -> AioLeader:
        """Leader election on this loop: duties are ``async def``; see ``App.leader``."""
        return AioLeader(self._app.lease_parts, name, duties, ttl=ttl, on_error=on_error)

    @cached_property
    def leases(self) -> AioLeases:
        """Leases from outside: list, show, break."""
        return AioLeases(LeasePlans(self._operations), self._run)

    def worker(
        self,
        *,
        queues: Sequence[str] | None = None,
        concurrency: int = DEFAULT_CONCURRENCY,
        async_concurrency: int = DEFAULT_ASYNC_CONCURRENCY,
        lease: timedelta = DEFAULT_LEASE,
        grace: timedelta = DEFAULT_GRACE,
        name: str | None = None,
        hook: Hook | None = None,
        poll: tuple[timedelta, timedelta] = DEFAULT_POLL,
        metrics: bool | None = None,
    ) -> AioWorker:
        """A worker inside the running event loop; see ``App.worker`` for its settings.

        ``async def`` jobs run as tasks of the loop, other jobs on threads.

        >>> async with app.aio.worker(queues=["trench"]):  # doctest: +SKIP
        ...     await serve_the_web()
        >>> await app.aio.worker().drain()  # doctest: +SKIP

        Raises:
            ConfigurationError: no queue to serve, or settings that cannot be used.
        """
        settings = WorkerSettings(
            concurrency=concurrency,
            async_concurrency=async_concurrency,
            lease=lease,
            grace=grace,
            name=name,
            hook=hook,
            poll=poll,
            metrics=metrics,
        )
        return AioWorker(*self._operations.hire(queues, settings, self._app.driver, self._app.loops))

    async def create_table(self) -> bool:
        """Create the table for development; see ``App.create_table``."""
        return await self._run(self._operations.create_table())

    def cleaner(
        self, *, rate: float = DEFAULT_RATE, read_rate: float = DEFAULT_READ_RATE, dry_run: bool = False
    ) -> AioCleaner:
        """The cleaner of the table; see ``App.cleaner``. Nothing is sent: do not await it, but its ``run``."""
        return AioCleaner(self._app, CleanSettings(rate=rate, read_rate=read_rate, dry_run=dry_run))

    def ledger(self) -> AbstractContextManager[Ledger]:
        """Counts what this app sends while inside, on loops and threads; see ``App.ledger``. Do not await it.

        >>> with app.aio.ledger() as cost:  # doctest: +SKIP
        ...     await place_order("o-17")
        """
        return self._app.ledger()

    @cached_property
    def doctor(self) -> AioDoctor:
        """What is the matter with the table, and with what is in it."""
        return AioDoctor(DoctorPlans(self._operations), self._run)

    async def check_table(self) -> None:
        """Whether the table is there, has the right keys, and may be read; see ``App.check_table``."""
        await self._run(self._operations.check_table())

    async def close(self) -> None:
        """Close what this event loop has opened. May be called twice; the next request opens it again.

        A loop that ends as ``asyncio.run`` ends it needs no call.
        """
        await self._app.loops.close()
