"""Who steps a plan: a driver in this thread, or one on an event loop."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol, TypeVar

from ..storage.call import Plan

Result = TypeVar("Result")


class Stepper(Protocol):
    """Steps a plan to its end, in this thread."""

    def __call__(self, plan: Plan[Result], /) -> Result: ...


class AioStepper(Protocol):
    """The same on an event loop."""

    def __call__(self, plan: Plan[Result], /) -> Awaitable[Result]: ...
