"""One driver at a time, on a store: what the driver conformance tests step their plans with.

Every driver is asked the same questions, in plain functions; those for event loops answer from a loop of their own.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from dynadurable import App, AsyncJobContext, JobContext
from dynadurable.control.dead import DeadPlans
from dynadurable.control.dead_letters import DeadLetters
from dynadurable.drivers.aio import AioDriver
from dynadurable.drivers.boto3 import Boto3Driver
from dynadurable.drivers.transports import ClientTransport, ThreadTransport
from dynadurable.model.job import Job
from dynadurable.storage import marks, runs
from dynadurable.storage.call import Call, Plan
from dynadurable.storage.items import Items, Mark, Run
from dynadurable.storage.marks import Candidate
from dynadurable.testing.clock import ManualClock
from dynadurable.worker.attempt import Attempts
from dynadurable.worker.crew import WorkerSettings
from dynadurable.worker.engine import Engine
from tests.servers import Store

SHARDS = range(4)


@dataclass(kw_only=True)
class Driven:
    """An app on a fresh table, and the driver under test beside it."""

    app: App
    clock: ManualClock
    driver: Boto3Driver | AioDriver
    """The driver under test."""
    runner: asyncio.Runner | None
    """The event loop of a driver for event loops."""
    client: Any
    """What the driver sends with: the place to inject faults."""
    store: Store

    def __post_init__(self) -> None:
        worker, _ = self.app.operations.hire(["default"], WorkerSettings(), self.app.driver, self.app.loops)
        self.engine: Engine = worker.engine
        self.app.operations.workers.clear()  # nobody here starts eagerly

    @property
    def is_async(self) -> bool:
        return self.runner is not None

    def step(self, plan: Plan[Any], *, give_up_at: float | None = None) -> Any:
        """Run a plan on the driver under test; on a loop as workers do, which no plan may notice."""
        if isinstance(self.driver, Boto3Driver):
            return self.driver.run(plan, give_up_at=give_up_at)
        return self.call(functools.partial(self.driver.see_through, plan, give_up_at=give_up_at))

    def call(self, start: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """Run something on the driver's event loop."""
        assert self.runner is not None
        return self.runner.run(start())

    @property
    def items(self) -> Items:
        return self.app.items

    @property
    def dead(self) -> DeadLetters:
        """``app.dead`` on the driver under test."""
        return DeadLetters(DeadPlans(self.app.operations, self.app.run_plans), self.step)

    def job(self, body: Callable[..., Any], **options: Any) -> Job[..., Any]:
        """A job of the kind that the driver runs; ``body`` may have a context as its first parameter."""
        takes_context = next(iter(inspect.signature(body).parameters), "") == "ctx"
        job: Job[..., Any] = self.app.job(name="work", **options)(_of_kind(body, takes_context, self.is_async))
        return job

    def enqueue(self, job: Job[..., Any], *args: Any, **kwargs: Any) -> str:
        run_id: str = self.step(self.app.operations.enqueue(job, args, kwargs))
        return run_id

    def candidates(self) -> list[Candidate]:
        """What is due and free, shard by shard."""
        now_ms = self.clock.now_ms()
        found: list[Candidate] = []
        for shard in SHARDS:
            page = self.step(marks.poll(self.items, queue="default", shard=shard, limit=100, until_ms=now_ms))
            found += [one for one in page.candidates if one.lease_until_ms is None or one.lease_until_ms < now_ms]
        return found

    def work(self) -> list[str | None]:
        """One attempt at everything that is due and free; how each ended."""
        attempts = Attempts(self.engine, AsyncJobContext if self.is_async else JobContext)
        return [self.step(attempts.of(candidate)) for candidate in self.candidates()]

    def claim(self, token: str = "mine") -> Mark:
        """Claim the only mark that is due."""
        [candidate] = self.candidates()
        mark = self.step(self._claim(candidate, token))
        assert mark is not None
        claimed: Mark = mark
        return claimed

    def try_claim(self, candidate: Candidate, token: str) -> Mark | None:
        mark: Mark | None = self.step(self._claim(candidate, token))
        return mark

    def lease_until(self, seconds: float = 30.0) -> int:
        return self.clock.now_ms() + round(seconds * 1000)

    def rows(self) -> list[dict[str, Any]]:
        """Everything in the table."""
        found: list[dict[str, Any]] = self.store.client.scan(TableName=self.app.schema.table)["Items"]
        return found

    def run_item(self, run_id: str) -> Run:
        run = self.step(runs.read(self.items, run_id))
        assert run is not None
        item: Run = run
        return item

    def send(self, operation: str, **params: Any) -> Any:
        """One request of the test's own, through the driver."""
        return self.step(_only(Call(operation=operation, params=params)))

    def _claim(self, candidate: Candidate, token: str) -> Plan[Mark | None]:
        return marks.claim(
            self.items,
            pk=candidate.pk,
            sk=candidate.sk,
            token=token,
            now_ms=self.clock.earliest_ms(),
            lease_until_ms=self.lease_until(),
            worker="worker",
        )


