"""Interval schedules."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynadurable.errors import ConfigurationError, InputRefusedError
from dynadurable.model.every import Every
from dynadurable.model.instant import epoch_ms

HOUR = timedelta(hours=1)
NOON = datetime(2027, 1, 15, 12, tzinfo=UTC)
TICK = timedelta(microseconds=1)


@pytest.mark.parametrize(
    "interval",
    [timedelta(), -HOUR, timedelta(milliseconds=999), timedelta(seconds=1, microseconds=1), 60, 1.5, "1h", None, True],
)
def test_a_bad_interval_is_refused_at_definition(interval: Any) -> None:
    with pytest.raises(ConfigurationError, match="the interval"):
        Every(interval)


@pytest.mark.parametrize(
    "start",
    [datetime(2027, 1, 1), "2027-01-01", 0, datetime.max.replace(tzinfo=ZoneInfo("Pacific/Niue"))],  # noqa: DTZ001
)
def test_a_bad_start_is_refused_at_definition(start: Any) -> None:
    with pytest.raises(ConfigurationError, match="the start"):
        Every(HOUR, start=start)


def test_slots_are_counted_from_1970() -> None:
    assert Every(7 * HOUR).next_after(datetime(1970, 1, 1, tzinfo=UTC)) == datetime(1970, 1, 1, 7, tzinfo=UTC)
    assert Every(7 * HOUR).latest_at_or_before(datetime(1969, 12, 31, 23, tzinfo=UTC)) == datetime(
        1969, 12, 31, 17, tzinfo=UTC
    )


def test_the_start_is_the_first_slot() -> None:
    rule = Every(HOUR, start=NOON + timedelta(minutes=5))
    assert rule.next_after(NOON - timedelta(days=99)) == NOON + timedelta(minutes=5)
    assert rule.latest_at_or_before(NOON) is None
    assert rule.latest_at_or_before(NOON + timedelta(minutes=5)) == NOON + timedelta(minutes=5)
    assert rule.next_after(NOON + timedelta(minutes=5)) == NOON + timedelta(minutes=65)


def test_the_zone_of_the_start_does_not_matter() -> None:
    here = Every(24 * HOUR, start=datetime(2027, 3, 27, 12, tzinfo=ZoneInfo("Europe/Berlin")))
    assert here.next_after(datetime(2027, 3, 28, 9, tzinfo=UTC)) == datetime(2027, 3, 28, 11, tzinfo=UTC)


def test_a_change_of_the_clocks_changes_nothing() -> None:
    """PUB-38."""
    since = datetime(2027, 3, 28, tzinfo=UTC)
    slots = list(Every(timedelta(minutes=15)).slots_between(since - TICK, since + 2 * HOUR - TICK))
    assert slots == [since + n * timedelta(minutes=15) for n in range(8)]


def test_the_ends_of_the_calendar_do_not_overflow() -> None:
    last, first = datetime.max.replace(tzinfo=UTC), datetime.min.replace(tzinfo=UTC)
    assert Every(HOUR).next_after(last) is None
    assert Every(timedelta(days=36_500)).latest_at_or_before(first) is None
    assert Every(timedelta.max).next_after(NOON) is not None
    assert Every(HOUR, start=first).latest_at_or_before(first) == first
    assert Every(HOUR).next_after(datetime.max.replace(tzinfo=ZoneInfo("Pacific/Niue"))) is None


def test_a_naive_instant_is_refused() -> None:
    with pytest.raises(InputRefusedError):
        Every(HOUR).next_after(datetime(2027, 1, 1))  # noqa: DTZ001


def test_rules_are_values() -> None:
    rule = Every(HOUR, start=NOON)
    assert rule == Every(timedelta(minutes=60), start=NOON) == pickle.loads(pickle.dumps(rule))
    assert hash(rule) == hash(Every(HOUR, start=NOON))


@given(
    st.integers(1_000, 10**11),
    st.none() | st.datetimes(min_value=datetime(1900, 1, 1), max_value=datetime(2100, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001
    st.datetimes(min_value=datetime(1900, 1, 1), max_value=datetime(2100, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001
)
def test_slots_lie_ahead_and_are_whole_milliseconds(
    interval_ms: int, start: datetime | None, instant: datetime
) -> None:
    rule = Every(timedelta(milliseconds=interval_ms), start=start)
    slot = rule.next_after(instant)
    assert slot is not None
    assert slot > instant
    assert datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=epoch_ms(slot)) == slot
    assert rule.latest_at_or_before(slot) == slot == rule.next_after(slot - TICK)
    before = rule.latest_at_or_before(instant)
    assert before is None or (before <= instant and rule.next_after(before) == slot)
