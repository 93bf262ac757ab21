"""Faults on a real client: what the network and the service do to requests, done on purpose.

No look-alike throttles, loses replies or leaves items of a batch behind. A ``FaultPlan`` hooks into a client of boto3
or aioboto3, below the SDK's own retries, so that these see each fault as they would see the real one:

    with FaultPlan(client) as faults:
        faults.on("UpdateItem", lost_reply(), nth=2)
        ...
    assert faults.operations == ["Query", "UpdateItem", "UpdateItem"]
"""

from __future__ import annotations

import asyncio
import copy
import inspect
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from botocore.exceptions import ConnectTimeoutError, EndpointConnectionError, ReadTimeoutError

HOLD_SECONDS = 60.0
_RECORD = "tests.faults.record"


# --- the faults -----------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """The service answers with an error and does nothing."""

    code: str
    message: str
    status: int = 400
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Break:
    """The connection breaks: before the request was sent, or after the server has done what it asked for."""

    error: Callable[[str], Exception]
    applied: bool


@dataclass(frozen=True, kw_only=True)
class Leftovers:
    """BatchWriteItem does not do those writes that ``select`` picks, and names them in its reply."""

    select: Callable[[dict[str, Any]], bool]


@dataclass(frozen=True, kw_only=True)
class Pause:
    """The request waits before it is sent, or the reply before it is delivered."""

    seconds: float
    applied: bool


class Hold:
    """The request (or with ``applied`` its reply) waits until the test lets it go on. Ends in an error after a minute.

    >>> hold = Hold()
    >>> hold.release()
    """

    def __init__(self, *, applied: bool = False) -> None:
        self.applied = applied
        self._reached = threading.Event()
        self._released = threading.Event()

    def wait_until_reached(self) -> None:
        assert self._reached.wait(HOLD_SECONDS), "no request came to the hold"

    def release(self) -> None:
        self._released.set()

    def pass_through(self) -> None:
        self._reached.set()
        assert self._released.wait(HOLD_SECONDS), "nobody released the hold"


Fault = Refusal | Break | Leftovers | Pause | Hold


def throttled() -> Fault:
    """More than the table or partition takes; the SDK tries it again."""
    message = "The level of configured provisioned throughput for the table was exceeded"
    return Refusal(code="ProvisionedThroughputExceededException", message=message)


def throttled_account() -> Fault:
    """More than the account takes, as on-demand tables say it; the SDK tries it again."""
    return Refusal(code="ThrottlingException", message="Throughput exceeds the current capacity of your table or index")


def internal_error(status: int = 500) -> Fault:
    """The service failed and says that it did nothing; the SDK tries it again."""
    return Refusal(code="InternalServerError", message="Internal server error", status=status)


def refused(code: str, message: str = "refused by the fault plan", *, status: int = 400, **details: Any) -> Fault:
    """Any other error, such as ``refused("AccessDeniedException")``."""
    return Refusal(code=code, message=message, status=status, details=details)


def cancelled(*codes: str, items: dict[int, dict[str, Any]] | None = None) -> Fault:
    """A transaction is cancelled; one code per action: ``cancelled("None", "TransactionConflict")``.

    ``items`` are what ``ALL_OLD`` brings, by the action's place.
    """
    reasons: list[dict[str, Any]] = []
    for place, code in enumerate(codes):
        reason = {"Code": code} if code == "None" else {"Code": code, "Message": f"{code} by the fault plan"}
        reasons.append(reason | ({"Item": items[place]} if items and place in items else {}))
    message = f"Transaction cancelled, please refer cancellation reasons for specific reasons [{', '.join(codes)}]"
    return Refusal(code="TransactionCanceledException", message=message, details={"CancellationReasons": reasons})


def unreachable() -> Fault:
    """Nothing was sent: no connection."""
    return Break(error=lambda url: EndpointConnectionError(endpoint_url=url), applied=False)


def connect_timeout() -> Fault:
    """Nothing was sent: the connection did not come about in time."""
    return Break(error=lambda url: ConnectTimeoutError(endpoint_url=url), applied=False)


def lost_request() -> Fault:
    """Sent, but never arrived; to the client the same as a lost reply."""
    return Break(error=lambda url: ReadTimeoutError(endpoint_url=url), applied=False)


def lost_reply() -> Fault:
    """The server did it, and the reply never arrived."""
    return Break(error=lambda url: ReadTimeoutError(endpoint_url=url), applied=True)


def leftovers(select: Callable[[dict[str, Any]], bool] = lambda write: True) -> Fault:
    """A batch write leaves writes undone; ``select`` sees ``{"PutRequest": ...}`` or ``{"DeleteRequest": ...}``."""
    return Leftovers(select=select)


def delayed(seconds: float, *, applied: bool = False) -> Fault:
    """Slow: on the way there, or with ``applied`` on the way back."""
    return Pause(seconds=seconds, applied=applied)


