"""The machine's clock, calibrated by what DynamoDB says the time is."""

from __future__ import annotations

import email.utils
from datetime import UTC, datetime

import pytest

from dynadurable.clock import MAX_STAND_MS, SystemClock, to_datetime


def reply_of(clock: SystemClock, second: int) -> None:
    """A reply that was made in that second, and came at once."""
    now = clock.monotonic()
    date = email.utils.format_datetime(datetime.fromtimestamp(second, UTC), usegmt=True)
    clock.observe(sent=now, received=now, date=date)


def test_a_reply_bounds_the_time_from_both_sides() -> None:
    clock = SystemClock()
    reply_of(clock, 1_800_000_000)
    assert clock.earliest_ms() <= 1_800_000_000_000 + 100
    assert clock.latest_ms() >= 1_800_000_001_000
    assert clock.earliest_ms() <= clock.now_ms() <= clock.latest_ms()


@pytest.mark.parametrize("earlier_seconds", [0, 1])
def test_a_better_estimate_does_not_turn_the_time_back(earlier_seconds: int) -> None:
    """A run that was marked as due now, by the machine's clock, is due for a worker in the same process."""
    clock = SystemClock()
    before_ms = clock.now_ms()
    reply_of(clock, before_ms // 1000 - earlier_seconds)
    assert before_ms <= clock.now_ms() < before_ms + 2_000


@pytest.mark.parametrize("wrong_seconds", [-3600, 3600])
def test_a_clock_that_is_far_off_is_put_right_at_once(wrong_seconds: int) -> None:
    clock = SystemClock()
    second = clock.now_ms() // 1000 + wrong_seconds
    reply_of(clock, second)
    assert abs(clock.now_ms() - second * 1000) <= MAX_STAND_MS


def test_what_lies_beyond_the_calendar_is_its_end() -> None:
    assert to_datetime(10**17) == datetime.max.replace(tzinfo=UTC)
    assert to_datetime(-(10**17)) == datetime.min.replace(tzinfo=UTC)
    assert to_datetime(10**30) == datetime.max.replace(tzinfo=UTC)
