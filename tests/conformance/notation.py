"""Attribute values in plain Python, so that the behaviours below read as what they say."""

from __future__ import annotations

from decimal import Decimal
from typing import Any


def to_attribute(plain: Any) -> dict[str, Any]:
    """The attribute value of plain Python: text, numbers, bytes, booleans, None, lists, maps, sets."""
    match plain:
        case bool():
            return {"BOOL": plain}
        case None:
            return {"NULL": True}
        case str():
            return {"S": plain}
        case int() | Decimal():
            return {"N": str(plain)}
        case bytes():
            return {"B": plain}
        case list():
            return {"L": [to_attribute(member) for member in plain]}
        case dict():
            return {"M": to_attributes(plain)}
        case set() | frozenset():
            kinds = {str: "SS", int: "NS", Decimal: "NS", bytes: "BS"}
            kind = kinds[type(next(iter(plain)))]
            return {kind: sorted(str(member) if kind == "NS" else member for member in plain)}
        case _:
            raise TypeError(f"no attribute value for {plain!r}")


def to_attributes(plain: dict[str, Any]) -> dict[str, Any]:
    return {name: to_attribute(member) for name, member in plain.items()}


def from_attribute(value: dict[str, Any]) -> Any:
    """Plain Python of an attribute value; numbers are ints where they can be."""
    ((kind, content),) = value.items()
    match kind:
        case "NULL":
            return None
        case "N":
            return _number(content)
        case "L":
            return [from_attribute(member) for member in content]
        case "M":
            return from_attributes(content)
        case "NS":
            return {_number(member) for member in content}
        case "SS" | "BS":
            return set(content)
        case _:
            return content


def from_attributes(item: dict[str, Any]) -> dict[str, Any]:
    return {name: from_attribute(value) for name, value in item.items()}


def _number(text: str) -> int | Decimal:
    number = Decimal(text)
    return int(number) if number == number.to_integral_value() else number
