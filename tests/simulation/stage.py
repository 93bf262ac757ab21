"""Runs workflows in a world: their code is stepped like everything else, one request at a time."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from typing import Any

from dynadurable.model.history import Line
from dynadurable.model.job import Job
from dynadurable.model.record import Record
from dynadurable.storage.call import Plan, Work
from dynadurable.workflow.body import Left
from dynadurable.workflow.branches import Branches
from dynadurable.workflow.core import Core
from dynadurable.workflow.execution import Execution
from dynadurable.workflow.halt import Parked
from dynadurable.workflow.kind_threads import end_of
from dynadurable.workflow.reached import Reached
from dynadurable.workflow.strand import Strand


class OnlyTurn(Work):
    """There are no branches here, so it is always one's turn."""

    async def perform_async(self) -> None:
        return

    def release(self) -> None:
        return


class WorldStage:
    """The stage of code that has no branches."""

    def __init__(self) -> None:
        self.is_live = False

    def is_replaying(self, line: Line) -> bool:
        return line.is_replaying

    def go_live(self) -> None:
        self.is_live = True

    def run(self, plan: Plan[Any]) -> Any:
        raise AssertionError(f"{plan!r} is stepped by the world")

    async def outcome(self, reached: Reached) -> Record:
        """The record, by replay or by carrying out the operation's plan."""
        reached.strand.check()
        if reached.record is None:
            reached.strand.check_new()
            self.go_live()
            try:
                await reached.plan()
            except Parked as parked:
                reached.strand.end(parked)
        assert reached.record is not None
        return reached.record

    def branches(self, work: Branches) -> Work:
        raise AssertionError("the simulated workflows have no branches")

    def context(self, core: Core) -> Any:
        return core


class WorldKind:
    """See ``workflow.body.Kind``."""

    def turn(self) -> OnlyTurn:
        return OnlyTurn()

    def code(self, execution: Execution, job: Job[Any, Any], arguments: inspect.BoundArguments) -> Work:
        return _Code(execution, job, arguments)

    def plan(self, execution: Execution, make: Callable[[Any], Plan[Any]]) -> Work:
        return _Left(make(WorldStage()))


class _Left(Work):
    """Awaited, gives how a coroutine was left."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        self._coroutine = coroutine

    async def perform_async(self) -> Left:
        try:
            return Left(value=await self._coroutine)
        except GeneratorExit:
            raise
        except BaseException as error:  # noqa: BLE001 - the attempt decides
            return Left(error=error)


class _Code(Work):
    def __init__(self, execution: Execution, job: Job[Any, Any], arguments: inspect.BoundArguments) -> None:
        self._execution, self._job, self._arguments = execution, job, arguments

    async def perform_async(self) -> Left:
        execution, function = self._execution, self._job.function
        strand = Strand(execution)
        core = Core(execution, WorldStage(), strand, "", now_ms=execution.began_ms)

        async def code() -> Any:
            value = await function(core, *self._arguments.args, **self._arguments.kwargs)
            if execution.stop is None and strand.stop is None:
                core.end_of_code(end_of(function))
            return value

        left = await _Left(code()).perform_async()
        execution.stop = execution.stop or strand.stop
        return left
