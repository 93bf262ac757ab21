"""Query and Scan: items in order, a page at a time."""

from __future__ import annotations

import hashlib
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from dynadurable.storage.size import read_units
from dynadurable.testing.memory import capacity, params
from dynadurable.testing.memory.catalog import Catalog
from dynadurable.testing.memory.expressions import Expressions, compiled
from dynadurable.testing.memory.key_condition import KeyRange, to_key_range
from dynadurable.testing.memory.predicate import Values
from dynadurable.testing.memory.read import shown
from dynadurable.testing.memory.refusal import KeyMismatchError, invalid
from dynadurable.testing.memory.table import Key, Part, Partition, Record, Table
from dynadurable.testing.memory.value import Item

PAGE_BYTES = 1024 * 1024
LIMIT = 2**31 - 1
SEGMENTS = 1_000_000

Params = Mapping[str, Any]
Reply = dict[str, Any]


def query(catalog: Catalog, request: Params) -> Reply:
    """``Query``: one partition, or a range of it, in the order of the sort keys."""
    table = catalog.table(request.get("TableName"))
    expressions = compiled(request)
    _check_selection(request)
    if expressions.key_condition is None:
        raise invalid("Either the KeyConditions or KeyConditionExpression parameter must be specified in the request")
    values = expressions.to_values(request)
    key_range = to_key_range(
        expressions.key_condition, table.hash_key.name, table.range_key.name if table.range_key else None
    )
    if not expressions.filtered.isdisjoint(table.key_names):
        raise invalid("Filter Expression can only contain non-primary key attributes")
    hash_part = _part(table.hash_key.to_part, values[key_range.hash_ref])
    bounds = _bounds(table, key_range, values)
    start = _start(table, request)
    if start is not None and (start[0] != hash_part or not bounds.holds(start[1])):
        raise invalid("The provided starting key is outside query boundaries based on provided conditions")
    partition = table.partitions.get(hash_part, _EMPTY)
    forward = request.get("ScanIndexForward", True)
    return _page(table, request, expressions, values, _in_range(partition, bounds, start, forward=forward))


def scan(catalog: Catalog, request: Params) -> Reply:
    """``Scan``: every item of the table or of a segment, partitions in the order of a hash of their keys."""
    table = catalog.table(request.get("TableName"))
    expressions = compiled(request)
    _check_selection(request)
    values = expressions.to_values(request)
    segment, segments = _segment(request)
    start = _start(table, request)
    if start is not None and _segment_of(start[0], segments) != segment:
        raise invalid("The provided starting key is outside of the segment")
    return _page(table, request, expressions, values, _in_segment(table, segment, segments, start))


# --- pages ----------------------------------------------------------------------------------------


def _page(table: Table, request: Params, expressions: Expressions, values: Values, records: Iterable[Record]) -> Reply:
    """A page ends after ``Limit`` items or with the item that brings it to 1 MB, filtered out or not."""
    limit = params.count(request, "Limit", maximum=LIMIT)
    found: list[Item] = []
    scanned = read_bytes = 0
    last: Record | None = None
    for record in records:
        scanned += 1
        read_bytes += record.size
        if expressions.filter is None or expressions.filter(record.item, values):
            found.append(shown(record, expressions))
        if scanned == limit or read_bytes >= PAGE_BYTES:
            last = record
            break
    reply: Reply = {"Count": len(found), "ScannedCount": scanned}
    if request.get("Select") != "COUNT":
        reply["Items"] = found
    if last is not None:
        reply["LastEvaluatedKey"] = table.key_item(last.item)
    if capacity.wanted(request):
        units = read_units(read_bytes, consistent=bool(request.get("ConsistentRead")))
        reply["ConsumedCapacity"] = capacity.of_table(request, table.name, units)
    return reply


def _check_selection(request: Params) -> None:
    select, projects = request.get("Select"), "ProjectionExpression" in request
    if select == "ALL_PROJECTED_ATTRIBUTES":
        raise invalid("ALL_PROJECTED_ATTRIBUTES can be used only when querying using an IndexName")
    if projects and select not in (None, "SPECIFIC_ATTRIBUTES"):
        raise invalid(f"Cannot specify the ProjectionExpression when choosing to get {select}")
    if select == "SPECIFIC_ATTRIBUTES" and not projects:
        raise invalid("Must specify the ProjectionExpression when choosing to get SPECIFIC_ATTRIBUTES")


