"""Apps on a fresh table: on moto in this process, with a clock that only the test moves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dynadurable import App
from dynadurable.testing.clock import ManualClock
from tests.servers import Store


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def make_app(moto_store: Store, clock: ManualClock) -> Callable[..., App]:
    """Apps on one and the same fresh table; options of ``App`` may be given."""
    table = moto_store.table()

    def make(**options: Any) -> App:
        return App(table, **{"client": moto_store.client, "clock": clock, **options})

    return make


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
