"""Cron slots where the clocks change: the ground rules to the letter, in every zone."""

from __future__ import annotations

import itertools
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dynadurable.errors import InputRefusedError
from dynadurable.model.cron import Cron
from dynadurable.model.zone import change_between, offset_at

DAY = timedelta(days=1)
MINUTE = timedelta(minutes=1)
TICK = timedelta(microseconds=1)

EXPRESSIONS = (
    "*/15 * * * *",
    "30 * * * *",
    "30 2 * * *",
    "0,30 2 * * *",
    "0 0 * * *",
    "*/20 2 * * *",
    "0 */2 * * *",
    "0-59 1-3 * * *",
    "15 23 * * 0,6",
    "45 0 13 * FRI",
    "0 12 * * *",
    "* * * * *",
)
ODD_CHANGES = (
    ("Pacific/Apia", datetime(2011, 12, 30, 10, tzinfo=UTC)),  # a whole local day is missing
    ("Pacific/Kwajalein", datetime(1969, 9, 30, 13, tzinfo=UTC)),  # 23 hours come twice
    ("Pacific/Kwajalein", datetime(1993, 8, 21, 12, tzinfo=UTC)),
    ("America/St_Johns", datetime(2006, 10, 29, 2, 31, tzinfo=UTC)),  # 00:01 back to 23:01: the date changes twice
    ("Australia/Lord_Howe", datetime(2027, 4, 3, 15, tzinfo=UTC)),  # half an hour
    ("Australia/Lord_Howe", datetime(2027, 10, 2, 15, 30, tzinfo=UTC)),
    ("Antarctica/Troll", datetime(2027, 3, 28, 1, tzinfo=UTC)),  # two hours
    ("America/Caracas", datetime(2007, 12, 9, 7, tzinfo=UTC)),  # half an hour, for good
    ("America/Sao_Paulo", datetime(2018, 11, 4, 3, tzinfo=UTC)),  # midnight is missing
    ("America/Sao_Paulo", datetime(2018, 2, 18, 2, tzinfo=UTC)),  # the hour before midnight comes twice
    ("Asia/Kathmandu", datetime(1985, 12, 31, 18, 30, tzinfo=UTC)),  # a quarter of an hour
)


