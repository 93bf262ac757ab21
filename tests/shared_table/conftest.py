"""The apps of the integration tests, in a table that is somebody else's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from dynadurable import App
from dynadurable.testing.clock import ManualClock
from dynadurable.testing.memory import MemoryClient, MemoryStore
from tests.shared_table import foreign

TABLE = "somebody-elses"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def shared_client() -> Iterator[Any]:
    """A client on such a table. After the test not one foreign item has changed."""
    client = MemoryClient(MemoryStore(locked=True))
    foreign.create(client, TABLE, with_indexes=False)
    foreign.fill(client, TABLE)
    yield client
    assert foreign.untouched(client, TABLE)


@pytest.fixture
def make_app(shared_client: Any, clock: ManualClock) -> Iterator[Callable[..., App]]:
    """Leases that the apps hold end with the test."""
    made: list[App] = []

    def make(**options: Any) -> App:
        where = {"partition_key": "PK", "sort_key": "SK", "ttl": None, "prefix": foreign.PREFIX}
        made.append(App(TABLE, **{**where, "client": shared_client, "clock": clock, **options}))
        return made[-1]

    yield make
    for app in made:
        app.lease_parts.keeper.stop()


@pytest.fixture
def app(make_app: Callable[..., App]) -> App:
    return make_app()


@pytest.fixture
def items_in(shared_client: Any) -> Callable[[App], list[dict[str, Any]]]:
    """What the app has stored, under the names that the tests know."""
    return lambda _app: foreign.ours(shared_client, TABLE)
