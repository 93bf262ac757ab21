"""Delays and instants at the API: what is refused, what is clamped, and that no float touches a time."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynadurable.errors import ConfigurationError, InputRefusedError
from dynadurable.model.instant import MAX_DELAY, MAX_DUE_MS, clamp_delay, due_ms, epoch_ms

NOON = datetime(2027, 1, 15, 12, tzinfo=UTC)
NOON_MS = 1_800_014_400_000
ZONES = st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia"])


class SilentZone(tzinfo):
    """Present, and says nothing."""

    def utcoffset(self, moment: datetime | None, /) -> None:
        return None

    def dst(self, moment: datetime | None, /) -> None:
        return None

    def tzname(self, moment: datetime | None, /) -> None:
        return None


# --- delays ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("delay", [30, 1.5, float("nan"), float("inf"), 1e18, "30s", None, True, date(2027, 1, 1)])
def test_a_delay_that_is_no_timedelta_is_refused_by_name(delay: Any) -> None:
    with pytest.raises(InputRefusedError, match=r"the delay must be a timedelta, such as timedelta\(seconds=30\)"):
        clamp_delay(delay, "the delay")


@pytest.mark.parametrize("delay", [timedelta(microseconds=-1), timedelta(days=-1), timedelta.min])
def test_a_negative_delay_is_refused(delay: timedelta) -> None:
    with pytest.raises(InputRefusedError, match="the snooze must not be negative"):
        clamp_delay(delay, "the snooze")


def test_the_caller_chooses_the_class_of_the_error() -> None:
    with pytest.raises(ConfigurationError):
        clamp_delay(timedelta(seconds=-1), "the delay", error=ConfigurationError)


def test_a_value_whose_repr_raises_is_refused_all_the_same() -> None:
    class Rude:
        def __repr__(self) -> str:
            raise RuntimeError

    with pytest.raises(InputRefusedError, match="not a Rude"):
        clamp_delay(Rude(), "the delay")  # type: ignore[arg-type]


@pytest.mark.parametrize("delay", [timedelta.max, MAX_DELAY, MAX_DELAY + timedelta(microseconds=1)])
def test_a_delay_is_clamped_to_the_documented_maximum(delay: timedelta) -> None:
    assert clamp_delay(delay, "the delay") == MAX_DELAY


def test_a_subclass_of_timedelta_comes_back_as_a_plain_one() -> None:
    class Duration(timedelta):
        pass

    assert type(clamp_delay(Duration(seconds=3), "the delay")) is timedelta


@given(st.timedeltas(min_value=timedelta()))
def test_every_delay_gives_a_due_instant_that_can_be_stored(delay: timedelta) -> None:
    assert NOON_MS <= due_ms(NOON_MS, delay=delay) <= NOON_MS + MAX_DELAY // timedelta(milliseconds=1)


# --- instants -------------------------------------------------------------------------------------


@pytest.mark.parametrize("naive", [datetime(2027, 1, 15, 12), datetime(2027, 1, 15, tzinfo=SilentZone())])  # noqa: DTZ001
def test_a_naive_datetime_is_refused(naive: datetime) -> None:
    """G1, PUB-28."""
    with pytest.raises(InputRefusedError, match="has no time zone, and none is guessed"):
        due_ms(NOON_MS, at=naive)


@pytest.mark.parametrize("instant", [date(2027, 1, 15), 1_800_014_400, "2027-01-15T12:00:00Z"])
def test_what_is_no_datetime_is_refused(instant: Any) -> None:
    with pytest.raises(InputRefusedError, match="must be an aware datetime"):
        due_ms(NOON_MS, at=instant)


@pytest.mark.parametrize("process_zone", ["America/New_York", "Asia/Kolkata", "UTC"])
def test_the_zone_of_the_process_changes_nothing(process_zone: str) -> None:
    """PUB-28."""
    program = (
        "from datetime import UTC, datetime\n"
        "from dynadurable.model.instant import due_ms\n"
        "print(due_ms(0, at=datetime(2027, 1, 15, 12, tzinfo=UTC)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env={"TZ": process_zone}, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == str(NOON_MS)


def test_the_same_instant_in_another_zone_is_due_at_the_same_time() -> None:
    assert due_ms(0, at=NOON.astimezone(ZoneInfo("Asia/Kolkata"))) == NOON_MS


def test_both_passes_of_a_repeated_hour_are_told_apart() -> None:
    first = datetime(2027, 10, 31, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"))
    assert epoch_ms(first.replace(fold=1)) - epoch_ms(first) == 3_600_000


def test_an_instant_in_the_past_is_due_now() -> None:
    assert due_ms(NOON_MS, at=NOON - timedelta(days=400)) == NOON_MS


@pytest.mark.parametrize("offset", [timedelta(hours=-23), timedelta(hours=23), timedelta()])
def test_the_ends_of_the_calendar_do_not_overflow(offset: timedelta) -> None:
    zone = timezone(offset)
    assert due_ms(NOON_MS, at=datetime.max.replace(tzinfo=zone)) <= MAX_DUE_MS
    assert due_ms(NOON_MS, at=datetime.min.replace(tzinfo=zone)) == NOON_MS


def test_the_last_instant_is_the_one_documented() -> None:
    assert epoch_ms(datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)) == MAX_DUE_MS


def test_neither_delay_nor_instant_is_due_now() -> None:
    assert due_ms(NOON_MS) == NOON_MS


def test_both_delay_and_instant_are_refused() -> None:
    with pytest.raises(InputRefusedError, match="not both"):
        due_ms(NOON_MS, delay=timedelta(), at=NOON)


def test_nothing_is_due_before_its_instant() -> None:
    assert epoch_ms(NOON + timedelta(microseconds=1)) == NOON_MS + 1
    assert due_ms(NOON_MS, delay=timedelta(microseconds=1)) == NOON_MS + 1


@given(st.datetimes(min_value=datetime(1, 1, 2), max_value=datetime(9999, 12, 30)), ZONES)  # noqa: DTZ001
def test_milliseconds_are_exact(wall: datetime, zone: str) -> None:
    moment = wall.replace(tzinfo=ZoneInfo(zone))
    since = moment.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    exact = Fraction(since.days * 86_400_000 + since.seconds * 1000) + Fraction(since.microseconds, 1000)
    assert 0 <= epoch_ms(moment) - exact < 1
