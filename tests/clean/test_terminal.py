"""The checker of expiries sees what it should; and over every write of many seeds it sees nothing wrong."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from tests.simulation.cleaning import CleaningCast, shortened
from tests.simulation.play import play
from tests.simulation.world import World
from tests.terminal import misplaced_ttls


@pytest.fixture
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    with shortened():
        yield
    logging.disable(logging.NOTSET)


def item(pk: str, sk: str, **more: Any) -> dict[str, Any]:
    return {"pk": {"S": pk}, "sk": {"S": sk}, "dd_v": {"N": "1"}, **more}


SECONDS = {"N": "1800619200"}
LIVE, DEAD, DONE = ({"S": state} for state in ("live", "dead", "succeeded"))


@pytest.mark.parametrize(
    ("items", "wrong"),
    [
        ([item("queue#q#0", "1#x", ttl=SECONDS)], 1),
        ([item("queue#q#0", "1#x")], 0),
        ([item("lease#1", "x", ttl=SECONDS)], 1),
        ([item("run#x", "run", dd_state=LIVE, ttl=SECONDS)], 1),
        ([item("run#x", "run", dd_state=DONE)], 1),
        ([item("run#x", "run", dd_state=DONE, ttl=SECONDS)], 0),
        ([item("run#x", "run", dd_state=DONE, ttl={"N": "1800619200000"})], 1),
        ([item("run#x", "run", dd_state=DONE, ttl={"N": "1800619200.5"})], 1),
        ([item("run#x", "run", dd_state=DONE, ttl={"S": "1800619200"})], 1),
        ([item("run#x", "run", dd_state=DEAD)], 0),
        ([item("run#x", "run", dd_state=LIVE, dd_gen={"S": "g"}), item("run#x", "page#g#1#1", ttl=SECONDS)], 1),
        ([item("run#x", "run", dd_state=LIVE, dd_gen={"S": "g"}), item("run#x", "page#g#1#1")], 0),
        ([item("run#x", "run", dd_state=LIVE, dd_gen={"S": "g"}), item("run#x", "page#f#1#1", ttl=SECONDS)], 0),
        ([{"pk": {"S": "queue#q#0"}, "sk": {"S": "mine"}, "ttl": SECONDS}], 0),
    ],
)
def test_the_checker_sees_what_is_misplaced(items: list[dict[str, Any]], wrong: int) -> None:
    assert len(misplaced_ttls(items)) == wrong


class Watched(CleaningCast):
    """Looks at the whole table after every tenth write."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._writes = 0
        world.watchers.append(self._watch)

    def _watch(self, *_: Any) -> None:
        self._writes += 1
        if self._writes % 10 == 0:
            self.check()

    def check(self) -> None:
        wrong = misplaced_ttls(self.world.all_items())
        assert not wrong, f"seed {self.world.seed}: {wrong}"


@pytest.mark.usefixtures("_quiet")
def test_no_expiry_is_ever_misplaced_whatever_goes_wrong() -> None:
    for seed in range(30):
        world = play(seed, Watched)
        assert misplaced_ttls(world.all_items()) == []
