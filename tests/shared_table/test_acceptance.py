"""The acceptance tests again, in somebody else's table: jobs, keys, letters, leases, schedules, workflows, fan-out.

Taken are those that reach the table through an app. What the cleaner does there is tested in ``test_neighbours.py``.
"""

from __future__ import annotations

import importlib
import inspect
from types import ModuleType
from typing import Any

from tests.shared_table.conftest import ASKED

INTEGRATION = (
    *("jobs", "bodies", "keys", "keyed_jobs", "asking", "operating", "dead_letters", "queues", "bulk"),
    *("leases", "lease_fences", "leader", "fan_out", "fan_out_progress", "embedding", "stopping"),
    *("schedules", "schedule_changes", "schedule_deploys", "workers_beat", "workers_report"),
)
WORKFLOW = ("steps", "waits", "children", "undo")
MORE_WORKFLOW = ("branches", "values", "safety", "replay", "determinism", "async", "async_replay")
"""Taken along only where a store was asked for, as are these below."""
OWN = {"app", "clock", "make_app", "items_in", "world", "make_rig"}
"""Fixtures that are made anew here."""
RAW = {"moto_store", "memory", "store", "ministack", "open_store", "moto_client"}
"""Who asks for these needs a table or a client of another kind."""
BY_NAME = {
    "test_input_that_cannot_be_read_is_kept_byte_for_byte",
    "test_a_finished_run_may_be_deleted_without_disturbing_its_schedule",
    "test_a_worker_that_was_frozen_in_the_middle_of_a_tick_changes_nothing_more",
    "test_a_definition_that_this_worker_cannot_read_is_left_to_others",
    "test_a_schedule_of_a_newer_format_is_left_alone",
    "test_an_empty_queue_is_reported_as_empty",
    "test_many_children_join_without_a_hot_item",
    "test_children_that_end_in_reverse_order_wake_their_parent_once",
    "test_a_damaged_journal_is_an_error_and_never_a_restart",
    "test_a_result_whose_class_is_gone_is_an_error_that_code_cannot_swallow",
    "test_a_run_is_replayed_without_doing_anything",
    "test_everything_works_on_an_event_loop",
    "test_errors_are_the_same_as_in_plain_workflows",
}
"""These reach past the app, by the names of a table of their own."""
LONG = {
    "test_it_ends_as_if_nothing_had_happened",
    "test_four_workers_ten_schedules_an_hour_of_kills_and_one_run_per_slot",
    "test_a_crash_at_any_write_still_gives_one_run_per_slot",
    "test_a_change_that_dies_at_any_write_leaves_a_schedule_that_works",
    "test_steps_that_run_side_by_side_are_never_mispaired",
    "test_a_worker_with_a_clock_that_is_off_runs_no_slot_twice",
    "test_it_is_undone_wherever_it_stops",
    "test_pause_and_resume_are_seen_within_seconds_although_much_was_found_before",
    "test_a_running_run_is_told_and_ends_as_cancelled_and_not_failed",
}
LEFT_OUT = BY_NAME if ASKED else BY_NAME | LONG


def _take(module: ModuleType, suffix: str) -> None:
    raw, members = set(RAW), dict(vars(module))
    for name, value in members.items():  # a fixture that needs the raw table is as raw as that
        function = getattr(value, "_fixture_function", None)
        if function is None or name in OWN:
            continue
        if raw & _asked(function):
            raw.add(name)
        else:
            globals()[name] = value
    for name, value in members.items():
        is_test = name.startswith("test_") and inspect.isfunction(value) and value.__module__ == module.__name__
        if is_test and name not in LEFT_OUT and not raw & _asked(value):
            globals()[f"{name}_{suffix}" if name in globals() else name] = value


def _asked(function: Any) -> set[str]:
    return set(inspect.signature(function).parameters)


for _folder, _names in (("integration", INTEGRATION), ("workflow", WORKFLOW + MORE_WORKFLOW * bool(ASKED))):
    for _name in _names:
        _take(importlib.import_module(f"tests.{_folder}.test_{_name}"), _name)


def test_that_most_of_them_are_here() -> None:
    """An import that takes nothing would pass unnoticed."""
    assert sum(name.startswith("test_") for name in globals()) > 200
