"""The parameters that each operation takes: anything else is refused, so that a misspelt one is noticed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dynadurable.testing.memory.refusal import invalid

_ALIASES = {"ExpressionAttributeNames"}
_EXPRESSIONS = {"ExpressionAttributeNames", "ExpressionAttributeValues"}
_CHARGED = {"ReturnConsumedCapacity"}
_WRITE = {
    "TableName",
    "ConditionExpression",
    "ReturnValues",
    "ReturnValuesOnConditionCheckFailure",
    "ReturnItemCollectionMetrics",
    *_EXPRESSIONS,
    *_CHARGED,
}
_ELEMENT = {"TableName", "ConditionExpression", "ReturnValuesOnConditionCheckFailure", *_EXPRESSIONS}
_PAGE = {
    "TableName",
    "FilterExpression",
    "ProjectionExpression",
    "Select",
    "Limit",
    "ExclusiveStartKey",
    "ConsistentRead",
    *_EXPRESSIONS,
    *_CHARGED,
}
_GET = {"TableName", "Key", "ProjectionExpression", *_ALIASES}

PARAMETERS: dict[str, frozenset[str]] = {
    "PutItem": frozenset(_WRITE | {"Item"}),
    "UpdateItem": frozenset(_WRITE | {"Key", "UpdateExpression"}),
    "DeleteItem": frozenset(_WRITE | {"Key"}),
    "GetItem": frozenset(_GET | {"ConsistentRead"} | _CHARGED),
    "Query": frozenset(_PAGE | {"KeyConditionExpression", "ScanIndexForward"}),
    "Scan": frozenset(_PAGE | {"Segment", "TotalSegments"}),
    "BatchGetItem": frozenset({"RequestItems"} | _CHARGED),
    "BatchGetItem.Table": frozenset({"Keys", "ConsistentRead", "ProjectionExpression"} | _ALIASES),
    "BatchWriteItem": frozenset({"RequestItems", "ReturnItemCollectionMetrics"} | _CHARGED),
    "TransactWriteItems": frozenset({"TransactItems", "ClientRequestToken", "ReturnItemCollectionMetrics"} | _CHARGED),
    "Put": frozenset(_ELEMENT | {"Item"}),
    "Update": frozenset(_ELEMENT | {"Key", "UpdateExpression"}),
    "Delete": frozenset(_ELEMENT | {"Key"}),
    "ConditionCheck": frozenset(_ELEMENT | {"Key"}),
    "TransactGetItems": frozenset({"TransactItems"} | _CHARGED),
    "Get": frozenset(_GET),
    "CreateTable": frozenset(
        {
            "TableName",
            "KeySchema",
            "AttributeDefinitions",
            "BillingMode",
            "ProvisionedThroughput",
            "DeletionProtectionEnabled",
            "SSESpecification",
            "StreamSpecification",
            "TableClass",
            "Tags",
        }
    ),
    "DeleteTable": frozenset({"TableName"}),
    "DescribeTable": frozenset({"TableName"}),
    "ListTables": frozenset({"ExclusiveStartTableName", "Limit"}),
    "DescribeTimeToLive": frozenset({"TableName"}),
    "UpdateTimeToLive": frozenset({"TableName", "TimeToLiveSpecification"}),
}

CHOICES: dict[str, frozenset[str]] = {
    "ReturnConsumedCapacity": frozenset({"NONE", "TOTAL", "INDEXES"}),
    "ReturnValuesOnConditionCheckFailure": frozenset({"NONE", "ALL_OLD"}),
    "ReturnItemCollectionMetrics": frozenset({"NONE", "SIZE"}),
    "Select": frozenset({"ALL_ATTRIBUTES", "ALL_PROJECTED_ATTRIBUTES", "SPECIFIC_ATTRIBUTES", "COUNT"}),
    "ReturnValues": frozenset({"NONE", "ALL_OLD", "ALL_NEW", "UPDATED_OLD", "UPDATED_NEW"}),
}


def check(shape: str, params: Mapping[str, Any]) -> None:
    """The parameters of an operation, or of an element of one, are known and of known choice.

    Raises:
        RefusalError: one is not.
    """
    allowed = PARAMETERS[shape]
    if not params.keys() <= allowed:
        raise invalid(f"{shape} does not take {sorted(set(params) - allowed)} (here)")
    for name, choices in CHOICES.items():
        if name in params and params[name] not in choices:
            raise invalid(f"Value {params[name]!r} at {name} failed to satisfy constraint: one of {sorted(choices)}")


def count(params: Mapping[str, Any], name: str, *, maximum: int) -> int | None:
    """A number among the parameters, or None.

    Raises:
        RefusalError: it is no whole number from 1 to ``maximum``.
    """
    number = params.get(name)
    if number is None:
        return None
    if type(number) is not int or not 1 <= number <= maximum:
        raise invalid(f"Value {number!r} at {name} failed to satisfy constraint: from 1 to {maximum}")
    return number
