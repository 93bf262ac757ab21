"""Each story ends well, and does not end well without the clause that it is about."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from tests.simulation.stories import STORIES
from tests.simulation.survey import mutant_of


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("name", STORIES)
def test_a_story_ends_well_with_its_clause_only(name: str) -> None:
    STORIES[name]()
    with pytest.raises((AssertionError, pytest.fail.Exception)), mutant_of(name).apply():
        STORIES[name]()
