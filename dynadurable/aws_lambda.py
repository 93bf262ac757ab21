"""A Lambda function that drains: ``dynadurable.aws_lambda.handler``, for loads too small for a container.

Set ``DYNADURABLE_APP`` to ``module:app`` and start the function every few minutes. It runs what is due and ends before
its time is over, with what it has not finished handed back.
"""

from __future__ import annotations

import os
from datetime import timedelta
from functools import lru_cache
from typing import Any, Protocol

from .app import App
from .errors import ConfigurationError
from .locate import locate_app
from .storage.environment import APP

RESERVE = timedelta(seconds=3)
"""For handing back and ending, after the grace period."""
MAX_GRACE = timedelta(seconds=25)
GRACE_SHARE = 4
"""A quarter of the time that is left goes to the grace period, 25 s at most."""


class LambdaContext(Protocol):
    """What is used of the context that Lambda gives."""

    def get_remaining_time_in_millis(self) -> int:
        """How long the function may still run."""
        ...


def handler(event: Any, context: LambdaContext) -> dict[str, str | None]:  # noqa: ARG001 - Lambda passes an event
    """Run what is due. Says in ``next_due`` when something comes due next, as an ISO 8601 instant, or ``None``.

    Raises:
        ConfigurationError: ``DYNADURABLE_APP`` is not set or names no app, or the table cannot be used.
    """
    timeout, grace = time_to_work(timedelta(milliseconds=context.get_remaining_time_in_millis()))
    next_due = _app(os.environ.get(APP, "")).worker(grace=grace).drain(timeout=timeout)
    return {"next_due": next_due.isoformat() if next_due else None}


def time_to_work(remaining: timedelta) -> tuple[timedelta, timedelta]:
    """How long to claim work, and how long bodies may then go on, so that the function ends in time.

    >>> time_to_work(timedelta(seconds=300))
    (datetime.timedelta(seconds=272), datetime.timedelta(seconds=25))
    """
    usable = max(remaining - RESERVE, timedelta(0))
    grace = min(MAX_GRACE, usable / GRACE_SHARE)
    return usable - grace, grace


@lru_cache(maxsize=1)
def _app(name: str) -> App:
    """The app, imported once for as long as Lambda keeps the process."""
    if not name:
        raise ConfigurationError(f"set {APP} to the app that is to be worked for, as module:attribute")
    return locate_app(name)
