"""Reads of items by key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dynadurable.storage.size import read_units
from dynadurable.testing.memory import capacity, document
from dynadurable.testing.memory.catalog import Catalog
from dynadurable.testing.memory.expressions import Expressions, compiled
from dynadurable.testing.memory.table import Record
from dynadurable.testing.memory.value import Item

Params = Mapping[str, Any]
Reply = dict[str, Any]


def get_item(catalog: Catalog, request: Params) -> Reply:
    """``GetItem``."""
    table = catalog.table(request.get("TableName"))
    expressions = compiled(request)
    key, _ = table.to_key(request.get("Key"))
    record = table.get(key)
    reply: Reply = {}
    if record is not None:
        reply["Item"] = shown(record, expressions)
    if capacity.wanted(request):
        units = read_units(size_of(record), consistent=bool(request.get("ConsistentRead")))
        reply["ConsumedCapacity"] = capacity.of_table(request, table.name, units)
    return reply


def shown(record: Record, expressions: Expressions) -> Item:
    """What a read returns of an item."""
    if expressions.projection is None:
        return dict(record.item)
    return document.pick(record.item, expressions.projection)


def size_of(record: Record | None) -> int:
    """The bytes that a read is charged for."""
    return 0 if record is None else record.size
