"""Compensation: what is done, in reverse order, once a workflow has failed for good or was cancelled."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import WorkflowError
from ..model.record import UNDO
from . import steps
from .place import NOWHERE
from .reached import Reached
from .steps import StepCall

if TYPE_CHECKING:
    from .core import Core


@dataclass(frozen=True, kw_only=True, slots=True)
class Undo:
    """A compensation, and when it was registered: the same on every replay."""

    place: tuple[int, str, int]
    call: StepCall


async def compensate(core: Core, undos: Sequence[Undo]) -> list[WorkflowError]:
    """Run all of them, the latest first, each a recorded step; gives the errors of those that failed for good."""
    errors: list[WorkflowError] = []
    execution = core.execution
    for undo in sorted(undos, key=lambda one: one.place, reverse=True):
        call = undo.call
        past = core.strand.reach(core.line, UNDO, call.name, NOWHERE)
        key = core.operation_key(past)
        plan = functools.partial(steps.step, execution, past, call, key)
        record = await Reached(core.stage, core.strand, past, plan)
        try:
            core.strand.handed(core.line, record)
        except WorkflowError as error:
            errors.append(error)  # the others are still to be undone
    return errors
