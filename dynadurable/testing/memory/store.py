"""The store: takes calls, answers as DynamoDB would."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from dynadurable.errors import (
    ConditionFailedError,
    DynadurableError,
    RequestRefusedError,
    TableMissingError,
    TransactionFailedError,
)
from dynadurable.storage.call import Call, Response
from dynadurable.testing.memory import administration, batch, page, params, read, transaction, write
from dynadurable.testing.memory.catalog import Catalog, ServerClock, Snapshot
from dynadurable.testing.memory.refusal import (
    CONDITION_FAILED,
    TABLE_MISSING,
    TRANSACTION_CANCELED,
    RefusalError,
    invalid,
)
from dynadurable.testing.memory.value import Item

Operation = Callable[[Catalog, Mapping[str, Any]], Response]

OPERATIONS: dict[str, Operation] = {
    "PutItem": write.put_item,
    "UpdateItem": write.update_item,
    "DeleteItem": write.delete_item,
    "GetItem": read.get_item,
    "Query": page.query,
    "Scan": page.scan,
    "BatchGetItem": batch.batch_get_item,
    "BatchWriteItem": batch.batch_write_item,
    "TransactWriteItems": transaction.transact_write_items,
    "TransactGetItems": transaction.transact_get_items,
    "CreateTable": administration.create_table,
    "DeleteTable": administration.delete_table,
    "DescribeTable": administration.describe_table,
    "ListTables": administration.list_tables,
    "DescribeTimeToLive": administration.describe_time_to_live,
    "UpdateTimeToLive": administration.update_time_to_live,
}


class MemoryStore:
    """An in-memory DynamoDB: one step per call, no time passes, the same calls give the same answers.

    It keeps what it is given apart from the caller's objects. What it *returns* may share parts with what it keeps:
    treat replies as constants, or use ``MemoryClient``, whose replies are copies.

    ``clock`` tells the store's own time, which only tokens of transactions and descriptions of tables look at; without
    one it stands still. ``locked=True`` makes it safe for threads, one request at a time.

    >>> store = MemoryStore()
    >>> keys = {
    ...     "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
    ...     "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}],
    ... }
    >>> created = store.execute(
    ...     Call(operation="CreateTable", params={"TableName": "tasks", "BillingMode": "PAY_PER_REQUEST", **keys})
    ... )
    >>> store.execute(Call(operation="PutItem", params={"TableName": "tasks", "Item": {"pk": {"S": "a"}}}))
    {}
    >>> store.items("tasks")
    [{'pk': {'S': 'a'}}]
    """

    def __init__(self, clock: ServerClock | None = None, *, locked: bool = False) -> None:
        self._catalog = Catalog(clock)
        self._lock: AbstractContextManager[Any] = threading.RLock() if locked else nullcontext()
        self._locked = locked

    def execute(self, call: Call) -> Response:
        """Carry out one call.

        Raises:
            ConditionFailedError: the condition was not met; carries the item where it was asked for and exists.
            TransactionFailedError: the transaction was cancelled; carries the reasons in order.
            TableMissingError: there is no such table.
            RequestRefusedError: the request breaks a rule of DynamoDB.
        """
        try:
            return self.request(call.operation, call.params)
        except RefusalError as refusal:
            raise to_error(call.operation, refusal) from None

    def request(self, operation: str, request: Mapping[str, Any]) -> Response:
        """As ``execute``, with DynamoDB's own codes.

        Raises:
            RefusalError: the request was refused.
        """
        perform = OPERATIONS.get(operation)
        if perform is None:
            raise invalid(f"{operation} is not an operation of the memory store")
        params.check(operation, request)
        if not self._locked:
            return perform(self._catalog, request)
        with self._lock:
            return perform(self._catalog, request)

    def items(self, table: str) -> list[Item]:
        """All items of a table, by partition key and then by sort key. Do not change them.

        Raises:
            TableMissingError: there is no such table.
        """
        try:
            with self._lock:
                return [record.item for record in self._catalog.table(table).records()]
        except RefusalError as refusal:
            raise to_error("Scan", refusal) from None

    def peek(self, table: str, key: tuple[str, str]) -> Item | None:
        """The item at that key, if there is one: without a request, for tests that watch. Do not change it."""
        with self._lock:
            record = self._catalog.table(table).get(key)
        return None if record is None else record.item

    def now_ms(self) -> int | None:
        """The store's own time; None without a clock."""
        return None if self._catalog.clock is None else self._catalog.clock.now_ms()

    def snapshot(self) -> Snapshot:
        """The store as it is now, for ``restore``. Costs a reference for each partition; items are shared."""
        with self._lock:
            return self._catalog.snapshot()

    def restore(self, snapshot: Snapshot) -> None:
        """Be what the snapshot holds. Any store may, any number of times; they do not affect one another."""
        with self._lock:
            self._catalog.restore(snapshot)


def to_error(operation: str, refusal: RefusalError) -> DynadurableError:
    """The error that a driver would raise into a plan."""
    if refusal.code == CONDITION_FAILED:
        return ConditionFailedError(operation, item=refusal.item)
    if refusal.code == TRANSACTION_CANCELED:
        return TransactionFailedError(operation, reasons=refusal.reasons)
    if refusal.code == TABLE_MISSING:
        return TableMissingError(refusal.message)
    return RequestRefusedError(operation, f"{refusal.code}: {refusal.message}")
