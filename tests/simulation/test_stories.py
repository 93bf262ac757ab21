"""Each story ends well, and does not end well without the clause that it is about."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from tests.simulation.mutants import clause_mutant
from tests.simulation.stories import STORIES


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("name", STORIES)
def test_a_story_ends_well_with_its_clause_only(name: str) -> None:
    STORIES[name]()
    where, what = name.split(": ", 1)
    with pytest.raises((AssertionError, pytest.fail.Exception)), clause_mutant(where, what).apply():
        STORIES[name]()