def z(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def texts(slots: Iterator[datetime]) -> list[str]:
    return [slot.strftime("%Y-%m-%dT%H:%M") for slot in slots]


# --- the ground rules, case by case ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "tz", "after", "until", "expected"),
    [
        pytest.param(
            "30 2 * * *", "Europe/Berlin", "2027-03-27T00:00", "2027-03-30T12:00",
            ["2027-03-27T01:30", "2027-03-28T01:00", "2027-03-29T00:30", "2027-03-30T00:30"],
            id="PUB-34: a time in the gap runs at the first instant after it",
        ),
        pytest.param(
            "0,30 2 * * *", "Europe/Berlin", "2027-03-28T00:00", "2027-03-28T12:00", ["2027-03-28T01:00"],
            id="PUB-34: several times in the gap are one run",
        ),
        pytest.param(
            "0 2,3 * * *", "Europe/Berlin", "2027-03-28T00:00", "2027-03-28T12:00", ["2027-03-28T01:00"],
            id="a time in the gap and one at its end are one run",
        ),
        pytest.param(
            "30 1 * * *", "America/New_York", "2027-11-06T00:00", "2027-11-09T12:00",
            ["2027-11-06T05:30", "2027-11-07T05:30", "2027-11-08T06:30", "2027-11-09T06:30"],
            id="PUB-35: a time that comes twice runs once",
        ),
        pytest.param(
            "30 1 * * *", "America/New_York", "2027-11-07T05:45", "2027-11-08T12:00", ["2027-11-08T06:30"],
            id="PUB-35: also after a restart between its two showings",
        ),
        pytest.param(
            "30 1 * * *", "America/New_York", "2027-11-07T06:15", "2027-11-08T12:00", ["2027-11-08T06:30"],
            id="PUB-35: also after a restart in the second pass (the parser's own iterator goes back in time here)",
        ),
        pytest.param(
            "0 20 * * *", "Europe/Paris", "2027-10-30T00:00", "2027-11-02T23:00",
            ["2027-10-30T18:00", "2027-10-31T19:00", "2027-11-01T19:00", "2027-11-02T19:00"],
            id="PUB-36: the hour is right on the day after the change",
        ),
        pytest.param(
            "30 * * * *", "Europe/Helsinki", "2027-10-31T01:45", "2027-10-31T05:30",
            ["2027-10-31T02:30", "2027-10-31T03:30", "2027-10-31T04:30", "2027-10-31T05:30"],
            id="PUB-37: no endless loop at the boundary",
        ),
        pytest.param(
            "*/30 1 * * *", "America/New_York", "2027-11-07T00:00", "2027-11-07T12:00",
            ["2027-11-07T05:00", "2027-11-07T05:30", "2027-11-07T06:00", "2027-11-07T06:30"],
            id="a wildcard in one field runs in both passes",
        ),
        pytest.param(
            "0,*/30 1 * * *", "America/New_York", "2027-11-07T00:00", "2027-11-07T12:00",
            ["2027-11-07T05:00", "2027-11-07T05:30", "2027-11-07T06:00", "2027-11-07T06:30"],
            id="a wildcard counts wherever it stands (the parser's own iterator looks at the first character only)",
        ),
        pytest.param(
            "*/30 2 * * *", "America/New_York", "2027-03-14T00:00", "2027-03-15T05:00", [],
            id="a gap holds nothing for a wildcard",
        ),
        pytest.param(
            "0-59/30 2 * * *", "America/New_York", "2027-03-14T00:00", "2027-03-15T05:00", ["2027-03-14T07:00"],
            id="a step without a star is a list of fixed times",
        ),
        pytest.param(
            "15 2 * * *", "Australia/Lord_Howe", "2027-10-01T00:00", "2027-10-04T00:00",
            ["2027-10-01T15:45", "2027-10-02T15:30", "2027-10-03T15:15"],
            id="a gap of half an hour",
        ),
        pytest.param(
            "45 1 * * *", "Australia/Lord_Howe", "2027-04-03T00:00", "2027-04-05T00:00",
            ["2027-04-03T14:45", "2027-04-04T15:15"],
            id="an overlap of half an hour",
        ),
        pytest.param(
            "*/30 * * * *", "Australia/Lord_Howe", "2027-04-03T14:15", "2027-04-03T16:15",
            ["2027-04-03T14:30", "2027-04-03T15:00", "2027-04-03T15:30", "2027-04-03T16:00"],
            id="every half hour of real time in a zone that changes by half an hour",
        ),
        pytest.param(
            "0 0 * * *", "Africa/Cairo", "2027-04-29T00:00", "2027-05-01T12:00",
            ["2027-04-29T22:00", "2027-04-30T21:00"],
            id="a midnight that does not exist runs at 01:00",
        ),
        pytest.param(
            "0 0 * * *", "America/Sao_Paulo", "2018-11-03T00:00", "2018-11-06T00:00",
            ["2018-11-03T03:00", "2018-11-04T03:00", "2018-11-05T02:00"],
            id="a midnight that does not exist, south of the equator",
        ),
        pytest.param(
            "0 12 * * *", "Pacific/Apia", "2011-12-29T00:00", "2012-01-01T00:00",
            ["2011-12-29T22:00", "2011-12-30T10:00", "2011-12-30T22:00", "2011-12-31T22:00"],
            id="a day that does not exist runs at the beginning of the next one",
        ),
        pytest.param(
            "0 0 13 * FRI", "UTC", "2027-08-01T00:00", "2027-08-31T00:00",
            ["2027-08-06T00:00", "2027-08-13T00:00", "2027-08-20T00:00", "2027-08-27T00:00"],
            id="both day fields restricted: either matches",
        ),
        pytest.param(
            "0 0 1,15 * WED", "UTC", "2027-09-01T12:00", "2027-09-16T00:00", ["2027-09-08T00:00", "2027-09-15T00:00"],
            id="a day on which both match is one run",
        ),
        pytest.param(
            "0 0 */2 * MON", "UTC", "2027-08-01T00:00", "2027-08-31T12:00", ["2027-08-09T00:00", "2027-08-23T00:00"],
            id="a day field that begins with a star is no restriction: both must match",
        ),
        pytest.param(
            "30 1 29 2 *", "America/New_York", "2096-03-01T00:00", "2105-01-01T00:00", ["2104-02-29T06:30"],
            id="a leap day over a century that has none",
        ),
        pytest.param(
            "*/30 1 29 2 *", "America/New_York", "2096-03-01T00:00", "2105-01-01T00:00",
            ["2104-02-29T06:00", "2104-02-29T06:30"],
            id="a far match of a wildcard",
        ),
    ],
)  # fmt: skip
def test_slots_are_those_of_the_ground_rules(
    expression: str, tz: str, after: str, until: str, expected: list[str]
) -> None:
    rule = Cron(expression, tz=tz)
    assert texts(rule.slots_between(z(after), z(until))) == expected
    assert texts(iter(backwards(rule, z(after), z(until)))) == expected


