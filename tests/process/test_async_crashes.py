"""The tests of ``test_crashes.py`` with ``async def`` jobs, and with both kinds in one worker.

Each runs with the loop in a thread of the worker, and with the worker inside the process's own loop.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.process.test_crashes import (  # noqa: F401 - run again, with this module's workshop
    check_history,
    test_a_body_that_ends_in_the_grace_period_is_recorded,
    test_a_body_that_will_not_end_is_handed_back_and_the_exit_code_says_so,
    test_a_frozen_worker_that_wakes_up_after_a_take_over_records_nothing,
    test_a_job_that_kills_its_process_ends_as_a_dead_letter_and_its_neighbour_succeeds,
    test_a_second_signal_stops_at_once,
    test_a_signal_between_claim_and_body_leaves_the_run_as_if_never_claimed,
    test_renewal_goes_on_while_the_body_takes_longer_than_its_lease,
    test_shutdown_uses_no_attempt,
    test_the_job_of_a_killed_worker_is_taken_over_after_its_lease,
)
from tests.process.workshop import Workshop, wait_until
from tests.servers import Store

pytestmark = pytest.mark.server

WORKER = pytest.param("worker", id="loop-in-a-thread")
LOOP = pytest.param("loop", id="in-the-main-loop", marks=pytest.mark.aio)
# Where a test shows nothing new in one of the two, it runs in the other. A body can be left behind only by a loop in a
# thread: one in the main thread waits for its last task.
WHERE = {
    "test_a_body_that_will_not_end_is_handed_back_and_the_exit_code_says_so": [WORKER],
    "test_a_second_signal_stops_at_once": [WORKER],
    "test_shutdown_uses_no_attempt": [LOOP],
    "test_a_job_that_kills_its_process_ends_as_a_dead_letter_and_its_neighbour_succeeds": [LOOP],
    "test_renewal_goes_on_while_the_body_takes_longer_than_its_lease": [LOOP],
    "test_a_frozen_worker_that_wakes_up_after_a_take_over_records_nothing": [WORKER],
    "test_the_job_of_a_killed_worker_is_taken_over_after_its_lease": [LOOP],
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    metafunc.parametrize("workshop", WHERE.get(metafunc.function.__name__, [WORKER, LOOP]), indirect=True)


ENDED = {0, -signal.SIGTERM}  # a process that has just been started may not have come to its handlers yet


class AsyncWorkshop(Workshop):
    """Starts workers with ``async def`` jobs."""

    host: str = "worker"

    def start(self, **options: Any) -> Any:
        return super().start(host=self.host, **options)


@pytest.fixture
def workshop(request: pytest.FixtureRequest, ministack: Store, tmp_path: Path) -> Iterator[AsyncWorkshop]:
    shop = AsyncWorkshop(store=ministack, folder=tmp_path, module="tests.process.shop_aio")
    shop.host = request.param
    yield shop
    shop.close()


def _define(workshop: Workshop) -> tuple[Any, Any]:
    @workshop.app.job
    def steps(number: int, count: int, pause: float) -> None: ...

    @workshop.app.job
    def plain_steps(number: int, count: int, pause: float) -> None: ...

    return steps, plain_steps


@pytest.mark.slow
def test_jobs_of_both_kinds_are_all_done_under_kills_and_stops(workshop: AsyncWorkshop) -> None:
    """3 workers, 60 jobs of each kind; every second one of them is killed or stopped."""
    dice = random.Random(11)
    for number in range(120):
        workshop.app.enqueue(_jobs_of(workshop)[number % 2], number=number, count=6, pause=0.1)
    workers = [workshop.start(lease=1.5, concurrency=4) for _ in range(3)]
    for turn in range(6):
        time.sleep(1.0)
        victim = dice.randrange(3)
        if turn % 3:
            workshop.kill(workers[victim])
        else:
            assert workshop.stop(workers[victim]) in ENDED
        workers[victim] = workshop.start(lease=1.5, concurrency=4)
    wait_until(lambda: not workshop.marks(), "every job done", limit=90)
    assert {workshop.stop(worker) for worker in workers} <= ENDED
    assert {event["number"] for event in workshop.events("end")} == set(range(120))
    check_history(workshop, lease=1.5)


def _jobs_of(workshop: Workshop) -> tuple[Any, Any]:
    known = {job.name: job for job in workshop.app.registry.jobs()}
    return (known["steps"], known["plain_steps"]) if known else _define(workshop)
