"""The stage of an ``async def`` workflow: its code on a loop of its own, its operations' plans on the worker's.

The code is given what it waits for in the order in which that is recorded, one at a time, and runs until all of it
waits again. On replay the order is the recorded one, so the code does the same; if the next in order is something that
the code does not wait for, it has changed. Only when everything recorded has been given, the plans of what is still
waited for begin.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from ..drivers.aio import AioDriver
from ..errors import BodyCancelledError, Interrupted, NonDeterminismError, NotReplayableError
from ..model.history import Line
from ..model.record import Identity, Record
from ..storage.call import Plan, Work
from ..worker.held import CANCELLED, LOST
from .branches import Branches
from .branches_aio import TaskBranches
from .execution import RUNNING, Execution
from .halt import Abandoned, Parked
from .loop import WorkflowLoop
from .reached import ENDED, STARTED, Reached
from .strand import Strand

if TYPE_CHECKING:
    from .core import Core

Returned = TypeVar("Returned")
Key = tuple[Identity, str]

RECHECK_SECONDS = 5.0
"""How often an operation that waits to be told something looks itself, while others are at work."""


@dataclass(eq=False, slots=True)
class Waiting:
    """An operation that the code waits for."""

    reached: Reached
    future: asyncio.Future[Record]
    task: asyncio.Task[None] | None = None
    parked: Parked | None = None
    look_at: float = 0.0
    """When a parked one looks again (monotonic seconds), if others are at work then."""
    left: BaseException | None = None
    """What its plan raised."""
    is_complete: bool = False

    @property
    def key(self) -> Key:
        return self.reached.past.identity, self.reached.until


def key_of(record: Record) -> Key:
    """What waits for a record."""
    return record.identity, ENDED if record.is_end else STARTED


class TaskStage:
    """Conducts the code of one attempt."""

    def __init__(
        self, execution: Execution, driver: AioDriver, make_context: Callable[[Core], Any], *, undo: bool
    ) -> None:
        self.execution = execution
        self.is_live = False
        self._driver = driver
        self._make_context = make_context
        self._inner = WorkflowLoop()  # type: ignore[abstract]  # it refuses the rest
        self._waiting: dict[Key, Waiting] = {}
        self._given: set[Key] = set()
        self._is_undo = undo
        self._sequence = execution.undo_sequence if undo else execution.sequence
        self._recorded = len(self._sequence)
        self._happened = asyncio.Event()

    # --- asked by the code ------------------------------------------------------------------------

    def is_replaying(self, line: Line) -> bool:  # noqa: ARG002 - one order for all of its lines
        return self._recorded > 0

    def go_live(self) -> None:
        raise AssertionError("an async workflow goes live by itself")

    def run(self, plan: Plan[Any]) -> Any:
        raise AssertionError(f"{plan!r} is stepped by awaiting it")

    async def step_through(self, make: Callable[[], Plan[Returned]]) -> Returned:
        """Step an operation's plan inside the code."""
        if asyncio.get_running_loop() is not self._inner:
            raise NotReplayableError("a workflow's ctx is for its own code: it cannot be used inside a step")
        plan = make()
        try:
            step = plan.send(None)
            while True:
                assert isinstance(step, Work), f"{step!r} belongs into an operation's own plan"
                try:
                    reply = await step.perform_async()
                except BaseException as error:  # noqa: BLE001 - the plan decides
                    step = plan.throw(error)
                else:
                    step = plan.send(reply)
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]
        finally:
            plan.close()

    async def outcome(self, reached: Reached) -> Record:
        """The record, when it is its turn."""
        reached.strand.check()
        if reached.record is None:
            reached.strand.check_new()
        waiting = Waiting(reached, self._inner.create_future())
        if waiting.key in self._given and reached.record is not None:
            return reached.record
        self._waiting[waiting.key] = waiting
        return await waiting.future

    def branches(self, work: Branches) -> Work:
        return TaskBranches(work, self)

    def context(self, core: Core) -> Any:
        return self._make_context(core)

    def abandon(self, strand: Strand) -> None:
        """Nobody waits for this branch any more: what it waits for and nobody works on ends now."""
        strand.stop = strand.stop or Abandoned("abandoned")
        for waiting in list(self._waiting.values()):
            is_idle = waiting.task is None and waiting.reached.record is None
            if waiting.reached.strand is strand and is_idle:
                self._raise_into(waiting, strand.stop)

    # --- conducting -------------------------------------------------------------------------------

    async def play(self, code: Coroutine[Any, Any, Returned]) -> Returned:
        """Run the code to its end, or until it cannot go on; ``execution.stop`` then says why."""
        main = self._inner.create_task(code)
        listener = self._listener()
        self.execution.held.listen(listener)
        try:
            while not main.done():
                self._inner.run_ready()
                if main.done() or await self._is_over():
                    break
            self._inner.run_ready()
            if not main.done() and self.execution.stop is not None:
                raise self.execution.stop
            return main.result()
        finally:
            self.execution.held.unlisten(listener)
            await self._close()

    async def _is_over(self) -> bool:
        """Let one thing happen; true if nothing more can."""
        execution = self.execution
        if execution.stop is not None:
            await self._wind_up(execution.stop)
            return True
        if self._give_next():
            return False
        try:
            self._check_replayed()
            if execution.is_dry:
                execution.end(Abandoned("dry"))
            self._begin_all()
        except BaseException:  # noqa: BLE001 - it is in execution.stop, and raised into the code on the next round
            return False
        if any(waiting.task is not None for waiting in self._waiting.values()):
            await self._something()
        elif not self._waiting:
            self._stop(NotReplayableError("the workflow waits for something that nothing in it will bring about"))
        elif all(waiting.parked is not None for waiting in self._waiting.values()):
            execution.stop = Parked.all_of(one.parked for one in self._waiting.values() if one.parked is not None)
        return False

    def _give_next(self) -> bool:
        """Give the code what is next in order, if it is there and the code waits for it."""
        if not self._sequence:
            return False
        record = self._sequence[0]
        waiting = self._waiting.get(key_of(record))
        if waiting is None or not (self._recorded > 0 or waiting.is_complete):
            return False
        self._sequence.popleft()
        self._recorded -= self._recorded > 0
        del self._waiting[waiting.key]
        self._given.add(waiting.key)
        if not waiting.future.done():
            waiting.future.set_result(record)
        return True

    def _check_replayed(self) -> None:
        """All that is recorded has been given; if it has not, the code waits for something else."""
        if self.is_live:
            return
        missing = self._missing()
        if missing is not None:
            found = ", ".join(str(key[0]) for key in self._waiting) or "the end"
            where = next((str(one.reached.past.where) for one in self._waiting.values()), "")
            self.execution.halt(NonDeterminismError(expected=missing, found=found, where=where))
        self.is_live = True

    def end_of_code(self, where: object) -> None:
        """The code has returned; halts the attempt if there is more recorded than it came to."""
        missing = None if self.is_live else self._missing()
        if missing is not None:
            self.execution.halt(NonDeterminismError(expected=missing, found="the end", where=str(where)))

    def _missing(self) -> str | None:
        """What is recorded and the code has not come to."""
        if self._recorded > 0:
            return str(self._sequence[0].identity)
        begun = [] if self._is_undo else self.execution.history.begun()
        return next((str(past.identity) for past in begun if past.where is None), None)

    def cancelled_inside(self) -> BodyCancelledError:
        """The code ended with a cancellation that was not ours."""
        return BodyCancelledError(str(self.execution.attempt.mark.job))

    def _begin_all(self) -> None:
        """Begin the plans of what is waited for and is neither at work nor parked."""
        loop, now = asyncio.get_running_loop(), self.execution.engine.clock.monotonic()
        at_work = any(waiting.task is not None for waiting in self._waiting.values())
        for waiting in list(self._waiting.values()):
            if waiting.task is not None or (waiting.parked is not None and not (at_work and waiting.look_at <= now)):
                continue
            try:
                waiting.reached.strand.check_new()
            except BaseException as stop:  # noqa: BLE001 - raised in the code, which waits for this
                self._raise_into(waiting, stop)
                continue
            waiting.parked = None
            waiting.task = loop.create_task(self._carry_out(waiting), name=f"dynadurable {waiting.key[0]}")

    async def _carry_out(self, waiting: Waiting) -> None:
        try:
            await self._driver.run(waiting.reached.plan())
        except asyncio.CancelledError:
            raise
        except Parked as parked:
            waiting.parked = parked
            waiting.look_at = self.execution.engine.clock.monotonic() + self._pause(parked)
        except BaseException as left:  # noqa: BLE001 - SystemExit would stop the worker's loop
            waiting.left = left
        else:
            waiting.is_complete = True

    async def _something(self) -> None:
        """Until a plan has ended, a parked one may look again, or the worker is told something."""
        self._happened.clear()
        tasks = {waiting.task for waiting in self._waiting.values() if waiting.task is not None}
        happened = asyncio.get_running_loop().create_task(self._happened.wait())
        try:
            await asyncio.wait({*tasks, happened}, timeout=self._patience(), return_when=asyncio.FIRST_COMPLETED)
        finally:
            happened.cancel()
        self._obey()
        self._take_in()

    def _take_in(self) -> None:
        for waiting in list(self._waiting.values()):
            if waiting.task is None or not waiting.task.done():
                continue
            task, waiting.task = waiting.task, None
            left = waiting.left or (None if task.cancelled() else task.exception())
            if task.cancelled():
                self._raise_into(waiting, Interrupted(self.execution.held.reason or LOST))
            elif left is not None:
                self._raise_into(waiting, left)
                if not isinstance(left, Exception):
                    self.execution.stop = self.execution.stop or left

    def _patience(self) -> float | None:
        looks = [waiting.look_at for waiting in self._waiting.values() if waiting.parked is not None]
        return None if not looks else max(0.0, min(looks) - self.execution.engine.clock.monotonic())

    def _pause(self, parked: Parked) -> float:
        waits = [] if parked.wake_ms is None else [(parked.wake_ms - self.execution.now_ms()) / 1000]
        return max(0.0, min([*waits, *([RECHECK_SECONDS] if parked.topics or not waits else [])]))

    # --- ending -----------------------------------------------------------------------------------

    def _stop(self, error: Exception) -> None:
        with contextlib.suppress(BaseException):  # it is in execution.stop
            self.execution.halt(error)

    def _raise_into(self, waiting: Waiting, stop: BaseException) -> None:
        self._waiting.pop(waiting.key, None)
        if waiting.future.done():
            return
        if isinstance(stop, (StopIteration, KeyboardInterrupt, SystemExit)):
            stop = Interrupted("stopping")  # these would leave the code's loop at once; the attempt raises them itself
        waiting.future.set_exception(stop)
        waiting.future.exception()  # looked at: nobody need be told that nobody waits for it

    async def _wind_up(self, stop: BaseException) -> None:
        """Let bodies that run end and be recorded, then tell the code."""
        at_work = [waiting for waiting in self._waiting.values() if waiting.task is not None]
        while at_work:
            await self._something()
            at_work = [waiting for waiting in self._waiting.values() if waiting.task is not None]
            while self._give_next():
                self._inner.run_ready()
        for waiting in list(self._waiting.values()):
            self._raise_into(waiting, stop)
        self._inner.run_ready()

    def _listener(self) -> Callable[[str], None]:
        loop = asyncio.get_running_loop()

        def told(_reason: str) -> None:
            with contextlib.suppress(RuntimeError):  # the loop was closed: nobody waits any more
                loop.call_soon_threadsafe(self._happened.set)

        return told

    def _obey(self) -> None:
        """Cancel bodies where their outcome does not count any more."""
        execution, reason = self.execution, self.execution.held.reason
        is_cancelled = reason == CANCELLED and execution.mode == RUNNING
        if reason == LOST or (is_cancelled and not execution.has_undo):
            for waiting in self._waiting.values():
                if waiting.task is not None:
                    waiting.task.cancel()
        if is_cancelled or reason == LOST:
            execution.stop = execution.stop or Interrupted(reason or LOST)

    async def _close(self) -> None:
        tasks = [waiting.task for waiting in self._waiting.values() if waiting.task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self._inner.end()
