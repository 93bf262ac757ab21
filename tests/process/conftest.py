"""A workshop for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.process.workshop import Workshop
from tests.servers import Store


@pytest.fixture
def workshop(ministack: Store, tmp_path: Path) -> Iterator[Workshop]:
    shop = Workshop(store=ministack, folder=tmp_path)
    yield shop
    shop.close()
