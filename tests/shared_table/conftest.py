"""The apps of other tests, in a table that is somebody else's: which place in it goes by the name of the test.

They run on the memory store. ``DYNADURABLE_SHARED_TABLE=moto`` or ``=ministack`` has them run there, in a table with an
index and a stream, and takes the long ones along; ``=memory`` takes these along here.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from dynadurable import App
from dynadurable.storage.schema import TableSchema
from dynadurable.testing.clock import ManualClock
from dynadurable.testing.memory import MemoryClient, MemoryStore
from tests.integration import schedule_world
from tests.servers import Store
from tests.shared_table import foreign
from tests.workflow import rig as rigs

ASKED = os.environ.get("DYNADURABLE_SHARED_TABLE")
STORE = ASKED or "memory"


@pytest.fixture
def place(request: pytest.FixtureRequest) -> TableSchema:
    return foreign.place_for(request.node.name)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def shared_client(place: TableSchema, request: pytest.FixtureRequest) -> Iterator[Any]:
    """A client on such a table. After the test not one foreign item has changed."""
    if STORE == "memory":
        client: Any = MemoryClient(MemoryStore(locked=True))
    else:
        open_store: Callable[[str], Store] = request.getfixturevalue("open_store")
        client = open_store(STORE).client
    foreign.create(client, place, with_indexes=STORE != "memory")
    foreign.fill(client, place)
    try:
        yield client
        assert foreign.changed(client, place) == []
    finally:
        client.delete_table(TableName=place.table)


@pytest.fixture
def make_app(shared_client: Any, place: TableSchema, clock: ManualClock) -> Iterator[Callable[..., App]]:
    """Leases that the apps hold end with the test."""
    made: list[App] = []

    def make(**options: Any) -> App:
        where = {**foreign.options_of(place), "client": shared_client, "clock": clock}
        made.append(App(place.table, **{**where, **options}))
        return made[-1]

    yield make
    for app in made:
        app.lease_parts.keeper.stop()


@pytest.fixture
def app(make_app: Callable[..., App]) -> App:
    return make_app()


@pytest.fixture
def items_in(shared_client: Any, place: TableSchema) -> Callable[[App], list[dict[str, Any]]]:
    """What the app has stored, under the names that the tests know."""
    return lambda _app: foreign.ours(shared_client, place)


# --- schedules ------------------------------------------------------------------------------------


class SharedWorld(schedule_world.World):
    """Processes with schedules, in such a table."""

    def __init__(self, client: Any, place: TableSchema) -> None:
        super().__init__(client=client)
        self._place = place

    def process(self, client: Any = None, **options: Any) -> App:
        return super().process(client, **foreign.options_of(self._place), **options)

    def items(self, prefix: str) -> list[dict[str, Any]]:
        return [item for item in foreign.ours(self.client, self._place) if item["pk"]["S"].startswith(prefix)]


@pytest.fixture
def world(shared_client: Any, place: TableSchema, monkeypatch: pytest.MonkeyPatch) -> SharedWorld:
    monkeypatch.setattr(schedule_world, "App", lambda _table, **options: App(place.table, **options))
    return SharedWorld(shared_client, place)


# --- workflows ------------------------------------------------------------------------------------


@pytest.fixture
def make_rig(place: TableSchema, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., rigs.Rig]]:
    """Workflows always run on the memory store: their processes die at writes of their choice."""
    made: list[SharedRig] = []

    def make(define: rigs.Define) -> rigs.Rig:
        store = MemoryStore(locked=True)
        foreign.create(MemoryClient(store), place, with_indexes=False)
        foreign.fill(MemoryClient(store), place)
        made.append(SharedRig(define=define, store=store))
        made[-1].place = place
        return made[-1]

    in_it = functools.partial(App, place.table, **foreign.options_of(place))
    monkeypatch.setattr(rigs, "App", lambda _table, **options: in_it(**options))
    yield make
    for rig in made:
        rig.close()
        assert foreign.changed(MemoryClient(rig.store), place) == []


class SharedRig(rigs.Rig):
    """A rig in such a table."""

    place: TableSchema

    def rows(self, kind: str) -> list[dict[str, Any]]:
        found = foreign.ours(MemoryClient(self.store), self.place)
        return [item for item in found if item["pk"]["S"].startswith(f"{kind}#")]
