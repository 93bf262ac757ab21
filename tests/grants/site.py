"""A table in memory, an app on it, and somebody who acts there in a role."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from botocore.exceptions import ClientError, ReadTimeoutError

from dynadurable import App, Job, JobContext, Queue, Retry
from dynadurable.lease import Lease
from dynadurable.testing.clock import ManualClock
from dynadurable.testing.memory import MemoryClient, MemoryStore
from dynadurable.workflow.context import WorkflowContext
from tests.mortal import WRITES, GoneError, MortalClient, drain
from tests.watch import Sent, Watch

TABLE = "shop"
DAY, HOUR, MINUTE = timedelta(days=1), timedelta(hours=1), timedelta(minutes=1)
ONE_TRY = Retry(max_attempts=1)
MAX_CRASHES = 200


class Client:
    """A client at whose next request of a kind something else happens first. This one has no faults."""

    def __init__(self, store: MemoryStore) -> None:
        self._client = MemoryClient(store)
        self.meta = self._client.meta
        self._method = ""
        self._first: Callable[[], object] | None = None

    def before(self, method: str, first: Callable[[], object]) -> None:
        self._method, self._first = method, first

    def __getattr__(self, name: str) -> Any:
        if name == self._method and self._first is not None:
            first, self._first = self._first, None
            first()
        method = getattr(self._client, name)
        return lambda **params: self._send(name, method, params)

    def _send(self, name: str, method: Callable[..., Any], params: dict[str, Any]) -> Any:
        return method(**params)


class HidingClient(Client):
    """The store does not show the item that a failed condition met."""

    def _send(self, name: str, method: Callable[..., Any], params: dict[str, Any]) -> Any:
        try:
            return method(**params)
        except ClientError as error:
            error.response.pop("Item", None)  # type: ignore[typeddict-item]
            raise


class LosingClient(HidingClient):
    """And of each write the first reply is lost."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__(store)
        self._seen: set[str] = set()

    def _send(self, name: str, method: Callable[..., Any], params: dict[str, Any]) -> Any:
        request = f"{name} {params}"
        if name not in WRITES or request in self._seen:
            return super()._send(name, method, params)
        self._seen.add(request)
        with contextlib.suppress(ClientError):
            method(**params)
        raise ReadTimeoutError(endpoint_url="memory://")


@dataclass(kw_only=True)
class Site:
    """One table. What ``app``'s jobs do, tests ask for by name. All that is sent in a role is added to ``sent``."""

    watch: Watch
    sent: set[Sent]
    make_client: type[Client] = Client
    store: MemoryStore = field(default_factory=lambda: MemoryStore(locked=True))
    clock: ManualClock = field(default_factory=ManualClock)
    tokens: dict[str, str] = field(default_factory=dict)
    during: Callable[[JobContext], object] = lambda _ctx: None
    """What the body of ``call`` does."""

    def __post_init__(self) -> None:
        self.client = self.make_client(self.store)
        self.app = self.make_app(client=self.client, build="v1")
        if TABLE not in MemoryClient(self.store).list_tables()["TableNames"]:
            self.make_app().create_table()

    def make_app(self, **options: Any) -> App:
        """Another process, whose client has no faults unless one is given."""
        chosen = {"client": MemoryClient(self.store), "clock": self.clock, **options}
        app = App(TABLE, queues=[Queue(name="default", shards=1)], **chosen)
        _define(app, self)
        return app

    def make_scheduled_app(self, cron: str) -> App:
        """One whose code has a schedule."""
        app = self.make_app(client=self.client)

        @app.schedule(cron, overlap="queue")
        def tick() -> None: ...

        return app

    @contextmanager
    def acting(self) -> Iterator[None]:
        """What is sent inside is sent in the role whose scene it is."""
        with self.watch.acting_out() as sent:
            yield
        self.sent |= sent

    def rows(self, kind: str) -> list[dict[str, Any]]:
        """What is stored of a kind."""
        return [row for row in self.store.items(TABLE) if row["pk"]["S"].startswith(f"{kind}#")]

    def job(self, name: str) -> Any:
        found = self.app.registry.get(name)
        assert found is not None
        return found

    def enqueue(self, name: str, *args: Any, key: str | None = None, delay: timedelta | None = None) -> Any:
        return self.app.enqueue(self.job(name).using(key=key, delay=delay), *(args or ARGUMENTS.get(name, ())))

    def work(self, app: App | None = None) -> None:
        """A worker works off what is due."""
        (app or self.app).worker(concurrency=1).drain()

    def work_through(self, *, rounds: int = 20) -> None:
        """The same, from one instant at which something comes due to the next, for up to two days."""
        end = self.clock.now() + 2 * DAY
        for _ in range(rounds):
            due_at = self.app.worker(concurrency=1).drain()
            if due_at is None or due_at > end:
                return
            self.clock.advance(max(timedelta(milliseconds=1), due_at - self.clock.now()))

    def crashes(self, *names: str) -> Iterator[Site]:
        """Tables like this one on which a worker died after each of its writes in turn, while it worked on these."""
        for nth in range(1, MAX_CRASHES):
            site = Site(watch=self.watch, sent=self.sent, make_client=self.make_client)
            for name in names:
                site.enqueue(name, key=name if name in KEYED else None)
            mortal = MortalClient(MemoryClient(site.store), nth=nth, applied=True)
            try:
                drain(site.make_app(client=mortal))
            except GoneError:
                yield site
            else:
                return
        raise AssertionError("there is no end to it")


KEYED = {"die", "kept"}
ARGUMENTS = {"kept": (1,)}


def _define(app: App, site: Site) -> None:
    @app.job
    def plain() -> None: ...

    @app.job(keep_result=DAY)
    def kept(size: int) -> str:
        return "x" * size

    @app.job
    def take(data: bytes) -> None: ...

    @app.job(retry=Retry(max_attempts=3))
    def fail() -> None:
        raise ValueError("again")

    @app.job(retry=ONE_TRY, keep_failed=HOUR)
    def die() -> None:
        raise ValueError("for good")

    @app.job
    def call(ctx: JobContext) -> None:
        site.during(ctx)

    _define_workflows(app, site, kept)


def _define_workflows(app: App, site: Site, child: Job[[int], str]) -> None:
    @app.workflow(keep_result=DAY)
    def wait(ctx: WorkflowContext) -> list[Any]:
        ctx.step(lambda: "a" * 600, name="first")
        ctx.step(lambda: "b" * 600, name="second")
        approval = ctx.callback("approval", timeout=DAY)
        site.tokens["approval"] = approval.token
        return [ctx.wait_event("go", timeout=DAY, default=None), approval.result(default=None)]

    @app.workflow
    def parent(ctx: WorkflowContext) -> list[str]:
        children = [ctx.start(child, 1), ctx.start(child, 2)]
        return [child.result() for child in children]

    @app.workflow
    def wait_for_two(ctx: WorkflowContext) -> None:
        def one(ctx: WorkflowContext, name: str) -> None:
            ctx.wait_event(name, timeout=HOUR, default=None)

        ctx.map(one, ["left", "right"])

    @app.workflow
    def guarded(ctx: WorkflowContext) -> None:
        lease: Lease = app.lease("guard", ttl=MINUTE)
        with lease:
            item = {"pk": {"S": "own#1"}, "sk": {"S": "own"}}
            ctx.commit(lease.condition_check(), {"Put": {"TableName": TABLE, "Item": item}})

    @app.workflow
    def undo(ctx: WorkflowContext) -> None:
        ctx.on_failure(lambda: None, name="back")
        ctx.sleep(DAY)
