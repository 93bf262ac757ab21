"""The cases of plain jobs again, on runs with keys.

What each test is about stands where it is defined; faults at every write are met by ``test_stop_after_every_write``.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from dynadurable import App, JobContext, Retry, Snooze
from dynadurable.testing.clock import ManualClock
from tests.integration.test_aio_app import test_a_cancelled_worker_hands_back_and_lets_the_cancellation_out
from tests.integration.test_async_jobs import (
    test_a_cancellation_from_inside_the_body_is_a_failure,
    test_what_wants_to_leave_the_process_leaves_the_worker,
)
from tests.integration.test_embedding import (
    real_time_app,
    test_a_parent_and_its_forks_share_nothing,
    test_failing_renewals_are_tried_again_and_the_body_stays_the_only_one,
    test_fifty_threads_may_make_the_first_call_at_once,
)
from tests.integration.test_faults_on_jobs import (
    test_a_deleted_mark_is_not_brought_back,
    test_a_job_with_a_checkpoint_survives_one_fault_at_any_write,
    test_a_lease_is_compared_in_the_unit_it_is_stored_in,
    test_a_system_exit_out_of_a_body_leaves_the_run_pending_and_the_worker,
    test_the_local_deadline_counts_from_before_the_claim_was_sent,
)
from tests.integration.test_jobs import (
    drain,
    test_a_delayed_job_runs_when_it_is_due_and_not_before,
    test_a_finished_job_leaves_nothing_behind,
    test_a_permanent_error_makes_no_further_attempt,
    test_after_the_last_attempt_the_run_is_a_dead_letter_with_everything_kept,
    test_an_absolute_due_time_is_taken_as_the_instant_it_is,
    test_an_absurd_snooze_ends_the_run_and_not_the_worker,
    test_an_unknown_job_stays_pending_with_one_warning,
    test_an_unreadable_payload_uses_its_attempts_and_is_kept_byte_for_byte,
    test_errors_outside_the_policy_are_final,
    test_jobs_run_in_due_order_and_in_enqueue_order_within_a_millisecond,
    test_marks_of_a_busy_queue_are_spread_over_its_shards,
    test_what_is_in_flight_at_the_head_does_not_hide_what_is_due_behind,
)
from tests.integration.test_values import (
    test_empty_and_binary_values_are_given_as_they_were,
    test_floats_are_given_as_they_were,
    test_integers_of_any_length_are_given_as_they_were,
    test_keys_that_are_no_texts_stay_what_they_are,
    test_moments_are_given_with_their_zones,
    test_numbers_that_json_lacks_are_given_as_they_were,
    test_texts_are_given_to_the_last_character,
    test_what_could_not_come_back_is_refused_by_its_path,
)
from tests.keyed import KeyedApp
from tests.servers import Store

__all__ = [
    "real_time_app",
    "test_a_cancellation_from_inside_the_body_is_a_failure",
    "test_a_cancelled_worker_hands_back_and_lets_the_cancellation_out",
    "test_a_delayed_job_runs_when_it_is_due_and_not_before",
    "test_a_deleted_mark_is_not_brought_back",
    "test_a_finished_job_leaves_nothing_behind",
    "test_a_job_with_a_checkpoint_survives_one_fault_at_any_write",
    "test_a_lease_is_compared_in_the_unit_it_is_stored_in",
    "test_a_parent_and_its_forks_share_nothing",
    "test_a_permanent_error_makes_no_further_attempt",
    "test_a_system_exit_out_of_a_body_leaves_the_run_pending_and_the_worker",
    "test_after_the_last_attempt_the_run_is_a_dead_letter_with_everything_kept",
    "test_an_absolute_due_time_is_taken_as_the_instant_it_is",
    "test_an_absurd_snooze_ends_the_run_and_not_the_worker",
    "test_an_unknown_job_stays_pending_with_one_warning",
    "test_an_unreadable_payload_uses_its_attempts_and_is_kept_byte_for_byte",
    "test_empty_and_binary_values_are_given_as_they_were",
    "test_errors_outside_the_policy_are_final",
    "test_failing_renewals_are_tried_again_and_the_body_stays_the_only_one",
    "test_fifty_threads_may_make_the_first_call_at_once",
    "test_floats_are_given_as_they_were",
    "test_integers_of_any_length_are_given_as_they_were",
    "test_jobs_run_in_due_order_and_in_enqueue_order_within_a_millisecond",
    "test_keys_that_are_no_texts_stay_what_they_are",
    "test_marks_of_a_busy_queue_are_spread_over_its_shards",
    "test_moments_are_given_with_their_zones",
    "test_numbers_that_json_lacks_are_given_as_they_were",
    "test_texts_are_given_to_the_last_character",
    "test_the_local_deadline_counts_from_before_the_claim_was_sent",
    "test_what_could_not_come_back_is_refused_by_its_path",
    "test_what_is_in_flight_at_the_head_does_not_hide_what_is_due_behind",
    "test_what_wants_to_leave_the_process_leaves_the_worker",
]


@pytest.fixture
def app_type() -> type[App]:
    return KeyedApp


@pytest.fixture
def items_in(moto_store: Store) -> Callable[[App], list[dict[str, Any]]]:
    """Everything but the run items of those that live or have succeeded: a plain job has no item for that."""

    def read(app: App) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = moto_store.client.scan(TableName=app.schema.table)["Items"]
        return [item for item in found if item.get("dd_state", {}).get("S") not in ("live", "succeeded")]

    return read


def test_snoozes_failures_and_then_success_use_the_attempts_they_should(app: App, clock: ManualClock) -> None:
    """PUB-55."""
    starts: list[int] = []

    @app.job(retry=Retry.fixed(timedelta(seconds=10), max_attempts=3))
    def patient(ctx: JobContext) -> None:
        starts.append(ctx.attempt)
        if len(starts) <= 3:
            raise Snooze(timedelta(seconds=10))
        if len(starts) <= 5:
            raise ValueError("not yet")

    run = app.enqueue(patient)
    for _ in range(6):
        drain(app)
        clock.advance(timedelta(seconds=10))
    assert starts == [1, 1, 1, 1, 2, 3]
    told = run.info()
    assert (told.state, told.attempts, told.snoozes) == ("succeeded", 3, 3)
    assert [failure.attempt for failure in told.failures] == [1, 2]