# --- the plan -------------------------------------------------------------------------------------


@dataclass(kw_only=True)
class Recorded:
    """One call of the client: what was asked, how often it was sent, which faults it met, what came back."""

    operation: str
    params: dict[str, Any]
    attempts: int = 0
    arrived: int = 0
    faults: list[Fault] = field(default_factory=list)
    reply: dict[str, Any] | None = None
    _due: list[tuple[Fault, int | None]] = field(default_factory=list)
    _left: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def next_attempt(self) -> list[Fault]:
        self.attempts += 1
        now = [fault for fault, attempts in self._due if attempts is None or self.attempts <= attempts]
        self.faults.extend(now)
        return now


@dataclass(kw_only=True)
class Rule:
    """Which calls meet a fault. ``attempts`` is how many of a call's tries it hits, ``None`` all of them."""

    operation: str | None
    fault: Fault
    nth: frozenset[int] | None
    when: Callable[[Recorded], bool] | None
    probability: float
    attempts: int | None
    times: int | None
    hits: int = 0

    def meets(self, call: Recorded, count: int, dice: random.Random) -> bool:
        if self.operation is not None and self.operation != call.operation:
            return False
        if self.times is not None and self.hits >= self.times:
            return False
        if self.nth is not None and count not in self.nth:
            return False
        if self.when is not None and not self.when(call):
            return False
        if self.probability < 1.0 and dice.random() >= self.probability:
            return False
        self.hits += 1
        return True


