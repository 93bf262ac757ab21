"""The app: define jobs, enqueue them, make workers. Thin: what it does stands in ``operations.py``."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from functools import cached_property
from typing import Any, Concatenate, ParamSpec, TypeVar, overload

from .aio import AioApp
from .cleaner import Cleaner
from .clock import Clock, SystemClock
from .control.bulk import BulkPlans
from .control.cleaning import DEFAULT_RATE, DEFAULT_READ_RATE, CleanSettings
from .control.dead import DeadPlans
from .control.dead_letters import DeadLetters
from .control.doctor import Doctor, DoctorPlans
from .control.leases import LeasePlans, Leases
from .control.queues import QueuePlans, Queues
from .control.runs import RunPlans, Runs
from .control.schedules import SchedulePlans, Schedules
from .control.signals import Callbacks, SignalPlans
from .control.workers import WorkerPlans, Workers
from .control.workflows import WorkflowPlans, Workflows
from .definitions import WorkflowDefinitions
from .drivers.boto3 import Boto3Driver
from .drivers.clients import Clients, ClientSettings
from .drivers.loops import LoopDrivers
from .handle import RunHandle, TransactItems, TransactModels
from .leader import DEFAULT_TTL, Leader
from .lease import ONE_TRY, Lease
from .ledger.ledger import Ledger
from .ledger.meter import Meter
from .model import job as jobs
from .model.job import DEFAULT_QUEUE, AsyncJob, Job, JobCall
from .model.queue import Queue
from .model.registry import Registry
from .model.retention import Retention
from .model.retry import Retry
from .operations import Operations
from .scheduling import ScheduleDefinitions
from .storage.items import Items, bind
from .storage.keys import check_name
from .storage.schema import TableSchema
from .worker.contest import LeaseParts
from .worker.context import ContextBase, JobContext
from .worker.context_aio import AsyncJobContext
from .worker.crew import DEFAULT_ASYNC_CONCURRENCY, DEFAULT_CONCURRENCY, DEFAULT_POLL, WorkerSettings
from .worker.engine import DEFAULT_GRACE, DEFAULT_LEASE, Engine, Hook
from .worker.keeper import Keeper
from .worker.worker import Worker

Params = ParamSpec("Params")
Returned = TypeVar("Returned")


class App(WorkflowDefinitions, ScheduleDefinitions):
    """Durable background work on one DynamoDB table.

    ``table`` is its name. How DynamoDB is reached: ``client`` (a boto3 DynamoDB client), ``session``, or ``region`` and
    ``endpoint_url``, else boto3's usual sources; ``aio_client`` and ``aio_session`` (of aioboto3 or aiobotocore) are
    the same for ``app.aio``, and such a client belongs to the event loop it was made on. ``partition_key``,
    ``sort_key``, ``ttl`` and ``prefix`` fit the app into a table that exists. ``build`` is the version of your code,
    noted with each failure (default: the environment variable ``DYNADURABLE_BUILD``). Nothing is sent before the first
    call.

    ``keep_result``, ``keep_failed`` and ``keep_history`` hold for all jobs and workflows that do not say otherwise.

    >>> app = App("krabber")
    >>> @app.job(queue="trench", retry=Retry(max_attempts=8))
    ... def fan_out(ctx: JobContext, molt_id: str) -> None: ...

    Raises:
        ConfigurationError: settings that cannot be used.
    """

    def __init__(
        self,
        table: str,
        *,
        client: Any = None,
        session: Any = None,
        region: str | None = None,
        endpoint_url: str | None = None,
        aio_client: Any = None,
        aio_session: Any = None,
        partition_key: str = "pk",
        sort_key: str = "sk",
        ttl: str | None = "ttl",
        prefix: str = "",
        queues: Sequence[Queue] = (),
        build: str | None = None,
        keep_result: timedelta | None = None,
        keep_failed: timedelta | None = None,
        keep_history: timedelta | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.schema = TableSchema(table=table, partition_key=partition_key, sort_key=sort_key, ttl=ttl, prefix=prefix)
        self.items: Items = bind(self.schema)
        """The PynamoDB models of everything in the table, for reading it."""
        self.build = build or os.environ.get("DYNADURABLE_BUILD") or None
        self.retention = Retention(keep_result=keep_result, keep_failed=keep_failed, keep_history=keep_history)
        self.clock: Clock = clock or SystemClock()
        self.registry = Registry()
        self._clients = Clients(
            ClientSettings(
                client=client,
                session=session,
                region=region,
                endpoint_url=endpoint_url,
                aio_client=aio_client,
                aio_session=aio_session,
            )
        )
        self.driver = Boto3Driver(self._clients.get, self.clock, Meter(self.schema))
        self.loops = LoopDrivers(self._clients.settings, self.driver, self.clock)
        self.operations = Operations(self.items, self.clock, self.registry, queues, build=self.build)
        self.run_plans = RunPlans(self.operations)

    @cached_property
    def aio(self) -> AioApp:
        """The same for event loops: ``await app.aio.enqueue(...)``, ``async with app.aio.worker(): ...``."""
        return AioApp(self)

    # --- define -----------------------------------------------------------------------------------

    @overload
    def job(
        self, function: Callable[Concatenate[AsyncJobContext, Params], Coroutine[Any, Any, Returned]], /
    ) -> AsyncJob[Params, Returned]: ...
    @overload
    def job(self, function: Callable[Concatenate[JobContext, Params], Returned], /) -> Job[Params, Returned]: ...
    @overload
    def job(self, function: Callable[Params, Coroutine[Any, Any, Returned]], /) -> AsyncJob[Params, Returned]: ...
    @overload
    def job(self, function: Callable[Params, Returned], /) -> Job[Params, Returned]: ...
    @overload
    def job(
        self,
        *,
        name: str | None = None,
        queue: str = DEFAULT_QUEUE,
        retry: Retry | None = None,
        keep_result: timedelta | None = None,
        keep_failed: timedelta | None = None,
    ) -> JobDecorator: ...

    def job(  # type: ignore[misc]  # the signatures that count are the overloads above
        self,
        function: Any = None,
        /,
        *,
        name: str | None = None,
        queue: str = DEFAULT_QUEUE,
        retry: Retry | None = None,
        keep_result: timedelta | None = None,
        keep_failed: timedelta | None = None,
    ) -> Any:
        """Make a function a job; used bare (``@app.job``) or with options.

        ``name`` stands in the table (default: the function's name). ``retry`` says how often it is tried.
        ``keep_result``: keep what it returns so long. ``keep_failed``: forget a dead letter after so long (default:
        never). The first parameter may be a ``JobContext``, of an ``async def`` an ``AsyncJobContext``.

        Raises:
            ConfigurationError: a name that is taken or cannot be used, or not a plain function.
        """
        kept = Retention(keep_result=keep_result, keep_failed=keep_failed).over(self.retention)

        def decorate(function: Callable[..., Any]) -> Job[Any, Any]:
            is_async = inspect.iscoroutinefunction(function)
            made = jobs.define(
                function,
                name=name,
                queue=check_name("a queue's name", queue),
                retry=retry or Retry(),
                context_types=(ContextBase, AsyncJobContext if is_async else JobContext),
                wrong_contexts=(JobContext if is_async else AsyncJobContext,),
                keep_result=kept.keep_result,
                keep_failed=kept.keep_failed,
            )
            check_name("a job's name", made.name)
            self.registry.add(made)
            return made

        return decorate if function is None else decorate(function)

    # --- enqueue ----------------------------------------------------------------------------------

    def enqueue(
        self, job: Job[Params, Returned], /, *args: Params.args, **kwargs: Params.kwargs
    ) -> RunHandle[Returned]:
        """Accept a run of the job: once this returns, it survives any crash.

        >>> app.enqueue(fan_out, molt_id="m1")  # doctest: +SKIP
        >>> app.enqueue(fan_out.using(delay=timedelta(minutes=5)), molt_id="m1")  # doctest: +SKIP

        Raises:
            InputRefusedError: arguments that do not fit the function or cannot be stored; nothing was written.
            KeyConflictError: the key belongs to a live run with other arguments.
            StoreUnavailableError: DynamoDB is out of reach; whether the run was accepted is not known.
        """
        return RunHandle(self, self.driver.run(self.operations.enqueue(job, args, kwargs)))

    def enqueue_many(self, calls: Iterable[JobCall[Returned]]) -> list[RunHandle[Returned]]:
        """Accept many runs; the handles are in the order of the calls.

        All calls are checked before anything is written. Runs without a key go 25 to a request, those with a key by a
        conditional write each, several requests at a time. For thousands; give more in portions.

        >>> app.enqueue_many(fan_out.call(molt_id=molt) for molt in molts)  # doctest: +SKIP

        Raises:
            InputRefusedError, KeyConflictError: a call that cannot be accepted, or two of one key with different
                arguments; nothing was written.
            EnqueueIncompleteError: some were not stored; lists which, and why.
        """
        return [RunHandle(self, run_id) for run_id in self.driver.run(BulkPlans(self.operations).enqueue(calls))]

    def transact_items(
        self, job: Job[Params, Returned], /, *args: Params.args, **kwargs: Params.kwargs
    ) -> TransactItems:
        """Elements for your own ``transact_write_items``: the run is accepted if and only if your transaction commits.

        >>> client.transact_write_items(
        ...     TransactItems=[put_molt, *app.transact_items(fan_out, molt_id="m1")]
        ... )  # doctest: +SKIP
        """
        return TransactItems(*self.operations.transact_items(job, args, kwargs))

    def transact_models(
        self, job: Job[Params, Returned], /, *args: Params.args, **kwargs: Params.kwargs
    ) -> TransactModels:
        """The same for PynamoDB: pairs of a model and its condition.

        >>> with TransactWrite(connection=connection) as transaction:  # doctest: +SKIP
        ...     transaction.save(molt)
        ...     for model, condition in app.transact_models(fan_out, molt_id="m1"):
        ...         transaction.save(model, condition=condition)
        """
        return TransactModels(*self.operations.transact_models(job, args, kwargs))

    # --- ask and operate --------------------------------------------------------------------------

    def run(self, run_id: str) -> RunHandle[Any]:
        """The run of that id, to ask for and to change. Nothing is sent.

        >>> app.run(run_id).status()  # doctest: +SKIP
        """
        return RunHandle(self, run_id)

    @cached_property
    def runs(self) -> Runs:
        """Lists of what is pending and running."""
        return Runs(self.run_plans, self.driver.run)

    @cached_property
    def dead(self) -> DeadLetters:
        """Dead letters: list, group, replay, purge."""
        return DeadLetters(DeadPlans(self.operations, self.run_plans), self.driver.run)

    @cached_property
    def queues(self) -> Queues:
        """Pause, resume, counts."""
        return Queues(QueuePlans(self.operations), self.driver.run)

    @cached_property
    def workers(self) -> Workers:
        """Who is at work."""
        return Workers(WorkerPlans(self.operations), self.driver.run)

    # --- workflows --------------------------------------------------------------------------------

    @cached_property
    def callbacks(self) -> Callbacks:
        """For outside systems: complete, fail or prolong what a workflow waits for."""
        return Callbacks(self.signal_plans, self.driver.run)

    @cached_property
    def workflows(self) -> Workflows:
        """Timelines, and whether today's code goes on with the runs under way."""
        return Workflows(self.workflow_plans, self.driver.run)

    @cached_property
    def workflow_plans(self) -> WorkflowPlans:
        """What can be asked of workflows, for the shells of both sides."""
        engine = Engine(
            items=self.items,
            driver=self.driver,
            loops=self.loops,
            clock=self.clock,
            ids=self.operations.ids,
            registry=self.registry,
            worker_id="replay",
            build=self.build,
        )
        return WorkflowPlans(engine, self.run_plans)

    @cached_property
    def signal_plans(self) -> SignalPlans:
        """What can be told to a workflow, for the shells of both sides."""
        return SignalPlans(self.operations)

    @cached_property
    def schedules(self) -> Schedules:
        """Schedules at run time: create, change, pause, trigger, list."""
        return Schedules(SchedulePlans(self.operations), self.driver.run)

    # --- leases -----------------------------------------------------------------------------------

    def lease(
        self,
        name: str,
        *,
        ttl: timedelta,
        wait: timedelta | None = ONE_TRY,
        renew_every: timedelta | None = None,
        on_lost: Callable[[Lease], None] | None = None,
    ) -> Lease:
        """A lease by name: one holder at a time, over all processes. Nothing is sent before ``with`` or ``acquire()``.

        ``ttl``: how soon after a crash others can take over; while it is held it is renewed, on threads of its own.
        ``wait``: how long ``with`` waits for it; by default one try, ``None`` is for ever. ``renew_every``: by default
        a third of ``ttl``. ``on_lost(lease)`` is called, on a thread of its own, when the lease is lost.

        >>> with app.lease("timeline-refresher", ttl=timedelta(seconds=15)) as lease:  # doctest: +SKIP
        ...     client.transact_write_items(TransactItems=[lease.condition_check(), put_timeline])

        Raises:
            ConfigurationError: a name or times that cannot be used.
            LeaseBusyError: (from ``with``) somebody else has it.
        """
        return Lease(self.lease_parts, name, ttl=ttl, wait=wait, renew_every=renew_every, on_lost=on_lost)

    def leader(
        self,
        name: str,
        duties: Sequence[Callable[..., Any]] = (),
        *,
        ttl: timedelta = DEFAULT_TTL,
        on_error: Callable[[str, BaseException], None] | None = None,
    ) -> Leader:
        """Leader election: of all processes that stand for ``name`` one runs the duties. See ``Leader``.

        ``ttl``: how soon after a crash another one leads; after a graceful stop it is at once. Each duty is a function
        of the ``Term``, or of nothing; one that raises is logged, told to ``on_error(duty, error)``, and started again.

        >>> app.leader("housekeeping", [refresh_timeline, sweep]).run()  # doctest: +SKIP

        Raises:
            ConfigurationError: a name, a time or a duty that cannot be used.
        """
        return Leader(self.lease_parts, name, duties, ttl=ttl, on_error=on_error)

    @cached_property
    def leases(self) -> Leases:
        """Leases from outside: list, show, break."""
        return Leases(LeasePlans(self.operations), self.driver.run)

    @cached_property
    def lease_parts(self) -> LeaseParts:
        """What the leases of this app share."""
        return LeaseParts(
            items=self.items,
            driver=self.driver,
            loops=self.loops,
            clock=self.clock,
            ids=self.operations.ids,
            keeper=Keeper(self.items, self.driver, self.clock, linger_seconds=0.0),
        )

    # --- work -------------------------------------------------------------------------------------

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
    ) -> Worker:
        """A worker for these queues (default: the queues of all jobs defined so far), in order of priority.

        ``concurrency`` and ``async_concurrency``: bodies of ``def`` and of ``async def`` jobs at once, on threads and
        on an event loop in a thread of its own. ``lease``: how soon after a crash others take over; it is renewed
        while a body runs. ``grace``: how long bodies may go on after a stop. ``poll``: shortest and longest time
        between two looks.
        ``hook(event, job, run_id)`` is told of each event, see ``EVENTS``; of a workflow's step with the step's name.
        ``metrics``: print the figures of its queues once a minute, as log lines that CloudWatch turns into metrics;
        ``None``: if ``DYNADURABLE_METRICS`` is ``emf``.

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
        return self.operations.hire(queues, settings, self.driver, self.loops)[0]

    # --- the table --------------------------------------------------------------------------------

    def create_table(self) -> bool:
        """Create the table for development, on demand and with TTL switched on; false if it was there already.

        Raises:
            TableSchemaError: it exists with other keys.
        """
        return self.driver.run(self.operations.create_table())

    def cleaner(
        self, *, rate: float = DEFAULT_RATE, read_rate: float = DEFAULT_READ_RATE, dry_run: bool = False
    ) -> Cleaner:
        """The cleaner of the table: removes what has expired, and what crashes have left. Nothing is sent yet.

        At most ``rate`` write units and ``read_rate`` read units are spent per second. ``dry_run`` only counts.

        >>> print(app.cleaner().estimate())  # doctest: +SKIP
        >>> app.cleaner(rate=50).run()  # doctest: +SKIP

        Raises:
            ConfigurationError: a rate that cannot be kept.
        """
        return Cleaner(self, CleanSettings(rate=rate, read_rate=read_rate, dry_run=dry_run))

    def ledger(self) -> AbstractContextManager[Ledger]:
        """Counts what this app sends while inside, from whichever thread: requests, read and write units.

        Units are counted by item sizes, and where those are not known by what DynamoDB reports. Several may be open at
        a time, each for a scenario of its own; while none is, nothing is counted and nothing is slower.

        >>> with app.ledger() as cost:  # doctest: +SKIP
        ...     place_order("o-17")
        >>> assert cost.write_units <= 5, cost  # doctest: +SKIP
        """
        return self.driver.meter.ledger()

    @cached_property
    def doctor(self) -> Doctor:
        """What is the matter with the table, and with what is in it."""
        return Doctor(DoctorPlans(self.operations), self.driver.run)

    def check_table(self) -> None:
        """Whether the table is there, has the right keys, and may be read.

        Raises:
            TableMissingError, TableSchemaError, PermissionMissingError: each names the remedy.
        """
        self.driver.run(self.operations.check_table())


class JobDecorator:
    """What ``@app.job(...)`` gives; spelled out for type checkers."""

    @overload
    def __call__(
        self, function: Callable[Concatenate[AsyncJobContext, Params], Coroutine[Any, Any, Returned]], /
    ) -> AsyncJob[Params, Returned]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[JobContext, Params], Returned], /) -> Job[Params, Returned]: ...
    @overload
    def __call__(self, function: Callable[Params, Coroutine[Any, Any, Returned]], /) -> AsyncJob[Params, Returned]: ...
    @overload
    def __call__(self, function: Callable[Params, Returned], /) -> Job[Params, Returned]: ...
    def __call__(self, _function: Callable[..., Any], /) -> Any:
        raise TypeError("only for type checkers")
