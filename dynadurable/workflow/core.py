"""What a workflow can do, each thing once, as a plan; the two contexts step them.

Each plan tells the strand which operation the code has come to, and then awaits its outcome: what is recorded, or what
the operation's own plan brings about and records.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from ..clock import to_datetime
from ..errors import NonDeterminismError
from ..model import codec
from ..model.completion import Completion
from ..model.derived import seed
from ..model.history import Line, Past
from ..model.instant import epoch_ms
from ..model.job import Job
from ..model.outcome import TIMED_OUT, WHY
from ..model.record import BATCH, BEGAN, CALLBACK, CHILD, COMMIT, EVENT, FAILED, GROUP, POLL, SLEEP, STEP, Record
from ..model.results import Results
from ..model.retry import Retry
from ..model.token import CallbackToken
from ..storage import signals
from ..storage.call import Plan
from ..storage.keys import check_name
from . import children, commit, steps, waits
from .branches import BranchCall, Branches, scope_name
from .execution import Execution
from .place import NOWHERE, Place
from .reached import STARTED, Reached, Stage
from .steps import StepCall
from .strand import Strand
from .undo import Undo
from .waits import Awaited, Polling

MISSING: Any = object()
"""Stands for "not given" where ``None`` is a value."""


class Core:
    """One line of operations on one strand, and the plans of everything that its code can ask for."""

    def __init__(
        self,
        execution: Execution,
        stage: Stage,
        strand: Strand,
        scope: str,
        *,
        now_ms: int,
        is_ordered: bool = True,
    ) -> None:
        self.execution = execution
        self.stage = stage
        self.strand = strand
        self.here = NOWHERE
        """Where a branch of this line was asked for."""
        self.line = Line(execution.history, scope, now_ms=now_ms, is_ordered=is_ordered)
        self.log = ReplayLog(self)

    # --- steps ------------------------------------------------------------------------------------

    async def step(self, where: Place, call: StepCall, compensate: Callable[..., Any] | None) -> Any:
        if compensate is not None:
            self.execution.has_undo = True
        past = self._reach(STEP, call.name, where)
        key = self.operation_key(past)
        record = await self._outcome(past, lambda: steps.step(self.execution, past, call, key))
        value = self.strand.handed(self.line, record)
        if compensate is not None:
            self._undo(compensate, (value,), {}, name=None, retry=None)
        return value

    async def commit(self, where: Place, name: str, writes: Sequence[Any]) -> None:
        checked = commit.checked(writes)
        past = self._reach(COMMIT, name, where)
        record = await self._outcome(past, lambda: commit.commit(self.execution, past, checked))
        self.strand.handed(self.line, record)

    def on_failure(
        self,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        name: str | None,
        retry: Retry | None,
    ) -> None:
        self.strand.check()
        self.execution.has_undo = True
        self._undo(function, args, kwargs, name=name, retry=retry)

    def _undo(
        self,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        *,
        name: str | None,
        retry: Retry | None,
    ) -> None:
        call = StepCall.of(function, args, kwargs, name=name, retry=retry)
        place = (self.line.now_ms, self.line.scope, self.line.count("undo", ""))
        self.execution.undos.append(Undo(place=place, call=call))

    # --- time -------------------------------------------------------------------------------------

    async def sleep(self, where: Place, duration: timedelta, name: str) -> None:
        delay_ms = waits.milliseconds(duration, "the sleep")
        await self._sleep(where, name, lambda: self.execution.now_ms() + delay_ms)

    async def sleep_until(self, where: Place, at: datetime, name: str) -> None:
        wake_ms = epoch_ms(at, "the time to sleep until")
        await self._sleep(where, name, lambda: wake_ms)

    async def _sleep(self, where: Place, name: str, wake_ms: Callable[[], int]) -> None:
        past = self._reach(SLEEP, check_name("a sleep's name", name), where)
        record = await self._outcome(past, lambda: waits.sleep(self.execution, past, wake_ms))
        self.strand.handed(self.line, record)

    def now(self) -> datetime:
        self.strand.check()
        return to_datetime(self.line.now_ms)

    # --- what the run is told ---------------------------------------------------------------------

    async def wait_event(self, where: Place, name: str, patience: timedelta | None, default: Any) -> Any:
        past = self._reach(EVENT, check_name("an event's name", name), where)
        timeout_ms = None if patience is None else waits.milliseconds(patience, "timeout")
        awaited = Awaited(topic=signals.topic(signals.EVENT, name), what=f"event {name!r}", timeout_ms=timeout_ms)
        record = await self._outcome(past, lambda: waits.told(self.execution, past, awaited))
        return self._unless_late(record, default)

    def callback(self, where: Place, name: str, timeout: timedelta | None, heartbeat: timedelta | None) -> Callback:
        past = self._reach(CALLBACK, check_name("a callback's name", name), where)
        topic_name = seed(*past.identity, past.life).hex()[:20]
        awaited = Awaited(
            topic=signals.topic(signals.CALLBACK, topic_name),
            what=f"callback {name!r}",
            timeout_ms=None if timeout is None else waits.milliseconds(timeout, "timeout"),
            heartbeat_ms=None if heartbeat is None else waits.milliseconds(heartbeat, "heartbeat"),
            beats=waits.beat_topic(topic_name),
        )
        if past.end is None:
            waits.begun(self.execution, past, awaited)
        run_id, journal_id = self.execution.held.run_id, self.execution.journal_id
        token = CallbackToken(run_id=run_id, journal_id=journal_id, name=topic_name).to_text()
        return Callback(name=name, token=token, past=past, awaited=awaited)

    async def callback_result(self, callback: Callback, default: Any) -> Any:
        past, awaited = callback.past, callback.awaited
        self.strand.check()
        record = await self._outcome(past, lambda: waits.told(self.execution, past, awaited))
        return self._unless_late(record, default)

    def _unless_late(self, record: Record, default: Any) -> Any:
        if default is not MISSING and record.phase == FAILED and record.facts.get(WHY) == TIMED_OUT:
            self.line.deliver(record.at_ms)
            return default
        return self.strand.handed(self.line, record)

    async def wait_for(self, where: Place, call: StepCall, polling: Polling, initial: Any, default: Any) -> Any:
        past = self._reach(POLL, call.name, where)
        state = {} if initial is MISSING else {waits.STATE_PARAMETER: initial}
        record = await self._outcome(past, lambda: waits.condition(self.execution, past, call, polling, state))
        return self._unless_late(record, default)

    # --- children ---------------------------------------------------------------------------------

    async def start(self, where: Place, job: Job[Any, Any], payload: bytes) -> Child:
        past = self._reach(CHILD, job.name, where)
        plan = lambda: children.start(self.execution, past, job, payload)  # noqa: E731
        record = await Reached(self.stage, self.strand, past, plan, until=STARTED)
        self.line.deliver(record.at_ms)
        awaited = children.end_of(self.execution, past, job)
        return Child(run_id=awaited.what, past=past, awaited=awaited)

    async def child_result(self, child: Child) -> Any:
        self.strand.check()
        record = await self._outcome(child.past, lambda: waits.told(self.execution, child.past, child.awaited))
        return self.strand.handed(self.line, record)

    # --- branches ---------------------------------------------------------------------------------

    async def batch(
        self,
        where: Place,
        name: str,
        calls: Sequence[BranchCall],
        *,
        max_concurrency: int,
        completion: Completion,
    ) -> Results[Any]:
        past = self._reach(BATCH, check_name("a name", name), where)
        work = Branches(
            core=self, past=past, calls=calls, limit=max_concurrency, completion=completion, name=name, here=where
        )
        work.begin()
        results: Results[Any] = await self.stage.branches(work)
        return work.checked(results)

    def group(self, where: Place, name: str) -> Core:
        """The core of a part of the code that has names of its own; end it with ``leave``."""
        past = self._reach(GROUP, check_name("a group's name", name), where)
        if past.progress is None:
            self.execution.note(self.execution.entry(past, BEGAN))
        return self.inner(past)

    def leave(self, inner: Core, where: Place) -> None:
        """The code of a group has returned."""
        inner.end_of_code(where)
        self.line.deliver(inner.line.now_ms)

    def inner(self, past: Past, suffix: str = "", *, strand: Strand | None = None) -> Core:
        """The core of a part of this line."""
        own = scope_name(past.identity.name, past.identity.number) + suffix
        scope = f"{self.line.scope}/{own}" if self.line.scope else own
        return Core(
            self.execution,
            self.stage,
            strand or self.strand,
            scope,
            now_ms=self.line.now_ms,
            is_ordered=self.line.is_ordered,
        )

    # --- derived values ---------------------------------------------------------------------------

    def parts(self, kind: str, name: str) -> tuple[object, ...]:
        """What the next derived value of that kind and name is derived from."""
        self.strand.check()
        number = self.line.count(kind, name)
        return (self.execution.held.run_id, self.execution.journal_id, self.line.scope, kind, name, number)

    def operation_key(self, past: Past) -> str:
        """An operation's key for outside APIs: the same in every attempt, another one for every other operation."""
        return codec.canonical_digest([self.execution.held.run_id, self.execution.journal_id, *past.identity])

    @property
    def is_replaying(self) -> bool:
        """Whether the code is where it has been before.

        Before something that is recorded; and, if the last attempt parked or was handed back, before anything new.
        """
        return self.stage.is_replaying(self.line) or (self.execution.was_left_in_order and not self.stage.is_live)

    # --- inside -----------------------------------------------------------------------------------

    def _reach(self, kind: str, name: str, where: Place) -> Past:
        return self.strand.reach(self.line, kind, name, where)

    async def _outcome(self, past: Past, plan: Callable[[], Plan[Any]]) -> Record:
        record: Record = await Reached(self.stage, self.strand, past, plan)
        return record

    def end_of_code(self, where: object) -> None:
        """The code of this line has returned; halts the attempt if there is more recorded than it came to."""
        try:
            self.line.end(where)
        except NonDeterminismError as error:
            self.execution.halt(error)


@dataclass(frozen=True, kw_only=True, slots=True)
class Callback:
    """A callback that was made: what the outside completes, and what the workflow waits for."""

    name: str
    token: str
    past: Past
    awaited: Awaited


@dataclass(frozen=True, kw_only=True, slots=True)
class Child:
    """A child that was started."""

    run_id: str
    past: Past
    awaited: Awaited


class ReplayLog(logging.LoggerAdapter[logging.Logger]):
    """A logger that says nothing while the code is replayed: those lines were written when it ran first."""

    def __init__(self, core: Core) -> None:
        execution = core.execution
        logger = logging.getLogger(f"dynadurable.job.{execution.attempt.mark.job}")
        super().__init__(logger, {"run_id": execution.held.run_id})
        self._core = core

    def isEnabledFor(self, level: int) -> bool:  # noqa: N802 - the name that logging gives it
        return not self._core.is_replaying and super().isEnabledFor(level)
