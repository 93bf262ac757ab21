"""What the contexts of ``def`` and of ``async def`` workflows have in common."""

from __future__ import annotations

import inspect
import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from random import Random
from typing import Any
from uuid import UUID

from ..errors import ConfigurationError
from ..model import codec
from ..model.completion import Completion
from ..model.context_parameter import takes_a_context
from ..model.derived import dice_of, uuid_of
from ..model.job import Job
from ..model.retry import Retry
from . import children
from .branches import BranchCall, branch_call
from .core import Core
from .steps import name_of

Named = Callable[..., Any] | tuple[str, Callable[..., Any]]


class WorkflowContextBase:
    """Who the run is, and what is derived for it without being recorded."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self.log: logging.LoggerAdapter[logging.Logger] = core.log
        """A logger whose records carry ``run_id``, and that is silent while the code is replayed."""

    @property
    def run_id(self) -> str:
        """The run's id: the same over all attempts."""
        return self._core.execution.held.run_id

    @property
    def job(self) -> str:
        """The workflow's name."""
        return str(self._core.execution.attempt.mark.job)

    @property
    def attempt(self) -> int:
        """Which start of the code this is since it last got on, from 1."""
        return self._core.execution.attempt.number

    @property
    def fence(self) -> int:
        """Grows with every claim of the run: write it beside your data and refuse smaller ones."""
        return int(self._core.execution.attempt.mark.fence)

    @property
    def slot(self) -> datetime | None:
        """The slot of the schedule that this run is for, aware, in UTC; ``None`` if it was enqueued otherwise."""
        return self._core.execution.held.slot

    @property
    def is_replaying(self) -> bool:
        """Whether the code is being replayed. For logging and metrics; nothing else should depend on it."""
        return self._core.is_replaying

    @property
    def stopping(self) -> threading.Event:
        """Set when the worker shuts down, the lease is lost or the run is cancelled."""
        return self._core.execution.held.stopping

    def now(self) -> datetime:
        """The time, aware, in UTC: that of the last thing which was recorded before this place.

        So it is the same on every replay, it moves on with each step and sleep, and it costs nothing.
        """
        return self._core.now()

    def random(self, name: str = "") -> float:
        """A number in [0, 1) that is the same on every replay. With a ``name`` it stays so whatever is added before."""
        return self.dice(f"random {name}").random()

    def dice(self, name: str = "") -> Random:
        """A generator of random numbers that gives the same ones on every replay."""
        return dice_of(*self._core.parts("dice", name))

    def uuid(self, name: str = "") -> UUID:
        """A version 4 UUID that is the same on every replay. With a ``name`` it stays so whatever is added before."""
        return uuid_of(*self._core.parts("uuid", name))

    def idempotency_key(self, *parts: object) -> str:
        """A key for outside APIs: the same for this run and these parts, in every attempt and process.

        A step needs none: its function is given the step's own key in a parameter called ``idempotency_key``.
        """
        execution = self._core.execution
        return codec.canonical_digest([execution.held.run_id, execution.journal_id, "key", *parts])


def payload_of(job: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Job[Any, Any], bytes]:
    """A child's job and its encoded arguments.

    Raises:
        ConfigurationError: not a job that a workflow can start.
        InputRefusedError: arguments that do not fit it or cannot be stored.
    """
    checked = children.checked(job)
    data = checked.to_payload(args, kwargs)
    codec.check_size(data, f"the arguments of {checked.name}", children.MAX_INPUT_BYTES)
    return checked, data


def branches_of(kind: type, functions: Sequence[Named], retry: Retry | None) -> list[BranchCall]:
    """The branches of ``parallel``: functions, or pairs of a name and a function. ``kind``: of the context."""
    named = [one if isinstance(one, tuple) else (name_of(one, None), one) for one in functions]
    return [branch_call(name, one, (), is_code=_is_code(one, kind), retry=retry) for name, one in named]


def items_of(
    kind: type, function: Callable[..., Any], items: Iterable[Any], name: str | None, retry: Retry | None
) -> tuple[str, list[BranchCall]]:
    """The name of a ``map``, and its branches: one for each item, in order."""
    if isinstance(items, (set, frozenset)):
        raise ConfigurationError(
            "the order of a set is another one in every process: give map a list, such as sorted(...)"
        )
    known, is_code = name_of(function, name), _is_code(function, kind)
    return known, [branch_call(known, function, (item,), is_code=is_code, retry=retry) for item in items]


def _is_code(function: Callable[..., Any], kind: type) -> bool:
    """Whether it has operations of its own: its first parameter is a context, by its annotation or called ``ctx``."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return False
    return takes_a_context(function, signature, (WorkflowContextBase, kind))


ALL = Completion.all()
