"""What may be written for a recipient: a PynamoDB model, or a dict with or without DynamoDB's types."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..drivers.typed import to_typed
from ..errors import InputRefusedError
from ..storage.call import Call

BATCH_ITEMS = 25


def to_put(item: Any) -> dict[str, Any]:
    """The element of a BatchWriteItem that puts the item.

    Raises:
        InputRefusedError: not an item.
    """
    if hasattr(item, "serialize") and hasattr(item, "attribute_values"):
        return {"PutRequest": {"Item": item.serialize()}}
    if not isinstance(item, dict) or not item:
        raise InputRefusedError(f"a fan-out writes items: a PynamoDB model or a dict, not {item!r:.80}")
    return {"PutRequest": {"Item": to_typed(item)}}


def batch(table: str, puts: list[dict[str, Any]]) -> Call:
    """One BatchWriteItem of at most 25 puts."""
    return Call(operation="BatchWriteItem", params={"RequestItems": {table: puts}})


def distinct(puts: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without exact repeats: a recipient that is read twice would make DynamoDB refuse the whole batch."""
    kept: list[dict[str, Any]] = []
    for put in puts:
        if put not in kept:
            kept.append(put)
    return kept