def _start(table: Table, request: Params) -> Key | None:
    raw = request.get("ExclusiveStartKey")
    if raw is None:
        return None
    try:
        return table.to_key(raw)[0]
    except KeyMismatchError:
        raise invalid("The provided starting key is invalid") from None


# --- ranges of sort keys --------------------------------------------------------------------------


class _Bounds:
    """A contiguous range of sort keys: those for which ``before`` and ``after`` are both false."""

    __slots__ = ("after", "before")

    def __init__(
        self, before: Callable[[Part], bool] = lambda _part: False, after: Callable[[Part], bool] = lambda _part: False
    ) -> None:
        self.before = before
        self.after = after

    def holds(self, part: Part) -> bool:
        return not self.before(part) and not self.after(part)


_EVERYTHING = _Bounds()
_EMPTY = Partition(0, {}, [])


def _bounds(table: Table, key_range: KeyRange, values: Values) -> _Bounds:
    if not key_range.operator:
        return _EVERYTHING
    assert table.range_key is not None
    if key_range.operator == "begins_with" and table.range_key.kind == "N":
        raise invalid("Incorrect operand type for begins_with; operand type: N")
    low, *rest = [_part(table.range_key.to_part, values[ref]) for ref in key_range.range_refs]
    match key_range.operator:
        case "=":
            return _Bounds(lambda part: part < low, lambda part: part > low)
        case "<":
            return _Bounds(after=lambda part: part >= low)
        case "<=":
            return _Bounds(after=lambda part: part > low)
        case ">":
            return _Bounds(before=lambda part: part <= low)
        case ">=":
            return _Bounds(before=lambda part: part < low)
        case "BETWEEN":
            high = rest[0]
            return _Bounds(lambda part: part < low, lambda part: part > high)
        case _:
            return _Bounds(lambda part: part < low, lambda part: part > low and not part.startswith(low))


def _part(to_part: Callable[[Any], tuple[Part, Any]], given: Any) -> Part:
    try:
        return to_part(given)[0]
    except KeyMismatchError:
        raise invalid("Condition parameter type does not match schema type") from None


def _in_range(partition: Partition, bounds: _Bounds, start: Key | None, *, forward: bool) -> Iterator[Record]:
    order, records = partition.order, partition.records
    low = bisect_left(order, True, key=lambda part: not bounds.before(part))
    high = bisect_left(order, True, lo=low, key=bounds.after)
    if start is not None and forward:
        low = max(low, bisect_right(order, start[1]))
    elif start is not None:
        high = min(high, bisect_left(order, start[1]))
    places = range(low, high) if forward else range(high - 1, low - 1, -1)
    for place in places:
        yield records[order[place]]


# --- segments -------------------------------------------------------------------------------------


def _segment(request: Params) -> tuple[int, int]:
    segments = params.count(request, "TotalSegments", maximum=SEGMENTS)
    segment = request.get("Segment")
    if (segment is None) != (segments is None):
        raise invalid("Segment and TotalSegments must be given together")
    if segments is None:
        return 0, 1
    if type(segment) is not int or not 0 <= segment < segments:
        raise invalid("Segment must be at least 0 and less than TotalSegments")
    return segment, segments


def _place(hash_part: Part) -> int:
    """Where a partition lies: spread as by a server, and the same in every run."""
    content = hash_part if isinstance(hash_part, bytes) else str(hash_part).encode()
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "big")


def _segment_of(hash_part: Part, segments: int) -> int:
    return _place(hash_part) * segments >> 64


def _in_segment(table: Table, segment: int, segments: int, start: Key | None) -> Iterator[Record]:
    placed = sorted((_place(hash_part), hash_part) for hash_part in table.partitions)
    first = None if start is None else (_place(start[0]), start[0])
    for place, hash_part in placed:
        if place * segments >> 64 != segment or (first is not None and (place, hash_part) < first):
            continue
        partition = table.partitions[hash_part]
        resumes = start if start is not None and (place, hash_part) == first else None
        yield from _in_range(partition, _EVERYTHING, resumes, forward=True)
