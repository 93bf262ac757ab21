"""A world in which everything is decided by one seed: a store in memory, clocks, and requests that go wrong.

Plans are stepped request by request. Between any two requests of one actor the others may act, time may pass, and the
actor's process may be gone.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Coroutine, Generator
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import ClientError, EndpointConnectionError, ReadTimeoutError

from dynadurable.clock import UniqueIds
from dynadurable.drivers.retries import Tries
from dynadurable.errors import ConditionFailedError, Interrupted, StoreError, TransactionFailedError
from dynadurable.storage.call import Call, Pause, Response
from dynadurable.storage.items import Items, bind
from dynadurable.storage.schema import TableSchema
from dynadurable.storage.table import create_request
from dynadurable.testing.memory import MemoryStore

START_MS = 1_800_014_400_000
READS = frozenset({"GetItem", "BatchGetItem", "Query", "Scan", "DescribeTable", "DescribeTimeToLive"})
Steps = Generator[None, None, Any]
"""An actor at work: each ``next`` lets it send one request."""


class CheckFailedError(AssertionError):
    """A promise was broken."""


@dataclass(frozen=True, kw_only=True)
class Weather:
    """How often things go wrong, each as a probability per request."""

    lost_request: float = 0.0
    lost_reply: float = 0.0
    twice: float = 0.0
    throttled: float = 0.0
    kill: float = 0.0


CALM = Weather()


class ServerClock:
    """The store's own time."""

    def __init__(self, world: World) -> None:
        self._world = world

    def now_ms(self) -> int:
        return START_MS + self._world.now_ms


class ActorClock:
    """A process's clock. It may be off; its bounds are honest about an error of up to ``error_ms``."""

    def __init__(self, world: World, *, skew_ms: int, error_ms: int) -> None:
        self._world, self._skew_ms, self._error_ms = world, skew_ms, error_ms

    def now_ms(self) -> int:
        return START_MS + self._world.now_ms + self._skew_ms

    def earliest_ms(self) -> int:
        return self.now_ms() - self._error_ms

    def latest_ms(self) -> int:
        return self.now_ms() + self._error_ms

    def monotonic(self) -> float:
        return self._world.now_ms / 1000

    def observe(self, *, sent: float, received: float, date: str | None) -> None: ...

    def sleep(self, seconds: float) -> None:
        raise AssertionError("nothing sleeps in the simulation")

    async def sleep_async(self, seconds: float) -> None:
        raise AssertionError("nothing sleeps in the simulation")

    def wait(self, event: Any, seconds: float) -> bool:
        raise AssertionError("nothing waits in the simulation")


class SeededIds(UniqueIds):
    """Ids in order, the same for the same seed."""

    def __init__(self, dice: random.Random) -> None:
        super().__init__()
        self._dice = dice
        self.last = ""

    def make(self, now_ms: int) -> str:
        if now_ms > self._last_ms:
            self._last_ms, self._tail = now_ms, self._dice.getrandbits(56)
        else:
            self._tail += 1
        self.last = self._base32(self._last_ms, 10) + self._base32(self._tail, 12)
        return self.last


