"""Looking at workflows: their timelines, and whether today's code goes on with them; the plans and the two shells."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import RunUnknownError
from ..model.timeline import Event, timeline
from ..storage import journal, runs
from ..worker.engine import Engine
from ..workflow import replay
from ..workflow.replay import ReplayCheck
from .runs import RunPlans
from .steppers import AioStepper, Stepper

MAX_LIVE_RUNS = 10_000


class WorkflowPlans:
    """What can be asked of workflows."""

    def __init__(self, engine: Engine, run_plans: RunPlans) -> None:
        self._engine = engine
        self._runs = run_plans

    async def timeline(self, run_id: str) -> list[Event]:
        """The operations of a run, in the order in which they were begun.

        Raises:
            RunUnknownError: there is no such workflow.
        """
        run = await runs.read(self._engine.items, run_id)
        if run is None or not run.workflow:
            raise RunUnknownError(run_id, "there is no such workflow, or the time to keep it is over")
        return timeline((await journal.load(self._engine.items, run)).records)

    async def check(self, run_id: str) -> ReplayCheck:
        return await replay.check(self._engine, run_id)

    async def live(self) -> list[str]:
        """The ids of all workflows under way whose code is known here."""
        found = await self._runs.list(queue=None, state=None, job=None, limit=MAX_LIVE_RUNS)
        known = self._engine.registry
        return [run.run_id for run in found if (job := known.get(run.job)) is not None and job.is_workflow]


class Workflows:
    """``app.workflows``: timelines, and replays against today's code."""

    def __init__(self, plans: WorkflowPlans, run: Stepper) -> None:
        self._plans = plans
        self._run = run

    def timeline(self, run_id: str) -> Sequence[Event]:
        """What a run has done so far: steps, waits, children, with attempts, durations and who did it.

        Raises:
            RunUnknownError: there is no such workflow.
        """
        return self._run(self._plans.timeline(run_id))

    def check(self, run_id: str) -> ReplayCheck:
        """Replay what a run has recorded against today's code. Nothing is done or written."""
        return self._run(self._plans.check(run_id))

    def check_live(self) -> Sequence[ReplayCheck]:
        """The same for every run under way: to be asked before a deploy.

        >>> assert all(check.is_good for check in app.workflows.check_live())  # doctest: +SKIP
        """
        return [self.check(run_id) for run_id in self._run(self._plans.live())]


class AioWorkflows:
    """``app.aio.workflows``: ``Workflows`` for event loops."""

    def __init__(self, plans: WorkflowPlans, run: AioStepper) -> None:
        self._plans = plans
        self._run = run

    async def timeline(self, run_id: str) -> Sequence[Event]:
        """What a run has done so far; see ``Workflows.timeline``."""
        return await self._run(self._plans.timeline(run_id))

    async def check(self, run_id: str) -> ReplayCheck:
        """Replay what a run has recorded against today's code; see ``Workflows.check``."""
        return await self._run(self._plans.check(run_id))

    async def check_live(self) -> Sequence[ReplayCheck]:
        """The same for every run under way; see ``Workflows.check_live``."""
        return [await self.check(run_id) for run_id in await self._run(self._plans.live())]
