"""Moments and clock times as JSON data, and back.

A zone is part of the value: an IANA zone comes back as that zone, a fixed offset as that offset with its name. Only
these two kinds are kept; a ``tzinfo`` class of somebody else's is refused, because its rules are not known here.

Beside an IANA zone the offset is stored that held when the value was written. Where the reader's zone rules give
another one (governments change them), the *instant* is kept and the local clock time follows the reader's rules.
"""

from __future__ import annotations

from datetime import datetime, time, timedelta, timezone
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

from dynadurable.model.codec_class import class_label

Moment = TypeVar("Moment", datetime, time)


def moment_to_json(value: datetime | time) -> str | list[Any]:
    """ISO text; with fold, zone and name beside it where the text does not say all.

    The zone is an IANA key, or an offset in microseconds where ISO text cannot hold it (Python reads an offset of less
    than a second as none).

    >>> moment_to_json(datetime(2027, 1, 15, 12, tzinfo=timezone.utc))
    '2027-01-15T12:00:00+00:00'
    >>> moment_to_json(datetime(2027, 1, 15, 12, tzinfo=ZoneInfo("Europe/Berlin")))
    ['2027-01-15T12:00:00+01:00', 0, 'Europe/Berlin', None]

    Raises:
        ValueError: the zone cannot come back as it is; the message says why.
    """
    zone = value.tzinfo
    key: str | int | None = None
    name: str | None = None
    if type(zone) is timezone:
        offset = zone.utcoffset(None)
        if offset.microseconds:
            key = offset // timedelta.resolution
        if zone.tzname(None) != timezone(offset).tzname(None):
            name = zone.tzname(None)
    elif type(zone) is ZoneInfo:
        key = _known_key(value, zone)
    elif zone is not None:
        raise ValueError(f"its zone is a {class_label(type(zone))}; use zoneinfo.ZoneInfo or datetime.timezone")
    text = value.isoformat()
    return text if not value.fold and key is None and name is None else [text, value.fold, key, name]


def datetime_from_json(data: str | list[Any]) -> datetime:
    """The reverse of ``moment_to_json``."""
    if isinstance(data, str):
        return datetime.fromisoformat(data)
    text, fold, key, name = data
    written = datetime.fromisoformat(text)
    if not isinstance(key, str):
        return _fixed(written, fold, key, name)
    zoned = written.replace(tzinfo=ZoneInfo(key), fold=fold)
    if written.utcoffset() is None:
        raise ValueError("a moment in a zone was stored without its offset")
    return zoned if zoned.utcoffset() == written.utcoffset() else written.astimezone(ZoneInfo(key))


def time_from_json(data: str | list[Any]) -> time:
    """The reverse of ``moment_to_json`` for clock times, whose offset in a zone depends on a date they lack."""
    if isinstance(data, str):
        return time.fromisoformat(data)
    text, fold, key, name = data
    written = time.fromisoformat(text)
    if not isinstance(key, str):
        return _fixed(written, fold, key, name)
    return written.replace(tzinfo=ZoneInfo(key), fold=fold)


def _known_key(value: datetime | time, zone: ZoneInfo) -> str:
    key = zone.key
    try:
        same = value.replace(tzinfo=ZoneInfo(key)) == value
    except Exception:  # noqa: BLE001 - zoneinfo raises KeyError, ValueError or OSError for names it cannot read
        same = False
    if not same:
        raise ValueError(f"its zone is not the one that ZoneInfo({key!r}) gives")
    return key


def _fixed(written: Moment, fold: int, offset_microseconds: int | None, name: str | None) -> Moment:
    zone, offset = written.tzinfo, written.utcoffset()
    if offset_microseconds is not None:
        offset = timedelta(microseconds=offset_microseconds)
        zone = timezone(offset)
    if name is not None and offset is not None:
        zone = timezone(offset, name)
    return written.replace(tzinfo=zone, fold=fold)
