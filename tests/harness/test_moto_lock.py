"""``serialised_moto`` makes moto's conditional writes atomic between threads."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from moto.dynamodb.responses import DynamoHandler

from dynadurable.testing.moto import serialised_moto
from tests.servers import Store

THREADS = 16


def test_of_concurrent_compare_and_sets_exactly_one_wins(moto_store: Store) -> None:
    table, client = moto_store.table(), moto_store.client
    key = {"pk": {"S": "race"}, "sk": {"S": "race"}}
    client.put_item(TableName=table, Item={**key, "version": {"N": "0"}})
    barrier = threading.Barrier(THREADS)

    def compare_and_set(version: int) -> bool:
        barrier.wait()
        try:
            client.update_item(
                TableName=table,
                Key=key,
                UpdateExpression="SET version = :next",
                ConditionExpression="version = :seen",
                ExpressionAttributeValues={":seen": {"N": str(version)}, ":next": {"N": str(version + 1)}},
            )
        except client.exceptions.ConditionalCheckFailedException:
            return False
        return True

    with ThreadPoolExecutor(THREADS) as pool:
        for version in range(20):
            assert sum(pool.map(compare_and_set, [version] * THREADS)) == 1


def test_no_increment_is_lost(moto_store: Store) -> None:
    table, client = moto_store.table(), moto_store.client
    key = {"pk": {"S": "count"}, "sk": {"S": "count"}}

    def increment(_: int) -> None:
        client.update_item(
            TableName=table,
            Key=key,
            UpdateExpression="ADD amount :one",
            ExpressionAttributeValues={":one": {"N": "1"}},
        )

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(increment, range(400)))
    assert client.get_item(TableName=table, Key=key)["Item"]["amount"] == {"N": "400"}


def test_transactions_of_several_threads_do_not_mix(moto_store: Store) -> None:
    """Each transaction adds one to two items on the condition that they are equal: they stay equal, none is lost."""
    table, client = moto_store.table(), moto_store.client
    keys = [{"pk": {"S": "pair"}, "sk": {"S": side}} for side in ("left", "right")]

    def add(_: int) -> None:
        update = {
            "TableName": table,
            "UpdateExpression": "ADD n :one",
            "ExpressionAttributeValues": {":one": {"N": "1"}},
        }
        client.transact_write_items(TransactItems=[{"Update": {**update, "Key": key}} for key in keys])

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(add, range(100)))
    assert [client.get_item(TableName=table, Key=key)["Item"]["n"] for key in keys] == [{"N": "100"}] * 2


def test_the_handler_is_itself_again_afterwards_also_when_nested() -> None:
    before = DynamoHandler.call_action
    with serialised_moto():
        inside = DynamoHandler.call_action
        with serialised_moto():
            assert DynamoHandler.call_action is inside
        assert DynamoHandler.call_action is inside
    assert inside is not before
    assert DynamoHandler.call_action is before
