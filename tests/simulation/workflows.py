"""A cast whose runs are workflows: steps, sleeps, events, children, commits, compensations; a number says which."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from dynadurable import Fail, Retry
from dynadurable.control.signals import SignalPlans
from dynadurable.errors import DynadurableError, WorkflowError
from dynadurable.model import job as jobs
from dynadurable.model.job import Job
from dynadurable.model.record import STEP, UNDO
from dynadurable.storage.items import Run
from dynadurable.worker.attempt import WorkflowBody
from dynadurable.workflow.body import WorkflowRunner
from dynadurable.workflow.core import MISSING, Core
from dynadurable.workflow.place import NOWHERE
from dynadurable.workflow.steps import StepCall
from tests.simulation.actors import RETRY, Cast
from tests.simulation.recorded import WorkflowChecker
from tests.simulation.stage import WorldKind
from tests.simulation.world import START_MS, Steps, World

STEP_RETRY = Retry(max_attempts=3, delay=timedelta(seconds=2), backoff=1.0, jitter=0.0)
SHAPES = (0, 1, 12, 2, 20, 303, 4, 41, 50, 15, 6, 60, 616, 1234, 50214, 2020, 77, 727, 31, 32, 335)
KEYED_SHAPES = {"a": 25, "b": 304}
PLAIN_STEP, SLOW_SLEEP, EVENT, CHILD, COMMITTED, FLAKY, UNDONE, LARGE = range(8)
LARGE_BYTES = 700
"""Such a result goes into a page of its own, and fills the tail soon."""


class Code:
    """The code of a workflow; ``shape`` says digit by digit what it does."""

    def __init__(self, world: World, checker: WorkflowChecker, child: Callable[[], Job[Any, Any]]) -> None:
        self._world, self._checker, self._child = world, checker, child

    async def __call__(self, ctx: Core, shape: int) -> list[Any]:
        run_id = ctx.execution.held.run_id
        self._world.note(run_id[-6:], f"code starts, fence {ctx.execution.attempt.mark.fence}")
        found = []
        for place, digit in enumerate(str(shape)):
            found.append(await self._operation(ctx, place, int(digit)))
        if self._world.dice.random() < 0.1 and shape != 0:
            raise Fail("for good")
        return found

    async def _operation(self, ctx: Core, place: int, digit: int) -> Any:
        match digit:
            case 1:
                return await ctx.sleep(NOWHERE, timedelta(seconds=3), "sleep")
            case 2:
                return await self._event(ctx, place)
            case 3:
                return await self._child_result(ctx)
            case 4:
                return await ctx.commit(NOWHERE, "commit", [self._counted(ctx, place)])
        undo = self._undo(ctx, place) if digit == UNDONE else None
        return await ctx.step(NOWHERE, self._step(ctx, place, digit), undo)

    async def _event(self, ctx: Core, place: int) -> Any:
        name = f"e{place}"
        timeout = timedelta(seconds=20) if place % 2 else None
        value = await ctx.wait_event(NOWHERE, name, timeout, MISSING if timeout is None else None)
        self._checker.event_given(ctx.execution.writer.run, name, value)
        return value

    async def _child_result(self, ctx: Core) -> Any:
        job = self._child()
        child = await ctx.start(NOWHERE, job, job.to_payload((1,), {}))
        try:
            return await ctx.child_result(child)
        except WorkflowError:
            return "the child has failed"

    def _step(self, ctx: Core, place: int, digit: int) -> StepCall:
        run, name = ctx.execution.writer.run, f"s{place}"

        async def body() -> str:
            self._checker.step_runs(run, STEP, name)
            if digit == FLAKY and self._world.dice.random() < 0.4:
                raise ValueError("failed")
            return "x" * LARGE_BYTES if digit == LARGE else f"{place}"

        return StepCall.of(body, (), {}, name=name, retry=STEP_RETRY)

    def _undo(self, ctx: Core, place: int) -> Callable[..., Any]:
        run = ctx.execution.writer.run

        def undo(_value: str) -> None:
            self._checker.step_runs(run, UNDO, f"u{place}")

        undo.__name__ = f"u{place}"
        return undo

    def _counted(self, ctx: Core, place: int) -> dict[str, Any]:
        """A write of the workflow's own that must happen once, however often it is tried."""
        run = ctx.execution.writer.run
        name = f"{run.pk[4:]} {run.journal_id} {place}"
        return {
            "Update": {
                "TableName": "simulated",
                "Key": {"pk": {"S": "users"}, "sk": {"S": name}},
                "UpdateExpression": "ADD times :one",
                "ExpressionAttributeValues": {":one": {"N": "1"}},
            }
        }


