"""The same faults on a client of aioboto3."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import botocore.exceptions
import pytest

from tests import faults
from tests.faults import FaultPlan, Hold
from tests.servers import Store

pytestmark = [pytest.mark.aio, pytest.mark.server]

KEY = {"pk": {"S": "one"}, "sk": {"S": "one"}}


def _with_client(store: Store, body: Callable[[Any], Awaitable[None]], *, attempts: int = 1) -> None:
    import aioboto3
    from aiobotocore.config import AioConfig

    async def run() -> None:
        config = AioConfig(retries={"total_max_attempts": attempts})
        async with aioboto3.Session().client("dynamodb", config=config, **store.client_kwargs) as client:
            await body(client)

    asyncio.run(run())


async def _add(client: Any, table: str) -> None:
    await client.update_item(
        TableName=table, Key=KEY, UpdateExpression="ADD n :one", ExpressionAttributeValues={":one": {"N": "1"}}
    )


def _count(store: Store, table: str) -> int:
    item = store.client.get_item(TableName=table, Key=KEY, ConsistentRead=True).get("Item", {})
    return int(item.get("n", {"N": "0"})["N"])


def test_a_refusal_changes_nothing(ministack: Store) -> None:
    table = ministack.table()

    async def body(client: Any) -> None:
        with FaultPlan(client) as plan:
            plan.on("UpdateItem", faults.throttled())
            with pytest.raises(client.exceptions.ProvisionedThroughputExceededException):
                await _add(client, table)

    _with_client(ministack, body)
    assert _count(ministack, table) == 0


def test_a_lost_reply_is_a_timeout_after_the_server_has_done_it(ministack: Store) -> None:
    table = ministack.table()

    async def body(client: Any) -> None:
        with FaultPlan(client) as plan:
            plan.on("UpdateItem", faults.lost_reply())
            with pytest.raises(botocore.exceptions.ReadTimeoutError):
                await _add(client, table)

    _with_client(ministack, body)
    assert _count(ministack, table) == 1


def test_the_sdk_retries_below_the_plan(ministack: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    table = ministack.table()

    async def body(client: Any) -> None:
        with FaultPlan(client) as plan:
            plan.on("UpdateItem", faults.internal_error(), nth=1)
            plan.on("UpdateItem", faults.lost_reply(), nth=2)
            await _add(client, table)
            await _add(client, table)
            assert [(call.attempts, call.arrived) for call in plan.calls] == [(2, 1), (2, 2)]

    _with_client(ministack, body, attempts=3)
    assert _count(ministack, table) == 3


def test_leftovers_and_cancellations(ministack: Store) -> None:
    table = ministack.table()
    put = {"PutRequest": {"Item": KEY}}

    async def body(client: Any) -> None:
        with FaultPlan(client) as plan:
            plan.on("BatchWriteItem", faults.leftovers())
            reply = await client.batch_write_item(RequestItems={table: [put]})
            assert reply["UnprocessedItems"] == {table: [put]}
            plan.on("TransactWriteItems", faults.cancelled("TransactionConflict"))
            with pytest.raises(client.exceptions.TransactionCanceledException) as cancelled:
                await client.transact_write_items(TransactItems=[{"Put": {"TableName": table, "Item": KEY}}])
            assert cancelled.value.response["CancellationReasons"][0]["Code"] == "TransactionConflict"

    _with_client(ministack, body)
    assert ministack.client.scan(TableName=table)["Count"] == 0


def test_a_held_request_does_not_hold_the_loop(ministack: Store) -> None:
    table, hold = ministack.table(), Hold()

    async def body(client: Any) -> None:
        with FaultPlan(client) as plan:
            plan.on("UpdateItem", hold, nth=1)
            held = asyncio.create_task(_add(client, table))
            await asyncio.to_thread(hold.wait_until_reached)
            await _add(client, table)
            assert not held.done()
            hold.release()
            await held

    _with_client(ministack, body)
    assert _count(ministack, table) == 2
