"""The sizes of the items that a client's requests touch, as far as its requests and answers show them.

With a *reader*, a client of its own, they are looked up instead.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from .charges import size_of

Raw = Mapping[str, Any]

MAX_KNOWN = 10_000
"""So many items' sizes are remembered; then the oldest are forgotten, and at the worst guessed."""
_SINGLE = ("PutItem", "UpdateItem", "DeleteItem", "GetItem")
_OF_A_PAGE = ("TableName", "KeyConditionExpression", "Limit", "ExclusiveStartKey", "ScanIndexForward", "Segment")


@dataclass(frozen=True, kw_only=True)
class Part:
    """One item's share of a request: ``kind`` is put, update, delete, get or conditioncheck."""

    kind: str
    table: str
    params: Raw

    @property
    def target(self) -> Raw:
        """The key, or for a put the item, which holds it."""
        target: Raw = self.params.get("Key") or self.params["Item"]
        return target


def parts_of(operation: str, params: Raw) -> Iterator[Part]:
    """What a request writes, checks or gets, item by item; nothing for a page, which names no items."""
    if operation in _SINGLE:
        yield Part(kind=operation.removesuffix("Item").lower(), table=params["TableName"], params=params)
    elif operation in ("TransactWriteItems", "TransactGetItems"):
        for action in params["TransactItems"]:
            ((kind, member),) = action.items()
            yield Part(kind=kind.lower(), table=member["TableName"], params=member)
    elif operation == "BatchWriteItem":
        for table, writes in params["RequestItems"].items():
            for write in writes:
                ((kind, member),) = write.items()
                yield Part(kind=kind.removesuffix("Request").lower(), table=table, params=member)
    elif operation == "BatchGetItem":
        for table, asked in params["RequestItems"].items():
            for key in asked["Keys"]:
                yield Part(kind="get", table=table, params={"Key": key})


class KnownSizes:
    """What is known by now; shared by the clients that one ledger watches."""

    def __init__(self, reader: Any) -> None:
        self.reader = reader
        self._lock = threading.Lock()
        self._sizes: dict[str, int] = {}
        self._keys: dict[str, tuple[str, ...]] = {}
        self._keyless: dict[str, list[Raw]] = {}

    def get(self, table: str, target: Raw) -> int | None:
        """The size as last seen, if ever."""
        with self._lock:
            names = self._keys.get(table)
            return None if names is None else self._sizes.get(_place(table, names, target))

    def look_up(self, table: str, target: Raw) -> int:
        """The size now, from the reader."""
        if table not in self._keys:
            schema = self.reader.describe_table(TableName=table)["Table"]["KeySchema"]
            self.learn_keys(table, tuple(part["AttributeName"] for part in schema))
        key = {name: target[name] for name in self._keys[table]}
        return size_of(self.reader.get_item(TableName=table, Key=key, ConsistentRead=True).get("Item"))

    def look_up_page(self, operation: str, params: Raw) -> int:
        """The bytes that a page reads, from the reader: the same page without filter and projection."""
        again = {name: params[name] for name in (*_OF_A_PAGE, "TotalSegments") if name in params}
        used = set(re.findall(r"[#:]\w+", params.get("KeyConditionExpression", "")))
        for names in ("ExpressionAttributeNames", "ExpressionAttributeValues"):
            kept = {word: meant for word, meant in params.get(names, {}).items() if word in used}
            again |= {names: kept} if kept else {}
        method = self.reader.query if operation == "Query" else self.reader.scan
        return sum(map(size_of, method(**again, ConsistentRead=True)["Items"]))

    def learn_keys(self, table: str, names: tuple[str, ...]) -> None:
        """Which attributes are a table's key; items that were put before that was known get their place now."""
        with self._lock:
            if table not in self._keys:
                self._keys[table] = names
                for item in self._keyless.pop(table, []):
                    self._sizes[_place(table, names, item)] = size_of(item)

    def learn(self, operation: str, params: Raw, reply: Raw) -> None:
        """Take in what an answer shows."""
        if "Error" in reply:
            if reply.get("Item") and "Key" in params:  # what a failed condition found
                self._set(next(parts_of(operation, params)), size_of(reply["Item"]))
            return
        if reply.get("UnprocessedItems"):
            self.forget(operation, params)
            return
        for part in parts_of(operation, params):
            self._set(part, _size_after(part, reply))

    def forget(self, operation: str, params: Raw) -> None:
        """An attempt without an answer leaves items of unknown sizes."""
        for part in parts_of(operation, params):
            if part.kind in ("put", "update", "delete"):
                self._set(part, None)

    def _set(self, part: Part, size: int | None) -> None:
        if part.kind in ("get", "conditioncheck") and size is None:
            return  # it showed nothing, and changed nothing
        with self._lock:
            names = self._keys.get(part.table)
            if names is None:
                waiting = self._keyless.setdefault(part.table, [])
                if size is not None and len(waiting) < MAX_KNOWN:
                    waiting.append(part.target)
                return
            place = _place(part.table, names, part.target)
            if size is None:
                self._sizes.pop(place, None)
            else:
                self._sizes.pop(place, None)
                self._sizes[place] = size
                if len(self._sizes) > MAX_KNOWN:
                    del self._sizes[next(iter(self._sizes))]


def _size_after(part: Part, reply: Raw) -> int | None:
    if part.kind == "put":
        return size_of(part.target)
    if part.kind == "delete":
        return 0
    if part.kind == "update" and part.params.get("ReturnValues") == "ALL_NEW":
        return size_of(reply.get("Attributes"))
    if part.kind == "get" and "TableName" in part.params and "ProjectionExpression" not in part.params:
        return size_of(reply.get("Item")) if "Responses" not in reply else None
    return None


def _place(table: str, names: tuple[str, ...], target: Raw) -> str:
    return f"{table} {[(name, target[name]) for name in sorted(names)]}"


@dataclass(kw_only=True)
class CallSizes:
    """The sizes that one call touches, for ``charge``."""

    operation: str
    params: Raw
    known: KnownSizes
    found: dict[str, int] = field(default_factory=dict)

    def prepare(self) -> None:
        """Before an attempt: see which attributes are keys, and ask the reader, if there is one."""
        for part in parts_of(self.operation, self.params):
            if "Key" in part.params:
                self.known.learn_keys(part.table, tuple(part.target))
        if self.known.reader is not None:
            for part in parts_of(self.operation, self.params):
                self.found[f"{part.table}{part.target}"] = self.known.look_up(part.table, part.target)

    def before(self, table: str, target: Raw) -> int | None:
        if self.known.reader is None:
            return self.known.get(table, target)
        return self.found.get(f"{table}{target}")

    def after(self, table: str, target: Raw) -> int | None:
        return None if self.known.reader is None else self.known.look_up(table, target)

    def page(self, operation: str, params: Raw) -> int | None:
        if self.known.reader is None or "IndexName" in params:
            return None
        return self.known.look_up_page(operation, params)
