"""The log line that becomes CloudWatch metrics."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynadurable.model.metrics import NAMESPACE, QueueFigures, dimensions, emf_line

FIGURES = QueueFigures(backlog=7, oldest_due_seconds=12.5, dead_letters=1, workers=3)
NOW_MS = 1_800_000_000_000


def line(**changes: Any) -> dict[str, Any]:
    settings: dict[str, Any] = {"table": "shop", "queue": "mail", "now_ms": NOW_MS, **changes}
    record: dict[str, Any] = json.loads(emf_line(FIGURES, **settings))
    return record


def test_every_metric_and_dimension_that_the_directive_names_is_in_the_record() -> None:
    """CloudWatch drops what it cannot find, without a word."""
    record = line()
    (directive,) = record["_aws"]["CloudWatchMetrics"]
    assert directive["Namespace"] == NAMESPACE
    assert record["_aws"]["Timestamp"] == NOW_MS
    for metric in directive["Metrics"]:
        assert isinstance(record[metric["Name"]], int | float)
    for name in directive["Dimensions"][0]:
        assert isinstance(record[name], str)


def test_the_figures_are_in_the_record() -> None:
    record = line()
    assert (record["Backlog"], record["OldestDueSeconds"], record["DeadLetters"], record["Workers"]) == (7, 12.5, 1, 3)


def test_it_is_one_line() -> None:
    assert "\n" not in emf_line(FIGURES, table="shop", queue="a\nb", now_ms=NOW_MS)


def test_a_number_that_is_none_is_refused() -> None:
    figures = QueueFigures(backlog=0, oldest_due_seconds=float("nan"), dead_letters=0, workers=0)
    with pytest.raises(ValueError, match="not JSON compliant"):
        emf_line(figures, table="shop", queue="mail", now_ms=NOW_MS)


@given(queue=st.text(min_size=1, max_size=40), prefix=st.text(max_size=40))
def test_dimension_values_are_what_cloudwatch_takes(queue: str, prefix: str) -> None:
    for value in dimensions(table="shop", queue=queue, prefix=prefix).values():
        assert value.isascii()
        assert value.isprintable()
        assert 1 <= len(value) <= 1024
        assert not value.startswith(":")


@given(
    first=st.tuples(st.text(max_size=8), st.text(min_size=1)),
    second=st.tuples(st.text(max_size=8), st.text(min_size=1)),
)
def test_two_queues_never_share_a_metric(first: tuple[str, str], second: tuple[str, str]) -> None:
    ours, theirs = (dimensions(table="shop", prefix=prefix, queue=queue) for prefix, queue in (first, second))
    assert (ours == theirs) == (first == second)
