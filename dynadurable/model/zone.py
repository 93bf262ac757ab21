"""Time zones by name, and the one instant at which a zone's offset changes.

The process's own zone is never asked: every conversion names its zone.
"""

from __future__ import annotations

import difflib
import functools
import zoneinfo
from datetime import UTC, datetime, timedelta, tzinfo

from ..errors import ConfigurationError, ExtraMissingError
from .instant import shown

WINDOW = timedelta(days=3)
"""Within so long no zone has ever changed its offset twice: the closest two changes are 95 hours apart."""

_NOT_A_PLACE = frozenset({"localtime", "Factory", "posixrules"})
_SECOND = timedelta(seconds=1)


def load_zone(name: str) -> tzinfo:
    """The zone of an IANA name. ``UTC`` needs no zone database; every other name does.

    Raises:
        ConfigurationError: no such zone; the message offers similar names.
        ExtraMissingError: this machine has no zone database at all.
    """
    if not isinstance(name, str):
        raise ConfigurationError(f"tz must be the name of a zone, such as 'Europe/Berlin', not {shown(name)}")
    if name == "UTC":
        return UTC
    known = _known_zones()
    if not known:
        raise ExtraMissingError("tzdata", extra="schedules")
    # Asked of the list and not of the file system: that would also take "europe/berlin" on some machines and not on
    # others, and "localtime", which is whatever zone this machine is set to.
    if name not in known:
        raise ConfigurationError(f"there is no time zone {name!r:.80}{_hint(name, known)}")
    return zoneinfo.ZoneInfo(name)


@functools.cache
def _known_zones() -> frozenset[str]:
    return frozenset(zoneinfo.available_timezones()) - _NOT_A_PLACE


def _hint(name: str, known: frozenset[str]) -> str:
    if not name.strip():
        return "; give a name such as 'Europe/Berlin'"
    if name in _NOT_A_PLACE:
        return ": it is whatever this machine is set to; give a name such as 'Europe/Berlin'"
    same = [zone for zone in known if zone.casefold() == name.strip().casefold()]
    near = same or difflib.get_close_matches(name[:64], sorted(known), n=3)
    return f"; did you mean {' or '.join(repr(zone) for zone in near)}?" if near else ""


def offset_at(zone: tzinfo, instant: datetime) -> timedelta:
    """What the zone's clocks are ahead of UTC at an instant."""
    offset = instant.astimezone(zone).utcoffset()
    assert offset is not None
    return offset


def wall_at(zone: tzinfo, instant: datetime) -> datetime:
    """What the zone's clocks show at an instant: a datetime without a zone."""
    return instant.astimezone(zone).replace(tzinfo=None, fold=0)


def change_between(zone: tzinfo, after: datetime, until: datetime) -> datetime | None:
    """The instant of the offset's change after the one and not after the other instant, if there is one.

    The two are at most ``WINDOW`` apart, so equal offsets at both ends mean that there was no change.

    >>> change_between(
    ...     zoneinfo.ZoneInfo("Europe/Berlin"), datetime(2027, 3, 28, tzinfo=UTC), datetime(2027, 3, 29, tzinfo=UTC)
    ... )
    datetime.datetime(2027, 3, 28, 1, 0, tzinfo=datetime.timezone.utc)
    """
    assert until - after <= WINDOW
    before = offset_at(zone, after)
    if until <= after or offset_at(zone, until) == before:
        return None
    low, high = after.replace(microsecond=0), until.replace(microsecond=0)  # zones change at whole seconds
    while high - low > _SECOND:
        middle = low + (high - low) // _SECOND // 2 * _SECOND
        if offset_at(zone, middle) == before:
            low = middle
        else:
            high = middle
    return high


def first_instant(zone: tzinfo, wall: datetime) -> datetime:
    """The first instant, in UTC, at which the zone's clocks show this; if they never do, the first one after the gap.

    >>> first_instant(zoneinfo.ZoneInfo("Europe/Berlin"), datetime(2027, 3, 28, 2, 30)).isoformat()
    '2027-03-28T01:00:00+00:00'
    """
    instant = wall.replace(tzinfo=zone, fold=0).astimezone(UTC)
    if wall_at(zone, instant) == wall:
        return instant
    before_the_gap = wall.replace(tzinfo=zone, fold=1).astimezone(UTC)
    change = change_between(zone, before_the_gap, instant)
    assert change is not None, f"{zone} never shows {wall} and has no gap there"
    return change
