"""A stand-in for boto3's low-level DynamoDB client, on a memory store."""

from __future__ import annotations

import email.utils
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from botocore.exceptions import ClientError

from dynadurable.storage.call import Response
from dynadurable.testing.memory import refusal
from dynadurable.testing.memory.events import Events
from dynadurable.testing.memory.refusal import RefusalError
from dynadurable.testing.memory.store import MemoryStore

ERRORS: dict[str, type[ClientError]] = {
    code: type(code, (ClientError,), {})
    for code in (
        refusal.CONDITION_FAILED,
        refusal.TRANSACTION_CANCELED,
        refusal.TABLE_MISSING,
        refusal.TABLE_EXISTS,
        refusal.TOKEN_REUSED,
    )
}


class MemoryClient:
    """The operations of boto3's client, by its names and with its errors, on a ``MemoryStore``.

    Replies are copies, so callers may change them. If the store has a clock, they carry its time as ``Date`` header.

    >>> MemoryClient(MemoryStore()).list_tables()["TableNames"]
    []
    """

    def __init__(self, store: MemoryStore) -> None:
        self.store = store
        self._events = Events()
        self.meta = SimpleNamespace(endpoint_url="memory://", region_name="us-east-1", events=self._events)
        self.exceptions = SimpleNamespace(ClientError=ClientError, **ERRORS)

    def put_item(self, **request: Any) -> Response:
        """``PutItem``."""
        return self._request("PutItem", request)

    def update_item(self, **request: Any) -> Response:
        """``UpdateItem``."""
        return self._request("UpdateItem", request)

    def delete_item(self, **request: Any) -> Response:
        """``DeleteItem``."""
        return self._request("DeleteItem", request)

    def get_item(self, **request: Any) -> Response:
        """``GetItem``."""
        return self._request("GetItem", request)

    def query(self, **request: Any) -> Response:
        """``Query``."""
        return self._request("Query", request)

    def scan(self, **request: Any) -> Response:
        """``Scan``."""
        return self._request("Scan", request)

    def batch_get_item(self, **request: Any) -> Response:
        """``BatchGetItem``."""
        return self._request("BatchGetItem", request)

    def batch_write_item(self, **request: Any) -> Response:
        """``BatchWriteItem``."""
        return self._request("BatchWriteItem", request)

    def transact_write_items(self, **request: Any) -> Response:
        """``TransactWriteItems``."""
        return self._request("TransactWriteItems", request)

    def transact_get_items(self, **request: Any) -> Response:
        """``TransactGetItems``."""
        return self._request("TransactGetItems", request)

    def create_table(self, **request: Any) -> Response:
        """``CreateTable``."""
        return self._request("CreateTable", request)

    def delete_table(self, **request: Any) -> Response:
        """``DeleteTable``."""
        return self._request("DeleteTable", request)

    def describe_table(self, **request: Any) -> Response:
        """``DescribeTable``."""
        return self._request("DescribeTable", request)

    def list_tables(self, **request: Any) -> Response:
        """``ListTables``."""
        return self._request("ListTables", request)

    def describe_time_to_live(self, **request: Any) -> Response:
        """``DescribeTimeToLive``."""
        return self._request("DescribeTimeToLive", request)

    def update_time_to_live(self, **request: Any) -> Response:
        """``UpdateTimeToLive``."""
        return self._request("UpdateTimeToLive", request)

    def get_waiter(self, waiter_name: str) -> TableWaiter:
        """``table_exists`` or ``table_not_exists``: tables come and go at once, so there is nothing to wait for."""
        return TableWaiter(self, waiter_name)

    def close(self) -> None:
        """Nothing is open."""

    def _request(self, operation: str, request: dict[str, Any]) -> Response:
        context = self._events.asked(operation, request)
        try:
            reply = self.store.request(operation, request)
        except RefusalError as refused:
            error = self._to_error(operation, refused)
            self._events.answered(context, error.response)
            raise error from None
        self._events.answered(context, reply)
        return {**_copied(reply), "ResponseMetadata": self._metadata(200)}

    def _to_error(self, operation: str, error: RefusalError) -> ClientError:
        response: Any = {
            "Error": {"Code": error.code, "Message": error.message},
            "message": error.message,
            "ResponseMetadata": self._metadata(400),
        }
        if error.item is not None:
            response["Item"] = _copied(error.item)
        if error.reasons:
            response["CancellationReasons"] = [
                {"Code": reason.code}
                | ({"Message": reason.message} if reason.message else {})
                | ({} if reason.item is None else {"Item": _copied(reason.item)})
                for reason in error.reasons
            ]
        return ERRORS.get(error.code, ClientError)(response, operation)

    def _metadata(self, status: int) -> dict[str, Any]:
        now_ms = self.store.now_ms()
        headers = {} if now_ms is None else {"date": email.utils.formatdate(now_ms // 1000, usegmt=True)}
        return {"HTTPStatusCode": status, "HTTPHeaders": headers, "RetryAttempts": 0}


class TableWaiter:
    """What ``get_waiter`` gives."""

    def __init__(self, client: MemoryClient, name: str) -> None:
        if name not in ("table_exists", "table_not_exists"):
            raise ValueError(f"Waiter does not exist: {name}")
        self.name = name
        self._client = client

    def wait(self, *, TableName: str, WaiterConfig: Mapping[str, int] | None = None) -> None:  # noqa: N803, ARG002
        """See that the table is there, or is not; raises what ``describe_table`` raises."""
        if self.name == "table_exists":
            self._client.describe_table(TableName=TableName)


def _copied(reply: Any) -> Any:
    if isinstance(reply, dict):
        return {name: _copied(member) for name, member in reply.items()}
    return [_copied(member) for member in reply] if isinstance(reply, list) else reply
