"""Rigs, and what every test of workflows may ask for."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.workflow.rig import Define, Rig

MakeRig = Callable[[Define], Rig]


@pytest.fixture
def make_rig() -> Iterator[MakeRig]:
    """Makes rigs; their threads end with the test."""
    made: list[Rig] = []

    def make(define: Define) -> Rig:
        made.append(Rig(define=define))
        return made[-1]

    yield make
    for rig in made:
        rig.close()


@pytest.fixture
def one_in() -> int:
    """How many of the cases that a loop might try it does: all of them, or one in so many where each takes long."""
    return 1
