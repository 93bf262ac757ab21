"""Worker processes with schedules are killed all the time: each slot gets one run."""

from __future__ import annotations

import random
import time
from collections import Counter
from datetime import datetime

import pytest

from tests.process.ticker_facts import INTERVAL, SCHEDULES
from tests.process.workshop import Workshop, wait_until
from tests.terminal import misplaced_ttls

pytestmark = pytest.mark.server

KILL_SECONDS = 14.0


@pytest.mark.slow
def test_each_slot_gets_one_run_under_a_kill_every_second(workshop: Workshop) -> None:
    """4 workers, 10 schedules with a slot every two seconds, a SIGKILL a second."""
    workshop.module = "tests.process.ticker"
    dice = random.Random(7)
    workers = [workshop.start() for _ in range(4)]
    wait_until(lambda: workshop.events("ran"), "the first slot")
    end = time.monotonic() + KILL_SECONDS
    while time.monotonic() < end:
        time.sleep(1.0)
        victim = dice.randrange(4)
        workshop.kill(workers[victim])
        workers[victim] = workshop.start()
    last = max(slots_of(workshop, 0))
    wait_until(lambda: all(last in slots_of(workshop, number) for number in range(SCHEDULES)), "the last slot of each")
    for worker in workers:
        workshop.stop(worker)  # the last one may not have got as far as to listen to signals
    runs = [item for item in workshop.items() if item["pk"]["S"].startswith("run#")]
    assert set(Counter(item["dd_key"]["S"] for item in runs).values()) == {1}
    for number in range(SCHEDULES):
        slots = sorted(slots_of(workshop, number))
        first = slots[0]
        assert slots == [first + step * INTERVAL for step in range(len(slots))], "no slot was left out"
        assert len(slots) >= KILL_SECONDS / INTERVAL.total_seconds() - 2
    per_slot: dict[tuple[int, str], set[str]] = {}
    for event in workshop.events("ran"):
        per_slot.setdefault((event["number"], event["slot"]), set()).add(event["run"])
    assert {len(run_ids) for run_ids in per_slot.values()} == {1}
    assert len([mark for mark in workshop.marks() if mark["dd_job"]["S"] == "!schedule"]) == SCHEDULES
    assert misplaced_ttls(workshop.items()) == []


def slots_of(workshop: Workshop, number: int) -> set[datetime]:
    return {datetime.fromisoformat(event["slot"]) for event in workshop.events("ran") if event["number"] == number}
