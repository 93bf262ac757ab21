"""A fan-out to 10,000 followers whose workers are killed at random points, by SIGKILL."""

from __future__ import annotations

import io
import random
import threading
from collections.abc import Iterator
from itertools import pairwise

import pytest
from rich.console import Console

from dynadurable.clock import SystemClock
from dynadurable.demo import check, place
from dynadurable.demo.crew import WorkerProcess
from dynadurable.demo.door import Passage
from dynadurable.demo.report import REPEATED_AT_MOST
from dynadurable.demo.screen import Screen
from dynadurable.demo.stage import Settings, Stage
from dynadurable.demo.tally import FINISHED, POSTED
from tests.process.workshop import wait_until

pytest.importorskip("networkx")
pytestmark = [pytest.mark.server, pytest.mark.slow, pytest.mark.chaos, pytest.mark.timeout(240)]

FOLLOWERS = 10_000
KILLS = 5
REQUESTS_APART = 90  # at most: the whole fan-out makes 500


@pytest.fixture
def stage() -> Iterator[Stage]:
    place.put_on_path()
    from krabber.graph import STAR, Graph

    names = [f"krab-{number:05d}" for number in range(FOLLOWERS)]
    graph = Graph(krabs=[STAR, "stranger"], followers={STAR: names})
    settings = Settings(lease_seconds=2.0)
    with Stage(settings, Screen(Console(file=io.StringIO())), SystemClock(), graph) as made:
        made.fill()
        yield made


class Killer:
    """Kills a worker with its n-th request after its claim: when the store has done it, before the reply."""

    def __init__(self, stage: Stage, worker: WorkerProcess, *, after_requests: int) -> None:
        self._stage = stage
        self._worker = worker
        self._claims = len(stage.tally.claims)
        self._left = after_requests
        self._lock = threading.Lock()
        self.done = threading.Event()

    def __call__(self, passage: Passage) -> None:
        with self._lock:
            if len(self._stage.tally.claims) == self._claims or self.done.is_set():
                return
            self._left -= 1
            if self._left <= 0:
                self._worker.kill()
                self.done.set()


def test_ten_thousand_followers_and_five_kills(stage: Stage) -> None:
    """Complete, and each kill makes at most two pages be written again."""
    seed = random.randrange(2**32)
    dice = random.Random(seed)
    molt = stage.post("hello")
    repeated = [0]
    for number in range(KILLS):
        worker = new_worker(stage, number)
        with worker:
            killer = Killer(stage, worker, after_requests=dice.randint(1, REQUESTS_APART))
            stage.on_passage = killer
            wait_until(killer.done.is_set, "the kill")
        repeated.append(stage.tally.repeated)
    with new_worker(stage, KILLS) as worker:
        wait_until(lambda: FINISHED in stage.tally.spent(), "the end")
        assert worker.stop() == 0
    repeated.append(stage.tally.repeated)

    found = check.delivered(stage.reader, table=stage.table, author=stage.star, molt_id=molt.sk)
    assert found.complete, f"seed {seed}: {found}"
    assert found.once == FOLLOWERS
    lost = len(stage.tally.claims) - (
        KILLS + 1
    )  # leases that ran out under a live worker, on a machine that is too busy
    assert lost >= 0
    per_kill = [after - before for before, after in pairwise(repeated)]
    assert max(per_kill) <= REPEATED_AT_MOST * (1 + lost), f"seed {seed}: {per_kill}"
    spent = stage.tally.spent()
    assert spent[POSTED].units == 2
    assert spent[FINISHED].writes == 1


def new_worker(stage: Stage, number: int) -> WorkerProcess:
    return WorkerProcess(
        stage.door.endpoint_url,
        lease_seconds=stage.settings.lease_seconds,
        log=stage.folder / f"worker-{number}.log",
    )
