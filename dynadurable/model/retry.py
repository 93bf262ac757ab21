"""When a failed run is tried again, and for how long it waits before that."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import timedelta
from typing import Self

from ..errors import ConfigurationError, Fail, InputRefusedError, RequestRefusedError, WorkflowError
from .instant import clamp_delay, shown

DEFAULT_MAX_DELAY = timedelta(days=1)

PERMANENT = (Fail, InputRefusedError, WorkflowError, RequestRefusedError)
"""Errors that the same input meets again, whatever the policy says: they are never retried."""

_MICROSECOND = timedelta(microseconds=1)
_STEP_LIMIT = 1_000_000_000  # more back-off steps change nothing; keeps the product below a finite float
_GROUP_LIMIT = 10_000  # members of an exception group that are looked at


@dataclass(frozen=True, kw_only=True, slots=True)
class Retry:
    """How often a body is started, and how long a run waits after each failure.

    Validated when it is made, so that a bad policy stops the program at its start and not the first failing run.

    >>> Retry(max_attempts=8, delay=timedelta(seconds=2), give_up_on=(KeyError,)).retries(KeyError("id"))
    False

    Raises:
        ConfigurationError: a field that cannot be used; the message names it.
    """

    max_attempts: int = 5
    """Starts of the body that may end in failure or crash. Hand-back on shutdown and snooze use none."""
    delay: timedelta = timedelta(seconds=1)
    """The wait after the first failure. At most ``MAX_DELAY``, about 100 years, like ``max_delay``."""
    backoff: float = 2.0
    """Each further wait is so many times the one before; 1 keeps it as it is."""
    max_delay: timedelta | None = None
    """No wait is longer. By default one day, or ``delay`` where that is longer."""
    jitter: float = 0.1
    """The part of each wait that chance may take away, 0 to 1, so that what failed together is not retried together."""
    retry_on: tuple[type[Exception], ...] = (Exception,)
    """Other errors are final."""
    give_up_on: tuple[type[Exception], ...] = ()
    """These errors are final, although ``retry_on`` covers them."""

    def __post_init__(self) -> None:
        if isinstance(self.max_attempts, bool) or not isinstance(self.max_attempts, int) or self.max_attempts < 1:
            raise ConfigurationError(f"max_attempts must be a whole number from 1, not {shown(self.max_attempts)}")
        delay = clamp_delay(self.delay, "the retry delay", error=ConfigurationError)
        max_delay = max(delay, DEFAULT_MAX_DELAY)
        if self.max_delay is not None:
            max_delay = clamp_delay(self.max_delay, "max_delay", error=ConfigurationError)
            if max_delay < delay:
                raise ConfigurationError(f"max_delay ({max_delay}) is shorter than the first delay ({delay})")
        _set(self, "delay", delay)
        _set(self, "max_delay", max_delay)
        _set(self, "backoff", _number("backoff", self.backoff, least=1.0, most=math.inf))
        _set(self, "jitter", _number("jitter", self.jitter, least=0.0, most=1.0))
        _set(self, "retry_on", _classes("retry_on", self.retry_on))
        _set(self, "give_up_on", _classes("give_up_on", self.give_up_on))

    @classmethod
    def none(cls) -> Self:
        """The first failure is the last.

        >>> Retry.none().delay_after(ValueError(), 1, random=0.0) is None
        True
        """
        return cls(max_attempts=1, delay=timedelta())

    @classmethod
    def fixed(cls, delay: timedelta, *, max_attempts: int = 5, jitter: float = 0.0) -> Self:
        """The same wait after each failure.

        >>> Retry.fixed(timedelta(seconds=10), max_attempts=3).delay_before(2, random=0.5)
        datetime.timedelta(seconds=10)
        """
        return cls(max_attempts=max_attempts, delay=delay, backoff=1.0, jitter=jitter)

    def delay_after(self, error: BaseException, attempt: int, *, random: float) -> timedelta | None:
        """How long to wait after this failure, or ``None`` if the run has failed for good: then there is no wait."""
        if attempt >= self.max_attempts or not self.retries(error):
            return None
        return self.delay_before(attempt, random=random)

    def delay_before(self, attempt: int, *, random: float) -> timedelta:
        """The wait after ``attempt`` failed attempts: ``delay * backoff ** (attempt - 1)``, less jitter.

        Clamped to ``max_delay`` before the jitter, however large the attempt. ``random`` is in [0, 1).

        With a delay of 2 s, back-off 2, and jitter 0.1: after 3 failures 2 * 2 * 2 = 8 s, of which chance takes up to
        0.8 s; with random 0.5 it takes half of that:

        >>> Retry(delay=timedelta(seconds=2)).delay_before(3, random=0.5)
        datetime.timedelta(seconds=7, microseconds=600000)

        Raises:
            ValueError: ``attempt`` is below 1, or ``random`` is not in [0, 1).
        """
        if isinstance(attempt, bool) or attempt < 1:
            raise ValueError(f"attempt counts failed attempts and is at least 1, not {attempt!r}")
        if not 0.0 <= random < 1.0:
            raise ValueError(f"random must be in [0, 1), not {random!r}")
        whole = self._microseconds(attempt)
        return (whole - round(whole * self.jitter * random)) * _MICROSECOND

    def retries(self, error: BaseException) -> bool:
        """Whether this kind of error may be tried again.

        An exception group is judged by its members: each of them must be one that may be tried again. What is not an
        ``Exception`` (cancellation, Ctrl-C) is no failure of the run and never retried from here.
        """
        return all(self._retries_one(leaf) for leaf in self._leaves(error))

    def _retries_one(self, error: BaseException) -> bool:
        return isinstance(error, self.retry_on) and not isinstance(error, (*PERMANENT, *self.give_up_on))

    def _leaves(self, error: BaseException) -> list[BaseException]:
        """The errors to judge: the members of groups, and a group itself where the policy names its class."""
        named = tuple(c for c in (*self.retry_on, *self.give_up_on) if issubclass(c, BaseExceptionGroup))
        pending, leaves = [error], list[BaseException]()
        while pending and len(leaves) < _GROUP_LIMIT:
            one = pending.pop()
            if isinstance(one, BaseExceptionGroup) and not isinstance(one, named):
                pending.extend(one.exceptions)
            else:
                leaves.append(one)
        return leaves

    def _microseconds(self, attempt: int) -> int:
        """``delay * backoff ** (attempt - 1)``, at most ``max_delay``; logarithms tell what would overflow."""
        assert self.max_delay is not None
        first, most = self.delay // _MICROSECOND, self.max_delay // _MICROSECOND
        steps = min(attempt - 1, _STEP_LIMIT)
        if first == 0 or self.backoff == 1.0:
            return first
        if steps * math.log(self.backoff) > math.log(most / first):
            return most
        return min(round(first * self.backoff**steps), most)


def _set(policy: Retry, name: str, value: object) -> None:
    """A frozen record is settled once, here, while it is made."""
    object.__setattr__(policy, name, value)


def _number(name: str, value: float, *, least: float, most: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConfigurationError(f"{name} must be a number, not {shown(value)}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number) or not least <= number <= most:
        bounds = f"at least {least:g}" if math.isinf(most) else f"from {least:g} to {most:g}"
        raise ConfigurationError(f"{name} must be a finite number {bounds}, not {number!r}")
    return number


def _classes(name: str, value: object) -> tuple[type[Exception], ...]:
    """Exception classes as a tuple; one class alone is taken as a tuple of it."""
    given = value if isinstance(value, tuple | list | set | frozenset) else (value,)
    classes = []
    for one in given:
        if not isinstance(one, type) or not issubclass(one, Exception):
            raise ConfigurationError(
                f"{name} must hold exception classes below Exception, not {shown(one)}; "
                "cancellation and exits are never a failure of the run"
            )
        classes.append(one)
    return tuple(classes)
