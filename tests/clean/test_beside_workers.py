"""Cleaners beside workers, callers and operators, with everything that may go wrong, decided by seeds."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any, ClassVar
from unittest import mock

import pytest
from pynamodb.expressions.condition import Condition

from dynadurable.storage import cleaning, leftovers
from dynadurable.storage.leftovers import Subject
from tests.simulation.cleaning import CleaningCast, CleaningChecker, shortened
from tests.simulation.play import failing, play
from tests.simulation.world import World

CHUNK = 40
CHUNKS = 5
MUTANT_SEEDS = 400


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    with shortened():
        yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("first", range(0, CHUNK * CHUNKS, CHUNK))
def test_a_cleaner_never_touches_what_lives(first: int) -> None:
    assert failing(range(first, first + CHUNK), CleaningCast) == []


class NotedCast(CleaningCast):
    """Remembers the casts that were made."""

    made: ClassVar[list[CleaningCast]] = []

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.made.append(self)


def test_the_seeds_have_something_to_clean() -> None:
    NotedCast.made.clear()
    for seed in range(10):
        play(seed, NotedCast)
    checkers = [cast.checker for cast in NotedCast.made]
    assert sum(checker.removed for checker in checkers if isinstance(checker, CleaningChecker)) > 10


def unconditionally(seen: Subject) -> Condition:
    condition: Condition = type(seen.item).pk.exists()
    return condition


MUTANTS: dict[str, Any] = {
    "deletes whatever is there by now": (cleaning, "_as_seen", unconditionally),
    "does not wait for the grace time": (leftovers, "_is_abandoned", lambda mark, _: mark.is_pointer),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_the_simulation_notices_a_cleaner_that(mutant: str) -> None:
    with mock.patch.object(*MUTANTS[mutant]):
        assert any(failing([seed], CleaningCast) for seed in range(MUTANT_SEEDS))
