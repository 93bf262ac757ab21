"""A request to DynamoDB as a value, and the plans that await it.

A *plan* is an ``async def`` that awaits nothing but ``Call`` objects, so no event loop runs it: a driver steps it with
``send`` and ``throw``. The boto3 driver does so with plain calls, the aioboto3 driver with ``await``, a test call by
call. Plans put no call into ``finally``: a driver that stops half-way must be able to close them.
"""

from __future__ import annotations

from collections.abc import Coroutine, Generator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from ..clock import Clock

Response = dict[str, Any]
Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """One request: ``operation`` as DynamoDB spells it, ``params`` as boto3's low-level client takes them.

    A request that is not ``repeatable`` is not sent again by itself once it may have been applied.
    """

    operation: str
    params: dict[str, Any]
    repeatable: bool = True

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


class Pause(Work):
    """Wait inside a plan, where it is stepped."""

    def __init__(self, seconds: float, clock: Clock) -> None:
        self.seconds = seconds
        self._clock = clock

    def perform(self) -> None:
        self._clock.sleep(self.seconds)

    async def perform_async(self) -> None:
        await self._clock.sleep_async(self.seconds)


class Several(Work):
    """Plans side by side, at most ``limit`` at once. Gives in order what each returned, or the ``Exception`` it raised.

    The drivers know how: threads for boto3, tasks on an event loop.
    """

    def __init__(self, plans: Sequence[Plan[Any]], *, limit: int) -> None:
        self.plans = plans
        self.limit = limit

    def close(self) -> None:
        """Let go of the plans that were not begun."""
        for plan in self.plans:
            plan.close()
