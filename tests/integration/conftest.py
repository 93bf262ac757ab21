"""Apps on a fresh table: on moto in this process, with a clock that only the test moves."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from dynadurable import App
from dynadurable.clock import Clock, SystemClock
from dynadurable.testing.clock import ManualClock
from dynadurable.testing.memory import MemoryClient, MemoryStore
from tests.faults import FaultPlan
from tests.integration.world import Log, WatchedSession, World, note_strangers
from tests.servers import Store


@pytest.fixture(autouse=True)
def strangers() -> None:
    """Before anything else: what runs already is not the doing of the test that begins."""
    note_strangers()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def app_type() -> type[App]:
    """What apps are made of; ``KeyedApp`` where what holds for plain jobs is to hold for runs with keys."""
    return App


@pytest.fixture
def make_app(moto_store: Store, clock: ManualClock, app_type: type[App]) -> Iterator[Callable[..., App]]:
    """Apps on one and the same fresh table; options of ``App`` may be given. Leases they hold end with the test."""
    table = moto_store.table()
    made: list[App] = []

    def make(**options: Any) -> App:
        made.append(app_type(table, **{"client": moto_store.client, "clock": clock, **options}))
        return made[-1]

    yield make
    for app in made:
        app.lease_parts.keeper.stop()


@pytest.fixture
def memory() -> MemoryClient:
    """A store for tests that make many requests, and need neither a server nor its faults."""
    return MemoryClient(MemoryStore(locked=True))


@pytest.fixture
def app(make_app: Callable[..., App]) -> App:
    return make_app()


@pytest.fixture
def items_in(moto_store: Store) -> Callable[[App], list[dict[str, Any]]]:
    """Everything in an app's table, as stored."""

    def read(app: App) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = moto_store.client.scan(TableName=app.schema.table)["Items"]
        return found

    return read


WORLDS = ["threads", pytest.param("aioboto3", marks=[pytest.mark.aio, pytest.mark.server])]


@pytest.fixture(params=WORLDS)
def world(request: pytest.FixtureRequest, open_store: Callable[[str], Store], app_type: type[App]) -> Iterator[World]:
    """An app on the machine's clock, for event loops: on either transport in turn."""
    with _opened(request.param, open_store, SystemClock(), app_type) as opened:
        yield opened


@pytest.fixture(params=WORLDS)
def still_world(
    request: pytest.FixtureRequest, open_store: Callable[[str], Store], clock: ManualClock, app_type: type[App]
) -> Iterator[World]:
    """The same with a clock that only the test moves."""
    with _opened(request.param, open_store, clock, app_type) as opened:
        yield opened


@contextmanager
def _opened(kind: str, open_store: Callable[[str], Store], clock: Clock, app_type: type[App]) -> Iterator[World]:
    with_client = kind == "aioboto3"
    store, plan = open_store("ministack" if with_client else "moto"), FaultPlan()
    plan.attach(store.client)
    session = WatchedSession(_aioboto3_session(), plan, store.client_kwargs) if with_client else None
    app = app_type(store.table(), client=store.client, aio_session=session, clock=clock)
    with plan:
        yield World(app=app, clock=clock, plan=plan, store=store, session=session)


@pytest.fixture
def log() -> Log:
    """What bodies have done, from any thread."""
    return Log()


@functools.cache
def _aioboto3_session() -> Any:
    import aioboto3

    return aioboto3.Session()
