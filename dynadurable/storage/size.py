"""How many bytes an item takes, as DynamoDB counts, and how many units a request for so many bytes costs.

Names and texts in UTF-8 bytes, binaries as they are, numbers by pairs of digits, 3 bytes for a list or map and 1 more
for each of its members.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

WRITE_UNIT_BYTES = 1_024
READ_UNIT_BYTES = 4_096


def item_bytes(raw: Mapping[str, Any]) -> int:
    """The size of an item in the low-level form.

    >>> item_bytes({"pk": {"S": "run#1"}, "dd_v": {"N": "1"}})
    13
    """
    return sum(_text_bytes(name) + _value_bytes(value) for name, value in raw.items())


def up_to_unit(size: int) -> int:
    """The size at which the next write unit begins.

    >>> up_to_unit(1_025)
    2048
    """
    return -(-size // WRITE_UNIT_BYTES) * WRITE_UNIT_BYTES


def write_units(size_bytes: int) -> float:
    """Write units for an item of this size.

    >>> write_units(0), write_units(1_024), write_units(1_025)
    (1.0, 1.0, 2.0)
    """
    return float(max(1, -(-size_bytes // WRITE_UNIT_BYTES)))


def read_units(size_bytes: int, *, consistent: bool) -> float:
    """Read units for so many bytes.

    >>> read_units(4_097, consistent=True), read_units(4_097, consistent=False)
    (2.0, 1.0)
    """
    return max(1, -(-size_bytes // READ_UNIT_BYTES)) * (1.0 if consistent else 0.5)


def _value_bytes(value: Mapping[str, Any]) -> int:
    ((kind, data),) = value.items()
    match kind:
        case "S":
            return _text_bytes(data)
        case "B":
            return len(data)
        case "N":
            return _number_bytes(data)
        case "BOOL" | "NULL":
            return 1
        case "L":
            return 3 + sum(1 + _value_bytes(one) for one in data)
        case "M":
            return 3 + sum(1 + _text_bytes(name) + _value_bytes(one) for name, one in data.items())
        case _:
            return sum(_value_bytes({kind[0]: one}) for one in data)


def _text_bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _number_bytes(text: str) -> int:
    """One, one for each pair of digits, one for a minus. Pairs are counted from the decimal point, without outer zeros.

    >>> [_number_bytes(text) for text in ("1234", "123", "1.2", "1200", "-1", "0")]
    [3, 3, 3, 2, 3, 1]
    """
    sign, digits, exponent = Decimal(text).as_tuple()
    assert isinstance(exponent, int), f"{text} is no number of DynamoDB"
    significant = [place for place, digit in enumerate(reversed(digits), exponent) if digit]
    if not significant:
        return 1
    return 1 + significant[-1] // 2 - significant[0] // 2 + 1 + sign