async def _only(call: Call) -> Any:
    return await call


def _of_kind(body: Callable[..., Any], takes_context: bool, is_async: bool) -> Callable[..., Any]:
    if not is_async:

        def plain(ctx: JobContext, *args: Any, **kwargs: Any) -> Any:
            return body(ctx, *args, **kwargs)

        return plain if takes_context else body

    async def with_context(ctx: AsyncJobContext, *args: Any, **kwargs: Any) -> Any:
        returned = body(ctx, *args, **kwargs)
        return await returned if inspect.isawaitable(returned) else returned

    async def without(*args: Any, **kwargs: Any) -> Any:
        return body(*args, **kwargs)

    return with_context if takes_context else without


# --- the drivers ----------------------------------------------------------------------------------

DRIVERS = {
    "boto3-moto": "moto",
    "boto3-ministack": "ministack",
    "threads-moto": "moto",
    "threads-ministack": "ministack",
    "aioboto3-ministack": "ministack",
    "aiobotocore-ministack": "ministack",
}
"""Each driver, and the store that it is tried on."""
OF_LOOPS = ("aioboto3-ministack", "aiobotocore-ministack")
OF_OLDER_BOTO3 = ("boto3-ministack", "threads-moto")
"""Those that run once more beside aioboto3, on the older boto3 that it holds on to."""


@contextmanager
def drive(name: str, store: Store) -> Iterator[Driven]:
    """The driver of that name on a fresh table."""
    clock = ManualClock()
    table = store.table()
    with ExitStack() as stack:
        if name in OF_LOOPS:
            yield stack.enter_context(_on_client(name, store, table, clock))
            return
        app = App(table, client=store.client, clock=clock)
        driver: Boto3Driver | AioDriver = app.driver
        runner = None
        if name.startswith("threads"):
            runner = stack.enter_context(asyncio.Runner())
            driver = AioDriver(ThreadTransport(app.driver), clock)
            stack.callback(runner.run, driver.close())
        yield Driven(app=app, clock=clock, driver=driver, runner=runner, client=store.client, store=store)


@contextmanager
def _on_client(name: str, store: Store, table: str, clock: ManualClock) -> Iterator[Driven]:
    with asyncio.Runner() as runner:
        context = _client_of(name, store)
        client = runner.run(_entered(context))
        app = App(table, client=store.client, aio_client=client, clock=clock)
        driver = AioDriver(ClientTransport(client), clock)
        yield Driven(app=app, clock=clock, driver=driver, runner=runner, client=client, store=store)
        runner.run(app.aio.close())
        runner.run(context.__aexit__(None, None, None))


async def _entered(context: Any) -> Any:
    return await context.__aenter__()


def _client_of(name: str, store: Store) -> Any:
    from aiobotocore.config import AioConfig

    config = AioConfig(retries={"total_max_attempts": 1})
    session = _session_of(name)
    create = session.client if name.startswith("aioboto3") else session.create_client
    return create("dynamodb", config=config, **store.client_kwargs)


@functools.cache
def _session_of(name: str) -> Any:
    """One for all tests: a session loads the service's description once, and that takes longer than most tests."""
    import aioboto3
    from aiobotocore.session import AioSession

    return aioboto3.Session() if name.startswith("aioboto3") else AioSession()
