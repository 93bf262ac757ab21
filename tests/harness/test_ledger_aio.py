"""The ledger watches clients of aioboto3 too."""

from __future__ import annotations

import asyncio

import pytest

from dynadurable.testing.ledger import Ledger, ledger
from tests import faults
from tests.faults import FaultPlan
from tests.servers import Store

pytestmark = [pytest.mark.aio, pytest.mark.server]

KEY = {"pk": {"S": "one"}, "sk": {"S": "one"}}
ITEM = {**KEY, "v": {"B": b"x" * 2000}}


async def _spend(store: Store, table: str) -> Ledger:
    import aioboto3
    from aiobotocore.config import AioConfig

    config = AioConfig(retries={"total_max_attempts": 2})
    async with aioboto3.Session().client("dynamodb", config=config, **store.client_kwargs) as client:
        with ledger(client, reader=store.client) as cost, FaultPlan(client) as plan:
            plan.on("PutItem", faults.throttled())
            await client.put_item(TableName=table, Item=ITEM)
            await asyncio.gather(*(client.get_item(TableName=table, Key=KEY) for _ in range(5)))
            with pytest.raises(client.exceptions.ConditionalCheckFailedException):
                await client.put_item(TableName=table, Item=KEY, ConditionExpression="attribute_not_exists(pk)")
    return cost


def test_requests_of_an_event_loop_are_counted(ministack: Store) -> None:
    cost = asyncio.run(_spend(ministack, ministack.table()))
    assert (cost.write_units, cost.failed_writes, cost.throttled) == (4, 1, 2)
    assert (cost.read_units, cost.calls, cost.guessed) == (2.5, 7, 0)
