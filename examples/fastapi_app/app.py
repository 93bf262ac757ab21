"""The web. Requests are answered and durable work is done by one and the same process.

Start it with ``uvicorn fastapi_app.app:web``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from fastapi import FastAPI, HTTPException
from pydantic import BaseModel, PositiveInt

from .shop import jobs, orders

TAKE_OVER_AFTER = timedelta(seconds=4)  # what a killed process had begun; short, to be seen in this example
MAY_END_WITHIN = timedelta(seconds=2)  # what runs when the app is told to end


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    """While the app serves, it works too. At its end, what is running may end, and the rest is handed back."""
    await jobs.aio.create_table()  # for development: leave it out where the table is made otherwise
    async with orders.open(), jobs.aio.worker(lease=TAKE_OVER_AFTER, grace=MAY_END_WITHIN):
        yield
    await jobs.aio.close()


web = FastAPI(lifespan=lifespan)


class NewOrder(BaseModel):
    """What a customer asks for."""

    item: str
    quantity: PositiveInt = 1


@web.post("/orders", status_code=202)
async def place_order(order: NewOrder) -> dict[str, str]:
    """Once this is answered the order will be shipped, whatever happens to this process."""
    return {"order_id": await orders.place(order.item, order.quantity)}


@web.get("/orders/{order_id}")
async def read_order(order_id: str) -> dict[str, Any]:
    order = await orders.read(order_id)
    if order is None:
        raise HTTPException(404, "no such order")
    return order
