"""When a group of branches is complete: all of them, the first few successes, or up to some failures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from ..errors import ConfigurationError

ALL_COMPLETED = "all completed"
ENOUGH_SUCCEEDED = "enough succeeded"
TOO_MANY_FAILED = "too many failed"


@dataclass(frozen=True, kw_only=True, slots=True)
class Completion:
    """When ``ctx.map`` and ``ctx.parallel`` are complete, and whether that is a success.

    Once complete no further branch begins; bodies that run then are waited for. Without any limit a single failure
    completes it.

    >>> Completion.first(2).reason(total=5, succeeded=2, failed=1)
    'enough succeeded'

    Raises:
        ConfigurationError: a number that cannot be used.
    """

    min_successes: int | None = None
    """Complete, with success, once so many have succeeded. Failures alone then complete nothing."""
    tolerated_failures: int | None = None
    """Complete, without success, once more than these have failed."""
    tolerated_failure_percent: float | None = None
    """The same, in per cent of all branches."""

    def __post_init__(self) -> None:
        _check("min_successes", self.min_successes, least=1)
        _check("tolerated_failures", self.tolerated_failures, least=0)
        percent = self.tolerated_failure_percent
        if percent is not None and (isinstance(percent, bool) or not 0 <= percent <= 100):
            raise ConfigurationError(f"tolerated_failure_percent must be from 0 to 100, not {percent!r}")

    @classmethod
    def all(cls) -> Self:
        """Every branch must succeed; the first failure completes it."""
        return cls(tolerated_failures=0)

    @classmethod
    def first(cls, successes: int) -> Self:
        """The first so many successes complete it; the others may fail."""
        return cls(min_successes=successes)

    @classmethod
    def tolerate(cls, failures: int | None = None, *, percent: float | None = None) -> Self:
        """Up to so many failures, as a number or in per cent."""
        return cls(tolerated_failures=failures, tolerated_failure_percent=percent)

    @classmethod
    def settled(cls) -> Self:
        """Every branch runs to its end, and none of them may fail the group."""
        return cls(tolerated_failure_percent=100)

    def reason(self, *, total: int, succeeded: int, failed: int) -> str | None:
        """Why it is complete; ``None`` while it is not."""
        if self._is_over(total, failed):
            return TOO_MANY_FAILED
        if self.min_successes is not None and succeeded >= self.min_successes:
            return ENOUGH_SUCCEEDED
        return ALL_COMPLETED if succeeded + failed >= total else None

    def is_success(self, *, total: int, succeeded: int, failed: int) -> bool:
        """Whether what it came to is what was asked for."""
        enough = self.min_successes is None or succeeded >= self.min_successes
        return enough and not self._is_over(total, failed)

    def _is_over(self, total: int, failed: int) -> bool:
        if self.tolerated_failures is not None and failed > self.tolerated_failures:
            return True
        percent = self.tolerated_failure_percent
        if percent is not None and failed * 100 > percent * total:
            return True
        unlimited = self.tolerated_failures is None and percent is None
        return unlimited and self.min_successes is None and failed > 0


def _check(name: str, number: int | None, *, least: int) -> None:
    if number is not None and (isinstance(number, bool) or not isinstance(number, int) or number < least):
        raise ConfigurationError(f"{name} must be a whole number from {least}, not {number!r}")
