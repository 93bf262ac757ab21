"""How an attempt ends: decided here from what the body did, carried out in ``endings.py``."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from ..errors import InputRefusedError, Interrupted, Snooze
from ..model.failure import Failure
from ..model.instant import clamp_delay
from ..model.job import Job
from .held import CANCELLED, LOST


@dataclass(frozen=True, kw_only=True, slots=True)
class Succeed:
    """The body returned."""

    value: Any


@dataclass(frozen=True, kw_only=True, slots=True)
class TryAgain:
    """Another attempt after ``delay``."""

    error: BaseException
    delay: timedelta


@dataclass(frozen=True, kw_only=True, slots=True)
class Later:
    """Snoozed: again after ``delay``, no attempt used."""

    delay: timedelta


@dataclass(frozen=True, kw_only=True, slots=True)
class Bury:
    """No further attempt: a dead letter. ``failure``: what is known of an error that another process met."""

    error: BaseException
    failure: Failure | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Cancel:
    """The run was cancelled and its body has ended."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HandBack:
    """Somebody else goes on, now or after ``delay``. ``refund``: no attempt used. ``error`` is raised again then."""

    refund: bool
    error: BaseException | None = None
    delay: timedelta = timedelta()


@dataclass(frozen=True, kw_only=True, slots=True)
class LetGo:
    """The lease is lost: write nothing."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Settled:
    """The body has written the end of the attempt itself; ``event`` is what it was."""

    event: str


Verdict = Succeed | TryAgain | Later | Bury | Cancel | HandBack | LetGo | Settled


def on_return(value: Any, *, told: str | None) -> Verdict:
    """The body returned ``value``; ``told`` is what it had been told by then."""
    if told == LOST:
        return LetGo()
    if told == CANCELLED:
        return Cancel()
    return Succeed(value=value)


def on_error(error: BaseException, *, job: Job[Any, Any], attempt: int, told: str | None, dice: float) -> Verdict:
    """The body raised. ``attempt`` counts its starts, this one included."""
    if told == LOST:
        return LetGo()
    if told == CANCELLED:
        return Cancel()
    if isinstance(error, Interrupted):
        return HandBack(refund=told is not None)  # one that nobody asked to end may do so for ever
    if isinstance(error, Snooze):
        return _snoozed(error)
    if not isinstance(error, Exception):
        cancelled_task = type(error).__name__ == "CancelledError"
        return HandBack(refund=cancelled_task, error=error)  # else a body that always exits would never run out
    delay = job.retry.delay_after(error, attempt, random=dice)
    return Bury(error=error) if delay is None else TryAgain(error=error, delay=delay)


def _snoozed(error: Snooze) -> Verdict:
    try:
        return Later(delay=clamp_delay(error.delay, "the snooze delay"))
    except InputRefusedError as refused:
        return Bury(error=refused)
