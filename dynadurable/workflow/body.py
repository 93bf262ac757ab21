"""A workflow's code inside an attempt: load its journal, run the code, decide how the attempt ends.

| the code was left by                              | so the attempt                                        |
|---------------------------------------------------|-------------------------------------------------------|
| returning                                         | succeeds                                              |
| an error that may be tried again                  | tries again: recorded steps are not repeated          |
| an error that is final, or a cancellation         | runs the compensations; then dies, or is cancelled    |
| waiting                                           | parks: no worker is held                              |
| not fitting its journal                           | dies, at once and visibly                             |
| the loss of its lease, or of a record             | writes nothing more                                   |
| the worker's shutdown                             | is handed back                                        |
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Protocol

from ..errors import Interrupted, LeaseLostError, Suspended, WorkflowError
from ..model import codec, failure
from ..model.failure import Failure
from ..model.history import REWIND_IDENTITY, UNDO_SCOPE
from ..model.job import Job
from ..model.outcome import identity_of
from ..model.record import BEGAN, Record
from ..model.trace import relatives
from ..storage import journal, signals
from ..storage.call import Plan, Work
from ..worker import verdict
from ..worker.endings import Attempt, was_cancelled
from ..worker.held import CANCELLED, LOST, STOPPING
from ..worker.verdict import Bury, Cancel, HandBack, LetGo, Settled, Succeed, TryAgain, Verdict
from .core import Core
from .execution import REWINDING, Execution
from .halt import Halted, JournalLost, Parked, Rewound
from .strand import Strand
from .turn import Turn
from .undo import compensate

log = logging.getLogger("dynadurable.workflow")

MAX_PARKED = timedelta(days=1)
"""A run that waits looks up at least this often."""
LOST_DELAY = timedelta(seconds=3)
_MILLISECOND = timedelta(milliseconds=1)


@dataclass(frozen=True, kw_only=True, slots=True)
class Left:
    """How the code was left: with a value, or by an error."""

    value: Any = None
    error: BaseException | None = None


class Kind(Protocol):
    """Threads for ``def`` workflows, an event loop for ``async def`` ones."""

    def turn(self) -> Turn:
        """Guards the journal."""
        ...

    def code(self, execution: Execution, job: Job[Any, Any], arguments: inspect.BoundArguments) -> Work:
        """Awaited, it runs the code and gives how it was ``Left``."""
        ...

    def plan(self, execution: Execution, make: Callable[[Any], Plan[Any]]) -> Work:
        """Awaited, it steps a plan made for this kind's stage, as if the code had asked for it."""
        ...


