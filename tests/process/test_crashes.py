"""Worker processes that are killed, stopped and deployed over, on a real server."""

from __future__ import annotations

import os
import random
import signal
import time
from functools import partial
from typing import Any

import pytest

from tests.process.workshop import Workshop, wait_until

pytestmark = pytest.mark.server


def enqueue(workshop: Workshop, name: str, **arguments: Any) -> str:
    """Enqueue a job of ``shop.py``, which is imported in worker processes only."""
    job = _jobs(workshop)[name]
    return workshop.app.enqueue(job, **arguments).id


def _jobs(workshop: Workshop) -> dict[str, Any]:
    if not list(workshop.app.registry.names()):

        @workshop.app.job
        def quick(number: int) -> None: ...

        @workshop.app.job
        def steps(number: int, count: int, pause: float) -> None: ...

        @workshop.app.job
        def patient(seconds: float, cooperative: bool) -> None: ...

        @workshop.app.job
        def killer() -> None: ...

    return {job.name: job for job in workshop.app.registry.jobs()}


def test_the_job_of_a_killed_worker_is_taken_over_after_its_lease(workshop: Workshop) -> None:
    """PUB-01, and PUB-08: the new process may even have the same name."""
    enqueue(workshop, "patient", seconds=60.0, cooperative=True)
    first = workshop.start(name="pod-0", lease=2.0)
    wait_until(lambda: workshop.events("start"), "the first start")
    time.sleep(1.0)  # a renewal or two
    workshop.kill(first)
    killed_at = time.monotonic()
    second = workshop.start(name="pod-0", lease=2.0)
    starts = wait_until(lambda: len(workshop.events("start")) == 2 and workshop.events("start"), "the take-over")
    assert [start["attempt"] for start in starts] == [1, 2]
    assert starts[1]["fence"] > starts[0]["fence"]
    assert starts[1]["at"] - killed_at < 10.0
    assert workshop.stop(second) == 0


def test_a_signal_between_claim_and_body_leaves_the_run_as_if_never_claimed(workshop: Workshop) -> None:
    """PUB-02."""
    enqueue(workshop, "quick", number=1)
    process = workshop.start(lease=300.0, wait_at_claim=True)
    wait_until(lambda: workshop.events("claimed"), "the claim")
    assert workshop.stop(process) == 0
    (mark,) = workshop.marks()
    assert not {"dd_token", "dd_lease", "dd_worker"} & mark.keys()
    assert mark["dd_attempt"]["N"] == "0"
    assert workshop.events("start") == []
    workshop.start(lease=2.0)
    wait_until(lambda: workshop.events("end"), "another worker takes it at once", limit=20)


def test_a_body_that_ends_in_the_grace_period_is_recorded(workshop: Workshop) -> None:
    """PUB-03."""
    enqueue(workshop, "patient", seconds=2.0, cooperative=False)
    process = workshop.start(grace=10.0)
    wait_until(lambda: workshop.events("start"), "the start")
    enqueue(workshop, "quick", number=1)
    process.send_signal(signal.SIGTERM)
    enqueue(workshop, "quick", number=2)
    assert process.wait(15) == 0
    assert len(workshop.events("end")) == len(workshop.events("start"))
    assert [mark for mark in workshop.marks() if mark["dd_job"]["S"] == "patient"] == []


def test_shutdown_uses_no_attempt(workshop: Workshop) -> None:
    """PUB-04: four deploys of a job with three attempts."""
    enqueue(workshop, "patient", seconds=60.0, cooperative=True)
    for deploy in range(1, 5):
        process = workshop.start(grace=1.0, lease=30.0)
        wait_until(partial(_started, workshop, deploy), f"start {deploy}")
        assert workshop.stop(process) == 0
        (mark,) = workshop.marks()
        assert mark["dd_attempt"]["N"] == "0"
        assert "dd_lease" not in mark


def test_a_body_that_will_not_end_is_handed_back_and_the_exit_code_says_so(workshop: Workshop) -> None:
    enqueue(workshop, "patient", seconds=60.0, cooperative=False)
    process = workshop.start(grace=0.5, lease=30.0)
    wait_until(lambda: workshop.events("start"), "the start")
    assert workshop.stop(process) == 2
    (mark,) = workshop.marks()
    assert mark["dd_attempt"]["N"] == "0"
    assert "dd_lease" not in mark


def test_a_second_signal_stops_at_once(workshop: Workshop) -> None:
    enqueue(workshop, "patient", seconds=60.0, cooperative=False)
    process = workshop.start(grace=50.0, lease=30.0)
    wait_until(lambda: workshop.events("start"), "the start")
    process.send_signal(signal.SIGTERM)
    with pytest.raises(Exception, match="timed out"):
        process.wait(1.0)
    process.send_signal(signal.SIGTERM)
    assert process.wait(10) == 2
    (mark,) = workshop.marks()
    assert "dd_lease" not in mark


