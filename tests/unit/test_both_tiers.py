"""Every field case of jobs is shown on both tiers: on plain jobs, and on runs with keys.

The table says where. A case whose test is about faults at each single write is met a second time, on both tiers, by
``integration/test_stop_after_every_write.py``.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable

import pytest

JOBS, FAULTS = "integration.test_jobs", "integration.test_faults_on_jobs"
VALUES, EMBEDDING = "integration.test_values", "integration.test_embedding"
ASYNC, CRASHES = "integration.test_async_jobs", "process.test_crashes"
KEYED, CRASHES_KEYED = "integration.test_keyed_jobs", "process.test_crashes_keyed"

KILLED = "test_the_job_of_a_killed_worker_is_taken_over_after_its_lease"
DEAD = "test_after_the_last_attempt_the_run_is_a_dead_letter_with_everything_kept"
FAULT_AT_ANY_WRITE = "test_a_job_with_a_checkpoint_survives_one_fault_at_any_write"

PLAIN: dict[str, list[str]] = {
    "PUB-01": [f"{CRASHES}.{KILLED}"],
    "PUB-02": [f"{CRASHES}.test_a_signal_between_claim_and_body_leaves_the_run_as_if_never_claimed"],
    "PUB-03": [f"{CRASHES}.test_a_body_that_ends_in_the_grace_period_is_recorded"],
    "PUB-04": [f"{CRASHES}.test_shutdown_uses_no_attempt"],
    "PUB-05": [
        f"{FAULTS}.test_a_system_exit_out_of_a_body_leaves_the_run_pending_and_the_worker",
        f"{ASYNC}.test_a_cancellation_from_inside_the_body_is_a_failure",
        f"{ASYNC}.test_what_wants_to_leave_the_process_leaves_the_worker",
        "integration.test_aio_app.test_a_cancelled_worker_hands_back_and_lets_the_cancellation_out",
    ],
    "PUB-08": [f"{CRASHES}.{KILLED}"],
    "PUB-09": [f"{CRASHES}.test_a_job_that_kills_its_process_ends_as_a_dead_letter_and_its_neighbour_succeeds"],
    "PUB-10": [f"{JOBS}.test_an_unknown_job_stays_pending_with_one_warning"],
    "PUB-11": [f"{JOBS}.test_an_unreadable_payload_uses_its_attempts_and_is_kept_byte_for_byte"],
    "PUB-12": [f"{JOBS}.test_a_delayed_job_runs_when_it_is_due_and_not_before"],
    "PUB-14": [
        f"{CRASHES}.test_a_frozen_worker_that_wakes_up_after_a_take_over_records_nothing",
        f"{FAULTS}.test_a_worker_that_lost_its_lease_tells_the_body_and_writes_nothing_more",
    ],
    "PUB-15": [f"{FAULTS}.test_a_lease_is_compared_in_the_unit_it_is_stored_in"],
    "PUB-19": [f"{EMBEDDING}.test_failing_renewals_are_tried_again_and_the_body_stays_the_only_one"],
    "PUB-21": [f"{FAULTS}.test_the_local_deadline_counts_from_before_the_claim_was_sent"],
    "PUB-22": [f"{VALUES}.test_floats_are_given_as_they_were"],
    "PUB-23": [f"{VALUES}.test_integers_of_any_length_are_given_as_they_were"],
    "PUB-24": [f"{VALUES}.test_numbers_that_json_lacks_are_given_as_they_were"],
    "PUB-25": [f"{VALUES}.test_keys_that_are_no_texts_stay_what_they_are"],
    "PUB-27": [f"{VALUES}.test_empty_and_binary_values_are_given_as_they_were"],
    "PUB-28": [
        f"{JOBS}.test_an_absolute_due_time_is_taken_as_the_instant_it_is",
        f"{VALUES}.test_moments_are_given_with_their_zones",
    ],
    "PUB-30": [f"{VALUES}.test_texts_are_given_to_the_last_character"],
    "PUB-45": [f"{JOBS}.test_jobs_run_in_due_order_and_in_enqueue_order_within_a_millisecond"],
    "PUB-46": [f"{FAULTS}.{FAULT_AT_ANY_WRITE}"],
    "PUB-49": [f"{JOBS}.test_what_is_in_flight_at_the_head_does_not_hide_what_is_due_behind"],
    "PUB-51": [f"{FAULTS}.test_a_deleted_mark_is_not_brought_back"],
    "PUB-52": [f"{JOBS}.test_marks_of_a_busy_queue_are_spread_over_its_shards"],
    "PUB-53": [f"{JOBS}.test_an_absurd_snooze_ends_the_run_and_not_the_worker"],
    "PUB-54": [f"{JOBS}.{DEAD}"],
    "PUB-55": [f"{JOBS}.test_a_snooze_uses_no_attempt"],
    "PUB-58": [f"{JOBS}.{DEAD}"],
    "PUB-59": [
        f"{EMBEDDING}.test_fifty_threads_may_make_the_first_call_at_once",
        f"{EMBEDDING}.test_a_parent_and_its_forks_share_nothing",
    ],
}
OF_THEIR_OWN: dict[str, list[str]] = {
    "PUB-14": [f"{CRASHES_KEYED}.test_what_a_frozen_worker_does_after_a_take_over_is_not_recorded"],
    "PUB-30": [
        f"{KEYED}.test_texts_are_given_to_the_last_character",
        "integration.test_keys.test_keys_and_names_of_any_script_find_the_same_run",
    ],
    "PUB-55": [f"{KEYED}.test_snoozes_failures_and_then_success_use_the_attempts_they_should"],
}
"""Where a run with a key has more to show. Else the test is the very same, on an app that gives every run a key."""


def keyed(case: str) -> list[str]:
    again = [f"{CRASHES_KEYED if one.startswith(CRASHES) else KEYED}.{one.rpartition('.')[2]}" for one in PLAIN[case]]
    return OF_THEIR_OWN.get(case, again)


def found(name: str) -> Callable[..., None]:
    module, _, function = name.rpartition(".")
    test: Callable[..., None] = getattr(importlib.import_module(f"tests.{module}"), function)
    return test


@pytest.mark.parametrize("case", PLAIN)
def test_a_case_has_its_tests_on_both_tiers(case: str) -> None:
    for name in [*PLAIN[case], *keyed(case)]:
        assert re.search(rf"{case}\b", inspect.getsource(found(name))), f"{name} does not say that it shows {case}"
