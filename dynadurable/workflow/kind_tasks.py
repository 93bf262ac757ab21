"""Runs ``async def`` workflows: their code on a loop of its own, their steps on the worker's."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

from ..model.job import Job
from ..storage.call import Plan, Work
from .body import Left
from .context_aio import AsyncWorkflowContext
from .core import Core
from .execution import Execution
from .kind_threads import end_of
from .strand import Strand
from .tasks import TaskStage
from .turn import TaskTurn


class TaskKind:
    """See ``body.Kind``."""

    def turn(self) -> TaskTurn:
        return TaskTurn()

    def code(self, execution: Execution, job: Job[Any, Any], arguments: inspect.BoundArguments) -> Work:
        return _Code(execution, job, arguments)

    def plan(self, execution: Execution, make: Callable[[Any], Plan[Any]]) -> Work:
        return _Plan(execution, make)


async def stage_of(execution: Execution, *, undo: bool) -> TaskStage:
    """The stage on which this attempt's code runs."""
    driver = await execution.engine.loop_driver()
    return TaskStage(execution, driver, AsyncWorkflowContext, undo=undo)


class _Code(Work):
    def __init__(self, execution: Execution, job: Job[Any, Any], arguments: inspect.BoundArguments) -> None:
        self._execution = execution
        self._job = job
        self._arguments = arguments

    async def perform_async(self) -> Left:
        execution, function = self._execution, self._job.function
        stage, strand = await stage_of(execution, undo=False), Strand(execution)
        core = Core(execution, stage, strand, "", now_ms=execution.began_ms, is_ordered=False)

        async def code() -> Any:
            value = await function(AsyncWorkflowContext(core), *self._arguments.args, **self._arguments.kwargs)
            if execution.stop is None and strand.stop is None:
                stage.end_of_code(end_of(function))
            return value

        left = await _left_by(stage, code)
        execution.stop = execution.stop or strand.stop
        return left


class _Plan(Work):
    def __init__(self, execution: Execution, make: Callable[[Any], Plan[Any]]) -> None:
        self._execution = execution
        self._make = make

    async def perform_async(self) -> Left:
        stage = await stage_of(self._execution, undo=True)

        async def code() -> Any:
            return await stage.step_through(lambda: self._make(stage))

        return await _left_by(stage, code)


async def _left_by(stage: TaskStage, code: Callable[[], Any]) -> Left:
    try:
        return Left(value=await stage.play(code()))
    except asyncio.CancelledError:
        attempt = asyncio.current_task()
        if attempt is not None and attempt.cancelling() > 0:
            raise  # the attempt itself is cancelled: its worker ends
        return Left(error=stage.cancelled_inside())
    except BaseException as error:  # noqa: BLE001 - the attempt decides
        return Left(error=error)
