"""Worker processes killed, stopped and frozen again, on runs with keys. What is right stands where the tests are."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.keyed import KeyedApp
from tests.process.test_crashes import (
    enqueue,
    pytestmark,
    test_a_body_that_ends_in_the_grace_period_is_recorded,
    test_a_job_that_kills_its_process_ends_as_a_dead_letter_and_its_neighbour_succeeds,
    test_a_signal_between_claim_and_body_leaves_the_run_as_if_never_claimed,
    test_shutdown_uses_no_attempt,
    test_the_job_of_a_killed_worker_is_taken_over_after_its_lease,
)
from tests.process.workshop import Workshop, wait_until
from tests.servers import Store

__all__ = [
    "pytestmark",
    "test_a_body_that_ends_in_the_grace_period_is_recorded",
    "test_a_job_that_kills_its_process_ends_as_a_dead_letter_and_its_neighbour_succeeds",
    "test_a_signal_between_claim_and_body_leaves_the_run_as_if_never_claimed",
    "test_shutdown_uses_no_attempt",
    "test_the_job_of_a_killed_worker_is_taken_over_after_its_lease",
]


@pytest.fixture
def workshop(ministack: Store, tmp_path: Path) -> Iterator[Workshop]:
    shop = Workshop(store=ministack, folder=tmp_path)
    shop.app = KeyedApp(shop.table, client=ministack.client)
    yield shop
    shop.close()


def test_what_a_frozen_worker_does_after_a_take_over_is_not_recorded(workshop: Workshop) -> None:
    """PUB-14 with SIGSTOP, and the run item is not touched by the old holder either."""
    run_id = enqueue(workshop, "steps", number=1, count=20, pause=0.1)
    first = workshop.start(lease=1.0, concurrency=1)
    wait_until(lambda: len(workshop.events("step")) >= 3, "some steps")
    os.kill(first.pid, signal.SIGSTOP)
    second = workshop.start(lease=1.0, concurrency=1)
    wait_until(lambda: len(workshop.events("start")) == 2, "the take-over")
    os.kill(first.pid, signal.SIGCONT)
    wait_until(lambda: workshop.events("end") and not workshop.marks(), "the end")
    before, after = workshop.events("start")
    assert after["fence"] > before["fence"]
    recorded: dict[int, list[int]] = {before["fence"]: [], after["fence"]: []}
    for step in workshop.events("step"):
        recorded[step["fence"]].append(step["step"])
    assert max(recorded[before["fence"]]) <= after["cursor"] < min(recorded[after["fence"]])
    assert sorted(step for steps in recorded.values() for step in steps) == list(range(1, 21))
    told = workshop.app.run(run_id).info()
    assert (told.state, told.attempts) == ("succeeded", 2)
    assert (workshop.stop(first), workshop.stop(second)) == (0, 0)
