"""A world in which everything is decided by one seed: a store in memory, clocks, and requests that go wrong.

Plans are stepped request by request. Between any two requests of one actor the others may act, time may pass, and the
actor's process may be gone. A request may be lost, be carried out although its reply is lost, be carried out twice, or
long after its sender has given it up; the store may be slow, busy, or refuse a transaction that met another one.
"""

from __future__ import annotations

import contextlib
import inspect
import random
from collections.abc import Callable, Coroutine, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from botocore.exceptions import ClientError, ReadTimeoutError

from dynadurable.clock import UniqueIds
from dynadurable.drivers.retries import Tries
from dynadurable.errors import ConditionFailedError, StoreError, TransactionFailedError
from dynadurable.storage.call import Call, Pause, Response
from dynadurable.storage.items import Items, bind
from dynadurable.storage.schema import TableSchema
from dynadurable.storage.table import create_request
from dynadurable.testing.memory import MemoryStore
from dynadurable.worker.body import Body
from dynadurable.workflow.steps import StepBody

Choice = TypeVar("Choice")
START_MS = 1_800_014_400_000
SLOW_MS = (200, 3_000, 9_000, 25_000)
LATE_MS = (500, 4_000, 12_000, 40_000)
LOUD = frozenset({"lost_reply", "twice", "late"})
"""Faults that mean nothing to a read."""
READS = frozenset({"GetItem", "BatchGetItem", "Query", "Scan", "DescribeTable", "DescribeTimeToLive"})
Steps = Generator[int | None, None, Any]
"""An actor at work: each ``next`` lets it send one request. It yields the instant until which it waits, if it does."""


class CheckFailedError(AssertionError):
    """A promise was broken."""

    history: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Weather:
    """How often things go wrong, each as a probability per request."""

    lost_request: float = 0.0
    lost_reply: float = 0.0
    twice: float = 0.0
    late: float = 0.0
    """Carried out long after its sender was told nothing."""
    slow: float = 0.0
    throttled: float = 0.0
    conflict: float = 0.0
    """Of a transaction: it met another one, and was cancelled."""
    kill: float = 0.0
    frozen: float = 0.0
    jump: float = 0.0
    """That much time passes at once."""
    hurry: int = 10
    """By how much time passes more slowly between two requests than in rough weather."""
    clock: float = 0.0
    """That some process's clock is set, within what it says of itself."""


CALM = Weather()


class ServerClock:
    """The store's own time."""

    def __init__(self, world: World) -> None:
        self._world = world

    def now_ms(self) -> int:
        return START_MS + self._world.now_ms