class WorkflowCast(Cast):
    """Workflows beside plain jobs, and somebody who tells them of events."""

    checks = WorkflowChecker

    def __init__(self, world: World) -> None:
        super().__init__(world)
        assert isinstance(self.checker, WorkflowChecker)
        self.recorded: WorkflowChecker = self.checker
        code = Code(world, self.checker, self._some_child)

        async def flow(ctx: Core, shape: int) -> list[Any]:
            return await code(ctx, shape)

        self.flows = [self._flow(flow, "flow", keep=False), self._flow(flow, "flow kept", keep=True)]
        for job in self.flows:
            self.registry.add(job)

    def _flow(self, function: Callable[..., Any], name: str, *, keep: bool) -> Job[Any, Any]:
        return jobs.define(
            function,
            name=name,
            queue="default",
            retry=RETRY,
            context_types=(Core,),
            keep_result=self.keep_result if keep else None,
            keep_failed=self.keep_failed,
            keep_history=timedelta() if keep else None,
            is_workflow=True,
        )

    def _some_child(self) -> Job[Any, Any]:
        return self.kept

    def workflow_body(self) -> WorkflowBody | None:
        return WorkflowRunner(WorldKind())

    def some_job(self) -> Job[Any, Any]:
        return self.world.one_of((*self.flows, *self.flows, self.plain, self.kept))

    def argument_of(self, job: Job[Any, Any]) -> int:
        if not job.is_workflow:
            return 1
        return self.world.one_of(SHAPES) if job.options.key is None else KEYED_SHAPES[job.options.key]

    def processes(self) -> list[list[Steps]]:
        return [*super().processes(), *([self.teller(f"teller-{n}")] for n in range(2))]

    def last_words(self) -> list[Steps]:
        return [*super().last_words(), self.teller("the last teller", to_all=True)]

    def is_over(self) -> bool:
        """A workflow may come to an event that nobody has told it of."""
        if self.recorded.waiting():
            self.world.to_the_end(self.teller("a further teller", to_all=True))
        strays = self.recorded.strays_to_come()
        if strays and len(strays) == len(self.checker.marks):
            self.world.now_ms = max(strays) - START_MS  # nothing else is left: they go when they come due
        return super().is_over()

    def teller(self, name: str, *, to_all: bool = False) -> Steps:
        """Tells workflows of events, those that wait for them and those that do not yet."""
        world = self.world
        plans = SignalPlans(self.operations(world.clock()))
        for _ in range(1 if to_all else 8):
            if not to_all:
                yield from world.wait(world.one_of((200, 1_000, 4_000, 15_000)))
            runs = self.recorded.live_workflows()
            for run in runs if to_all else [world.one_of(runs)] if runs else []:
                for event in ("e0", "e1", "e2", "e3") if to_all else (world.one_of(("e0", "e1", "e2", "e3")),):
                    yield from self._tell(name, plans, run, event)

    def _tell(self, name: str, plans: SignalPlans, run: Run, event: str) -> Steps:
        value = self.world.dice.getrandbits(20)
        try:
            counts = yield from self.world.drive(name, plans.send_event(run.pk[4:], event, value))
        except DynadurableError as error:
            self.world.note(name, f"could not tell: {error}")
            return
        self.world.note(name, f"told {run.pk[-6:]} of {event}, {'first' if counts else 'too late'}")
