"""Runs ``def`` workflows: in the attempt's own thread, with threads for branches."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from ..model.job import Job
from ..storage.call import Plan, Work
from .body import Left
from .context import WorkflowContext
from .core import Core
from .execution import Execution
from .place import Place
from .strand import Strand
from .threads import ThreadStage
from .turn import ThreadTurn


class ThreadKind:
    """See ``body.Kind``."""

    def turn(self) -> ThreadTurn:
        return ThreadTurn()

    def code(self, execution: Execution, job: Job[Any, Any], arguments: inspect.BoundArguments) -> Work:
        return _Code(execution, job, arguments)

    def plan(self, execution: Execution, make: Callable[[Any], Plan[Any]]) -> Work:
        return _Plan(execution, make)


def stage_of(execution: Execution) -> ThreadStage:
    """The stage on which this attempt's code runs."""
    return ThreadStage(execution, execution.engine.driver, WorkflowContext)


class _Code(Work):
    def __init__(self, execution: Execution, job: Job[Any, Any], arguments: inspect.BoundArguments) -> None:
        self._execution = execution
        self._job = job
        self._arguments = arguments

    def perform(self) -> Left:
        execution, function = self._execution, self._job.function
        strand = Strand(execution)
        core = Core(execution, stage_of(execution), strand, "", now_ms=execution.began_ms)
        try:
            value = function(WorkflowContext(core), *self._arguments.args, **self._arguments.kwargs)
            if execution.stop is None and strand.stop is None:
                core.end_of_code(end_of(function))
        except BaseException as error:  # noqa: BLE001 - the attempt decides
            left = Left(error=error)
        else:
            left = Left(value=value)
        execution.stop = execution.stop or strand.stop
        return left


class _Plan(Work):
    def __init__(self, execution: Execution, make: Callable[[Any], Plan[Any]]) -> None:
        self._execution = execution
        self._make = make

    def perform(self) -> Left:
        stage = stage_of(self._execution)
        try:
            return Left(value=stage.run(self._make(stage)))
        except BaseException as error:  # noqa: BLE001 - the attempt decides
            return Left(error=error)


def end_of(function: Callable[..., Any]) -> Place:
    """Where a function is defined: where its end is, only it knows."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return Place("", 0) if code is None else Place(code.co_filename, code.co_firstlineno)