class FaultPlan:
    """Records every call of the clients it is attached to, and makes some of them fail.

    Calls are counted from 1, per operation for rules that name one, over all operations for the others. The same seed
    draws the same faults for the same sequence of calls.
    """

    def __init__(self, *clients: Any, seed: int = 0) -> None:
        self.calls: list[Recorded] = []
        self._rules: list[Rule] = []
        self._counts: Counter[str | None] = Counter()
        self._dice = random.Random(seed)
        self._lock = threading.Lock()
        self._clients: list[Any] = []
        for client in clients:
            self.attach(client)

    def on(
        self,
        operation: str | None,
        fault: Fault,
        *,
        nth: int | Iterable[int] | None = None,
        when: Callable[[Recorded], bool] | None = None,
        probability: float = 1.0,
        attempts: int | None = 1,
        times: int | None = None,
    ) -> Rule:
        """Let calls of ``operation`` (``None``: of any) meet a fault.

        Without further conditions every call meets it; ``nth`` names calls by number, ``when`` looks at the call,
        ``probability`` throws dice, ``times`` ends the rule after so many hits. Of a call that meets it the first
        attempt does; with ``attempts=None`` the SDK's retries do too.
        """
        numbers = None if nth is None else frozenset([nth] if isinstance(nth, int) else nth)
        rule = Rule(
            operation=operation,
            fault=fault,
            nth=numbers,
            when=when,
            probability=probability,
            attempts=attempts,
            times=times,
        )
        with self._lock:
            self._rules.append(rule)
        return rule

    def clear(self) -> None:
        """Forget the rules; go on recording."""
        with self._lock:
            self._rules.clear()

    @property
    def operations(self) -> list[str]:
        """The names of the calls in the order in which they began."""
        return [call.operation for call in self.calls]

    def of(self, operation: str) -> list[Recorded]:
        """The calls of one operation."""
        return [call for call in self.calls if call.operation == operation]

    def _begin(self, operation: str, params: dict[str, Any]) -> Recorded:
        call = Recorded(operation=operation, params=copy.deepcopy(params))
        with self._lock:
            self._counts.update((operation, None))
            self.calls.append(call)
            for rule in self._rules:
                if rule.meets(call, self._counts[rule.operation], self._dice):
                    call._due.append((rule.fault, rule.attempts))
        return call

    # --- hooks ------------------------------------------------------------------------------------

    def attach(self, client: Any) -> None:
        """Watch a low-level client of boto3, or of aioboto3."""
        events = client.meta.events
        for name, handler in self._handlers():
            events.register_first(name, handler, unique_id=f"faults-{id(self)}-{name}")
        endpoint = client._endpoint
        original = endpoint._do_get_response
        wrap = self._async_attempt if inspect.iscoroutinefunction(original) else self._sync_attempt
        endpoint._do_get_response = wrap(original)
        self._clients.append(client)

    def detach(self) -> None:
        """Let the clients be themselves again."""
        for client in self._clients:
            for name, handler in self._handlers():
                client.meta.events.unregister(name, handler, unique_id=f"faults-{id(self)}-{name}")
            del client._endpoint._do_get_response
        self._clients.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.detach()

    def _handlers(self) -> list[tuple[str, Callable[..., Any]]]:
        return [
            ("provide-client-params.dynamodb.*", self._on_params),
            ("before-call.dynamodb.*", self._on_call),
            ("after-call.dynamodb.*", self._on_reply),
        ]

    def _on_params(self, params: dict[str, Any], model: Any, context: dict[str, Any], **_: Any) -> Any:
        call = context[_RECORD] = self._begin(model.name, params)
        for fault, _attempts in call._due:
            if isinstance(fault, Leftovers):
                call.faults.append(fault)
                return _without_leftovers(call, fault)
        return None

    def _on_call(self, context: dict[str, Any], **_: Any) -> Any:
        call: Recorded = context[_RECORD]
        if call._left:
            asked = sum(map(len, call.params["RequestItems"].values()))
            if asked == sum(map(len, call._left.values())):  # nothing remains that could be sent
                return _Answer(200), {"ResponseMetadata": {"HTTPStatusCode": 200, "HTTPHeaders": {}}}
        return None

    def _on_reply(self, parsed: dict[str, Any], context: dict[str, Any], **_: Any) -> None:
        call: Recorded = context[_RECORD]
        if call._left and "Error" not in parsed:
            unprocessed = parsed.setdefault("UnprocessedItems", {})
            for table, writes in call._left.items():
                unprocessed[table] = [*unprocessed.get(table, []), *writes]
        call.reply = parsed

    # --- one attempt ------------------------------------------------------------------------------

    def _sync_attempt(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def attempt(request: Any, operation_model: Any, context: dict[str, Any]) -> Any:
            call: Recorded = context[_RECORD]
            faults = call.next_attempt()
            for wait in _waits(faults, applied=False):
                wait()
            early = _instead_of_sending(faults, request, _Answer)
            if early is not None:
                return early
            call.arrived += 1
            result = original(request, operation_model, context)
            for wait in _waits(faults, applied=True):
                wait()
            return _instead_of_delivering(faults, request) or result

        return attempt

    def _async_attempt(self, original: Callable[..., Any]) -> Callable[..., Any]:
        async def attempt(request: Any, operation_model: Any, context: dict[str, Any]) -> Any:
            call: Recorded = context[_RECORD]
            faults = call.next_attempt()
            for wait in _waits(faults, applied=False):
                await asyncio.to_thread(wait)
            early = _instead_of_sending(faults, request, _AsyncAnswer)
            if early is not None:
                return early
            call.arrived += 1
            result = await original(request, operation_model, context)
            for wait in _waits(faults, applied=True):
                await asyncio.to_thread(wait)
            return _instead_of_delivering(faults, request) or result

        return attempt


class _Answer:
    """As much of an HTTP response as botocore looks at once it has been parsed."""

    def __init__(self, status_code: int) -> None:
        self.status_code = status_code
        self.headers: dict[str, str] = {}

    @property
    def content(self) -> Any:
        return b"{}"


class _AsyncAnswer(_Answer):
    @property
    def content(self) -> Any:
        async def body() -> bytes:
            return b"{}"

        return body()


def _waits(faults: list[Fault], *, applied: bool) -> list[Callable[[], None]]:
    waits: list[Callable[[], None]] = []
    for fault in faults:
        if isinstance(fault, Hold) and fault.applied == applied:
            waits.append(fault.pass_through)
        elif isinstance(fault, Pause) and fault.applied == applied:
            seconds = fault.seconds
            waits.append(lambda seconds=seconds: time.sleep(seconds))  # type: ignore[misc]
    return waits


def _instead_of_sending(faults: list[Fault], request: Any, answer: type[_Answer]) -> Any:
    for fault in faults:
        if isinstance(fault, Break) and not fault.applied:
            return None, fault.error(request.url)
        if isinstance(fault, Refusal):
            parsed = {
                "Error": {"Code": fault.code, "Message": fault.message},
                "ResponseMetadata": {"HTTPStatusCode": fault.status, "HTTPHeaders": {}, "RequestId": "FAULT"},
                **fault.details,
            }
            return (answer(fault.status), parsed), None
    return None


def _instead_of_delivering(faults: list[Fault], request: Any) -> Any:
    for fault in faults:
        if isinstance(fault, Break) and fault.applied:
            return None, fault.error(request.url)
    return None


def _without_leftovers(call: Recorded, fault: Leftovers) -> dict[str, Any]:
    kept: dict[str, list[dict[str, Any]]] = {}
    for table, writes in call.params["RequestItems"].items():
        chosen = [fault.select(write) for write in writes]
        left = [write for write, leave in zip(writes, chosen, strict=True) if leave]
        stay = [write for write, leave in zip(writes, chosen, strict=True) if not leave]
        if left:
            call._left[table] = copy.deepcopy(left)
        if stay:
            kept[table] = stay
    return {**call.params, "RequestItems": kept or call.params["RequestItems"]}
