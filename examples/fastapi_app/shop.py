"""The shop's orders and the durable work on them. Nothing here knows of the web.

One table holds the orders and everything that dynadurable keeps.
"""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aioboto3

from dynadurable import App, AsyncJobContext

TABLE = os.environ.get("SHOP_TABLE", "shop")
REGION = os.environ.get("AWS_REGION", "us-east-1")
ENDPOINT = os.environ.get("SHOP_ENDPOINT")  # of a store on your own machine; AWS without it
PACKING_SECONDS = float(os.environ.get("SHOP_PACKING_SECONDS", "0.2"))

session = aioboto3.Session()
jobs = App(TABLE, aio_session=session, region=REGION, endpoint_url=ENDPOINT)


class Orders:
    """The orders in the table, through the shop's own DynamoDB client. One for the whole process."""

    dynamodb: Any

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        async with session.client("dynamodb", region_name=REGION, endpoint_url=ENDPOINT) as self.dynamodb:
            yield

    async def place(self, item: str, quantity: int) -> str:
        """Accept an order. The order and the work that it asks for are written together, or neither is."""
        order_id = uuid.uuid4().hex
        order = {**_key(order_id), "item": {"S": item}, "quantity": {"N": str(quantity)}, "state": {"S": "accepted"}}
        put_order = {"Put": {"TableName": TABLE, "Item": order, "ConditionExpression": "attribute_not_exists(pk)"}}
        ship_it = jobs.aio.transact_items(ship, order_id)
        await self.dynamodb.transact_write_items(TransactItems=[put_order, *ship_it])
        return order_id

    async def read(self, order_id: str) -> dict[str, Any] | None:
        """The order as it stands."""
        reply = await self.dynamodb.get_item(TableName=TABLE, Key=_key(order_id), ConsistentRead=True)
        if "Item" not in reply:
            return None
        order = reply["Item"]
        labels = sorted(order["labels"]["SS"]) if "labels" in order else []
        return {"order_id": order_id, "item": order["item"]["S"], "state": order["state"]["S"], "labels": labels}

    async def set_state(self, order_id: str, state: str, label: str) -> None:
        """Note how far the order is. Done twice, it is the same as done once."""
        await self.dynamodb.update_item(
            TableName=TABLE,
            Key=_key(order_id),
            UpdateExpression="SET #state = :state ADD labels :label",
            ExpressionAttributeNames={"#state": "state"},
            ExpressionAttributeValues={":state": {"S": state}, ":label": {"SS": [label]}},
        )


orders = Orders()


@jobs.job(queue="orders")
async def ship(ctx: AsyncJobContext, order_id: str) -> None:
    """Pack an order and send it off. Killed anywhere, it goes on from its last checkpoint, in whatever process.

    The label comes from the run, so that a parcel that is sent off twice is known to be the same.
    """
    label = ctx.idempotency_key("parcel")[:12]
    if ctx.cursor is None:
        await asyncio.sleep(PACKING_SECONDS)  # the warehouse at work
        await orders.set_state(order_id, "packed", label)
        await ctx.checkpoint("packed")
    await asyncio.sleep(PACKING_SECONDS)
    await orders.set_state(order_id, "shipped", label)


def _key(order_id: str) -> dict[str, Any]:
    return {"pk": {"S": f"order#{order_id}"}, "sk": {"S": "order"}}
