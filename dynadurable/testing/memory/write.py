"""Writes: one item is put, updated, deleted or only looked at, alone or as an element of a transaction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dynadurable.storage.size import write_units
from dynadurable.testing.memory import capacity, document, size, value
from dynadurable.testing.memory.catalog import Catalog
from dynadurable.testing.memory.expressions import Expressions, compiled
from dynadurable.testing.memory.predicate import Values
from dynadurable.testing.memory.refusal import CONDITION_FAILED, RefusalError, invalid
from dynadurable.testing.memory.table import Key, Record, Table
from dynadurable.testing.memory.value import Item

Params = Mapping[str, Any]
Reply = dict[str, Any]

_OLD_ONLY = frozenset({"NONE", "ALL_OLD"})
_NOTHING: Item = {}


class Write:
    """A write whose request is sound: what is left to see depends on the item.

    ``keys`` holds the key attributes, ``whole`` the item of a put; ``only_checks`` writes nothing.
    """

    __slots__ = ("deletes", "expressions", "key", "keys", "only_checks", "table", "values", "whole")

    def __init__(self, table: Table, key: Key, keys: Item, expressions: Expressions, values: Values) -> None:
        self.table = table
        self.key = key
        self.keys = keys
        self.expressions = expressions
        self.values = values
        self.whole: Record | None = None
        self.deletes = False
        self.only_checks = False

    def holds(self, old: Record | None) -> bool:
        """Whether the condition is met."""
        condition = self.expressions.condition
        return condition is None or condition(_NOTHING if old is None else old.item, self.values)

    def outcome(self, old: Record | None) -> Record | None:
        """What there will be instead.

        Raises:
            RefusalError: the update does not fit the item, or the item grows too large.
        """
        if self.only_checks:
            return old
        if self.deletes:
            return None
        if self.whole is not None:
            return self.whole
        mutation = self.expressions.mutation
        if mutation is None:
            return Record(self.keys, size.of_item(self.keys)) if old is None else old
        if old is None:
            if not mutation.creates:
                return None
            old = Record(self.keys, size.of_item(self.keys))
        item = mutation.apply(old.item, self.values)
        record = Record(item, old.size + mutation.growth(old.item, item))
        if record.size > size.ITEM_BYTES:
            raise invalid("Item size to update has exceeded the maximum allowed size")
        return record

    def store(self, new: Record | None) -> None:
        """Make it so."""
        if self.only_checks:
            return
        if new is None:
            self.table.delete(self.key)
        else:
            self.table.put(self.key, new)


# --- from a request to a write --------------------------------------------------------------------


def to_put(catalog: Catalog, request: Params) -> Write:
    """The write of a ``PutItem`` or ``Put``; raises ``RefusalError`` for an unsound request."""
    table = catalog.table(request.get("TableName"))
    expressions = compiled(request)
    values = expressions.to_values(request)
    record = to_record(request.get("Item"))
    key, keys = table.key_in(record.item)
    write = Write(table, key, keys, expressions, values)
    write.whole = record
    return write


def to_update(catalog: Catalog, request: Params) -> Write:
    """The write of an ``UpdateItem`` or ``Update``; raises as ``to_put`` does."""
    write = _on_key(catalog, request)
    mutation = write.expressions.mutation
    if mutation is not None and not mutation.names.isdisjoint(write.table.key_names):
        name = min(mutation.names & write.table.key_names)
        raise invalid(f"Cannot update attribute {name}. This attribute is part of the key")
    return write


def to_delete(catalog: Catalog, request: Params) -> Write:
    """The write of a ``DeleteItem`` or ``Delete``; raises as ``to_put`` does."""
    write = _on_key(catalog, request)
    write.deletes = True
    return write


def to_check(catalog: Catalog, request: Params) -> Write:
    """The write of a ``ConditionCheck``, which writes nothing; raises as ``to_put`` does."""
    if "ConditionExpression" not in request:
        raise invalid("A ConditionCheck needs a ConditionExpression")
    write = _on_key(catalog, request)
    write.only_checks = True
    return write


def to_record(raw: Any) -> Record:
    """A whole item as it will be stored."""
    try:
        item = value.to_item(raw)
    except value.ValueRefusedError as error:
        raise invalid(f"One or more parameter values were invalid: {error}") from None
    record = Record(item, size.of_item(item))
    if record.size > size.ITEM_BYTES:
        raise invalid("Item size has exceeded the maximum allowed size")
    return record


def _on_key(catalog: Catalog, request: Params) -> Write:
    table = catalog.table(request.get("TableName"))
    expressions = compiled(request)
    values = expressions.to_values(request)
    key, keys = table.to_key(request.get("Key"))
    return Write(table, key, keys, expressions, values)


# --- operations -----------------------------------------------------------------------------------


def put_item(catalog: Catalog, request: Params) -> Reply:
    """``PutItem``."""
    _old_values_only(request)
    return _done(to_put(catalog, request), request)


def update_item(catalog: Catalog, request: Params) -> Reply:
    """``UpdateItem``."""
    return _done(to_update(catalog, request), request)


def delete_item(catalog: Catalog, request: Params) -> Reply:
    """``DeleteItem``."""
    _old_values_only(request)
    return _done(to_delete(catalog, request), request)


def _old_values_only(request: Params) -> None:
    if request.get("ReturnValues", "NONE") not in _OLD_ONLY:
        raise invalid("Return values set to invalid value")


def _done(write: Write, request: Params) -> Reply:
    old = write.table.get(write.key)
    if not write.holds(old):
        raise RefusalError(CONDITION_FAILED, "The conditional request failed", item=shown_on_failure(old, request))
    new = write.outcome(old)
    write.store(new)
    reply: Reply = {}
    if "ReturnValues" in request:
        attributes = _returned(request["ReturnValues"], write.expressions, old, new)
        if attributes:
            reply["Attributes"] = attributes
    if capacity.wanted(request):
        reply["ConsumedCapacity"] = capacity.of_table(request, write.table.name, write_units(larger(old, new)))
    return reply


def shown_on_failure(old: Record | None, request: Params) -> Item | None:
    """The item that a failed condition returns, where there is one and it was asked for."""
    if old is None or request.get("ReturnValuesOnConditionCheckFailure") != "ALL_OLD":
        return None
    return dict(old.item)


def larger(old: Record | None, new: Record | None) -> int:
    """The bytes that a write is charged for: before or after, whichever is more."""
    return max(0 if old is None else old.size, 0 if new is None else new.size)


def _returned(choice: str, expressions: Expressions, old: Record | None, new: Record | None) -> Item | None:
    record = old if choice.endswith("OLD") else new
    if choice == "NONE" or record is None:
        return None
    if choice.startswith("ALL"):
        return dict(record.item)
    mutation = expressions.mutation
    return None if mutation is None else document.pick(record.item, mutation.targets)
