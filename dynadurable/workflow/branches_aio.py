"""Branches of an ``async def`` workflow: tasks of its own loop."""

from __future__ import annotations

import asyncio
import inspect
from functools import partial
from typing import TYPE_CHECKING, Any

from ..model.codec import own_copy
from ..model.record import DONE
from ..model.results import Results
from ..storage.call import Work
from .branches import Branches
from .halt import Rewound

if TYPE_CHECKING:
    from .core import Core
    from .tasks import TaskStage


class TaskBranches(Work):
    """Runs branches as tasks, a limited number at once. Their order is recorded, so no decision need be."""

    def __init__(self, work: Branches, stage: TaskStage) -> None:
        self.work = work
        self.stage = stage
        self._running: dict[asyncio.Task[Any], tuple[int, Core]] = {}
        self._next = 0

    async def perform_async(self) -> Results[Any]:
        work = self.work
        try:
            while True:
                self._begin_more()
                if not self._running:
                    break
                await asyncio.wait(self._running, return_when=asyncio.FIRST_COMPLETED)
                self._take_in()
        finally:
            for task in self._running:
                task.cancel()
        if work.is_rewound:
            work.core.strand.end(Rewound("rewound"))
        results = work.results()
        execution = work.core.execution
        if work.past.end is None:
            execution.note(execution.entry(work.past, DONE, at_ms=work.core.line.now_ms))
        return results

    def _begin_more(self) -> None:
        if self.work.reason() is not None:
            for _, core in self._running.values():
                self.stage.abandon(core.strand)
            return
        while len(self._running) < self.work.limit and self._next < len(self.work.calls):
            index, self._next = self._next, self._next + 1
            core = self.work.core_of(index)
            task = asyncio.get_running_loop().create_task(self._call(index, core), name=core.line.scope)
            self._running[task] = (index, core)

    async def _call(self, index: int, core: Core) -> Any:
        call = self.work.calls[index]
        if call.step is not None:
            return await self.stage.step_through(partial(core.step, core.here, call.step, None))
        value = call.function(self.stage.context(core), *map(own_copy, call.args))
        return await value if inspect.isawaitable(value) else value

    def _take_in(self) -> None:
        ended = sorted((place, task) for task, (place, _) in self._running.items() if task.done())
        for index, task in ended:
            _, core = self._running.pop(task)
            error = asyncio.CancelledError() if task.cancelled() else task.exception()
            self.work.ended(index, core, None if error is not None else task.result(), error)
