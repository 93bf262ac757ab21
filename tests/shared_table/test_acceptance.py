"""The integration tests again, in somebody else's table: those that reach the table through the app alone."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

MODULES = ("jobs", "keys", "asking", "operating", "dead_letters", "queues", "bulk", "leases", "fan_out", "schedules")
RAW = {"moto_client", "moto_store", "store", "ministack", "world", "open_store"}
"""Who asks for these reads or writes the table by names of its own."""
LEFT_OUT = {
    "test_marks_beyond_the_known_shards_are_found": "writes keys of its own making",
    "test_input_that_cannot_be_read_is_kept_byte_for_byte": "writes keys of its own making",
    "test_pause_and_resume_are_seen_within_seconds_although_much_was_found_before": "waits for seconds",
    "test_a_running_run_is_told_and_ends_as_cancelled_and_not_failed": "waits for seconds",
}


def _fixtures_of(function: Any) -> set[str]:
    return set(inspect.signature(function).parameters)


def _take(module_name: str) -> None:
    try:
        module = importlib.import_module(f"tests.integration.test_{module_name}")
    except ModuleNotFoundError:
        return
    raw = set(RAW)
    members = dict(vars(module))
    for name, value in members.items():  # a fixture that needs the raw table is as raw as that
        function = getattr(value, "_fixture_function", None) or getattr(value, "__pytest_wrapped__", None)
        if function is not None:
            wrapped = getattr(function, "obj", function)
            if raw & _fixtures_of(wrapped):
                raw.add(name)
            elif name not in {"app", "clock", "make_app", "items_in"}:
                globals()[name] = value
    for name, value in members.items():
        is_test = name.startswith("test_") and inspect.isfunction(value) and name not in LEFT_OUT
        if is_test and not raw & _fixtures_of(value):
            globals()[f"{name}_{module_name}" if name in globals() else name] = value


for _name in MODULES:
    _take(_name)


def test_that_most_of_them_are_here() -> None:
    """An import that takes nothing would pass unnoticed."""
    assert sum(name.startswith("test_") for name in globals()) > 90
