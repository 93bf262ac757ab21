"""The drivers of this process's event loops: one per loop, made when it is first asked for, closed with its loop.

A loop that ends as ``asyncio.run`` ends it closes what was opened on it by itself: each driver hangs on an asynchronous
generator, and those are closed by ``loop.shutdown_asyncgens()``.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import threading
import weakref
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack
from typing import Any, TypeVar

from ..clock import Clock
from ..errors import ConfigurationError, ExtraMissingError
from ..forks import renew_after_fork
from ..storage.call import Call, Plan
from .aio import AioDriver
from .boto3 import Boto3Driver
from .clients import Clients, ClientSettings, client_config
from .outcomes import outcome
from .transports import ClientTransport, ThreadTransport, Transport

log = logging.getLogger("dynadurable.aio")

Result = TypeVar("Result")

_CONNECT = Call(operation="making a client", params={})  # what an error of that is about
SESSION_WAIT_SECONDS = 0.005
_left_to_parents: list[object] = []  # what a fork has copied is never touched, and never collected, in the child


class LoopDrivers:
    """Gives the running loop its driver. Thread-safe; a forked child begins with none."""

    def __init__(self, settings: ClientSettings, driver: Boto3Driver, clock: Clock) -> None:
        self._settings = settings
        self._driver = driver
        self._clock = clock
        self._slots: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Slot] = weakref.WeakKeyDictionary()
        self._lock = threading.Lock()
        self._told = False
        self._client_loop = _running_loop() if settings.aio_client is not None else None
        renew_after_fork(self)

    def after_fork(self) -> None:
        """Leave the parent's connections alone: even to close them would disturb it."""
        _left_to_parents.extend([*self._slots.values(), *self._slots.keys()])
        self._slots, self._lock = weakref.WeakKeyDictionary(), threading.Lock()

    async def get(self, *, worker_loop: bool = False) -> AioDriver:
        """The driver of the running loop. ``worker_loop``: that is not the app's own, so not the one of its client.

        Raises:
            ConfigurationError: the client that the app was given belongs to another loop.
        """
        slot = self._slot(asyncio.get_running_loop())
        if slot.driver is None:
            async with slot.making:
                if slot.driver is None:
                    await slot.open(AioDriver(await self._transport(worker_loop), self._clock))
        assert slot.driver is not None
        return slot.driver

    async def run(self, plan: Plan[Result]) -> Result:
        """Run a plan on this loop."""
        try:
            driver = await self.get()
        except BaseException:
            plan.close()
            raise
        return await driver.run(plan)

    async def close(self) -> None:
        """Close the driver of the running loop. May be called twice; the next request opens another."""
        slot = self._slots.get(asyncio.get_running_loop())
        if slot is not None:
            await slot.close()

    def _slot(self, loop: asyncio.AbstractEventLoop) -> _Slot:
        with self._lock:
            slot = self._slots.get(loop)
            if slot is None:
                for ended in [other for other in self._slots if other.is_closed()]:
                    del self._slots[ended]  # a loop that was closed without ending its generators
                slot = self._slots[loop] = _Slot(self._forget)
            return slot

    def _forget(self) -> None:
        """The running loop's driver is about to be closed: who asks from now on gets another."""
        with self._lock:
            self._slots.pop(asyncio.get_running_loop(), None)

    # --- transports -------------------------------------------------------------------------------

    async def _transport(self, worker_loop: bool) -> Transport:
        settings = self._settings
        if settings.aio_client is not None and not worker_loop:
            self._check_loop()
            return ClientTransport(settings.aio_client, meter=self._driver.meter)
        if settings.aio_session is not None:
            return await self._from_session(settings.aio_session)
        if settings.client is not None or settings.session is not None:
            return self._threads("the app has a boto3 client or session of its own, and no aio_session")
        session = _own_session()
        if session is None:
            return self._threads("aioboto3 is not installed (pip install 'dynadurable[aio]')")
        return await self._from_session(session)

    def _check_loop(self) -> None:
        loop = asyncio.get_running_loop()
        self._client_loop = self._client_loop or loop
        if self._client_loop is not loop:
            raise ConfigurationError(
                "aio_client= belongs to the event loop that it was made on, and this is another one; "
                "pass aio_session= instead, from which every loop gets a client of its own"
            )

    def _threads(self, reason: str) -> Transport:
        if not self._told:
            self._told = True
            log.debug("app.aio sends with boto3 on threads: %s", reason)
        return ThreadTransport(self._driver)

    async def _from_session(self, session: Any) -> Transport:
        try:
            from aiobotocore.config import AioConfig
        except ImportError as error:
            raise ExtraMissingError("aiobotocore", extra="aio") from error
        settings = self._settings
        create = session.create_client if hasattr(session, "create_client") else session.client
        stack = AsyncExitStack()
        lock = Clients.session_lock
        while not lock.acquire(blocking=False):  # noqa: ASYNC110 - whoever holds it is of this loop or of another
            await asyncio.sleep(SESSION_WAIT_SECONDS)
        try:
            client = await stack.enter_async_context(
                create(
                    "dynamodb",
                    region_name=settings.region,
                    endpoint_url=settings.endpoint_url,
                    config=client_config(settings.max_connections, AioConfig),
                )
            )
        except Exception as error:
            raise outcome(_CONNECT, error, earlier_maybe_applied=False).error from error
        finally:
            lock.release()
        return ClientTransport(client, meter=self._driver.meter, close=stack.aclose)


class _Slot:
    """A loop's place: its driver, once that is made."""

    def __init__(self, forget: Callable[[], None]) -> None:
        self.making = asyncio.Lock()
        self.driver: AioDriver | None = None
        self._forget = forget
        self._lifetime: AsyncGenerator[None, None] | None = None

    async def open(self, driver: AioDriver) -> None:
        self._lifetime = self._live(driver)
        await anext(self._lifetime)

    async def close(self) -> None:
        if self._lifetime is not None:
            await self._lifetime.aclose()

    async def _live(self, driver: AioDriver) -> AsyncGenerator[None, None]:
        self.driver = driver
        try:
            yield
        finally:
            self._forget()
            await driver.close()


def _own_session() -> Any:
    """A session of ours, of aioboto3 or plain aiobotocore; ``None`` where neither is installed."""
    for module, name in (("aioboto3", "Session"), ("aiobotocore.session", "AioSession")):
        try:
            return getattr(importlib.import_module(module), name)()
        except ImportError:
            continue
    return None


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
