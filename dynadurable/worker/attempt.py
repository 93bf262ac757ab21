"""One attempt, from the claim to its end, as a plan.

Stepped by a thread for ``def`` jobs, by an event loop for ``async def`` ones.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from ..clock import to_datetime
from ..errors import LeaseLostError, NewerFormatError
from ..log import careful_log
from ..model import failure
from ..model.job import Job
from ..storage import marks, settle
from ..storage.call import Plan
from ..storage.items import Mark, Run
from ..storage.marks import Candidate
from ..storage.schedules import SCHEDULE_JOB
from . import verdict
from .body import Body
from .context import ContextBase
from .endings import Attempt, bury, carry_out
from .engine import Engine
from .held import Held
from .insist import insist
from .verdict import Cancel, HandBack, Verdict

log = careful_log("dynadurable.worker")

NEWER_DELAY = timedelta(minutes=1)
"""How long what only a newer version can read is not tried for again."""

ContextFactory = Callable[..., ContextBase]
WorkflowBody = Callable[[Attempt, Job[Any, Any], "failure.Failure | None"], Plan[Verdict]]
"""Runs a workflow's code in an attempt. With a failure, its code has failed for good: what it did is to be undone."""


class Attempts:
    """Makes attempts for one kind of body (sync or async): the plans, and the context their bodies get."""

    def __init__(self, engine: Engine, context: ContextFactory, workflow: WorkflowBody | None = None) -> None:
        self.engine = engine
        self._context = context
        self._workflow = workflow

    async def of(self, candidate: Candidate) -> str | None:
        """Claim what a poll has seen and work on it. The event it ended with; ``None`` if another worker has it."""
        engine = self.engine
        if candidate.job == SCHEDULE_JOB:
            return await engine.timetable.tick(candidate)
        sent = engine.clock.monotonic()
        mark = await marks.claim(
            engine.items,
            pk=candidate.pk,
            sk=candidate.sk,
            token=engine.ids.make(engine.clock.now_ms()),
            now_ms=engine.clock.earliest_ms(),
            lease_until_ms=engine.lease_until_ms(),
            worker=engine.worker_id,
        )
        if mark is None:
            return None
        return await self.claimed(mark, candidate.run_id, sent=sent, run=None)

    async def claimed(self, mark: Mark, run_id: str, *, sent: float, run: Run | None) -> str:
        """Work on a mark that we hold since the request sent at ``sent``. ``run``: where it is known already."""
        engine = self.engine
        held = Held(mark, run_id=run_id, lease_seconds=engine.lease_seconds, sent=sent)
        engine.hold(held)
        try:
            engine.tell("claimed", mark.job, run_id)
            event = await insist(self._work(held, run), held, engine.clock)
        except LeaseLostError as error:
            log.warning("%s", error)
            event = "lost"
        finally:
            engine.release(held)
        engine.tell(event, mark.job, run_id)
        return event

    async def _work(self, held: Held, run: Run | None) -> str:
        engine, mark = self.engine, held.mark
        job = engine.registry.get(mark.job)
        if engine.stopping.is_set() or job is None:
            return await carry_out(
                Attempt(engine=engine, held=held, mark=mark, run=run, job=job), HandBack(refund=True)
            )
        if mark.is_pointer and run is None:
            now_ms = engine.clock.earliest_ms()
            run = await settle.settle(engine.items, mark, run_id=held.run_id, now_ms=now_ms)
            if run is None:
                return "repaired"
        if run is not None and run.slot_ms:
            held.slot = to_datetime(int(run.slot_ms))
        attempt = Attempt(engine=engine, held=held, mark=mark, run=run, job=job)
        has_undo = run is not None and bool(run.has_undo)
        if (mark.cancelled or (run is not None and run.cancelled)) and not has_undo:
            return await carry_out(attempt, Cancel())
        over = attempt.number - job.retry.max_attempts
        lost = self._worker_lost(attempt) if over > 0 else None
        if lost is not None and not (has_undo and over == 1):
            await bury(attempt, lost)
            return "dead"
        result = await self._body(attempt, job, lost)
        event = await carry_out(attempt, result)
        if isinstance(result, HandBack) and result.error is not None:
            engine.tell(event, mark.job, held.run_id)
            raise result.error
        return event

    async def _body(self, attempt: Attempt, job: Job[Any, Any], lost: failure.Failure | None) -> Verdict:
        engine, held, mark = self.engine, attempt.held, attempt.mark
        life = str(attempt.run.created_ms) if attempt.run is not None and attempt.run.key else ""
        try:
            if job.is_workflow and self._workflow is not None:
                return await self._workflow_body(self._workflow, attempt, job, lost)
            arguments = job.from_payload(attempt.run.input if attempt.run is not None else mark.input or b"")
            engine.tell("started", job.name, held.run_id)
            value = await Body(job, arguments, self._context(engine, held, job=job.name, life=life), held)
        except GeneratorExit:  # the driver gave up on this plan: no more calls
            raise
        except BaseException as error:  # noqa: BLE001 - the verdict says which are raised again
            return self._raised(error, job, attempt)
        return verdict.on_return(value, told=held.reason)

    async def _workflow_body(
        self, workflow: WorkflowBody, attempt: Attempt, job: Job[Any, Any], lost: failure.Failure | None
    ) -> Verdict:
        try:
            return await workflow(attempt, job, lost)
        except NewerFormatError as error:  # of its journal, not out of its code: for a worker that knows the format
            log.warning("run %s is handed back: %s", attempt.held.run_id, error)
            return HandBack(refund=True, delay=NEWER_DELAY)

    def _raised(self, error: BaseException, job: Job[Any, Any], attempt: Attempt) -> Verdict:
        held = attempt.held
        decided = verdict.on_error(error, job=job, attempt=attempt.number, told=held.reason, dice=self.engine.dice())
        if isinstance(decided, verdict.TryAgain):
            log.warning("run %s of %s failed, again in %s", held.run_id, job.name, decided.delay, exc_info=error)
        elif isinstance(decided, verdict.Bury):
            log.error("run %s of %s failed for good", held.run_id, job.name, exc_info=error)
        return decided

    def _worker_lost(self, attempt: Attempt) -> failure.Failure:
        """For a mark whose every attempt ended with its worker: this claim starts none, so it is not counted."""
        engine = self.engine
        return failure.worker_lost(
            attempt=attempt.number - 1,
            build=engine.build,
            failed_at_ms=engine.clock.now_ms(),
            worker=None,
        )


AttemptPlan = Plan[str | None]
"""What a lane steps."""
