"""Filters, groups and the stop rule of dead letters: pure decisions."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dynadurable import InputRefusedError
from dynadurable.model.dead_letter import DeadFilter, DeadLetter, grouped, is_before
from dynadurable.model.replay import FAILED, NEITHER, SUCCEEDED, UNKNOWN, Watch

NOON = datetime(2027, 1, 15, 12, tzinfo=UTC)
LETTER = DeadLetter(
    run_id="r1",
    job="mail",
    queue="trench",
    died_at=NOON,
    attempts=3,
    error="ValueError: no card",
    fingerprint="5f6c464153b99b8e",
    build="v2",
    generation="g",
)
BUILDS = {"v1": 100, "v2": 200, "v3": 300}


@pytest.mark.parametrize(
    ("where", "fits"),
    [
        ({}, True),
        ({"queue": "trench", "job": "mail", "build": "v2"}, True),
        ({"queue": "other"}, False),
        ({"job": "other"}, False),
        ({"fingerprint": "5f6c"}, True),
        ({"fingerprint": "5f6c464153b99b8e"}, True),
        ({"fingerprint": "6f"}, False),
        ({"since": NOON, "until": NOON}, True),
        ({"since": NOON + timedelta(milliseconds=1)}, False),
        ({"until": NOON - timedelta(milliseconds=1)}, False),
        ({"build": "v1"}, False),
        ({"before_build": "v3"}, True),
        ({"before_build": "v2"}, False),
        ({"before_build": "v1"}, False),
        ({"before_build": "never started"}, True),
        ({"run_id": "r2"}, False),
    ],
)
def test_a_filter_means_the_letters_that_fit_all_of_it(where: dict[str, Any], fits: bool) -> None:
    assert DeadFilter(**where).matches(LETTER, BUILDS) is fits


def test_what_died_of_an_unknown_build_counts_as_old() -> None:
    assert is_before(None, "v2", BUILDS)
    assert is_before("nobody saw it start", "v2", BUILDS)
    assert not is_before("v2", "v2", {})


def test_a_naive_bound_and_a_contradiction_are_refused() -> None:
    with pytest.raises(InputRefusedError, match="aware"):
        DeadFilter(since=datetime(2027, 1, 1))  # noqa: DTZ001 - that is the point
    with pytest.raises(InputRefusedError, match="not both"):
        DeadFilter(build="v1", before_build="v2")


def test_letters_of_one_cause_are_one_group_with_its_first_and_last() -> None:
    letters = [
        LETTER,
        replace(LETTER, run_id="r2", died_at=NOON + timedelta(hours=1), error="ValueError: no cash", build="v3"),
        replace(LETTER, run_id="r3", died_at=NOON - timedelta(hours=1), job="post", build=None),
        replace(LETTER, run_id="r4", fingerprint="other"),
    ]
    large, small = grouped(letters)
    assert (large.count, small.count) == (3, 1)
    assert (large.first_at, large.last_at) == (NOON - timedelta(hours=1), NOON + timedelta(hours=1))
    assert (large.error, large.example) == ("ValueError: no cash", "r2")
    assert (large.jobs, large.builds) == (("mail", "post"), ("v2", "v3"))


def test_a_replay_stops_after_so_many_failures_in_a_row() -> None:
    watch = Watch(2)
    for run_id, outcome in [("a", FAILED), ("b", SUCCEEDED), ("c", FAILED)]:
        watch.sent(run_id, "g")
        watch.learnt(run_id, outcome)
        assert not watch.has_seen_enough
    watch.sent("d", "g")
    watch.learnt("d", NEITHER)  # neither ends the row nor adds to it
    watch.sent("e", "g")
    watch.learnt("e", FAILED)
    assert watch.has_seen_enough
    assert watch.failed_again == 3


def test_no_more_runs_are_out_than_failures_are_allowed() -> None:
    watch = Watch(2)
    watch.sent("a", "g")
    watch.learnt("a", UNKNOWN)
    fullness = [watch.is_full]
    watch.sent("b", "g")
    fullness.append(watch.is_full)
    watch.learnt("a", SUCCEEDED)
    fullness.append(watch.is_full)
    assert fullness == [False, True, False]
