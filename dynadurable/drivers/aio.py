"""Steps plans on an event loop, through one of two transports: an aioboto3 client, or boto3 on a few threads."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, TypeVar

from ..clock import Clock
from ..storage.call import Call, Plan, Response
from .boto3 import Boto3Driver, method_name
from .retries import Tries

Result = TypeVar("Result")


class Transport(Protocol):
    """Sends one request, once."""

    async def send(self, call: Call) -> Response:
        """The reply. Raises botocore's errors."""

    async def close(self) -> None:
        """Let go of connections and threads. May be called twice."""


class AioDriver:
    """Runs plans with ``await``; made for one event loop."""

    def __init__(self, transport: Transport, clock: Clock) -> None:
        self._transport = transport
        self._clock = clock

    async def run(self, plan: Plan[Result], *, give_up_at: float | None = None) -> Result:
        """The plan's result; see ``Boto3Driver.run``."""
        try:
            step = plan.send(None)
            while True:
                try:
                    if isinstance(step, Call):
                        reply: Any = await self.send(step, give_up_at=give_up_at)
                    else:
                        reply = await step.perform_async()
                except BaseException as error:  # noqa: BLE001 - the plan decides, also about a cancellation
                    step = plan.throw(error)
                else:
                    step = plan.send(reply)
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]
        finally:
            plan.close()

    async def send(self, call: Call, *, give_up_at: float | None = None) -> Response:
        """One request with its retries."""
        tries = Tries(call=call, give_up_at=give_up_at)
        while True:
            sent = self._clock.monotonic()
            try:
                reply = await self._transport.send(tries.call)
            except Exception as error:  # noqa: BLE001 - what is not botocore's is raised again
                delay: float | None = tries.delay_after(error, now=self._clock.monotonic())
            else:
                headers = reply.get("ResponseMetadata", {}).get("HTTPHeaders", {})
                self._clock.observe(sent=sent, received=self._clock.monotonic(), date=headers.get("date"))
                delay = tries.leftovers(reply, now=self._clock.monotonic())
                if delay is None:
                    return reply
            await asyncio.sleep(delay or 0.0)

    async def close(self) -> None:
        """Close the transport. May be called twice."""
        await self._transport.close()


class ClientTransport:
    """A low-level client of aioboto3 or plain aiobotocore."""

    def __init__(self, client: Any, *, exit_stack: Any = None) -> None:
        self._client = client
        self._exit_stack = exit_stack

    async def send(self, call: Call) -> Response:
        reply: Response = await getattr(self._client, method_name(call.operation))(**call.params)
        return reply

    async def close(self) -> None:
        stack, self._exit_stack = self._exit_stack, None
        if stack is not None:
            await stack.aclose()


class ThreadTransport:
    """boto3 on a bounded pool of threads: for those who have no aioboto3."""

    def __init__(self, driver: Boto3Driver, *, threads: int) -> None:
        self._driver = driver
        self._pool = ThreadPoolExecutor(max_workers=threads, thread_name_prefix="dynadurable-aio")

    async def send(self, call: Call) -> Response:
        future = self._pool.submit(self._driver.send_once, call)
        return await asyncio.wrap_future(future)

    async def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)
