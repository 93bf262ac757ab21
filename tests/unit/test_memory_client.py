"""The stand-in client: what a driver makes of its answers is what the store says itself."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from dynadurable.clock import SystemClock
from dynadurable.drivers.boto3 import Boto3Driver
from dynadurable.errors import DynadurableError
from dynadurable.storage.call import Call
from dynadurable.testing.memory import MemoryClient, MemoryStore
from tests.unit.memory_tasks import TABLE, key, new_store, put

NAMED = {"TableName": TABLE}
ABSENT = {"ConditionExpression": "attribute_not_exists(pk)", "ReturnValuesOnConditionCheckFailure": "ALL_OLD"}

CALLS = {
    "an item": Call(operation="GetItem", params={**NAMED, "Key": key()}),
    "a page": Call(operation="Scan", params={**NAMED, "Limit": 1}),
    "a failed condition": Call(operation="PutItem", params={**NAMED, "Item": key(), **ABSENT}),
    "a failed condition without the item": Call(
        operation="DeleteItem", params={**NAMED, "Key": key(), "ConditionExpression": "attribute_not_exists(pk)"}
    ),
    "a cancelled transaction": Call(
        operation="TransactWriteItems",
        params={
            "TransactItems": [
                {"Put": {**NAMED, "Item": key("b")}},
                {"Put": {**NAMED, "Item": key(), **ABSENT}},
                {"ConditionCheck": {**NAMED, "Key": key("c"), "ConditionExpression": "attribute_exists(pk)"}},
            ]
        },
    ),
    "a missing table": Call(operation="GetItem", params={"TableName": "other", "Key": key()}),
    "an invalid request": Call(operation="GetItem", params={**NAMED, "Key": key(), "ProjectionExpression": "status"}),
    "a table twice": Call(
        operation="CreateTable",
        params={
            **NAMED,
            "BillingMode": "PAY_PER_REQUEST",
            "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
            "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}],
        },
    ),
}


@pytest.fixture
def store() -> MemoryStore:
    store = new_store()
    put(store, n={"N": "1"}, l={"L": [{"B": b"x"}]})
    put(store, "b")
    return store


def answer(send: Any, call: Call) -> Any:
    """A reply, or an error with all it carries except for its words."""
    try:
        return {name: part for name, part in send(call).items() if name != "ResponseMetadata"}
    except DynadurableError as error:
        return type(error), {
            name: [(reason.code, reason.item) for reason in value] if name == "reasons" else value
            for name, value in vars(error).items()
        }


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_driver_on_the_client_answers_as_the_store_does(store: MemoryStore, call: Call) -> None:
    driver = Boto3Driver(lambda: MemoryClient(store), SystemClock())
    assert answer(driver.send, call) == answer(store.execute, call)


def test_errors_are_botocores_and_can_be_caught_by_name(store: MemoryStore) -> None:
    client = MemoryClient(store)
    with pytest.raises(client.exceptions.ConditionalCheckFailedException) as caught:
        client.put_item(**CALLS["a failed condition"].params)
    assert isinstance(caught.value, ClientError)
    response: Any = caught.value.response
    assert response["Error"]["Code"] == "ConditionalCheckFailedException"
    assert response["Item"]["pk"] == {"S": "p"}
    assert response["ResponseMetadata"]["HTTPStatusCode"] == 400
    assert str(caught.value).startswith("An error occurred (ConditionalCheckFailedException)")


def test_a_waiter_sees_the_table_at_once(store: MemoryStore) -> None:
    client = MemoryClient(store)
    client.get_waiter("table_exists").wait(TableName=TABLE, WaiterConfig={"Delay": 1, "MaxAttempts": 1})
    with pytest.raises(client.exceptions.ResourceNotFoundException):
        client.get_waiter("table_exists").wait(TableName="other")
    client.delete_table(TableName=TABLE)
    client.get_waiter("table_not_exists").wait(TableName=TABLE)
    with pytest.raises(ValueError, match="backup_done"):
        client.get_waiter("backup_done")
    client.close()
