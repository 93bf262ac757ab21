"""Batches: many reads or writes in one request, each on its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dynadurable.storage.size import read_units, write_units
from dynadurable.testing.memory import capacity, params
from dynadurable.testing.memory.catalog import Catalog
from dynadurable.testing.memory.expressions import compiled
from dynadurable.testing.memory.read import shown, size_of
from dynadurable.testing.memory.refusal import invalid
from dynadurable.testing.memory.table import Key
from dynadurable.testing.memory.write import Write, larger, to_delete, to_put

GETS = 100
WRITES = 25
REPLY_BYTES = 16 * 1024 * 1024

Params = Mapping[str, Any]
Reply = dict[str, Any]


def batch_get_item(catalog: Catalog, request: Params) -> Reply:
    """``BatchGetItem``: items in the order of their keys; what passes 16 MB comes back as unprocessed."""
    gets = list(_gets(catalog, request))
    _limited(len(gets), GETS)
    _once_each([(name, key) for name, _, key, _ in gets])
    reply: Reply = {"Responses": {name: [] for name in request["RequestItems"]}, "UnprocessedKeys": {}}
    charges: list[tuple[str, float]] = []
    total_bytes = 0
    for name, table_request, key, raw_key in gets:
        record = catalog.table(name).get(key)
        total_bytes += size_of(record)
        if total_bytes > REPLY_BYTES:
            left = reply["UnprocessedKeys"].setdefault(name, {**table_request, "Keys": []})
            left["Keys"].append(raw_key)
            continue
        if record is not None:
            reply["Responses"][name].append(shown(record, compiled(table_request)))
        consistent = bool(table_request.get("ConsistentRead"))
        charges.append((name, read_units(size_of(record), consistent=consistent)))
    if capacity.wanted(request):
        reply["ConsumedCapacity"] = capacity.by_table(request, charges)
    return reply


def _gets(catalog: Catalog, request: Params) -> Iterator[tuple[str, Params, Key, Any]]:
    for name, table_request in _by_table(request).items():
        table = catalog.table(name)
        params.check("BatchGetItem.Table", table_request)
        compiled(table_request)
        keys = table_request.get("Keys")
        if not keys:
            raise invalid("The list of keys in BatchGetItem must not be empty")
        for raw_key in keys:
            yield name, table_request, table.to_key(raw_key)[0], raw_key


def batch_write_item(catalog: Catalog, request: Params) -> Reply:
    """``BatchWriteItem``: puts and deletes, each on its own; all are checked before the first is done."""
    writes = list(_writes(catalog, request))
    _limited(len(writes), WRITES)
    _once_each([(write.table.name, write.key) for write in writes])
    charges: list[tuple[str, float]] = []
    for write in writes:
        old = write.table.get(write.key)
        new = write.outcome(old)
        write.store(new)
        charges.append((write.table.name, write_units(larger(old, new))))
    reply: Reply = {"UnprocessedItems": {}}
    if capacity.wanted(request):
        reply["ConsumedCapacity"] = capacity.by_table(request, charges)
    return reply


def _writes(catalog: Catalog, request: Params) -> Iterator[Write]:
    for name, elements in _by_table(request).items():
        catalog.table(name)
        if not elements:
            raise invalid("The list of requests in BatchWriteItem must not be empty")
        for element in elements:
            match element:
                case {"PutRequest": {"Item": item}} if len(element) == 1:
                    yield to_put(catalog, {"TableName": name, "Item": item})
                case {"DeleteRequest": {"Key": key}} if len(element) == 1:
                    yield to_delete(catalog, {"TableName": name, "Key": key})
                case _:
                    raise invalid("Supplied AttributeValue has more than one datatypes set, must contain exactly one")


def _by_table(request: Params) -> Mapping[str, Any]:
    tables = request.get("RequestItems")
    if not isinstance(tables, Mapping) or not tables:
        raise invalid("RequestItems must not be empty")
    return tables


def _limited(number: int, maximum: int) -> None:
    if number > maximum:
        raise invalid(f"Too many items requested: {number}, at most {maximum}")


def _once_each(keys: list[tuple[str, Key]]) -> None:
    if len(set(keys)) != len(keys):
        raise invalid("Provided list of item keys contains duplicates")
