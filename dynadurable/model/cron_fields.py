"""A cron expression's five fields, parsed, checked, and searched on a calendar that knows no zones.

The parser is cronsim's (extra ``schedules``). What a text means is its word; what it cannot know, and what it lets
pass although nobody can mean it (``*/90``, ``0 0 31 2 *``), is refused here with a reason.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from ..errors import ConfigurationError, ExtraMissingError
from .instant import shown

FIRST_YEAR, LAST_YEAR = 2, 9998
"""Slots are looked for in these years; a year is left at both ends so that no conversion between zones overflows."""
MAX_CHARACTERS = 256

ALIASES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}

_DAY = timedelta(days=1)
_MINUTE = timedelta(minutes=1)
_STRANGE = re.compile(r"[^0-9A-Za-z*/,#@ \t-]")
_YEARS_OF_EVERY_KIND = range(2000, 2028)  # 28 years hold each of the 14 calendars: leap or not, from each weekday


@dataclass(frozen=True, kw_only=True, slots=True)
class FieldRule:
    """What one of the five fields may hold."""

    name: str
    least: int
    most: int
    extras: str = ""

    def __str__(self) -> str:
        numbers = f"{self.least} to {self.most}"
        return f"{numbers}, *, lists a,b, ranges a-b that do not wrap, steps */n, a-b/n, a/n{self.extras}"


FIELDS = (
    FieldRule(name="minute", least=0, most=59),
    FieldRule(name="hour", least=0, most=23),
    FieldRule(
        name="day-of-month", least=1, most=31, extras="; L is the last day, LW the last one from Monday to Friday"
    ),
    FieldRule(name="month", least=1, most=12, extras="; JAN to DEC"),
    FieldRule(name="day-of-week", least=0, most=7, extras="; 0 and 7 are Sunday, SUN to SAT, MON#2, 5L"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class CronFields:
    """What an expression means, on any calendar."""

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    months: frozenset[int]
    matches_day: Callable[[date], bool]
    """Whether both day fields agree; either, if neither begins with ``*``."""
    fixed: bool
    """Whether neither minute nor hour holds a ``*``."""

    def matches(self, day: date) -> bool:
        return day.month in self.months and self.matches_day(day)

    def next_wall(self, wall: datetime) -> datetime | None:
        """The first matching minute that does not begin before ``wall``."""
        begun = wall.replace(second=0, microsecond=0)
        if begun < wall:
            begun += _MINUTE
        day = begun.date()
        if self.matches(day) and (found := self._time_from(begun.hour, begun.minute)) is not None:
            return datetime.combine(day, found)
        later = self._next_day(day + _DAY)
        return None if later is None else datetime.combine(later, time(self.hours[0], self.minutes[0]))

    def previous_wall(self, wall: datetime) -> datetime | None:
        """The last matching minute that does not begin after ``wall``."""
        day = wall.date()
        if self.matches(day) and (found := self._time_until(wall.hour, wall.minute)) is not None:
            return datetime.combine(day, found)
        earlier = self._previous_day(day - _DAY)
        return None if earlier is None else datetime.combine(earlier, time(self.hours[-1], self.minutes[-1]))

    def _time_from(self, hour: int, minute: int) -> time | None:
        place = bisect_left(self.hours, hour)
        if place < len(self.hours) and self.hours[place] == hour:
            if (at := bisect_left(self.minutes, minute)) < len(self.minutes):
                return time(hour, self.minutes[at])
            place += 1
        return time(self.hours[place], self.minutes[0]) if place < len(self.hours) else None

    def _time_until(self, hour: int, minute: int) -> time | None:
        place = bisect_right(self.hours, hour) - 1
        if place >= 0 and self.hours[place] == hour:
            if (at := bisect_right(self.minutes, minute) - 1) >= 0:
                return time(hour, self.minutes[at])
            place -= 1
        return time(self.hours[place], self.minutes[-1]) if place >= 0 else None

    def _next_day(self, day: date) -> date | None:
        while day.year <= LAST_YEAR:
            if day.month not in self.months:
                day = (day.replace(day=1) + timedelta(days=32)).replace(day=1)
            elif self.matches_day(day):
                return day
            else:
                day += _DAY
        return None

    def _previous_day(self, day: date) -> date | None:
        while day.year >= FIRST_YEAR:
            if day.month not in self.months:
                day = day.replace(day=1) - _DAY
            elif self.matches_day(day):
                return day
            else:
                day -= _DAY
        return None


def parse(expression: str) -> CronFields:
    """The fields of an expression.

    >>> parse("*/20 9-17 * * MON-FRI").minutes
    (0, 20, 40)

    Raises:
        ConfigurationError: not a cron expression, or one that never comes true; the message says why.
        ExtraMissingError: the parser is not installed.
    """
    parts = _split(expression)
    for rule, part in zip(FIELDS, parts, strict=True):
        _check_field(expression, rule, part)
    fields = _parse(" ".join(parts))
    if fields is None or not _ever_comes(fields):
        raise _refused(expression, "no month it names has such a day, so it would never run")
    return fields


def _split(expression: str) -> list[str]:
    """The five fields as text."""
    if not isinstance(expression, str):
        raise ConfigurationError(f"a cron expression is a text such as '*/5 * * * *', not {shown(expression)}")
    text = expression.strip()
    if len(text) > MAX_CHARACTERS:
        raise ConfigurationError(f"the cron expression {text[:40]!r}... is longer than {MAX_CHARACTERS} characters")
    if text.startswith("@"):
        return _alias(expression, text).split()
    if text.upper().startswith(("TZ=", "CRON_TZ=")):
        raise _refused(expression, "the zone is an argument of its own: tz='Europe/Berlin'")
    if (strange := _STRANGE.search(text)) is not None:
        raise _refused(
            expression, f"{strange.group()!r} has no meaning in it; other tools' extensions are not known here"
        )
    parts = text.split()
    if len(parts) == 6:
        raise _refused(
            expression,
            "it has 6 fields, and a field of seconds is not known: give five (minute, hour, day-of-month, month, "
            "day-of-week); for what runs more often than once a minute use an interval, every=timedelta(seconds=10)",
        )
    if len(parts) != 5:
        raise _refused(
            expression,
            f"it has {len(parts)} fields, not five (minute, hour, day-of-month, month, day-of-week)",
        )
    return parts


def _alias(expression: str, text: str) -> str:
    meaning = ALIASES.get(text.lower())
    if meaning is None:
        reason = "a schedule has no boot" if text.lower() == "@reboot" else "there is no such alias"
        raise _refused(expression, f"{reason}; known are {', '.join(ALIASES)}")
    return meaning


def _check_field(expression: str, rule: FieldRule, part: str) -> None:
    for term in part.split(","):
        base, slash, step = term.partition("/")
        if slash and not (step.isdigit() and 1 <= int(step) <= rule.most - rule.least):
            raise _refused(
                expression, f"the step of {term!r} in the {rule.name} field must be from 1 to {rule.most - rule.least}"
            )
        if slash and rule.name == "day-of-month" and base.upper() in {"L", "LW"}:
            raise _refused(expression, f"{base!r} in the {rule.name} field is one day and takes no step")
    alone = ["*"] * len(FIELDS)
    alone[FIELDS.index(rule)] = part
    if _parse(" ".join(alone)) is None:
        raise _refused(expression, f"{part!r} is no {rule.name} field, which takes {rule}")


def _parse(text: str) -> CronFields | None:
    """What cronsim understands, or ``None``."""
    try:
        from cronsim import CronSim, CronSimError
    except ImportError:
        raise ExtraMissingError("cronsim", extra="schedules") from None
    try:
        parsed = CronSim(text, datetime(2000, 1, 1, tzinfo=UTC))
    except CronSimError:
        return None
    minute, hour, *_ = text.split()
    return CronFields(
        minutes=tuple(sorted(parsed.minutes)),
        hours=tuple(sorted(parsed.hours)),
        months=frozenset(parsed.months),
        matches_day=parsed.match_day,
        fixed="*" not in minute and "*" not in hour,
    )


def _ever_comes(fields: CronFields) -> bool:
    day, end = date(_YEARS_OF_EVERY_KIND[0], 1, 1), date(_YEARS_OF_EVERY_KIND[-1], 12, 31)
    while day <= end:
        if fields.matches(day):
            return True
        day += _DAY
    return False


def _refused(expression: str, reason: str) -> ConfigurationError:
    return ConfigurationError(f"the cron expression {expression!r} cannot be used: {reason}")