class WorkflowRunner:
    """Runs workflows of one kind in attempts."""

    def __init__(self, kind: Kind) -> None:
        self._kind = kind

    async def __call__(self, attempt: Attempt, job: Job[Any, Any], lost: Failure | None) -> Verdict:
        """The plan that runs the code; gives how the attempt ends. ``lost``: its workers died, undo what it did."""
        assert attempt.run is not None, "a workflow has a run item"
        loaded = await journal.load(attempt.engine.items, attempt.run)
        execution = Execution(attempt, loaded, self._kind.turn())
        arguments = job.from_payload(loaded.input)
        is_cancelled = bool(attempt.run.cancelled or attempt.mark.cancelled)
        if execution.rewind is not None or is_cancelled or lost is not None:
            execution.mode = REWINDING
        attempt.engine.tell("started", job.name, attempt.held.run_id)
        left: Left = await self._kind.code(execution, job, arguments)
        attempt.run = execution.writer.run
        decided = self._decide(execution, job, left, lost)
        if isinstance(decided, (Bury, Cancel)) and execution.undos and not isinstance(execution.stop, Halted):
            decided = await self._undo(execution, decided)
        if isinstance(decided, Parked):
            decided = await self._park(execution, decided)
        attempt.run = execution.writer.run
        if isinstance(decided, Bury):
            _note_culprits(attempt, decided.error)
        return decided

    # --- deciding ---------------------------------------------------------------------------------

    def _decide(self, execution: Execution, job: Job[Any, Any], left: Left, lost: Failure | None) -> Verdict | Parked:
        stop, told = execution.stop, execution.held.reason
        if told == LOST:
            return LetGo()
        match stop:
            case Parked():
                return stop
            case JournalLost():
                log.warning("run %s: a record may be lost, the next attempt will see: %s", _id(execution), stop.error)
                return HandBack(refund=False, delay=LOST_DELAY)
            case Halted():
                return self._failed(execution, job, stop.error)
            case Interrupted() if stop.reason == STOPPING:
                return HandBack(refund=True)
            case BaseException() if not isinstance(stop, (Suspended, Interrupted)):
                return self._failed(execution, job, stop)
        if execution.mode == REWINDING or isinstance(stop, Rewound):
            return self._rewound(execution, lost)
        if told == CANCELLED:
            return Cancel()
        if left.error is not None:
            return self._failed(execution, job, left.error)
        return Succeed(value=left.value)

    def _failed(self, execution: Execution, job: Job[Any, Any], error: BaseException) -> Verdict:
        attempt = execution.attempt
        decided = verdict.on_error(
            error, job=job, attempt=attempt.number, told=execution.held.reason, dice=execution.engine.dice()
        )
        if isinstance(decided, TryAgain):
            log.warning("run %s of %s failed, again in %s", _id(execution), job.name, decided.delay, exc_info=error)
        elif isinstance(decided, Bury):
            log.error("run %s of %s failed for good", _id(execution), job.name, exc_info=error)
        return decided

    def _rewound(self, execution: Execution, lost: Failure | None) -> Verdict:
        """Why it is being undone, in the words of the process that decided it."""
        run = execution.writer.run
        if run.cancelled or execution.attempt.mark.cancelled:
            return Cancel()
        recorded = execution.rewind
        failed = Failure.from_record(codec.decode(recorded.value)) if recorded and recorded.value else lost
        assert failed is not None
        return Bury(error=WorkflowError(str(failed)), failure=failed)

    # --- undoing ----------------------------------------------------------------------------------

    async def _undo(self, execution: Execution, decided: Bury | Cancel) -> Verdict | Parked:
        """Run the compensations; parks, or is handed back, in between. Then the attempt ends as it was decided."""
        failed = _failure_of(execution, decided)
        execution.begin_undo()
        await self._record_rewind(execution, failed)
        left: Left = await self._kind.plan(execution, lambda stage: _compensate(execution, stage))
        stop = execution.stop or (left.error if isinstance(left.error, Parked) else None)
        if stop is not None or left.error is not None:
            return self._stopped_undoing(execution, stop or left.error)
        if isinstance(decided, Cancel):
            return decided
        notes = tuple(f"compensation failed: {error}"[:150] for error in left.value)
        execution.attempt.facts["undone"] = True
        assert failed is not None
        return Bury(error=decided.error, failure=replace(failed, notes=(*failed.notes, *notes)))

    def _stopped_undoing(self, execution: Execution, stop: BaseException | None) -> Verdict | Parked:
        if execution.held.reason == LOST:
            return LetGo()
        if isinstance(stop, Parked):
            return stop
        if isinstance(stop, Halted):
            return Bury(error=stop.error)
        if isinstance(stop, (JournalLost, Interrupted)):
            return HandBack(refund=isinstance(stop, Interrupted), delay=timedelta())
        return HandBack(refund=False, error=stop)

    async def _record_rewind(self, execution: Execution, failed: Failure | None) -> None:
        """That it is being undone, before the first compensation: from here on the code never goes on."""
        if execution.rewind is None:
            value = None if failed is None else codec.encode(failed.to_record())
            worker = execution.engine.worker_id
            record = Record(identity=REWIND_IDENTITY, phase=BEGAN, at_ms=execution.now_ms(), worker=worker, value=value)
            execution.rewind = record
            await execution.record(record)

    # --- parking ----------------------------------------------------------------------------------

    async def _park(self, execution: Execution, parked: Parked) -> Verdict:
        """Have the run wait: its mark is due later, and this one goes."""
        attempt, now_ms = execution.attempt, execution.now_ms()
        latest_ms = now_ms + MAX_PARKED // _MILLISECOND
        due_ms = latest_ms if parked.wake_ms is None else min(parked.wake_ms, latest_ms)
        actions = await execution.leaving()
        try:
            execution.writer.run = await signals.park(
                execution.items,
                attempt.mark,
                execution.writer.run,
                actions,
                run_id=_id(execution),
                due_ms=due_ms,
                topics=sorted(parked.topics),
                now_ms=now_ms,
                even_if_cancelled=execution.mode != "running",
            )
        except LeaseLostError:
            if not await was_cancelled(attempt):
                raise
            attempt.held.tell(CANCELLED)
            return HandBack(refund=True)  # whoever claims it next undoes what there is to undo, and cancels it
        execution.engine.look_again()
        return Settled(event="parked")


async def _compensate(execution: Execution, stage: Any) -> list[WorkflowError]:
    strand = Strand(execution)
    core = Core(execution, stage, strand, UNDO_SCOPE, now_ms=execution.began_ms)
    return await compensate(core, list(execution.undos))


def _id(execution: Execution) -> str:
    return execution.held.run_id


def _failure_of(execution: Execution, decided: Bury | Cancel) -> Failure | None:
    if isinstance(decided, Cancel):
        return None
    if decided.failure is not None:
        return decided.failure
    engine, attempt = execution.engine, execution.attempt
    return failure.capture(
        decided.error,
        attempt=attempt.number,
        build=engine.build,
        failed_at_ms=execution.now_ms(),
        worker=engine.worker_id,
    )


def _note_culprits(attempt: Attempt, error: BaseException) -> None:
    """The recorded failures that the run dies of: these are tried again, should it be brought back."""
    found, _ = relatives(error, limit=20)
    errors: Sequence[BaseException] = [error, *(one.error for one in found)]
    identities = [identity for one in errors if (identity := identity_of(one)) is not None]
    if identities:
        attempt.facts["culprits"] = codec.encode([list(identity) for identity in dict.fromkeys(identities)])
