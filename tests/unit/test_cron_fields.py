"""Cron expressions: what they mean, and what is refused where it is written and not where it would have run."""

from __future__ import annotations

import sys
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynadurable.errors import ConfigurationError, ExtraMissingError
from dynadurable.model.cron import Cron
from dynadurable.model.cron_fields import ALIASES, parse

# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("", "it has 0 fields"),
        ("* * * *", "it has 4 fields, not five"),
        ("* * * * * *", "it has 6 fields, and a field of seconds is not known"),
        ("* * * * * * *", "it has 7 fields"),
        ("60 * * * *", "'60' is no minute field, which takes 0 to 59"),
        ("* 24 * * *", "'24' is no hour field"),
        ("* * 0 * *", "'0' is no day-of-month field"),
        ("* * 32 * *", "'32' is no day-of-month field"),
        ("* * * 13 *", "'13' is no month field"),
        ("* * * 0 *", "'0' is no month field"),
        ("* * * * 8", "'8' is no day-of-week field"),
        ("* * * MON *", "'MON' is no month field"),
        ("* * * * MONDAY", "'MONDAY' is no day-of-week field"),
        ("* * * * FRI-MON", "ranges a-b that do not wrap"),
        ("30-10 * * * *", "'30-10' is no minute field"),
        ("1,,2 * * * *", "'1,,2' is no minute field"),
        ("1- * * * *", "'1-' is no minute field"),
        ("-5 * * * *", "'-5' is no minute field"),
        ("*-5 * * * *", "is no minute field"),
        ("** * * * *", "is no minute field"),
        ("*/0 * * * *", "the step of '*/0' in the minute field must be from 1 to 59"),
        ("*/ * * * *", "the step of '*/'"),
        ("*/5/2 * * * *", "the step of '*/5/2'"),
        ("*/90 * * * *", "the step of '*/90' in the minute field must be from 1 to 59"),
        ("0 */24 * * *", "the step of '*/24' in the hour field must be from 1 to 23"),
        ("0,*/99999999999999999999 * * * *", "the step of"),
        ("0 0 L/2 * *", "takes no step"),
        ("0 0 15W * *", "'15W' is no day-of-month field"),
        ("0 0 * * L", "'L' is no day-of-week field"),
        ("0 0 * * MON#6", "'MON#6' is no day-of-week field"),
        ("0 12 ? * MON", "'?' has no meaning"),
        ("cron(0 12 * * ? *)", "'(' has no meaning"),
        ("1.5 * * * *", "'.' has no meaning"),
        ("+5 * * * *", "'+' has no meaning"),
        ("٣ * * * *", "has no meaning"),
        ("0\u00a00 * * *", "has no meaning"),
        ("0 0 * *\n * \x00", "has no meaning"),
        ("TZ=Europe/Berlin 0 0 * * *", "the zone is an argument of its own"),
        ("@reboot", "a schedule has no boot; known are @yearly"),
        ("@fortnightly", "there is no such alias"),
        ("0 0 31 2 *", "would never run"),
        ("0 0 30,31 FEB *", "would never run"),
        ("* * 31 4,6,9,11 *", "would never run"),
        ("0 0 */30 2 MON#5", "would never run"),
    ],
)
def test_a_bad_expression_is_refused_by_name_and_reason(expression: str, reason: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Cron(expression)
    assert reason in str(caught.value)
    assert repr(expression) in str(caught.value)


@pytest.mark.parametrize("expression", [None, 5, b"* * * * *", ("*",) * 5])
def test_what_is_no_text_is_refused(expression: Any) -> None:
    with pytest.raises(ConfigurationError, match="a cron expression is a text"):
        Cron(expression)


def test_an_endless_text_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="longer than 256 characters"):
        Cron("1," * 1_000_000 + " * * * *")