def test_a_job_that_kills_its_process_ends_as_a_dead_letter_and_its_neighbour_succeeds(workshop: Workshop) -> None:
    """PUB-09."""
    enqueue(workshop, "killer")
    enqueue(workshop, "quick", number=1)
    process = workshop.start(lease=1.0, concurrency=1)

    def over() -> bool:
        nonlocal process
        if process.poll() is not None:
            assert process.returncode == 137
            process = workshop.start(lease=1.0, concurrency=1)
        return any(item["pk"]["S"].startswith("dead#") for item in workshop.items()) and bool(workshop.events("end"))

    wait_until(over, "the dead letter, and the neighbour's end")
    killers = [start for start in workshop.events("start") if "number" not in start]
    assert [start["attempt"] for start in killers] == [1, 2, 3]
    (letter,) = [item for item in workshop.items() if item["pk"]["S"].startswith("dead#")]
    assert letter["dd_attempts"]["N"] == "3"
    assert "lease expired" in letter["dd_error"]["S"]
    assert workshop.stop(process) == 0


def test_renewal_goes_on_while_the_body_takes_longer_than_its_lease(workshop: Workshop) -> None:
    enqueue(workshop, "patient", seconds=4.0, cooperative=False)
    first, second = workshop.start(lease=1.0), workshop.start(lease=1.0)
    wait_until(lambda: workshop.events("end"), "the end")
    assert len(workshop.events("start")) == 1
    assert (workshop.stop(first), workshop.stop(second)) == (0, 0)


def test_a_frozen_worker_that_wakes_up_after_a_take_over_records_nothing(workshop: Workshop) -> None:
    """PUB-14 with SIGSTOP: the old holder's steps all lie before the new holder's first."""
    enqueue(workshop, "steps", number=1, count=40, pause=0.1)
    first = workshop.start(lease=1.0, concurrency=1)
    wait_until(lambda: len(workshop.events("step")) >= 3, "some steps")
    os.kill(first.pid, signal.SIGSTOP)
    second = workshop.start(lease=1.0, concurrency=1)
    wait_until(lambda: len(workshop.events("start")) == 2, "the take-over")
    os.kill(first.pid, signal.SIGCONT)
    wait_until(lambda: workshop.events("end"), "the end")
    assert workshop.marks() == []
    resumed = workshop.events("start")[1]
    for step in workshop.events("step"):
        assert step["fence"] == 1 or step["step"] > resumed["cursor"]
        assert step["fence"] > 1 or step["step"] <= resumed["cursor"]
    assert sorted(step["step"] for step in workshop.events("step")) == list(range(1, 41))
    assert (workshop.stop(first), workshop.stop(second)) == (0, 0)


def test_a_drain_that_is_killed_half_way_is_finished_by_the_next_one(workshop: Workshop) -> None:
    """SIGKILL while bodies run and more is due. What a drain leaves, as it is leased still, a later one finishes."""
    for number in range(12):
        enqueue(workshop, "steps", number=number, count=4, pause=0.1)
    first = workshop.start(drain=True, lease=1.5, concurrency=4)
    wait_until(lambda: len(workshop.events("end")) >= 3, "some of it is done")
    workshop.kill(first)
    assert workshop.marks()
    drains = 0
    while workshop.marks():
        drains += 1
        assert workshop.start(drain=True, lease=1.5, concurrency=4).wait(60) == 0
        assert drains < 20
    assert {event["number"] for event in workshop.events("end")} == set(range(12))
    check_history(workshop, lease=1.5)


@pytest.mark.slow
def test_every_job_is_done_under_a_kill_every_second(workshop: Workshop) -> None:
    """3 workers on one queue, 200 jobs, a SIGKILL a second for 20 s."""
    dice = random.Random(7)
    for number in range(200):
        enqueue(workshop, "steps", number=number, count=3, pause=0.15)
    workers = [workshop.start(lease=1.5, concurrency=4) for _ in range(3)]
    end = time.monotonic() + 20
    while time.monotonic() < end:
        time.sleep(1.0)
        victim = dice.randrange(3)
        workshop.kill(workers[victim])
        workers[victim] = workshop.start(lease=1.5, concurrency=4)
    wait_until(lambda: not workshop.marks(), "every job done", limit=90)
    assert [workshop.stop(worker) for worker in workers] == [0, 0, 0]
    ended = {event["number"] for event in workshop.events("end")}
    assert ended == set(range(200))
    check_history(workshop, lease=1.5)


def _started(workshop: Workshop, times: int) -> bool:
    return len(workshop.events("start")) == times


def check_history(workshop: Workshop, *, lease: float) -> None:
    """No recorded checkpoint was lost, and two bodies of one run overlap only past an expired lease."""
    by_run: dict[str, list[dict[str, Any]]] = {}
    for event in workshop.events():
        by_run.setdefault(event["run"], []).append(event)
    for events in by_run.values():
        recorded = 0
        last_seen: dict[int, float] = {}
        for event in events:
            if event["event"] == "start":
                assert (event["cursor"] or 0) >= recorded, f"a recorded checkpoint was lost: {events}"
                for fence, seen_at in last_seen.items():
                    expired = event["at"] - seen_at >= lease * 0.9
                    assert expired or _ended(events, fence, event), f"overlap without an expired lease: {events}"
            if event["event"] == "step":
                recorded = max(recorded, event["step"])
            last_seen[event["fence"]] = event["at"]


def _ended(events: list[dict[str, Any]], fence: int, before: dict[str, Any]) -> bool:
    """Whether the attempt with that fence had ended by then: done, or about to be handed back."""
    over = [event for event in events if event["fence"] == fence and event["event"] in ("end", "let go")]
    return any(event["at"] <= before["at"] for event in over)
