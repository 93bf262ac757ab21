"""How many bytes an item takes, as DynamoDB counts: what decides over write units."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

WRITE_UNIT_BYTES = 1_024


def item_bytes(raw: Mapping[str, Any]) -> int:
    """The size of an item in the low-level form; numbers are counted as two digits a byte and one more.

    >>> item_bytes({"pk": {"S": "run#1"}, "dd_v": {"N": "1"}})
    13
    """
    return sum(len(name.encode()) + _value_bytes(value) for name, value in raw.items())


def up_to_unit(size: int) -> int:
    """The size at which the next write unit begins.

    >>> up_to_unit(1_025)
    2048
    """
    return -(-size // WRITE_UNIT_BYTES) * WRITE_UNIT_BYTES


def _value_bytes(value: Mapping[str, Any]) -> int:
    ((kind, data),) = value.items()
    match kind:
        case "S":
            return len(data.encode("utf-8", "surrogatepass"))
        case "B":
            return len(data)
        case "N":
            return (len(data.strip("-").replace(".", "")) + 1) // 2 + 1
        case "SS":
            return sum(len(text.encode("utf-8", "surrogatepass")) for text in data)
        case "BOOL" | "NULL":
            return 1
        case "L":
            return 3 + sum(1 + _value_bytes(one) for one in data)
        case _:
            raise ValueError(f"items of this library hold no {kind}")
