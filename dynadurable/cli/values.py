"""Kinds of values on the command line: lengths of time, instants, JSON arguments."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from ..clock import SystemClock, to_datetime
from ..errors import PayloadUnreadableError
from ..model import codec

_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_LENGTH = re.compile(r"(?:\d+(?:\.\d+)?[smhdw])+")
_PART = re.compile(r"(\d+(?:\.\d+)?)([smhdw])")


def to_length(text: str) -> timedelta | None:
    """A length of time, or ``None`` for other text.

    >>> to_length("90"), to_length("1h30m")
    (datetime.timedelta(seconds=90), datetime.timedelta(seconds=5400))
    """
    try:
        if re.fullmatch(r"\d+(\.\d+)?", text):
            return timedelta(seconds=float(text))
        if _LENGTH.fullmatch(text):
            return timedelta(seconds=sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text)))
    except OverflowError:
        return timedelta.max
    return None


def now() -> datetime:
    """The time on this machine; good enough for telling how long ago something was."""
    return to_datetime(SystemClock().now_ms())


class Length(click.ParamType[timedelta]):
    """Such as ``30``, ``30s``, ``5m`` or ``1h30m``."""

    name = "length"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        length = value if isinstance(value, timedelta) else to_length(value)
        if length is None:
            self.fail(f"{value!r} is no length of time; write seconds, or such as 30s, 5m, 1h30m, 2d", param, ctx)
        return length


class Instant(click.ParamType[datetime]):
    """Such as ``2027-01-15T12:00:00Z``; with ``past=True`` also a length of time, counted back from now."""

    name = "instant"

    def __init__(self, *, past: bool = False) -> None:
        self._past = past

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        if isinstance(value, datetime):
            return value
        length = to_length(value) if self._past else None
        if length is not None:
            return now() - min(length, timedelta(days=36_500))
        try:
            instant = datetime.fromisoformat(value)
        except ValueError:
            back = ", or a length of time back from now, such as 2h" if self._past else ""
            self.fail(f"{value!r} is no instant; write it like 2027-01-15T12:00:00Z{back}", param, ctx)
        if instant.utcoffset() is None:
            self.fail(f"{value!r} has no time zone, and none is guessed; add Z or an offset like +01:00", param, ctx)
        return instant.astimezone(UTC)


class Json(click.ParamType[Any]):
    """JSON text. What JSON lacks is written with the tags that ``runs show`` prints, such as ``{"$datetime": ...}``."""

    name = "json"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        try:
            json.loads(value)
        except (ValueError, RecursionError) as error:
            self.fail(f"this is not JSON: {error}", param, ctx)
        try:
            return codec.decode(b"1t" + value.encode("utf-8", "surrogatepass"))
        except PayloadUnreadableError as error:
            self.fail(str(error), param, ctx)
