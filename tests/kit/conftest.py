"""A kit around a small shop: plain and async jobs, plain and async workflows, schedules."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dynadurable.testing.backend import backend
from dynadurable.testing.kit import Kit, kit
from tests.kit import shop


@pytest.fixture
def tools(request: pytest.FixtureRequest) -> Iterator[Kit]:
    """The kit, in memory unless the test says otherwise."""
    shop.outbox.clear()
    with backend(getattr(request, "param", "memory")) as made, kit(shop.app, made) as opened:
        yield opened
    shop.outbox.clear()
