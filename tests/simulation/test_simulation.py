"""Two thousand seeds on every run; ``python -m tests.simulation.run --seeds 100000`` for more.

What seeds have found is played by hand in ``test_findings.py``.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from tests.simulation.cases import CASES
from tests.simulation.casts import CASTS, TURNS
from tests.simulation.play import failing, play
from tests.simulation.rules import EQUIVALENT
from tests.simulation.survey import rows

CHUNK = 40
CHUNKS = 50


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("first", range(0, CHUNK * CHUNKS, CHUNK))
def test_every_promise_is_kept_whatever_goes_wrong(first: int) -> None:
    assert failing(range(first, first + CHUNK)) == []


def test_every_cast_has_its_turn() -> None:
    assert set(TURNS) == set(CASTS)


@pytest.mark.parametrize("seed", range(42, 42 + len(TURNS)))
def test_a_seed_plays_the_same_again(seed: int) -> None:
    assert play(seed).history == play(seed).history


@pytest.mark.parametrize("case", CASES)
def test_a_defect_of_others_is_found_when_its_protection_is_off(case: str) -> None:
    seed = CASES[case].seed
    assert CASES[case].found(range(seed, seed + 1)) is not None


PARTS = 8


@pytest.mark.parametrize("part", range(PARTS))
def test_each_condition_is_missed_by_the_seed_that_is_recorded_for_it(part: int) -> None:
    missed = [row for row in rows()[part::PARTS] if row.caught_again() is None]
    assert missed == [], "make the table anew: python -m tests.simulation.run --mutants"


def test_no_condition_is_superfluous_without_a_reason() -> None:
    assert not {row.name for row in rows()} & set(EQUIVALENT)