@pytest.mark.parametrize("day", ["2027-03-28", "2027-10-31"])
def test_every_quarter_of_an_hour_is_real_time(day: str) -> None:
    """PUB-38: eight slots in two hours, whatever the clocks do."""
    since = z(f"{day}T00:00")
    slots = list(
        Cron("*/15 * * * *", tz="Europe/London").slots_between(since - TICK, since + timedelta(hours=2) - TICK)
    )
    assert slots == [since + n * timedelta(minutes=15) for n in range(8)]


def test_a_chain_of_slots_is_the_same_as_each_computed_afresh() -> None:
    """PUB-36."""
    rule = Cron("0 20 * * *", tz="Europe/Paris")
    chain = list(rule.slots_between(z("2027-10-01T00:00"), z("2027-11-30T00:00")))
    fresh = [Cron("0 20 * * *", tz="Europe/Paris").next_after(slot - timedelta(hours=7)) for slot in chain]
    assert fresh == chain


def test_an_instant_in_any_zone_gives_the_same_slot() -> None:
    """PUB-37: the base as it stands in the case, in its second pass."""
    rule = Cron("30 * * * *", tz="Europe/Helsinki")
    base = datetime(2027, 10, 31, 3, 45, fold=1, tzinfo=ZoneInfo("Europe/Helsinki"))
    assert rule.next_after(base) == rule.next_after(base.astimezone(UTC)) == z("2027-10-31T02:30")


def test_slots_are_in_utc() -> None:
    slot = Cron("0 9 * * *", tz="Asia/Tokyo").next_after(z("2027-01-01T00:00"))
    assert slot is not None
    assert slot.tzinfo is UTC


def test_a_naive_instant_is_refused() -> None:
    rule = Cron("@daily")
    with pytest.raises(InputRefusedError):
        rule.next_after(datetime(2027, 1, 1))  # noqa: DTZ001
    with pytest.raises(InputRefusedError):
        rule.latest_at_or_before(datetime(2027, 1, 1))  # noqa: DTZ001


@pytest.mark.parametrize("expression", ["0 0 * * *", "* * * * *", "0 0 29 2 *"])
@pytest.mark.parametrize("tz", ["UTC", "Pacific/Kiritimati", "Pacific/Niue"])
def test_the_ends_of_the_calendar_do_not_overflow(expression: str, tz: str) -> None:
    rule = Cron(expression, tz=tz)
    first, last = datetime.min.replace(tzinfo=ZoneInfo(tz)), datetime.max.replace(tzinfo=ZoneInfo(tz))
    assert rule.next_after(last) is None
    assert rule.latest_at_or_before(first) is None
    assert rule.next_after(first) is not None
    assert rule.latest_at_or_before(last) is not None


def test_rules_are_values() -> None:
    rule = Cron(" 0  0 * * MON ", tz="Europe/Berlin")
    assert rule == Cron("0 0 * * MON", tz="Europe/Berlin") == pickle.loads(pickle.dumps(rule))
    assert rule != Cron("0 0 * * MON")
    assert len({rule, Cron("0 0 * * MON", tz="Europe/Berlin")}) == 1
    assert pickle.loads(pickle.dumps(rule)).next_after(z("2027-01-01T00:00")) == z("2027-01-03T23:00")


def test_the_zone_of_the_process_changes_nothing() -> None:
    program = (
        "from datetime import UTC, datetime\n"
        "from dynadurable.model.cron import Cron\n"
        "for tz in ('UTC', 'Europe/Berlin'):\n"
        "    for expression in ('30 2 * * *', '*/15 * * * *'):\n"
        "        rule = Cron(expression, tz=tz)\n"
        "        print(*rule.slots_between(datetime(2027, 3, 27, tzinfo=UTC), datetime(2027, 3, 30, tzinfo=UTC)))\n"
    )
    outputs = [
        subprocess.run(
            [sys.executable, "-c", program], env={**os.environ, "TZ": zone}, capture_output=True, text=True, check=True
        ).stdout
        for zone in ("UTC", "America/New_York")
    ]
    assert outputs[0] == outputs[1] != ""


# --- every zone, against a clock that is watched minute by minute ---------------------------------


def backwards(rule: Cron, after: datetime, until: datetime) -> list[datetime]:
    """The slots between two instants, found from the end."""
    found, slot = list[datetime](), rule.latest_at_or_before(until)
    while slot is not None and slot > after:
        found.append(slot)
        slot = rule.latest_at_or_before(slot - TICK)
    return found[::-1]