@given(st.text(max_size=40) | st.text(alphabet="0123456789*/,-#LW ", max_size=30))
def test_any_text_is_understood_or_refused(text: str) -> None:
    try:
        fields = parse(text)
    except ConfigurationError as refusal:
        assert repr(text) in str(refusal)  # noqa: PT017 - both ends are right
    else:
        assert fields.minutes
        assert fields.hours


def test_a_missing_parser_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cronsim", None)
    with pytest.raises(ExtraMissingError, match=r"cronsim is not installed.*dynadurable\[schedules\]"):
        Cron("@daily")


# --- what they mean -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "another"),
    [
        ("0 0 * * 7", "0 0 * * 0"),
        ("0 0 * * SUN", "0 0 * * 0"),
        ("0 0 * * mon-Fri", "0 0 * * 1-5"),
        ("0 0 * * 5-7", "0 0 * * FRI,SAT,SUN"),
        ("0 0 * * */7", "0 0 * * SUN"),
        ("0 0 1 jan,JUL *", "0 0 1 1,7 *"),
        ("0 0 * APR-JUL/2 *", "0 0 * 4,6 *"),
        ("5/15 * * * *", "5,20,35,50 * * * *"),
        ("10-30/10 * * * *", "10,20,30 * * * *"),
        ("00 07 * * *", "0 7 * * *"),
        ("0\t0   1 * *", "0 0 1 * *"),
        *ALIASES.items(),
        ("@DAILY", "0 0 * * *"),
    ],
)
def test_two_ways_to_say_the_same(one: str, another: str) -> None:
    first, second = parse(one), parse(another)
    assert (first.minutes, first.hours, first.months, first.fixed) == (
        second.minutes, second.hours, second.months, second.fixed,
    )  # fmt: skip
    wall = datetime(2027, 1, 1)  # noqa: DTZ001 - walls have no zone
    for _ in range(30):
        found = first.next_wall(wall)
        assert found == second.next_wall(wall)
        assert found is not None
        wall = found.replace(minute=59, second=59)


@pytest.mark.parametrize(
    ("expression", "fixed"),
    [
        ("0 0 * * *", True),
        ("@daily", True),
        ("0-59 0-23 * * *", True),
        ("5/15 2 * * *", True),
        ("*/15 2 * * *", False),
        ("30 * * * *", False),
        ("0,*/30 1 * * *", False),
        ("@hourly", False),
    ],
)
def test_fixed_times_are_those_without_a_star_in_minute_and_hour(expression: str, fixed: bool) -> None:
    assert parse(expression).fixed is fixed


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("0 0 L * *", ["01-31", "02-28", "03-31"]),
        ("0 0 LW * *", ["01-29", "02-26", "03-31"]),
        ("0 0 * * 5L", ["01-29", "02-26", "03-26"]),
        ("0 0 * * MON#2", ["01-11", "02-08", "03-08"]),
        ("0 0 31 2 MON", ["02-01", "02-08", "02-15"]),
    ],
)
def test_days_that_move(expression: str, expected: list[str]) -> None:
    fields, found, wall = parse(expression), [], datetime(2027, 1, 1)  # noqa: DTZ001 - walls have no zone
    for _ in range(3):
        following = fields.next_wall(wall)
        assert following is not None
        found.append(following.strftime("%m-%d"))
        wall = following.replace(minute=1)
    assert found == expected


@given(st.datetimes(min_value=datetime(2000, 1, 1), max_value=datetime(2100, 1, 1)))  # noqa: DTZ001 - walls have no zone
def test_forwards_and_backwards_find_the_same_walls(wall: datetime) -> None:
    fields = parse("7,*/20 3,9-17/4 28-31 2,5 *")
    later = fields.next_wall(wall)
    assert later is not None
    assert later >= wall
    assert fields.previous_wall(later) == later
    earlier = fields.previous_wall(wall)
    assert earlier is not None
    assert earlier <= wall
    assert fields.next_wall(earlier) == earlier
