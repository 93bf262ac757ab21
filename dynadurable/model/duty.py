"""A leader's duty: a function to be run while this process leads, and how it is started again."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from ..errors import ConfigurationError
from .instant import clamp_delay

FIRST_DELAY_SECONDS = 1.0
LONGEST_DELAY_SECONDS = 60.0
STEADY_SECONDS = 60.0
"""A duty that ran for so long before it failed begins anew with the shortest delay."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Duty:
    """One duty. Without ``every`` it is called once for each term; with it again and again, so far apart."""

    function: Callable[..., Any]
    name: str
    takes_term: bool
    every: timedelta | None = None


def define(function: Callable[..., Any], every: timedelta | None, *, is_async: bool) -> Duty:
    """Look at a function and make a duty of it.

    Raises:
        ConfigurationError: not a function of the right kind, or more parameters than the term.
    """
    if not callable(function):
        raise ConfigurationError(f"a duty must be a function, not {function!r}")
    name = getattr(function, "__qualname__", repr(function))
    if inspect.iscoroutinefunction(function) != is_async:
        kind, leader = ("an `async def`", "app.aio.leader") if is_async else ("a plain function", "app.leader")
        raise ConfigurationError(f"a duty of {leader} must be {kind}, {name} is not")
    parameters = inspect.signature(function).parameters.values()
    needed = [
        one for one in parameters if one.default is one.empty and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
    ]
    if len(needed) > 1:
        raise ConfigurationError(f"a duty takes its term or nothing, {name} wants {len(needed)} arguments")
    if every is not None and not clamp_delay(every, "every", error=ConfigurationError):
        raise ConfigurationError("every must be longer than nothing")
    return Duty(function=function, name=name, takes_term=bool(needed), every=every)


def delay_seconds(failures: int, *, lasted_seconds: float) -> tuple[int, float]:
    """The number of failures in a row that this one is, and the wait after it: 1, 2, 4, ... 60 s.

    >>> delay_seconds(2, lasted_seconds=5.0)
    (3, 4.0)
    """
    row = 1 if lasted_seconds >= STEADY_SECONDS else failures + 1
    return row, float(min(LONGEST_DELAY_SECONDS, FIRST_DELAY_SECONDS * 2 ** min(row - 1, 16)))
