"""Every DynamoDB request that a process sends, as IAM sees it: (action, table, leading keys).

    with recorded() as requests:
        app.enqueue(job)
    assert all(allowed(statements, request) for request in requests)

A transaction is taken apart, because IAM authorises it element by element; a batch is one request with many leading
keys. Works below boto3, PynamoDB and, where it is installed, aioboto3.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

import pytest
from botocore.client import BaseClient

from tests.policies import Request

ARN_PREFIX = "arn:aws:dynamodb:us-east-1:123456789012:table/"
WITHOUT_KEYS = {"CreateTable", "DeleteTable", "DescribeTable", "DescribeTimeToLive", "Scan", "UpdateTimeToLive"}
ELEMENTS = {
    "Put": "PutItem",
    "Update": "UpdateItem",
    "Delete": "DeleteItem",
    "ConditionCheck": "ConditionCheckItem",
    "Get": "GetItem",
}
_EQUALS = re.compile(r"([\w#.-]+)\s*=\s*(:\w+)")


def requests_of(operation: str, params: Mapping[str, Any], *, partition_key: str = "pk") -> list[Request]:
    """The requests that IAM is asked about for one call of the low-level API."""
    if operation in {"TransactWriteItems", "TransactGetItems"}:
        return [
            request
            for item in params["TransactItems"]
            for element, inner in item.items()
            for request in requests_of(ELEMENTS[element], inner, partition_key=partition_key)
        ]
    if operation in {"BatchWriteItem", "BatchGetItem"}:
        return [
            _request(operation, table, _batch_keys(part, partition_key))
            for table, part in params["RequestItems"].items()
        ]
    if operation == "PutItem":
        return [_request(operation, params["TableName"], [_text(params["Item"], partition_key)])]
    if operation in {"GetItem", "UpdateItem", "DeleteItem", "ConditionCheckItem"}:
        return [_request(operation, params["TableName"], [_text(params["Key"], partition_key)])]
    if operation == "Query":
        return [_request(operation, params["TableName"], [_queried(params, partition_key)])]
    assert operation in WITHOUT_KEYS, f"what does IAM see of {operation}?"
    return [_request(operation, params["TableName"], [])]


def _request(operation: str, table: str, keys: Sequence[str]) -> Request:
    name = table.removeprefix(ARN_PREFIX)
    return Request(action=f"dynamodb:{operation}", resource=ARN_PREFIX + name, leading_keys=tuple(keys))


def _batch_keys(part: Any, partition_key: str) -> list[str]:
    if isinstance(part, Mapping):
        return [_text(key, partition_key) for key in part["Keys"]]
    puts = [write["PutRequest"]["Item"] for write in part if "PutRequest" in write]
    deletes = [write["DeleteRequest"]["Key"] for write in part if "DeleteRequest" in write]
    return [_text(item, partition_key) for item in (*puts, *deletes)]


def _queried(params: Mapping[str, Any], partition_key: str) -> str:
    names = params.get("ExpressionAttributeNames", {})
    for name, value in _EQUALS.findall(params["KeyConditionExpression"]):
        if names.get(name, name) == partition_key:
            return _text(params["ExpressionAttributeValues"], value)
    raise AssertionError(f"which partition does this read? {params['KeyConditionExpression']}")


def _text(item: Mapping[str, Any], name: str) -> str:
    """A string, in DynamoDB's own notation or as the resource API has it."""
    value = item[name]
    return str(value["S"] if isinstance(value, Mapping) else value)


@contextmanager
def recorded(*, partition_key: str = "pk") -> Iterator[list[Request]]:
    """What is sent while the block runs, by any client of this process."""
    requests: list[Request] = []

    def note(client: Any, operation: str, params: Mapping[str, Any]) -> None:
        if client.meta.service_model.service_name == "dynamodb":
            requests.extend(requests_of(operation, params, partition_key=partition_key))

    def watched(send: Callable[..., Any]) -> Callable[..., Any]:
        def call(self: Any, operation: str, params: Mapping[str, Any]) -> Any:
            note(self, operation, params)
            return send(self, operation, params)

        return call

    with pytest.MonkeyPatch.context() as patch:
        clients: list[Any] = [BaseClient]
        if find_spec("aiobotocore"):
            from aiobotocore.client import AioBaseClient

            clients.append(AioBaseClient)
        for client in clients:
            patch.setattr(client, "_make_api_call", watched(client._make_api_call))
        yield requests
