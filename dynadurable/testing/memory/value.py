"""Attribute values: checked once on the way in, kept in one canonical form, never changed in place.

The form is the one that boto3's low-level client speaks, such as ``{"S": "text"}``. Numbers are canonical text and
sets are sorted, so that two values are equal for DynamoDB exactly if they are equal for Python.
"""

from __future__ import annotations

from collections.abc import Callable, Sized
from decimal import Decimal
from typing import Any

from dynadurable.testing.memory import number

Value = dict[str, Any]
Item = dict[str, Value]

NESTING_LEVELS = 32  # of the innermost value; an attribute's own value is at level 1
NAME_BYTES = 65_535
TYPES = frozenset({"S", "N", "B", "SS", "NS", "BS", "L", "M", "NULL", "BOOL"})
SETS = frozenset({"SS", "NS", "BS"})
ORDERED = frozenset({"S", "N", "B"})


class ValueRefusedError(ValueError):
    """Something that is no attribute value, or one that DynamoDB does not keep."""


def to_value(raw: Any, level: int = 1) -> Value:
    """A canonical copy that shares nothing changeable with ``raw``.

    Raises:
        ValueRefusedError: DynamoDB would refuse it.
    """
    try:
        ((kind, content),) = raw.items()
    except (AttributeError, ValueError):
        raise ValueRefusedError("an attribute value is a map with exactly one type in it") from None
    if kind == "S" and type(content) is str and content.isascii():
        return {"S": content}
    reader = _READERS.get(kind)
    if reader is None:
        raise ValueRefusedError(f"{kind!r} is no type of attribute values")
    return {kind: reader(content, level)}


def to_item(raw: Any) -> Item:
    """Canonical copies of all attributes; raises as ``to_value`` does."""
    if not isinstance(raw, dict):
        raise ValueRefusedError("an item is a map of attribute values")
    return {to_name(name): to_value(value) for name, value in raw.items()}


def to_name(name: Any) -> str:
    """An attribute name, checked."""
    if type(name) is not str or not name:
        raise ValueRefusedError("an attribute name is a text that is not empty")
    if len(name) > NAME_BYTES // 4 and len(name.encode()) > NAME_BYTES:
        raise ValueRefusedError(f"an attribute name has more than {NAME_BYTES} bytes")
    return name


def to_kind(value: Value) -> str:
    """The type of a value, such as ``"S"``."""
    return next(iter(value))


def to_order(value: Value) -> str | bytes | Decimal | None:
    """What a value is ordered by among values of its type; None for types without an order.

    Text is ordered by its UTF-8 bytes, which is the order of its code points and so Python's own.
    """
    ((kind, content),) = value.items()
    if kind == "N":
        return Decimal(content)
    return content if kind in ("S", "B") else None


def depth_of(value: Value) -> int:
    """How many levels a canonical value has: 1 for a scalar."""
    ((kind, content),) = value.items()
    if kind == "L":
        return 1 + max(map(depth_of, content), default=0)
    if kind == "M":
        return 1 + max(map(depth_of, content.values()), default=0)
    return 1


def set_of(kind: str, members: set[Any]) -> Value:
    """The canonical set value of canonical members."""
    return {kind: sorted(members, key=Decimal) if kind == "NS" else sorted(members)}


# --- one reader for each type ---------------------------------------------------------------------


def _text(content: Any, _level: int) -> str:
    if type(content) is not str:
        raise ValueRefusedError(f"S holds text, not {type(content).__name__}")
    try:
        content.encode()
    except UnicodeEncodeError:
        raise ValueRefusedError("S holds text that has no UTF-8 form") from None
    return content


def _number(content: Any, _level: int) -> str:
    try:
        return number.to_canonical(content)
    except number.NumberRefusedError as error:
        raise ValueRefusedError(str(error)) from None


def _binary(content: Any, _level: int) -> bytes:
    if isinstance(content, bytes | bytearray):
        return bytes(content)
    if isinstance(content, str):
        return content.encode()  # as botocore does
    raise ValueRefusedError(f"B holds bytes, not {type(content).__name__}")


def _flag(content: Any, _level: int) -> bool:
    if type(content) is not bool:
        raise ValueRefusedError(f"BOOL holds a bool, not {type(content).__name__}")
    return content


def _null(content: Any, _level: int) -> bool:
    if content is not True:
        raise ValueRefusedError("NULL holds true and nothing else")
    return True


def _list(content: Any, level: int) -> list[Value]:
    if not isinstance(content, list | tuple):
        raise ValueRefusedError(f"L holds a list, not {type(content).__name__}")
    _may_hold(content, level)
    return [to_value(member, level + 1) for member in content]


def _map(content: Any, level: int) -> Item:
    if not isinstance(content, dict):
        raise ValueRefusedError(f"M holds a map, not {type(content).__name__}")
    _may_hold(content, level)
    return {to_name(name): to_value(member, level + 1) for name, member in content.items()}


def _may_hold(members: Sized, level: int) -> None:
    if level >= NESTING_LEVELS and len(members) > 0:
        raise ValueRefusedError(f"a value is nested more than {NESTING_LEVELS} levels deep")


def _set(kind: str, read: Callable[[Any, int], Any]) -> Callable[[Any, int], list[Any]]:
    def reader(content: Any, level: int) -> list[Any]:
        if not isinstance(content, list | tuple | set | frozenset):
            raise ValueRefusedError(f"{kind} holds a list, not {type(content).__name__}")
        members = [read(member, level) for member in content]
        unique = set(members)
        if not unique:
            raise ValueRefusedError("a set must not be empty")
        if len(unique) != len(members):
            raise ValueRefusedError("a set must not hold a member twice")
        return list(set_of(kind, unique)[kind])

    return reader


_READERS: dict[str, Callable[[Any, int], Any]] = {
    "N": _number,
    "S": _text,
    "B": _binary,
    "BOOL": _flag,
    "NULL": _null,
    "L": _list,
    "M": _map,
    "SS": _set("SS", _text),
    "NS": _set("NS", _number),
    "BS": _set("BS", _binary),
}
