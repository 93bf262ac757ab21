"""Requests that the in-memory store refuses though botocore would not even send most of them, and rare replies."""

from __future__ import annotations

from typing import Any

import pytest

from dynadurable.errors import RequestRefusedError
from dynadurable.storage.call import Call
from dynadurable.testing.memory import MemoryStore
from tests.unit.memory_tasks import TABLE, key, new_store, put, run

ODD_NAME: dict[Any, Any] = {5: {"S": "x"}}
QUERY = {"KeyConditionExpression": "pk = :v", "ExpressionAttributeValues": {":v": {"S": "p"}}}


@pytest.fixture
def store() -> MemoryStore:
    return new_store()


@pytest.mark.parametrize(
    "value",
    [
        {"S": 5},
        {"S": "\ud800"},
        {"S": None},
        {"N": 5},
        {"N": "1e9999999"},
        {"B": 5},
        {"BOOL": "true"},
        {"NULL": None},
        {"L": {"S": "x"}},
        {"M": [{"S": "x"}]},
        {"M": {"": {"S": "x"}}},
        {"SS": "text"},
        {"SS": [5]},
        {"NS": [5]},
        {"BS": [5]},
        {"X": "x"},
        "text",
        None,
    ],
    ids=repr,
)
def test_what_is_no_value_is_refused(store: MemoryStore, value: Any) -> None:
    with pytest.raises(RequestRefusedError):
        run(store, "PutItem", Item={**key(), "v": value})
    with pytest.raises(RequestRefusedError):
        run(store, "PutItem", Item={**key(), "pk": value})
    values = {":v": value}
    with pytest.raises(RequestRefusedError):
        run(store, "UpdateItem", Key=key(), UpdateExpression="SET v = :v", ExpressionAttributeValues=values)
    assert store.items(TABLE) == []


@pytest.mark.parametrize(
    ("operation", "params"),
    [
        ("PutItem", {"Item": "text"}),
        ("PutItem", {"Item": ODD_NAME | key()}),
        ("GetItem", {"Key": key("\ud800")}),
        ("PutItem", {"TableName": None, "Item": key()}),
        ("GetItem", {"Key": None}),
        ("GetItem", {"Key": {"pk": "p", "sk": "a"}}),
        ("GetItem", {"Key": key(), "ProjectionExpression": ".".join(["a"] * 33)}),
        ("GetItem", {"Key": key(), "ProjectionExpression": "#a", "ExpressionAttributeNames": {"#a": ""}}),
        ("Query", {}),
        ("Query", {**QUERY, "Limit": "5"}),
        ("Query", {**QUERY, "ExclusiveStartKey": {}}),
        ("Query", {**QUERY, "FilterExpression": "size(:v) = :v"}),
        ("Scan", {"Segment": 0, "TotalSegments": 50, "ExclusiveStartKey": key()}),
        ("Scan", {"Segment": 0, "TotalSegments": 1_000_001}),
        ("UpdateTimeToLive", {"TimeToLiveSpecification": {"Enabled": True}}),
        ("UpdateTimeToLive", {"TimeToLiveSpecification": {"Enabled": False, "AttributeName": "ttl"}}),
    ],
    ids=str,
)
def test_a_malformed_request_is_refused(store: MemoryStore, operation: str, params: dict[str, Any]) -> None:
    with pytest.raises(RequestRefusedError):
        run(store, operation, **params)


@pytest.mark.parametrize(
    "changes",
    [
        {"KeySchema": [{"AttributeName": "pk", "KeyType": kind} for kind in ("HASH", "RANGE")]},
        {
            "KeySchema": [{"AttributeName": "k" * 256, "KeyType": "HASH"}],
            "AttributeDefinitions": [{"AttributeName": "k" * 256, "AttributeType": "S"}],
        },
        {"AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "SS"}]},
        {"TableName": None},
        {"GlobalSecondaryIndexes": []},
    ],
    ids=str,
)
def test_a_malformed_table_is_refused(store: MemoryStore, changes: dict[str, Any]) -> None:
    request = {
        "TableName": "another",
        "BillingMode": "PAY_PER_REQUEST",
        "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
        "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}],
    }
    with pytest.raises(RequestRefusedError):
        run(store, "CreateTable", **{**request, **changes})


@pytest.mark.parametrize(
    "element", [{}, {"PutRequest": {}}, {"PutRequest": {"Item": key()}, "DeleteRequest": {"Key": key()}}]
)
def test_a_malformed_element_of_a_batch_is_refused(store: MemoryStore, element: dict[str, Any]) -> None:
    with pytest.raises(RequestRefusedError):
        store.execute(Call(operation="BatchWriteItem", params={"RequestItems": {TABLE: [element]}}))


def test_a_read_of_a_wrong_key_cancels_its_transaction(store: MemoryStore) -> None:
    gets = [{"Get": {"TableName": TABLE, "Key": key()}}, {"Get": {"TableName": TABLE, "Key": {"pk": {"N": "1"}}}}]
    with pytest.raises(Exception, match="None, ValidationError"):
        store.execute(Call(operation="TransactGetItems", params={"TransactItems": gets}))


def test_a_batch_leaves_keys_over_when_the_reply_passes_16_megabytes(store: MemoryStore) -> None:
    for number in range(42):
        put(store, str(number), load={"S": "x" * 400_000})
    keys = [key(str(number)) for number in range(42)]
    request = {TABLE: {"Keys": keys, "ConsistentRead": True}}
    replies = []
    while request:
        reply = store.execute(Call(operation="BatchGetItem", params={"RequestItems": request}))
        replies.append(len(reply["Responses"][TABLE]))
        request = reply["UnprocessedKeys"]
    assert replies == [41, 1]


def test_units_are_told_for_the_table_too_if_asked(store: MemoryStore) -> None:
    reply = run(store, "GetItem", Key=key(), ReturnConsumedCapacity="INDEXES")
    assert reply["ConsumedCapacity"] == {"TableName": TABLE, "CapacityUnits": 0.5, "Table": {"CapacityUnits": 0.5}}


def test_tables_are_listed_by_pages(store: MemoryStore) -> None:
    for name in ("aaa", "zzz"):
        schema = [{"AttributeName": "pk", "KeyType": "HASH"}]
        definitions = [{"AttributeName": "pk", "AttributeType": "S"}]
        settings = {"BillingMode": "PAY_PER_REQUEST", "KeySchema": schema, "AttributeDefinitions": definitions}
        run(store, "CreateTable", **{**settings, "TableName": name})
    first = store.execute(Call(operation="ListTables", params={"Limit": 2}))
    assert first == {"TableNames": ["aaa", TABLE], "LastEvaluatedTableName": TABLE}
    rest = store.execute(Call(operation="ListTables", params={"ExclusiveStartTableName": TABLE}))
    assert rest == {"TableNames": ["zzz"]}


def test_time_to_live_is_switched_off_by_the_attribute_that_it_is_on_for(store: MemoryStore) -> None:
    run(store, "UpdateTimeToLive", TimeToLiveSpecification={"Enabled": True, "AttributeName": "ttl"})
    with pytest.raises(RequestRefusedError):
        run(store, "UpdateTimeToLive", TimeToLiveSpecification={"Enabled": False, "AttributeName": "other"})
    run(store, "UpdateTimeToLive", TimeToLiveSpecification={"Enabled": False, "AttributeName": "ttl"})
    assert run(store, "DescribeTimeToLive") == {"TimeToLiveDescription": {"TimeToLiveStatus": "DISABLED"}}
