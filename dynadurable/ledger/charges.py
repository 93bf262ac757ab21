"""What a request costs in DynamoDB's units, from the sizes of the items it touched.

Plain decisions: given a request, its answer and what is known about sizes, how many read and write units is that? The
rules are those of the developer guide: a write costs one unit for each started kilobyte of the larger of the item
before and after, a refused conditional write the same, a read half a unit (consistent: one) for each started four
kilobytes, both twice in a transaction. What secondary indexes cost is known only if the answer tells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from ..storage.size import item_bytes, read_units, write_units

Raw = Mapping[str, Any]

CONDITION_FAILED = "ConditionalCheckFailedException"
TRANSACTION_FAILED = "TransactionCanceledException"
TRANSACTION_FACTOR = 2
# A transaction that these end has done its work and is charged; the others are turned away before.
CHARGED_REASONS = frozenset({"ConditionalCheckFailed", "TransactionConflict"})


@dataclass(frozen=True, kw_only=True)
class Charge:
    """Units of one request. ``guessed``: some size was unknown and the units are the least they can be."""

    read_units: float = 0.0
    write_units: float = 0.0
    failed_writes: int = 0
    guessed: bool = False

    def __add__(self, other: Charge) -> Charge:
        return Charge(
            read_units=self.read_units + other.read_units,
            write_units=self.write_units + other.write_units,
            failed_writes=self.failed_writes + other.failed_writes,
            guessed=self.guessed or other.guessed,
        )


FREE = Charge()


class Sizes(Protocol):
    """What is known about the bytes of items; 0 is an item that is not there, ``None`` is "not known"."""

    def before(self, table: str, target: Raw) -> int | None:
        """The bytes of an item, named by its key or by what was put, as the request found it."""
        ...

    def after(self, table: str, target: Raw) -> int | None:
        """The bytes of an item as the request left it; only where that was looked up."""
        ...

    def page(self, operation: str, params: Raw) -> int | None:
        """The bytes that a Query or Scan read before it filtered; only where that was looked up."""
        ...


def size_of(item: Raw | None) -> int:
    """The bytes of an item as a client gives or gets it; 0 for none."""
    return item_bytes(item) if item else 0


def charge(operation: str, params: Raw, reply: Raw, sizes: Sizes, *, with_indexes: bool = False) -> Charge:
    """The units of an answered request. Operations on tables rather than items are free.

    ``with_indexes``: where the answer tells more than sizes do, that counts. Look-alikes may say anything.
    """
    rule = _RULES.get(operation)
    if rule is None:
        return FREE
    code = reply.get("Error", {}).get("Code")
    found = rule(params, reply, sizes) if code is None else _refused(operation, code, params, reply, sizes)
    return _corrected(found, operation, reply) if found.guessed or with_indexes else found


def _corrected(found: Charge, operation: str, reply: Raw) -> Charge:
    """What was guessed, replaced by what the store says, if it says anything; of what was not, the more."""
    told = reply.get("ConsumedCapacity")
    if not told:
        return found
    units = sum(float(one.get("CapacityUnits", 0.0)) for one in ([told] if isinstance(told, Mapping) else told))
    if operation in READS:
        return replace(found, read_units=units if found.guessed else max(units, found.read_units), guessed=False)
    return replace(found, write_units=units if found.guessed else max(units, found.write_units), guessed=False)


# --- writes ---------------------------------------------------------------------------------------


def _written(before: int | None, after: int | None) -> Charge:
    known = [size for size in (before, after) if size is not None]
    return Charge(write_units=write_units(max(known, default=0)), guessed=len(known) < 2)


def _put(params: Raw, reply: Raw, sizes: Sizes) -> Charge:
    before = sizes.before(params["TableName"], params["Item"])
    if before is None and params.get("ReturnValues") == "ALL_OLD":
        before = size_of(reply.get("Attributes"))
    return _written(before, size_of(params["Item"]))


def _update(params: Raw, reply: Raw, sizes: Sizes) -> Charge:
    before = sizes.before(params["TableName"], params["Key"])
    after = sizes.after(params["TableName"], params["Key"])
    if params.get("ReturnValues") == "ALL_OLD" and before is None:
        before = size_of(reply.get("Attributes"))
    if params.get("ReturnValues") == "ALL_NEW":
        after = size_of(reply.get("Attributes"))
    return _written(before, after)


def _delete(params: Raw, reply: Raw, sizes: Sizes) -> Charge:
    before = sizes.before(params["TableName"], params["Key"])
    if before is None and params.get("ReturnValues") == "ALL_OLD":
        before = size_of(reply.get("Attributes"))
    return _written(before, 0)


def _batch_write(params: Raw, reply: Raw, sizes: Sizes) -> Charge:
    total = FREE
    for table, writes in params["RequestItems"].items():
        left = list(reply.get("UnprocessedItems", {}).get(table, []))
        for write in writes:
            if write in left:
                left.remove(write)
            elif "PutRequest" in write:
                total += _put({"TableName": table, **write["PutRequest"]}, {}, sizes)
            else:
                total += _delete({"TableName": table, **write["DeleteRequest"]}, {}, sizes)
    return total


def _transact_write(params: Raw, _reply: Raw, sizes: Sizes) -> Charge:
    total = FREE
    for action in params["TransactItems"]:
        ((kind, member),) = action.items()
        total += _ACTIONS[kind](member, {}, sizes)
    return replace(total, write_units=total.write_units * TRANSACTION_FACTOR)


def _checked(params: Raw, _reply: Raw, sizes: Sizes) -> Charge:
    before = sizes.before(params["TableName"], params["Key"])
    return _written(before, before)


_ACTIONS: Mapping[str, Callable[[Raw, Raw, Sizes], Charge]] = {
    "Put": _put,
    "Update": _update,
    "Delete": _delete,
    "ConditionCheck": _checked,
}


# --- refused writes -------------------------------------------------------------------------------


def _refused(operation: str, code: str, params: Raw, reply: Raw, sizes: Sizes) -> Charge:
    """A write whose condition does not hold is charged as if it had been done; other errors are free."""
    if operation in ("PutItem", "UpdateItem", "DeleteItem") and code == CONDITION_FAILED:
        return replace(_turned_away(params, reply, sizes), failed_writes=1)
    if operation == "TransactWriteItems" and code == TRANSACTION_FAILED:
        reasons = reply.get("CancellationReasons", [])
        if any(reason.get("Code") in CHARGED_REASONS for reason in reasons):
            return _cancelled(params, reasons, sizes)
    return FREE


def _turned_away(params: Raw, reply: Raw, sizes: Sizes) -> Charge:
    target = params.get("Item") or params["Key"]
    before = sizes.before(params["TableName"], target)
    if before is None and reply.get("Item"):
        before = size_of(reply["Item"])
    return _written(before, size_of(params["Item"]) if "Item" in params else before)


def _cancelled(params: Raw, reasons: Iterable[Raw], sizes: Sizes) -> Charge:
    total = FREE
    for action, reason in zip(params["TransactItems"], reasons, strict=False):
        ((_, member),) = action.items()
        total += _turned_away(member, reason, sizes)
    failed = sum(reason.get("Code") == "ConditionalCheckFailed" for reason in reasons)
    return replace(total, write_units=total.write_units * TRANSACTION_FACTOR, failed_writes=failed)


# --- reads ----------------------------------------------------------------------------------------


def _read(size: int | None, *, consistent: bool) -> Charge:
    return Charge(read_units=read_units(size or 0, consistent=consistent), guessed=size is None)


def _get(params: Raw, reply: Raw, sizes: Sizes) -> Charge:
    whole = "ProjectionExpression" not in params and "AttributesToGet" not in params
    size = size_of(reply.get("Item")) if whole else sizes.before(params["TableName"], params["Key"])
    return _read(size, consistent=bool(params.get("ConsistentRead")))


def _page(operation: str) -> Callable[[Raw, Raw, Sizes], Charge]:
    def page(params: Raw, reply: Raw, sizes: Sizes) -> Charge:
        size: int | None
        if is_whole(params) and reply.get("ScannedCount", reply["Count"]) == len(reply["Items"]):
            size = sum(map(size_of, reply["Items"]))
        else:
            size = sizes.page(operation, params)
        return _read(size, consistent=bool(params.get("ConsistentRead")))

    return page


def is_whole(params: Raw) -> bool:
    """Whether a page brings every item that it reads, as a whole."""
    partly = ("ProjectionExpression", "FilterExpression", "AttributesToGet", "IndexName", "QueryFilter", "ScanFilter")
    return not any(name in params for name in partly) and params.get("Select", "ALL_ATTRIBUTES") == "ALL_ATTRIBUTES"


def _batch_get(params: Raw, reply: Raw, sizes: Sizes) -> Charge:
    total = FREE
    for table, asked in params["RequestItems"].items():
        consistent = bool(asked.get("ConsistentRead"))
        unread = reply.get("UnprocessedKeys", {}).get(table, {}).get("Keys", [])
        keys = [key for key in asked["Keys"] if key not in unread]
        found: list[int | None]
        if "ProjectionExpression" in asked:
            found = [sizes.before(table, key) for key in keys]
        else:
            found = [size_of(item) for item in reply.get("Responses", {}).get(table, [])]
            found += [0] * (len(keys) - len(found))
        for size in found:
            total += _read(size, consistent=consistent)
    return total


def _transact_get(params: Raw, reply: Raw, sizes: Sizes) -> Charge:
    total = FREE
    for action, answer in zip(params["TransactItems"], reply["Responses"], strict=True):
        total += _get({**action["Get"], "ConsistentRead": True}, answer, sizes)
    return replace(total, read_units=total.read_units * TRANSACTION_FACTOR)


def _statement(_params: Raw, _reply: Raw, _sizes: Sizes) -> Charge:
    return Charge(guessed=True)


_RULES: Mapping[str, Callable[[Raw, Raw, Sizes], Charge]] = {
    "PutItem": _put,
    "UpdateItem": _update,
    "DeleteItem": _delete,
    "BatchWriteItem": _batch_write,
    "TransactWriteItems": _transact_write,
    "GetItem": _get,
    "Query": _page("Query"),
    "Scan": _page("Scan"),
    "BatchGetItem": _batch_get,
    "TransactGetItems": _transact_get,
    "ExecuteStatement": _statement,
    "BatchExecuteStatement": _statement,
    "ExecuteTransaction": _statement,
}
TELLING = frozenset(_RULES) - {"ExecuteStatement", "BatchExecuteStatement", "ExecuteTransaction"}
"""What can be asked to tell its units."""
READS = frozenset({"GetItem", "Query", "Scan", "BatchGetItem", "TransactGetItems"})