class ActorClock:
    """A process's clock. It may be off; its bounds are honest about an error of up to ``error_ms``.

    Unless it lies: then it is off by up to ``lie_ms`` and does not know.
    """

    def __init__(self, world: World, *, error_ms: int, lie_ms: int = 0) -> None:
        self._world, self._error_ms, self._lie_ms = world, error_ms, lie_ms
        self._skew_ms = 0
        self.set()

    def set(self) -> None:
        """It jumps."""
        off_ms = self._error_ms + self._lie_ms
        self._skew_ms = self._world.dice.randint(-off_ms, off_ms) if off_ms else 0

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
    lie_ms: int = 0
    """By how much clocks may be off without knowing."""
    history: list[str] = field(default_factory=list)
    now_ms: int = 0
    sent: int = 0
    """Requests so far."""

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)
        self.store = MemoryStore(ServerClock(self))
        self.items: Items = bind(TableSchema(table="simulated"))
        self.store.execute(create_request(self.items))
        self.watchers: list[Any] = []
        self.clocks: list[ActorClock] = []
        self.on_the_way: list[tuple[int, str, Call]] = []
        """Requests whose senders have given them up, and that arrive all the same, with the time at which they do."""
        self.starts_with_nothing = False
        """Whether the first page of a queue is empty, with more behind it, as DynamoDB allows."""
        self.broken: CheckFailedError | None = None
        """The first promise that was broken. What runs in a world may catch the error itself, as a body's failure."""

    def clock(self) -> ActorClock:
        """A clock for a process: often right, sometimes off."""
        error_ms = 0 if self.dice.random() < 0.6 else self.dice.choice((200, 1000))
        clock = ActorClock(self, error_ms=error_ms, lie_ms=self.lie_ms if self.dice.random() < 0.5 else 0)
        self.clocks.append(clock)
        return clock

    def note(self, actor: str, text: str) -> None:
        self.history.append(f"{self.now_ms / 1000:9.3f}  {actor:<12} {text}")

    def one_of(self, choices: Sequence[Choice]) -> Choice:
        """As ``dice.choice``, and quicker."""
        return choices[int(self.dice.random() * len(choices))]

    def check(self) -> None:
        """Raises what was found, whoever has caught it."""
        if self.broken is not None:
            raise self.broken

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
                except GeneratorExit:
                    raise
                except BaseException as raised:
                    self.check()
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
                    stack.append(coroutine_of(step))
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
            yield until_ms

    def to_the_end(self, steps: Steps) -> None:
        """One actor alone, without anybody in between."""
        for until_ms in steps:
            self.now_ms = max(self.now_ms, until_ms or 0)

    def send(self, actor: str, call: Call) -> Generator[int | None, None, Response]:
        """One request with its retries, as the drivers do it."""
        tries = Tries(call=call, dice=self.dice.random)
        while True:
            yield None
            if self.weather.slow and self.dice.random() < self.weather.slow:
                yield from self.wait(self.one_of(SLOW_MS))
            try:
                return self._attempt(actor, tries)
            except (ReadTimeoutError, ClientError) as lost:
                delay = tries.delay_after(lost, now=self.now_ms / 1000)
            yield from self.wait(round(delay * 1000))

    def _attempt(self, actor: str, tries: Tries) -> Response:
        call, ambiguous = tries.call, tries.maybe_applied
        match self._fault(call):
            case "throttled":
                self.note(actor, f"{call.operation}: throttled")
                raise ClientError({"Error": {"Code": "ThrottlingException", "Message": "slow down"}}, call.operation)
            case "conflict":
                self.note(actor, f"{call.operation}: met another transaction")
                raise _conflict(call)
            case "lost_request":
                self.note(actor, f"{call.operation}: the request was lost")
                raise ReadTimeoutError(endpoint_url="simulated")
            case "late":
                self.on_the_way.append((self.now_ms + self.one_of(LATE_MS), actor, call))
                raise ReadTimeoutError(endpoint_url="simulated")
            case "lost_reply":
                with contextlib.suppress(StoreError):
                    self.execute(actor, call)
                self.note(actor, f"{call.operation}: the reply was lost")
                raise ReadTimeoutError(endpoint_url="simulated")
            case "twice":
                self.note(actor, f"{call.operation}: delivered twice")
                with contextlib.suppress(StoreError):
                    self.execute(actor, call)
                ambiguous = True
        try:
            return self.execute(actor, call)
        except (ConditionFailedError, TransactionFailedError) as error:
            error.ambiguous = ambiguous
            raise

    def _fault(self, call: Call) -> str | None:
        """What goes wrong with this request, if anything does."""
        weather, chance = self.weather, self.dice.random()
        if weather is CALM:
            return None
        for name in ("throttled", "lost_request", "lost_reply", "twice", "late", "conflict"):
            chance -= getattr(weather, name)
            if chance < 0:
                transacts = call.operation == "TransactWriteItems"
                if (name == "conflict" and not transacts) or (name in LOUD and call.operation in READS):
                    return None
                return name
        return None

    def deliver(self, *, all_of_it: bool = False) -> None:
        """Requests that were given up arrive."""
        for entry in [one for one in self.on_the_way if all_of_it or one[0] <= self.now_ms]:
            self.on_the_way.remove(entry)
            _, actor, call = entry
            self.note(actor, f"{call.operation}: arrives late")
            with contextlib.suppress(StoreError):
                self.execute(actor, call)

    def execute(self, actor: str, call: Call) -> Response:
        """Carry out one request, watched."""
        self.sent += 1
        if call.operation in READS:
            return self._nothing_yet(call) or self.store.execute(call)
        keys = _keys(call)
        before = [self.peek(key) for key in keys]
        reply = self.store.execute(call)
        for key, old in zip(keys, before, strict=True):
            new = self.peek(key)
            for watcher in self.watchers:
                watcher(actor, key, old, new)
        return reply

    def _nothing_yet(self, call: Call) -> Response | None:
        """An empty first page of a queue, in worlds that begin with one."""
        if not self.starts_with_nothing or call.operation != "Query" or "ExclusiveStartKey" in call.params:
            return None
        asked = [value.get("S", "") for value in call.params["ExpressionAttributeValues"].values()]
        queue = next((text for text in asked if text.startswith("queue#")), None)
        if queue is None:
            return None
        return {"Items": [], "Count": 0, "LastEvaluatedKey": {"pk": {"S": queue}, "sk": {"S": "!"}}}

    def peek(self, key: tuple[str, str]) -> dict[str, Any] | None:
        """An item as it is, without a request."""
        return self.store.peek("simulated", key)

    def all_items(self) -> list[dict[str, Any]]:
        return self.store.items("simulated")


def coroutine_of(work: Any) -> Coroutine[Any, Any, Any]:
    """What is to be done here, instead of in a thread or on an event loop."""
    if isinstance(work, Body):
        coroutine: Coroutine[Any, Any, Any] = work._job.function(*work._args, **work._kwargs)
        return coroutine
    if isinstance(work, StepBody):
        return _awaited(work._call)
    return cast("Coroutine[Any, Any, Any]", work.perform_async())


async def _awaited(call: Callable[[], Any]) -> Any:
    value = call()
    return await value if inspect.isawaitable(value) else value


def _conflict(call: Call) -> ClientError:
    reasons: Any = [{"Code": "TransactionConflict"}, *({"Code": "None"} for _ in call.params["TransactItems"][1:])]
    code = "TransactionCanceledException"
    return ClientError({"Error": {"Code": code, "Message": code}, "CancellationReasons": reasons}, call.operation)


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
