"""Would today's code go on with the runs that are under way? Replay their journals; nothing is done or written.

To be asked before a deploy: a workflow that was changed in a way that does not fit a live run is told here, and not by
the dead letters.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from ..errors import NonDeterminismError
from ..model.job import Job
from ..storage import journal, runs
from ..storage.call import Work
from ..storage.items import Run
from ..worker.endings import Attempt
from ..worker.engine import Engine
from ..worker.held import Held
from .body import Left
from .execution import Execution
from .halt import Halted
from .kind_tasks import TaskKind
from .kind_threads import ThreadKind

LEASE_SECONDS = 1e9
FITS, DOES_NOT_FIT, FAILS, UNKNOWN = "fits", "does not fit", "fails", "unknown"


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplayCheck:
    """What came of one run. ``outcome``: "fits", "does not fit", "fails" (with an error of its own), or "unknown"."""

    run_id: str
    job: str
    outcome: str
    records: int = 0
    """How many records were replayed."""
    error: Exception | None = None

    @property
    def is_good(self) -> bool:
        """Whether the code goes on with this run."""
        return self.outcome == FITS

    def __str__(self) -> str:
        return f"{self.run_id} of {self.job}: {self.outcome}" + (f": {self.error}" if self.error else "")


async def check(engine: Engine, run_id: str) -> ReplayCheck:
    """The plan that replays one run."""
    run = await runs.read(engine.items, run_id)
    job = None if run is None else engine.registry.get(run.job)
    if run is None or not run.workflow or job is None:
        return ReplayCheck(run_id=run_id, job="" if run is None else run.job, outcome=UNKNOWN)
    loaded = await journal.load(engine.items, run)
    kind = TaskKind() if job.is_async else ThreadKind()
    execution = Execution(_attempt(engine, run, run_id, job), loaded, kind.turn())
    execution.is_dry = True
    left: Left = await Anywhere(kind.code(execution, job, job.from_payload(loaded.input)), is_async=job.is_async)
    outcome, error = _judged(execution, left)
    return ReplayCheck(run_id=run_id, job=job.name, outcome=outcome, records=len(loaded.records), error=error)


class Anywhere(Work):
    """Work of either kind: an ``async def`` gets a loop if there is none, and a ``def`` a thread where there is one."""

    def __init__(self, work: Work, *, is_async: bool) -> None:
        self._work = work
        self._is_async = is_async

    def perform(self) -> Any:
        return asyncio.run(self._work.perform_async()) if self._is_async else self._work.perform()

    async def perform_async(self) -> Any:
        return await (self._work.perform_async() if self._is_async else asyncio.to_thread(self._work.perform))


def _judged(execution: Execution, left: Left) -> tuple[str, Exception | None]:
    stop = execution.stop
    if isinstance(stop, Halted):
        return (DOES_NOT_FIT if isinstance(stop.error, NonDeterminismError) else FAILS), stop.error
    if stop is None and isinstance(left.error, Exception):
        return FAILS, left.error
    return FITS, None


def _attempt(engine: Engine, run: Run, run_id: str, job: Job[Any, Any]) -> Attempt:
    """An attempt that holds nothing: it is never written for."""
    mark = engine.items.mark(job=run.job, attempt=1, fence=run.fence, generation=run.generation)
    mark.sk = run.mark
    held = Held(mark, run_id=run_id, lease_seconds=LEASE_SECONDS, sent=engine.clock.monotonic())
    return Attempt(engine=engine, held=held, mark=mark, run=run, job=job)