@dataclass(kw_only=True)
class World:
    """One seed's world."""

    seed: int
    weather: Weather = CALM
    history: list[str] = field(default_factory=list)
    now_ms: int = 0

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)
        self.store = MemoryStore(ServerClock(self))
        self.items: Items = bind(TableSchema(table="simulated"))
        self.store.execute(create_request(self.items))
        self.watchers: list[Any] = []

    def clock(self, *, skewed: bool = True) -> ActorClock:
        """A clock for a process: often right, sometimes minutes off."""
        if not skewed or self.dice.random() < 0.6:
            return ActorClock(self, skew_ms=0, error_ms=0)
        error_ms = self.dice.choice((200, 1000))
        return ActorClock(self, skew_ms=self.dice.randint(-error_ms, error_ms), error_ms=error_ms)

    def note(self, actor: str, text: str) -> None:
        self.history.append(f"{self.now_ms / 1000:9.3f}  {actor:<12} {text}")

    # --- stepping ---------------------------------------------------------------------------------

    def drive(self, actor: str, plan: Coroutine[Any, Any, Any]) -> Steps:
        """Steps a plan, and the bodies that it calls, one request at a time."""
        stack: list[Coroutine[Any, Any, Any]] = [plan]
        value: Any = None
        error: BaseException | None = None
        try:
            while True:
                try:
                    step = stack[-1].throw(error) if error is not None else stack[-1].send(value)
                except StopIteration as stop:
                    del stack[-1]
                    value, error = stop.value, None
                    if not stack:
                        return value
                    continue
                except (Exception, Interrupted) as raised:
                    del stack[-1]
                    if not stack:
                        raise
                    value, error = None, raised
                    continue
                value, error = None, None
                if isinstance(step, Pause):
                    yield from self.wait(round(step.seconds * 1000))
                    continue
                if not isinstance(step, Call):
                    stack.append(_body_of(step))
                    continue
                try:
                    value = yield from self.send(actor, step)
                except StoreError as raised:
                    error = raised
        finally:
            for coroutine in reversed(stack):
                coroutine.close()

    def wait(self, milliseconds: int) -> Steps:
        """Others act until so much time has passed."""
        until_ms = self.now_ms + milliseconds
        while self.now_ms < until_ms:
            yield

    def send(self, actor: str, call: Call) -> Generator[None, None, Response]:
        """One request with its retries, as the drivers do it."""
        tries = Tries(call=call, dice=self.dice.random)
        while True:
            yield
            try:
                return self._attempt(actor, tries)
            except (ReadTimeoutError, EndpointConnectionError, ClientError) as lost:
                delay = tries.delay_after(lost, now=self.now_ms / 1000)
            yield from self.wait(round(delay * 1000))

    def _attempt(self, actor: str, tries: Tries) -> Response:
        weather, chance, call = self.weather, self.dice.random(), tries.call
        if chance < weather.throttled:
            self.note(actor, f"{call.operation}: throttled")
            raise ClientError({"Error": {"Code": "ThrottlingException", "Message": "slow down"}}, call.operation)
        chance -= weather.throttled
        if chance < weather.lost_request:
            self.note(actor, f"{call.operation}: the request was lost")
            raise ReadTimeoutError(endpoint_url="simulated")
        chance -= weather.lost_request
        if chance < weather.lost_reply:
            with contextlib.suppress(StoreError):
                self.execute(actor, call)
            self.note(actor, f"{call.operation}: the reply was lost")
            raise ReadTimeoutError(endpoint_url="simulated")
        chance -= weather.lost_reply
        ambiguous = tries.maybe_applied
        if chance < weather.twice:
            self.note(actor, f"{call.operation}: delivered twice")
            with contextlib.suppress(StoreError):
                self.execute(actor, call)
            ambiguous = True
        try:
            return self.execute(actor, call)
        except (ConditionFailedError, TransactionFailedError) as error:
            error.ambiguous = ambiguous
            raise

    def execute(self, actor: str, call: Call) -> Response:
        """Carry out one request, watched."""
        if call.operation in READS:
            return self.store.execute(call)
        keys = _keys(call)
        before = [self.peek(key) for key in keys]
        failed = False
        try:
            return self.store.execute(call)
        except StoreError:
            failed = True
            raise
        finally:
            if not failed:
                for key, old in zip(keys, before, strict=True):
                    new = self.peek(key)
                    for watcher in self.watchers:
                        watcher(actor, key, old, new)

    def peek(self, key: tuple[str, str]) -> dict[str, Any] | None:
        """An item as it is, without a request."""
        call = Call(
            operation="GetItem",
            params={"TableName": "simulated", "Key": {"pk": {"S": key[0]}, "sk": {"S": key[1]}}},
        )
        found: dict[str, Any] | None = self.store.execute(call).get("Item")
        return found

    def all_items(self) -> list[dict[str, Any]]:
        return self.store.items("simulated")


def _body_of(work: Any) -> Coroutine[Any, Any, Any]:
    """The coroutine of a job's body, to be stepped here instead of on an event loop."""
    coroutine: Coroutine[Any, Any, Any] = work._job.function(*work._args, **work._kwargs)
    return coroutine


def _keys(call: Call) -> list[tuple[str, str]]:
    params = call.params
    if "TransactItems" in params:
        bodies = [body for element in params["TransactItems"] for body in element.values()]
    elif "RequestItems" in params:
        bodies = [write for writes in params["RequestItems"].values() for one in writes for write in one.values()]
    else:
        bodies = [params]
    return [(_key(body)["pk"]["S"], _key(body)["sk"]["S"]) for body in bodies]


def _key(body: dict[str, Any]) -> dict[str, Any]:
    key: dict[str, Any] = body["Key"] if "Key" in body else body["Item"]
    return key
