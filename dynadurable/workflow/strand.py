"""One strand of control: the workflow itself, or one branch of it."""

from __future__ import annotations

from contextvars import ContextVar
from typing import NoReturn

from ..errors import NonDeterminismError, NotReplayableError, PayloadUnreadableError, WorkflowError
from ..model.history import Line, Past
from ..model.outcome import value_of
from ..model.record import Record
from .execution import REWINDING, Execution
from .halt import Abandoned, Rewound

INSIDE_A_STEP: ContextVar[Execution | None] = ContextVar("inside a step", default=None)
"""Of which attempt the code that runs is the body of a step."""


class Strand:
    """What a branch may still do. ``stop`` is raised again at each further operation, whatever its code has caught."""

    def __init__(self, execution: Execution, *, replay_only: bool = False) -> None:
        self.execution = execution
        self.stop: BaseException | None = None
        self.was_told = False
        """Whether ``stop`` has been raised into the code."""
        self._replay_only = replay_only

    def check(self) -> None:
        """Raises whatever forbids to go on."""
        if INSIDE_A_STEP.get() is self.execution:
            raise NotReplayableError("a workflow's ctx is for its own code: it cannot be used inside a step")
        if self.stop is not None:
            self.was_told = True
            raise self.stop
        self.execution.check()

    def check_new(self) -> None:
        """The same for an operation that has no outcome as yet."""
        self.check()
        if self._replay_only:
            self.end(Abandoned("abandoned"))
        if self.execution.mode == REWINDING:
            self.end(Rewound("rewound"))

    def end(self, stop: BaseException) -> NoReturn:
        """This strand ends here."""
        self.stop, self.was_told = stop, True
        raise stop

    def reach(self, line: Line, kind: str, name: str, where: object) -> Past:
        """The code has come to an operation; halts the attempt if another one is recorded here."""
        self.check()
        try:
            return line.reach(kind, name, where)
        except NonDeterminismError as error:
            self.execution.halt(error)

    def handed(self, line: Line, record: Record) -> object:
        """What the code is given of an outcome: its value, or its error."""
        line.deliver(record.at_ms)
        try:
            return value_of(record)
        except WorkflowError:
            raise
        except PayloadUnreadableError as error:
            self.execution.halt(error)
