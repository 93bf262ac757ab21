"""Some thousand seeds on every run; ``python -m tests.simulation.run --seeds 100000`` for more."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from tests.simulation.run import failing, play

CHUNK = 50
CHUNKS = 12

FOUND = {
    9: "an enqueue whose reply was lost is put again after its run has ended: allowed, and told apart",
    1609: "a keyed transaction sent late took the fence of the key back",
}
"""Seeds that found something once, and what it was."""


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("first", range(0, CHUNK * CHUNKS, CHUNK))
def test_every_promise_is_kept_whatever_goes_wrong(first: int) -> None:
    assert failing(range(first, first + CHUNK)) == []


@pytest.mark.parametrize("seed", FOUND)
def test_what_a_seed_once_found_stays_mended(seed: int) -> None:
    assert failing([seed]) == []


def test_a_seed_plays_the_same_again() -> None:
    assert play(42).history == play(42).history
