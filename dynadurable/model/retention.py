"""How long something stays after it has ended."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import timedelta

from ..errors import ConfigurationError
from . import instant

NOTHING = timedelta()


@dataclass(frozen=True, kw_only=True, slots=True)
class Retention:
    """Of what a job's runs leave: results, dead letters, and what workflows have recorded. ``None``: not said.

    Raises:
        ConfigurationError: a time that is negative, or is no time.
    """

    keep_result: timedelta | None = None
    keep_failed: timedelta | None = None
    keep_history: timedelta | None = None

    def __post_init__(self) -> None:
        for name in ("keep_result", "keep_failed", "keep_history"):
            length = getattr(self, name)
            if length is not None:
                instant.clamp_delay(length, name, error=ConfigurationError)

    def over(self, default: Retention) -> Retention:
        """This where it says something, else the default. No result is kept where it says nothing is to be.

        >>> week = Retention(keep_result=timedelta(days=7))
        >>> Retention().over(week).keep_result
        datetime.timedelta(days=7)
        >>> Retention(keep_result=NOTHING).over(week).keep_result is None
        True
        """
        result = default.keep_result if self.keep_result is None else self.keep_result
        return Retention(
            keep_result=result or None,
            keep_failed=default.keep_failed if self.keep_failed is None else self.keep_failed,
            keep_history=default.keep_history if self.keep_history is None else self.keep_history,
        )


def to_seconds(length: timedelta | None) -> int | None:
    """Whole seconds, as DynamoDB counts expiry; a part of one counts as one.

    >>> to_seconds(timedelta(days=7)), to_seconds(timedelta(milliseconds=300)), to_seconds(None)
    (604800, 1, None)
    """
    return None if length is None else math.ceil(length.total_seconds())