def watched(rule: Cron, after: datetime, until: datetime) -> list[datetime]:
    """The ground rule itself: watch the zone's clock each minute.

    A wildcard runs whenever the clock shows a match. A fixed time runs the first time the clock shows it or has
    jumped over it.
    """
    zone, fields = ZoneInfo(rule.tz), rule._fields
    if not fields.fixed:
        minutes = (after + n * MINUTE for n in range(1, (until - after) // MINUTE + 1))
        shown = ((minute, minute.astimezone(zone)) for minute in minutes)
        return [
            minute
            for minute, wall in shown
            if wall.minute in fields.minutes and wall.hour in fields.hours and fields.matches(wall.date())
        ]
    minute = after - 2 * DAY  # a clock that is about to go back has shown these times before
    pending = fields.next_wall(minute.astimezone(zone).replace(tzinfo=None, fold=0) + MINUTE)
    found = list[datetime]()
    while minute <= until:
        wall = minute.astimezone(zone).replace(tzinfo=None, fold=0)
        while pending is not None and pending <= wall:
            if minute > after and minute not in found[-1:]:
                found.append(minute)
            pending = fields.next_wall(pending + MINUTE)
        minute += MINUTE
    return found


def changes(zone: ZoneInfo, since: datetime, until: datetime) -> Iterator[datetime]:
    while since < until:
        if (change := change_between(zone, since, since + DAY)) is not None:
            yield change
        since += DAY


def changes_of_every_zone() -> list[tuple[str, datetime]]:
    """A zone and an instant for each change of any zone in three years; zones that change alike count once."""
    found: dict[tuple[object, ...], tuple[str, datetime]] = {}
    for name in sorted(available_timezones() - {"localtime"}):
        zone = ZoneInfo(name)
        for change in changes(zone, z("2026-01-01T00:00"), z("2029-01-01T00:00")):
            found.setdefault((change, offset_at(zone, change), offset_at(zone, change - TICK)), (name, change))
    return list(found.values())


def check_around(name: str, change: datetime, expressions: Iterator[str]) -> None:
    after, until = change.replace(second=0) - timedelta(hours=30), change.replace(second=0) + timedelta(hours=30)
    for expression in expressions:
        rule = Cron(expression, tz=name)
        expected = watched(rule, after, until)
        assert list(rule.slots_between(after, until)) == expected, (name, expression, change)
        assert backwards(rule, after, until) == expected, (name, expression, change)
        assert all(a < b for a, b in itertools.pairwise(expected))


@pytest.mark.slow
def test_around_every_change_of_every_zone_the_slots_are_those_of_a_watched_clock() -> None:
    """PUB-37's property. Each change is tried with two of the expressions, in turn."""
    every = changes_of_every_zone()
    assert len(every) > 50
    turn = itertools.cycle(EXPRESSIONS)
    for name, change in every:
        check_around(name, change, itertools.islice(turn, 2))
        next(turn)


@pytest.mark.parametrize(("name", "change"), ODD_CHANGES)
def test_around_odd_changes_the_slots_are_those_of_a_watched_clock(name: str, change: datetime) -> None:
    check_around(name, change, iter(EXPRESSIONS))


FIELDS = st.tuples(
    st.sampled_from(["*", "*/7", "0", "30", "5,59", "10-20/5", "0,*/45"]),
    st.sampled_from(["*", "*/5", "0", "2", "1-3", "23", "0,12"]),
    st.sampled_from(["*", "*/9", "1", "28-31", "L", "LW", "13"]),
    st.sampled_from(["*", "*/4", "2", "MAR,OCT", "1-6"]),
    st.sampled_from(["*", "*/3", "MON", "0,7", "FRI#1", "5L", "1-5"]),
)
ZONES = st.sampled_from(sorted(available_timezones() - {"localtime", "Factory"}))


@settings(deadline=None)
@given(FIELDS.map(" ".join), ZONES, st.datetimes(min_value=datetime(1900, 1, 1), max_value=datetime(2200, 1, 1)))  # noqa: DTZ001
def test_the_next_slot_lies_ahead_and_nothing_lies_between(expression: str, tz: str, wall: datetime) -> None:
    rule, instant = Cron(expression, tz=tz), wall.replace(tzinfo=UTC)
    slot = rule.next_after(instant)
    assert slot is not None
    assert slot > instant
    assert rule.next_after(slot - TICK) == slot
    assert rule.latest_at_or_before(slot) == slot
    before = rule.latest_at_or_before(slot - TICK)
    assert before is None or before <= instant
    assert before is None or rule.next_after(before) == slot
