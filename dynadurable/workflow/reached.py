"""An operation that the code has come to: what is recorded of it, or the plan that brings its outcome about."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from ..model.history import Line, Past
from ..model.record import Record
from ..storage.call import Plan, Work
from .halt import Abandoned, Parked
from .strand import Strand

if TYPE_CHECKING:
    from .branches import Branches

ENDED, STARTED = "ended", "started"
"""Which record of the operation is waited for: its outcome, or (of a child) that it was started."""


class Reached(Work):
    """Awaited inside the plan of an operation; gives the record that is waited for."""

    def __init__(
        self, stage: Stage, strand: Strand, past: Past, plan: Callable[[], Plan[Any]], *, until: str = ENDED
    ) -> None:
        self.stage = stage
        self.strand = strand
        self.past = past
        self.plan = plan
        self.until = until

    @property
    def record(self) -> Record | None:
        """The record, if it is there."""
        return self.past.end if self.until == ENDED else self.past.progress

    def perform(self) -> Record:
        self.strand.check()
        if self.record is None:
            self.strand.check_new()
            self.stage.go_live()
            if self.strand.execution.is_dry:
                self.strand.end(Abandoned("dry"))
            try:
                self.stage.run(self.plan())
            except Parked as parked:
                self.strand.end(parked)
        assert self.record is not None, f"the plan of {self.past.identity} ends with its record"
        return self.record

    async def perform_async(self) -> Record:
        return await self.stage.outcome(self)


class Stage(Protocol):
    """Where the strands of a workflow run: on threads, or on an event loop."""

    @property
    def is_live(self) -> bool:
        """Whether all that is recorded has been replayed."""
        ...

    def is_replaying(self, line: Line) -> bool:
        """Whether the code of that line has still to be given something that is recorded."""
        ...

    def go_live(self) -> None:
        """Wait until all that is recorded has been replayed."""

    def run(self, plan: Plan[Any]) -> Any:
        """Step a plan in this thread."""

    async def outcome(self, reached: Reached) -> Record:
        """The record that is waited for, when it is its turn."""
        ...

    def branches(self, work: Branches) -> Work:
        """What runs these branches here."""
        ...

    def context(self, core: Any) -> Any:
        """What the workflow's code is given."""
        ...
