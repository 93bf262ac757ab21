"""An app for tests of event loops: over aioboto3 where that is installed, else over boto3 on threads."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from dynadurable import App
from dynadurable.clock import Clock
from dynadurable.worker.worker import Worker
from tests.faults import FaultPlan
from tests.patience import until
from tests.servers import Store

NOW = timedelta(0)
QUICK = (timedelta(seconds=0.02), timedelta(seconds=0.1))


class WatchedSession:
    """A session of aioboto3 whose clients a fault plan watches."""

    def __init__(self, session: Any, plan: FaultPlan, client_kwargs: dict[str, Any]) -> None:
        self._session = session
        self._plan = plan
        self._kwargs = client_kwargs
        self.made = 0

    def client(self, service: str, **settings: Any) -> AbstractAsyncContextManager[Any]:
        return self._client(service, {**settings, **self._kwargs})

    @asynccontextmanager
    async def _client(self, service: str, settings: dict[str, Any]) -> AsyncIterator[Any]:
        async with self._session.client(service, **settings) as client:
            self.made += 1
            self._plan.attach(client)
            yield client


@dataclass(kw_only=True)
class World:
    """An app on a fresh table, and a fault plan that sees all of its requests."""

    app: App
    clock: Clock
    plan: FaultPlan
    store: Store
    session: WatchedSession | None

    def rows(self) -> list[dict[str, Any]]:
        """Everything in the table, but who is at work."""
        found: list[dict[str, Any]] = self.store.client.scan(TableName=self.app.schema.table)["Items"]
        return [row for row in found if not row["pk"]["S"].startswith("workers")]

    def mark(self) -> tuple[str | None, int]:
        """Token and attempt of the only mark there is."""
        [row] = [row for row in self.rows() if row["pk"]["S"].startswith("queue#")]
        return row.get("dd_token", {}).get("S"), int(row["dd_attempt"]["N"])


def play(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run it on a loop of its own, and see that neither a task nor a thread of ours is left."""

    async def checked() -> None:
        await main()
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(checked())
    left = our_threads()
    assert left == [], left


_strangers: set[threading.Thread] = set()


def note_strangers() -> None:
    """What runs already is not the doing of the test that begins."""
    _strangers.clear()
    _strangers.update(threading.enumerate())


def our_threads() -> list[str]:
    """The threads of the library that this test has brought about."""
    names = [thread.name for thread in threading.enumerate() if thread not in _strangers]
    ours = [name for name in names if name.startswith("dynadurable")]
    return [name for name in ours if not name.startswith("dynadurable-spawn")]  # that one starts the tests' servers


class Log:
    """What bodies have done, from any thread."""

    def __init__(self) -> None:
        self.lines: list[Any] = []

    def __call__(self, line: Any) -> None:
        self.lines.append(line)

    def wait(self, line: Any) -> None:
        until(lambda: line in self.lines, f"{line!r} in {self.lines}")


def started(app: App, **options: Any) -> Worker:
    worker = app.worker(poll=QUICK, **options)
    worker.start()
    return worker


def in_background(call: Callable[[], Any]) -> threading.Thread:
    thread = threading.Thread(target=call)
    thread.start()
    return thread
