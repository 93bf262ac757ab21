"""Why a run is not running: every reason, in the order in which reasons count."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dynadurable.model.explanation import Explanation, Facts, explain
from dynadurable.model.failure import Failure
from dynadurable.model.run_info import RunInfo
from dynadurable.model.worker_info import WorkerInfo

NOW = datetime(2027, 1, 15, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
RUN = RunInfo(run_id="r", job="mail", queue="trench", state="pending", due_at=NOW - MINUTE)
WORKER = WorkerInfo(
    name="pod-0", queues=("trench",), jobs=("mail",), concurrency=10, build="v2", started_at=NOW - MINUTE, seen_at=NOW
)


def told(run: RunInfo | None = RUN, **facts: Any) -> Explanation:
    return explain(Facts(**{"run_id": "r", "now": NOW, "run": run, "workers": [WORKER], "max_attempts": 5, **facts}))


def test_a_due_run_that_nothing_holds_up_is_next() -> None:
    answer = told()
    assert answer.code == "waiting"
    assert answer.why == (
        "It is due since 2027-01-15 11:59:00 UTC (1 min ago) and next in its part of the queue; "
        "worker pod-0 can take it."
    )
    assert "20 s" in answer.next


def test_a_due_run_behind_others_says_how_many() -> None:
    answer = told(ahead=1)
    assert answer.code == "waiting"
    assert "1 run is before it" in answer.why
    assert answer.next.startswith("Worker pod-0 with 10 slots can take it")
    assert "1,000 or more runs are before it" in told(ahead=1000).why


def test_a_run_that_is_not_due_says_when() -> None:
    answer = told(replace(RUN, due_at=NOW + 90 * MINUTE))
    assert answer.code == "not due"
    assert answer.why == "It is not due until 2027-01-15 13:30:00 UTC (in 1 h 30 min)."


def test_a_run_between_two_attempts_says_what_failed() -> None:
    failed = Failure(type="ValueError", message="no card", attempt=2)
    answer = told(replace(RUN, due_at=NOW + MINUTE, attempts=2, failures=(failed,)))
    assert answer.code == "not due"
    assert answer.why.startswith("Attempt 2 of 5 failed with ValueError: no card; the next one is due")


def test_a_snoozed_run_says_so() -> None:
    answer = told(replace(RUN, due_at=NOW + MINUTE, snoozes=3))
    assert answer.why.startswith("It was snoozed (3 times so far) and is due again")


def test_a_running_run_names_its_worker_and_its_lease() -> None:
    running = replace(RUN, state="running", worker="pod-7", lease_until=NOW + timedelta(seconds=20), attempts=1)
    answer = told(running)
    assert answer.code == "running"
    assert answer.why == "It is running: leased by pod-7 until 2027-01-15 12:00:20 UTC (in 20 s), attempt 1 of 5."
    asked = told(replace(running, cancel_requested=True))
    assert asked.code == "cancelling"
    assert "cancellation was asked for" in asked.why
    assert "third of its lease" in asked.next


def test_a_paused_queue_comes_before_all_that_would_follow() -> None:
    answer = told(paused=True, paused_at=NOW - 2 * MINUTE, pause_reason="the provider is down", workers=[])
    assert answer.code == "queue paused"
    assert answer.why == ("Queue 'trench' is paused since 2027-01-15 11:58:00 UTC (2 min ago): the provider is down.")
    assert answer.next == "Resume it with `dynadurable queues resume trench`."
    assert answer.also == ("No live worker was seen in the last three minutes.",)


def test_what_would_hold_it_up_later_is_told_too() -> None:
    answer = told(replace(RUN, due_at=NOW + MINUTE), paused=True)
    assert answer.code == "not due"
    assert answer.also == ("Queue 'trench' is paused.",)
    assert str(answer).endswith("Also: Queue 'trench' is paused.")


def test_no_live_worker_at_all_is_a_reason() -> None:
    assert told(workers=[]).code == "no worker"
    assert "dynadurable worker MODULE:APP --queue trench" in told(workers=[]).next


def test_a_queue_that_no_live_worker_serves_is_a_reason() -> None:
    answer = told(workers=[replace(WORKER, queues=("other",))])
    assert answer.code == "queue not served"
    assert answer.why == "No live worker serves queue 'trench'; worker pod-0 serves ['other']."


def test_a_job_that_no_live_worker_knows_is_a_reason() -> None:
    answer = told(workers=[replace(WORKER, jobs=("other",)), replace(WORKER, name="pod-1", jobs=())])
    assert answer.code == "job unknown"
    assert "No live worker of queue 'trench' knows job 'mail'" in answer.why
    assert "2 workers (build v2) serve it without knowing that name" in answer.why


def test_a_worker_whose_list_of_jobs_was_cut_may_know_the_job() -> None:
    assert told(workers=[replace(WORKER, jobs=("other",), jobs_left_out=7)]).code == "waiting"


def test_a_lost_worker_is_a_reason_until_somebody_takes_over() -> None:
    lapsed = replace(RUN, worker="pod-3", lease_until=NOW - timedelta(seconds=5), attempts=2)
    answer = told(lapsed)
    assert answer.code == "worker lost"
    assert answer.why == "Its worker pod-3 was lost: the lease lapsed 5 s ago, in attempt 2 of 5."
    assert "takes over" in answer.next
    assert "last attempt" in told(replace(lapsed, attempts=5)).next
    nobody = told(lapsed, workers=[])
    assert nobody.code == "no worker"
    assert nobody.also[0].startswith("Its worker pod-3 was lost")


def test_used_up_attempts_are_told_with_the_last_failure() -> None:
    dead = replace(RUN, state="dead", ended_at=NOW - MINUTE, attempts=5, error="ValueError: no card")
    answer = told(dead)
    assert answer.code == "dead"
    assert answer.why == (
        "Its attempts are used up: it died 2027-01-15 11:59:00 UTC (1 min ago) after 5 of 5, "
        "the last with ValueError: no card."
    )
    assert "dynadurable dead replay r" in answer.next
    assert told(replace(dead, attempts=1)).why.startswith("It has failed for good")


@pytest.mark.parametrize(
    ("run", "facts", "code"),
    [
        (replace(RUN, state="succeeded", ended_at=NOW), {}, "succeeded"),
        (replace(RUN, state="cancelled", ended_at=NOW), {}, "cancelled"),
        (replace(RUN, state="succeeded", ended_at=NOW, expires_at=NOW), {"expired": True}, "expired"),
        (RUN, {"mark_missing": True}, "moving"),
        (replace(RUN, lease_until=NOW + MINUTE), {}, "set aside"),
        (None, {}, "unknown"),
        (None, {"is_run_id": False}, "unknown"),
        (None, {"unreadable": True}, "unreadable"),
    ],
)
def test_every_other_standing_has_its_code(run: RunInfo | None, facts: dict[str, Any], code: str) -> None:
    answer = told(run, **facts)
    assert answer.code == code
    assert answer.why.endswith(".")
    assert answer.next
    assert answer.to_record()["code"] == code


def test_a_parked_workflow_says_what_it_waits_for() -> None:
    parked = replace(RUN, due_at=NOW + 60 * MINUTE, is_workflow=True, has_progress=True, waits_for=("event 'packed'",))
    answer = told(parked)
    assert answer.code == "parked"
    assert answer.why == (
        "It is parked: it waits for event 'packed', and looks up again 2027-01-15 13:00:00 UTC (in 1 h) at the latest."
    )
    assert told(replace(parked, waits_for=())).why == "It sleeps until 2027-01-15 13:00:00 UTC (in 1 h)."


def test_a_damaged_item_is_named_with_what_is_wrong() -> None:
    told = explain(
        Facts(run_id="r", now=NOW, unreadable=True, damage="the item 'run#r' lacks dd_job, and is left alone")
    )
    assert told.code == "unreadable"
    assert told.why == "The item 'run#r' lacks dd_job, and is left alone."
    assert told.next
