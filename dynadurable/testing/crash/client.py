"""A client whose process dies, or whose replies get lost, at one chosen write."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError, ReadTimeoutError

DIED_BEFORE = "died before it"
DIED_AFTER = "died after it"
REPLY_LOST = "reply lost"
THROTTLED = "throttled"
LOSSES = (DIED_BEFORE, DIED_AFTER, REPLY_LOST, THROTTLED)

WRITES = {
    "put_item": "PutItem",
    "update_item": "UpdateItem",
    "delete_item": "DeleteItem",
    "batch_write_item": "BatchWriteItem",
    "transact_write_items": "TransactWriteItems",
}
KINDS = {
    "queue": "a mark",
    "run": "a run",
    "dead": "a dead letter",
    "lease": "a lease",
    "schedule": "a schedule",
    "schedules": "a schedule",
    "workers": "a worker's record",
}


class ProcessDied(BaseException):
    """The process is gone; whoever catches this is gone too."""


@dataclass(frozen=True, kw_only=True)
class Write:
    """A write that a scenario makes: its number, from 1, what it is, and what the worker was at."""

    number: int
    what: str
    at: str = ""
    """The body that was called last, such as ``step charge``."""

    def __str__(self) -> str:
        return f"write {self.number} ({self.what}{f', at {self.at}' if self.at else ''})"


class CrashingClient:
    """Passes everything on to a client, and does ``loss`` at the write of that number. Safe for threads."""

    def __init__(self, client: Any, *, at: int | None = None, loss: str | None = None) -> None:
        self._client = client
        self._at = at
        self._loss = loss
        self._lock = threading.Lock()
        self._dead = False
        self.writes: list[Write] = []
        self.doing: Callable[[], str] = str
        """Tells which body was called last."""

    def revive(self) -> None:
        """A new process: it makes all its writes."""
        self._dead = False

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._client, name)
        if not callable(found) or name.startswith("_"):
            return found

        def request(**params: Any) -> Any:
            if self._dead:
                raise ProcessDied
            if name in WRITES:
                return self._write(name, found, params)
            return found(**params)

        return request

    def _write(self, name: str, send: Any, params: Mapping[str, Any]) -> Any:
        with self._lock:
            what = f"{WRITES[name]} of {described(params)}"
            write = Write(number=len(self.writes) + 1, what=what, at=self.doing())
            self.writes.append(write)
        if write.number != self._at:
            return send(**params)
        if self._loss == THROTTLED:
            raise ClientError({"Error": {"Code": "ThrottlingException", "Message": "slow down"}}, WRITES[name])
        if self._loss == DIED_BEFORE:
            self._die()
        if self._loss == REPLY_LOST:
            _applied(send, params)
            raise ReadTimeoutError(endpoint_url="the test's store")
        _applied(send, params)
        self._die()
        raise AssertionError("unreachable")

    def _die(self) -> None:
        self._dead = True
        raise ProcessDied


def _applied(send: Any, params: Mapping[str, Any]) -> None:
    try:
        send(**params)
    except ClientError:
        return  # refused: the reply that says so is lost as well


def described(params: Mapping[str, Any]) -> str:
    """What kind of items a write is for, such as ``a mark and 2 items of yours``."""
    counted: dict[str, int] = {}
    for key in _partition_keys(params):
        head, marked, _ = key.partition("#")
        kind = next((KINDS[known] for known in KINDS if marked and head.endswith(known)), "an item of yours")
        counted[kind] = counted.get(kind, 0) + 1
    return " and ".join(kind if count == 1 else f"{count} x {kind}" for kind, count in counted.items())


def _partition_keys(params: Mapping[str, Any]) -> list[str]:
    if "TransactItems" in params:
        bodies = [body for element in params["TransactItems"] for body in element.values()]
    elif "RequestItems" in params:
        bodies = [body for writes in params["RequestItems"].values() for write in writes for body in write.values()]
    else:
        bodies = [params]
    keys = []
    for body in bodies:
        values = body.get("Key") or body.get("Item") or {}
        keys.append(next((value["S"] for value in values.values() if "#" in value.get("S", "")), ""))
    return keys
