"""What ``tests/servers.py`` says about the stores is true: each test asserts one ability where it is claimed."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import botocore.exceptions
import pytest

from tests.servers import Store

KEY = {"pk": {"S": "one"}, "sk": {"S": "one"}}
ITEM = {**KEY, "v": {"N": "1"}}


def _failed_update(store: Store, table: str) -> dict[str, Any]:
    """The error of an update whose condition does not hold."""
    with pytest.raises(botocore.exceptions.ClientError) as refused:
        store.client.update_item(
            TableName=table,
            Key=KEY,
            UpdateExpression="SET v = :v",
            ConditionExpression="v = :v",
            ExpressionAttributeValues={":v": {"N": "2"}},
            ReturnValuesOnConditionCheckFailure="ALL_OLD",
        )
    return dict(refused.value.response)


def test_a_failed_condition_says_so(store: Store) -> None:
    table = store.table()
    store.client.put_item(TableName=table, Item=ITEM)
    assert _failed_update(store, table)["Error"]["Code"] == "ConditionalCheckFailedException"


@pytest.mark.needs("all_old_on_failed_condition")
def test_a_failed_condition_brings_the_item(store: Store) -> None:
    table = store.table()
    store.client.put_item(TableName=table, Item=ITEM)
    assert _failed_update(store, table)["Item"] == ITEM


def test_every_reply_carries_a_date(store: Store) -> None:
    reply = store.client.get_item(TableName=store.table(), Key=KEY)
    assert reply["ResponseMetadata"]["HTTPHeaders"]["date"].endswith("GMT")


@pytest.mark.needs("transactions")
def test_a_transaction_is_all_or_nothing(store: Store) -> None:
    table = store.table()
    store.client.put_item(TableName=table, Item=ITEM)
    second = {"pk": {"S": "two"}, "sk": {"S": "two"}}
    with pytest.raises(store.client.exceptions.TransactionCanceledException) as cancelled:
        store.client.transact_write_items(
            TransactItems=[
                {"Put": {"TableName": table, "Item": second}},
                {
                    "Put": {
                        "TableName": table,
                        "Item": ITEM,
                        "ConditionExpression": "attribute_not_exists(pk)",
                        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
                    }
                },
            ]
        )
    assert [reason["Code"] for reason in cancelled.value.response["CancellationReasons"]] == [
        "None",
        "ConditionalCheckFailed",
    ]
    assert "Item" not in store.client.get_item(TableName=table, Key=second)
    if store.abilities.all_old_on_failed_transaction:
        assert cancelled.value.response["CancellationReasons"][1]["Item"] == ITEM


@pytest.mark.needs("transaction_tokens")
def test_a_repeated_transaction_token_applies_once(store: Store) -> None:
    table = store.table()
    add = {
        "TableName": table,
        "Key": KEY,
        "UpdateExpression": "ADD v :one",
        "ExpressionAttributeValues": {":one": {"N": "1"}},
    }
    for _ in range(2):
        store.client.transact_write_items(TransactItems=[{"Update": add}], ClientRequestToken="the same")
    assert store.client.get_item(TableName=table, Key=KEY)["Item"]["v"] == {"N": "1"}


@pytest.mark.needs("one_winner")
def test_of_concurrent_first_puts_exactly_one_wins(store: Store) -> None:
    table, barrier = store.table(), threading.Barrier(8)

    def put(number: int) -> bool:
        barrier.wait()
        try:
            store.client.put_item(TableName=table, Item=KEY, ConditionExpression="attribute_not_exists(pk)")
        except store.client.exceptions.ConditionalCheckFailedException:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(put, range(8))) == 1


@pytest.mark.needs("exact_write_capacity")
def test_write_units_are_counted_by_size(store: Store) -> None:
    item = {**KEY, "v": {"B": b"x" * 2000}}
    reply = store.client.put_item(TableName=store.table(), Item=item, ReturnConsumedCapacity="TOTAL")
    assert reply["ConsumedCapacity"]["CapacityUnits"] == 2.0


@pytest.mark.needs("exact_read_capacity")
def test_read_units_are_counted_by_size_and_consistency(store: Store) -> None:
    table = store.table()
    store.client.put_item(TableName=table, Item={**KEY, "v": {"B": b"x" * 5000}})
    units = [
        store.client.get_item(TableName=table, Key=KEY, ConsistentRead=strong, ReturnConsumedCapacity="TOTAL")[
            "ConsumedCapacity"
        ]["CapacityUnits"]
        for strong in (True, False)
    ]
    assert units == [2.0, 1.0]


@pytest.mark.needs("byte_pages")
def test_a_query_ends_its_page_at_one_megabyte(store: Store) -> None:
    table = store.table()
    for number in range(4):
        store.client.put_item(
            TableName=table, Item={"pk": {"S": "p"}, "sk": {"S": str(number)}, "v": {"B": b"x" * 380_000}}
        )
    page = store.client.query(
        TableName=table, KeyConditionExpression="pk = :p", ExpressionAttributeValues={":p": {"S": "p"}}
    )
    assert page["Count"] < 4
    assert "LastEvaluatedKey" in page


@pytest.mark.needs("time_to_live_api")
def test_time_to_live_can_be_switched_on(store: Store) -> None:
    table = store.table()
    store.client.update_time_to_live(TableName=table, TimeToLiveSpecification={"Enabled": True, "AttributeName": "ttl"})
    described = store.client.describe_time_to_live(TableName=table)["TimeToLiveDescription"]
    assert described["AttributeName"] == "ttl"
