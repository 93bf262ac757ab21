"""A request to DynamoDB as a value, and the plans that await it.

A *plan* is an ``async def`` that awaits nothing but ``Call`` objects, so no event loop runs it: a driver steps it with
``send`` and ``throw``. The boto3 driver does so with plain calls, the aioboto3 driver with ``await``, a test call by
call. Plans put no call into ``finally``: a driver that stops half-way must be able to close them.
"""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from dataclasses import dataclass
from typing import Any, TypeVar

Response = dict[str, Any]
Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """One request: ``operation`` as DynamoDB spells it, ``params`` as boto3's low-level client takes them."""

    operation: str
    params: dict[str, Any]

    def __await__(self) -> Generator[Call, Response, Response]:
        return (yield self)


class Work:
    """What a worker's plan awaits besides calls: something to be done where the plan is stepped (a job's body).

    A thread performs it with ``perform``, an event loop with ``perform_async``.
    """

    def __await__(self) -> Generator[Work, Any, Any]:
        return (yield self)

    def perform(self) -> Any:
        """Do it in this thread."""
        raise TypeError(f"{type(self).__name__} cannot be performed in a thread")

    async def perform_async(self) -> Any:
        """Do it on this event loop."""
        raise TypeError(f"{type(self).__name__} cannot be performed on an event loop")


Plan = Coroutine[Call | Work, Any, Result]
