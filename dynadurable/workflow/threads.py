"""The stage of a ``def`` workflow: its code in the attempt's thread, its branches in threads of their own."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from ..drivers.boto3 import Boto3Driver
from ..model.codec import own_copy
from ..model.history import Line
from ..model.record import DONE, Record
from ..model.results import Results
from ..storage.call import Plan, Work
from .branches import Branches
from .execution import Execution
from .gate import Gate
from .halt import Abandoned, Parked, Rewound
from .reached import Reached

if TYPE_CHECKING:
    from .core import Core

RECHECK_SECONDS = 5.0
"""How often a branch that waits to be told something looks itself, while other branches are at work."""


class ThreadStage:
    """Steps plans in the calling thread."""

    def __init__(self, execution: Execution, driver: Boto3Driver, make_context: Callable[[Core], Any]) -> None:
        self.execution = execution
        self.gate = Gate(execution.check)
        execution.on_stop = self.gate.open
        self._driver = driver
        self._make_context = make_context

    @property
    def is_live(self) -> bool:
        return self.gate.is_open

    def is_replaying(self, line: Line) -> bool:
        return line.is_replaying

    def go_live(self) -> None:
        if not self.gate.is_open:
            self.gate.go_through()

    def run(self, plan: Plan[Any]) -> Any:
        return self._driver.run(plan)

    async def outcome(self, reached: Reached) -> Record:
        raise AssertionError(f"{reached.past.identity} is stepped on an event loop")

    def branches(self, work: Branches) -> Work:
        return ThreadBranches(work, self)

    def context(self, core: Core) -> Any:
        return self._make_context(core)


class ThreadBranches(Work):
    """Runs branches in threads, a limited number at once; the calling thread coordinates.

    A branch that parks gives up its thread and keeps its place. When nothing but parked branches is left, the whole run
    parks; while others are at work, it is begun again when its time has come: its operations are recorded.
    """

    def __init__(self, work: Branches, stage: ThreadStage) -> None:
        self.work = work
        self.stage = stage
        self.gate = stage.gate
        self._clock = stage.execution.engine.clock
        self._running: dict[int, Core] = {}
        self._parked: dict[int, tuple[Parked, float]] = {}
        self._ended: list[tuple[int, Any, BaseException | None]] = []
        self._next = 0
        self._stop: BaseException | None = None

    def perform(self) -> Results[Any]:
        work = self.work
        while True:
            self._begin_more()
            if not self._running:
                self._raise_stop()
                if work.reason() is not None:
                    break
                if work.is_rewound:
                    self._leave(Rewound("rewound"))
                if self.stage.execution.is_dry:
                    self._leave(Abandoned("dry"))
                work.core.strand.end(Parked.all_of(parked for parked, _ in self._parked.values()))
            self._wait()
        for index in self._parked:
            work.abandon(index)
        results = work.results()
        self._decide(results)
        return results

    # --- beginning --------------------------------------------------------------------------------

    def _begin_more(self) -> None:
        if self._stop is not None or self.stage.execution.stop is not None or self.work.reason() is not None:
            for core in list(self._running.values()):
                core.strand.stop = core.strand.stop or Abandoned("abandoned")
            return
        now = self._clock.monotonic()
        for index, (_, due) in list(self._parked.items()):
            if due <= now and self._running:
                del self._parked[index]
                self._begin(index)
        while len(self._running) + len(self._parked) < self.work.limit:
            following = self._following()
            if following is None:
                return
            self._begin(following)
            if self.work.reason() is not None:
                return

    def _following(self) -> int | None:
        """The next branch to begin."""
        left = self.work.unsettled()
        while self._next < len(self.work.calls):
            index, self._next = self._next, self._next + 1
            if index in left:
                return index
        return None

    def _begin(self, index: int) -> None:
        core = self.work.core_of(index)
        if self.work.is_recorded(index):  # no thread is needed to read it
            self._take_in(index, core, *_left(lambda: self._call(index, core)))
            return
        self._running[index] = core
        context = contextvars.copy_context()
        thread = threading.Thread(
            target=context.run, args=(self._run, index, core), name=f"dynadurable-{core.line.scope}", daemon=True
        )
        with self.gate.changed:
            self.gate.resume()
        thread.start()

    def _run(self, index: int, core: Core) -> None:
        value, error = _left(lambda: self._call(index, core))
        with self.gate.changed:  # what this thread was counted for goes over to the coordinator
            self._ended.append((index, value, error))
            self.gate.changed.notify_all()

    def _call(self, index: int, core: Core) -> Any:
        call = self.work.calls[index]
        if call.step is not None:
            return self.stage.run(core.step(core.here, call.step, None))
        return call.function(self.stage.context(core), *map(own_copy, call.args))

    # --- ending -----------------------------------------------------------------------------------

    def _wait(self) -> None:
        """Until a branch has ended, or a parked one may go on. The gate goes on counting this thread, and no other."""
        with self.gate.changed:
            if not self._ended:
                self.gate.rest()
                self.gate.changed.wait_for(lambda: self._ended, timeout=self._patience())
                self.gate.resume()
            ended, self._ended = self._ended, []
            for _ in ended:
                self.gate.rest()
        for index, value, error in ended:
            core = self._running.pop(index)
            self._take_in(index, core, value, error)

    def _patience(self) -> float | None:
        if not self._parked:
            return None
        return max(0.0, min(due for _, due in self._parked.values()) - self._clock.monotonic())

    def _take_in(self, index: int, core: Core, value: Any, error: BaseException | None) -> None:
        try:
            parked = self.work.ended(index, core, value, error)
        except BaseException as stop:  # noqa: BLE001 - raised again once all branches have ended
            self._stop = self._stop or stop
            return
        if parked is not None:
            self._parked[index] = (parked, self._clock.monotonic() + self._pause(parked))

    def _pause(self, parked: Parked) -> float:
        """Seconds until a parked branch is begun again, if other branches are still at work then."""
        waits = [] if parked.wake_ms is None else [(parked.wake_ms - self.stage.execution.now_ms()) / 1000]
        return max(0.0, min([*waits, *([RECHECK_SECONDS] if parked.topics or not waits else [])]))

    def _raise_stop(self) -> None:
        stop = self.stage.execution.stop or self._stop
        if stop is not None:
            self._leave(stop)

    def _leave(self, stop: BaseException) -> NoReturn:
        self.work.core.strand.end(stop)

    def _decide(self, results: Results[Any]) -> None:
        """Record which branches count, if that is not plain from what is recorded of each."""
        work, execution = self.work, self.stage.execution
        if work.past.end is not None:
            return
        if work.is_plain:
            execution.note(execution.entry(work.past, DONE, at_ms=work.core.line.now_ms))
            return
        work.core.strand.check_new()
        self.stage.go_live()
        if execution.is_dry:
            self._leave(Abandoned("dry"))
        self.stage.run(work.decide(results))


def _left(call: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    try:
        return call(), None
    except BaseException as error:  # noqa: BLE001 - the coordinator decides
        return None, error
