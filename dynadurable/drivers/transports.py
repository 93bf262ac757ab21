"""How one request gets from an event loop to DynamoDB: through a client made for loops, or boto3 on a few threads."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from ..ledger.meter import Meter
from ..storage.call import Call, Response
from .boto3 import Boto3Driver, method_name
from .replies import whole_replies_only

MAX_THREADS = 16


class Transport(Protocol):
    """Sends one request, once."""

    async def send(self, call: Call) -> Response:
        """The reply. Raises botocore's errors."""
        ...

    async def close(self) -> None:
        """Let go of connections and threads. May be called twice."""


class ClientTransport:
    """A low-level client of aioboto3 or plain aiobotocore.

    ``meter`` is told of every request. ``close`` closes the client, where it is ours.
    """

    def __init__(
        self, client: Any, *, meter: Meter | None = None, close: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        self._client = whole_replies_only(client)
        self._meter = meter or Meter()
        self._close = close

    async def send(self, call: Call) -> Response:
        method = getattr(self._client, method_name(call.operation))
        metered = self._meter.begin(call)
        try:
            reply: Response = await method(**(call.params if metered is None else metered.params))
        except BaseException as error:  # a cancellation too: the request is under way
            if metered is not None:
                metered.failed(error)
            raise
        if metered is not None:
            metered.answered(reply)
        return reply

    async def close(self) -> None:
        close, self._close = self._close, None
        if close is not None:
            await close()


class ThreadTransport:
    """boto3 on a bounded pool of threads: for those who have no aioboto3."""

    def __init__(self, driver: Boto3Driver, *, threads: int = MAX_THREADS) -> None:
        self._driver = driver
        self._pool = ThreadPoolExecutor(max_workers=threads, thread_name_prefix="dynadurable-aio")

    async def send(self, call: Call) -> Response:
        return await asyncio.wrap_future(self._pool.submit(self._driver.send_once, call))

    async def close(self) -> None:
        # A thread may be waiting for a reply: the loop must not wait with it.
        await asyncio.to_thread(self._pool.shutdown, wait=True, cancel_futures=True)
