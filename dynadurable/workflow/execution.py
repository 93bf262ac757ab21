"""One attempt at a workflow: its journal, and what every operation of it shares.

The operations are plans, stepped by threads for ``def`` workflows and by an event loop for ``async def`` ones. What may
not happen any more once something has gone wrong (the lease is lost, a record is missing, the code has changed) is
stopped here: ``check`` raises it again at every further operation, whatever the workflow's code has caught meanwhile.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

from pynamodb.expressions.update import Action

from ..errors import DynadurableError, Interrupted, LeaseLostError, StoreUnavailableError
from ..model import codec
from ..model.history import CONTROL, REWIND_IDENTITY, UNDO_SCOPE, History, Past
from ..model.record import AGAIN, BEGAN, Identity, Record, is_delivery
from ..storage import signals
from ..storage.journal import Loaded, Writer
from ..storage.signals import Signal
from ..worker.endings import Attempt
from ..worker.held import CANCELLED, LOST
from .halt import Halted, JournalLost, Parked
from .turn import Turn

if TYPE_CHECKING:
    from .undo import Undo

SOON_MS = 50
"""A wait this short is waited for where it stands: to park would take longer."""

RUNNING, REWINDING, UNDOING = "running", "rewinding", "undoing"
"""Its code runs; it is replayed up to where it failed, which registers its compensations; those run."""


class Execution:
    """Shared by the threads or tasks of one attempt."""

    def __init__(self, attempt: Attempt, loaded: Loaded, turn: Turn) -> None:
        assert attempt.run is not None
        self.attempt = attempt
        self.engine = attempt.engine
        self.held = attempt.held
        self.items = attempt.engine.items
        self.history = History.of(loaded.records)
        self.writer = Writer(items=self.items, mark=attempt.mark, run=attempt.run, tail=list(loaded.tail))
        self.journal_id = attempt.run.journal_id
        self.began_ms = int(attempt.run.due_ms or attempt.run.created_ms)
        self.was_left_in_order = bool(loaded.records) and int(attempt.mark.attempt) == 1
        """Whether the last attempt parked or was handed back, rather than failed or died."""
        self.is_dry = False
        """Whether this is only a look: the code is replayed as far as it is recorded, and nothing is done."""
        self.mode = RUNNING
        self.rewind: Record | None = self.history.past(REWIND_IDENTITY).progress
        """That the workflow has failed for good, or was cancelled, and its compensations are due."""
        self.stop: BaseException | None = None
        """What ended the attempt before its code did; first come, first kept."""
        self.on_stop: Callable[[], None] = lambda: None
        self.has_undo = False
        self.undos: list[Undo] = []
        self._turn = turn
        self._pending: deque[Record] = deque()
        self._lock = threading.Lock()
        self._retry_culprits()
        self.sequence = self._deliveries(loaded.records, undo=False)
        """What the code is given, in the order in which it is (or will be) recorded: so it is given it on replay."""
        self.undo_sequence = self._deliveries(loaded.records, undo=True)
        """The same for its compensations."""

    def _deliveries(self, records: Sequence[Record], *, undo: bool) -> deque[Record]:
        counts = (record for record in records if is_delivery(record) and self.history.counts(record))
        return deque(record for record in counts if (record.identity.scope == UNDO_SCOPE) == undo)

    def _retry_culprits(self) -> None:
        """What a dead run died of is tried again, now that it was brought back."""
        culprits = self.writer.run.culprits
        if culprits:
            facts = {"void": codec.decode(culprits)}
            times = sum(record.identity.kind == AGAIN for record in self.history.records)
            identity = Identity(CONTROL, AGAIN, AGAIN, times + 1)
            self.note(Record(identity=identity, phase=BEGAN, at_ms=self.now_ms(), facts=facts))

    # --- what may still be done -------------------------------------------------------------------

    def check(self) -> None:
        """Raises whatever forbids to go on."""
        if self.stop is not None:
            raise self.stop
        if not self.held.is_valid(self.engine.clock.monotonic()):
            self.held.tell(LOST)
        reason = self.held.reason
        if reason is not None and not (reason == CANCELLED and self.mode != RUNNING):
            self.end(Interrupted(reason))

    def begin_undo(self) -> None:
        """The code has been left; its compensations may run."""
        self.mode, self.stop = UNDOING, None

    def end(self, stop: BaseException) -> NoReturn:
        """The attempt ends here. Raises ``stop``, or what ended it before."""
        with self._lock:
            if self.stop is None:
                self.stop = stop
        self.on_stop()
        raise self.stop

    def halt(self, error: Exception) -> NoReturn:
        """The same for an error that the workflow's code must not swallow."""
        self.end(Halted(error))

    # --- recording --------------------------------------------------------------------------------

    def entry(self, past: Past, phase: int, *, at_ms: int | None = None, **fields: Any) -> Record:
        """A record of that operation, of now."""
        now_ms = self.now_ms() if at_ms is None else at_ms
        return Record(identity=past.identity, phase=phase, at_ms=now_ms, worker=self.engine.worker_id, **fields)

    def now_ms(self) -> int:
        return self.engine.clock.now_ms()

    def note(self, record: Record) -> None:
        """Have it recorded with the next record: where nothing depends on it until then."""
        self.history.add(record)
        self._put(record)

    async def record(self, record: Record) -> None:
        """Record it, and what was noted before it, in one write. Records of several branches share a write."""
        self._put(record)
        await self._flushed()
        self.history.add(record)

    async def settle_waits(self) -> None:
        """Before something is done that nothing precedes: nobody may wake the run while it is being worked on."""
        if self.writer.run.waits:
            await self._flushed(always=True)

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """The only one to write the journal; for use inside a plan."""
        await self._turn
        try:
            yield
        finally:
            self._turn.release()

    def drain(self) -> list[Record]:
        """What is to be recorded by now; for whoever has the turn."""
        batch: list[Record] = []
        while self._pending:
            batch.append(self._pending.popleft())
        return batch

    def give_back(self, records: Sequence[Record]) -> None:
        """What was drained and could not be recorded after all."""
        self._pending.extendleft(reversed(records))

    def changes(self, *, parking: bool = False) -> list[Action]:
        """What goes along with the records. Progress makes the attempts before it count no more."""
        model, run = self.items.run, self.writer.run
        changes: list[Action] = []
        before = int(self.attempt.mark.attempt) - 1
        if before > int(run.base or 0) and not parking:
            changes.append(model.base.set(before))
        if run.waits and not parking:
            changes.append(model.waits.remove())
        if run.culprits:
            changes.append(model.culprits.remove())
        if self.has_undo and not run.has_undo:
            changes.append(model.has_undo.set(True))
        return changes

    async def leaving(self) -> list[Action]:
        """What the write that parks the run sets: all that was noted, recorded."""
        _, _, actions = await self.writer.prepared(self.drain())
        return [*actions, *self.changes(parking=True)]

    def _put(self, record: Record) -> None:
        with self._lock:
            self._pending.append(record)
            if is_delivery(record):
                is_undo = record.identity.scope == UNDO_SCOPE
                (self.undo_sequence if is_undo else self.sequence).append(record)

    async def _flushed(self, *, always: bool = False) -> None:
        async with self.turn():
            if isinstance(self.stop, (Halted, JournalLost)):
                raise self.stop
            batch = self.drain()
            if batch or (always and self.writer.run.waits):
                await self._append(batch)

    async def _append(self, batch: Sequence[Record]) -> None:
        try:
            run = await self.writer.append(batch, changes=self.changes())
        except LeaseLostError:
            self.held.tell(LOST)
            self.end(Interrupted(LOST))
        except StoreUnavailableError as error:
            self.end(JournalLost(error))
        except DynadurableError as error:
            self.halt(error)
        else:
            if run.cancelled:
                self.held.tell(CANCELLED)

    # --- signals ----------------------------------------------------------------------------------

    async def signal(self, topic: str) -> Signal | None:
        """What the run was told about that, if anything."""
        return (await signals.read(self.items, self.writer.run, [topic])).get(topic)

    def told(self, past: Past, topic: str, signal: Signal, phase: int, facts: Mapping[str, Any]) -> Record:
        """The record of a signal that came. What is large stays where it is."""
        record = self.entry(past, phase, value=signal.value, facts=dict(facts))
        if signal.value is not None and len(signal.value) > self.writer.room // 2:
            record = replace(record, page=signals.sort_key(self.journal_id, topic))
        return record

    # --- leaving ----------------------------------------------------------------------------------

    def park(self, *, wake_ms: int | None, topics: Sequence[str] = ()) -> NoReturn:
        """This strand waits. Whoever runs the strands decides whether the run does."""
        raise Parked(wake_ms=wake_ms, topics=topics)
