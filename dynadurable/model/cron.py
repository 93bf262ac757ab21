"""Cron schedules in a time zone, where an hour may be missing or come twice.

Two kinds, told apart by the text:

* *Fixed times*: neither the minute nor the hour field holds a ``*``. They run once on every matching local date. A
  time that the clocks skip runs at the first instant after the gap, and several such times are one run; a time that the
  clocks show twice runs the first time only.
* *Wildcards*: all others. They run at every real minute at which the local clock matches, so the repeated hour counts
  twice and the skipped hour not at all: ``*/15 * * * *`` is every quarter of an hour of real time on every day.

Day-of-month and day-of-week: where neither begins with ``*``, a day on which either matches is a day; else both must.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo

from .cron_fields import FIRST_YEAR, LAST_YEAR, CronFields, parse
from .instant import check_aware
from .slots import slots_between
from .zone import WINDOW, change_between, first_instant, load_zone, offset_at, wall_at

_FIRST = datetime(FIRST_YEAR, 1, 1, tzinfo=UTC)
_LAST = datetime(LAST_YEAR, 12, 31, tzinfo=UTC)
_TICK = timedelta(microseconds=1)
_MINUTE = timedelta(minutes=1)
_NEAR = timedelta(days=2)  # more than the difference of any two offsets of one zone


@dataclass(frozen=True)
class Cron:
    """A cron expression in a zone: five fields or an alias such as ``@daily``, names and ``7`` for Sunday allowed.

    >>> rule = Cron("30 2 * * *", tz="Europe/Berlin")
    >>> rule.next_after(datetime(2027, 3, 27, 12, tzinfo=UTC)).isoformat()  # 02:30 does not exist on that day
    '2027-03-28T01:00:00+00:00'

    Raises:
        ConfigurationError: the expression or the zone cannot be used; the message names it and says why.
        ExtraMissingError: the extra ``schedules`` is not installed.
    """

    expression: str
    tz: str = field(default="UTC", kw_only=True)
    _fields: CronFields = field(init=False, repr=False, compare=False)
    _zone: tzinfo = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_fields", parse(self.expression))
        object.__setattr__(self, "expression", " ".join(self.expression.split()))
        object.__setattr__(self, "_zone", load_zone(self.tz))

    def next_after(self, instant: datetime) -> datetime | None:
        """The first slot after an instant, in UTC; ``None`` at the end of the calendar.

        Raises:
            InputRefusedError: a naive datetime.
        """
        if check_aware(instant, "the instant") >= _LAST:
            return None
        since = max(instant, _FIRST).astimezone(UTC)
        return self._next_fixed(since) if self._fields.fixed else self._next_wildcard(since + _TICK)

    def latest_at_or_before(self, instant: datetime) -> datetime | None:
        """The last slot that does not lie after an instant, in UTC; ``None`` at the beginning of the calendar.

        Raises:
            InputRefusedError: a naive datetime.
        """
        if check_aware(instant, "the instant") <= _FIRST:
            return None
        until = min(instant, _LAST).astimezone(UTC)
        return self._latest_fixed(until) if self._fields.fixed else self._latest_wildcard(until)

    def slots_between(self, after: datetime, until: datetime) -> Iterator[datetime]:
        """Every slot after the one and not after the other instant, in order."""
        return slots_between(self, after, until)

    # --- fixed times ------------------------------------------------------------------------------

    # Each time of day on the calendar has one slot: the first instant at which the clocks show it. A later time never
    # has an earlier slot, whatever the clocks do, so both searches walk along the calendar and stop at the first hit.

    def _next_fixed(self, since: datetime) -> datetime | None:
        wall = self._fields.next_wall(wall_at(self._zone, since) + _TICK)
        while wall is not None:
            slot = first_instant(self._zone, wall)
            if slot > since:
                return slot
            wall = self._fields.next_wall(wall + _MINUTE)  # its second showing, or the end of a gap that has passed
        return None

    def _latest_fixed(self, until: datetime) -> datetime | None:
        local = until.astimezone(self._zone)
        wall = wall_at(self._zone, until)
        if local.fold:  # in a second showing, the first one got further than the clocks show now
            wall += offset_at(self._zone, until - WINDOW) - offset_at(self._zone, until)
        latest = self._fields.previous_wall(wall)
        while latest is not None:
            slot = first_instant(self._zone, latest)
            if slot <= until:
                return slot
            latest = self._fields.previous_wall(latest - _MINUTE)
        return None

    # --- wildcards --------------------------------------------------------------------------------

    # While the offset stays, the next slot is the calendar's next match less the offset. If the offset changes before
    # that, the search goes on from the change. A match far away needs no look at every change on the way: what lies
    # between would have to be a match of the calendar between, except near both ends, where an offset's difference
    # may move it. So the search jumps to two days before it.

    def _next_wildcard(self, since: datetime) -> datetime | None:
        while True:
            offset = offset_at(self._zone, since)
            wall = self._fields.next_wall((since + offset).replace(tzinfo=None))
            if wall is None:
                return None
            slot = wall.replace(tzinfo=UTC) - offset
            change = change_between(self._zone, since, min(slot, since + WINDOW))
            if change is not None:
                since = change
            elif slot <= since + WINDOW:
                return slot
            else:
                since = slot - _NEAR

    def _latest_wildcard(self, until: datetime) -> datetime | None:
        while True:
            offset = offset_at(self._zone, until)
            wall = self._fields.previous_wall((until + offset).replace(tzinfo=None))
            if wall is None:
                return None
            slot = wall.replace(tzinfo=UTC) - offset
            change = change_between(self._zone, max(slot, until - WINDOW), until)
            if change is not None:
                until = change - _TICK
            elif slot >= until - WINDOW:
                return slot
            else:
                until = slot + _NEAR
