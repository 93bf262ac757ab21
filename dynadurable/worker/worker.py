"""A worker: looks for work, runs it in its lanes, stops gracefully."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from ..clock import to_datetime
from ..errors import ConfigurationError, DynadurableError, StoreUnavailableError
from ..forks import renew_after_fork
from ..log import careful_log
from ..storage import marks, table
from ..storage.call import Plan, Several
from ..storage.items import Mark, Run
from ..storage.marks import Candidate
from ..storage.schedules import SCHEDULE_JOB
from .attempt import AttemptPlan
from .engine import Engine
from .held import LOST
from .lane import Lane
from .poller import Poller
from .registrar import Registrar
from .reporter import Reporter
from .signals import Flag, StoppedEarly, stop_on_signals

log = careful_log("dynadurable.worker")

IDLE_WAIT_SECONDS = 0.5
TURN_SECONDS = 10.0  # the loop goes round at least this often: a health check sees by its beats that it does not hang
SIGNAL_WAIT_SECONDS = 0.2
SCHEDULES_SECONDS = 60.0
CANCEL_SECONDS = 5.0
DISPATCHER_SECONDS = 0.5  # for the dispatcher to see that it is over, after the grace period
PARALLEL_HAND_BACKS = 16
MAX_FAILED_DRAIN_LOOKS = 5  # each after half a minute or more: a drain that finds nothing out says so in its exit code
REGISTER_SECONDS = 5.0
REGISTER_DRAIN_SECONDS = 15.0  # most drains find little to do and are over before that: then they need no record
REPORT_SECONDS = 10.0
REPORT_DRAIN_SECONDS = 60.0  # and once at its end
EXIT_OK = 0
EXIT_ABANDONED = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class StopReport:
    """How a worker ended. ``abandoned``: runs whose bodies would not end; they were handed back."""

    abandoned: Sequence[str]

    @property
    def exit_code(self) -> int:
        return EXIT_ABANDONED if self.abandoned else EXIT_OK


class Worker:
    """Made by ``app.worker(...)``. Used once: after it has stopped, ask the app for another."""

    def __init__(
        self,
        engine: Engine,
        poller: Poller,
        lanes: Callable[[Worker], Sequence[Lane]],
        registrar: Registrar,
        reporter: Reporter,
        *,
        grace: timedelta,
    ) -> None:
        self._engine = engine
        self._poller = poller
        self._registrar = registrar
        self._reporter = reporter
        self._grace = grace.total_seconds()
        self._nudge = threading.Event()
        self._lanes = list(lanes(self))
        self._thread: threading.Thread | None = None
        self._fatal: BaseException | None = None
        self._claimed_once = self._looked_once = False
        self._schedules_at = -math.inf
        self._stopped: StopReport | None = None
        self._used = self._begun = False
        self._forked = False
        self._lock = threading.Lock()
        renew_after_fork(self)

    def after_fork(self) -> None:
        """The child is not a worker: its parent is."""
        self._forked = True

    # --- running ----------------------------------------------------------------------------------

    def run(self) -> int:
        """Work until SIGTERM or SIGINT, then stop gracefully. A second signal stops at once.

        Returns the exit code for the process: 0, or 2 if a body would not end within the grace period.

        Raises:
            ConfigurationError: the table is missing, has other keys, or may not be used.
        """
        hurry = Flag()
        with stop_on_signals(self._engine.stopping, hurry, at_once=self._holds_nothing):
            try:
                self.start()
            except StoppedEarly:
                return EXIT_OK
            while self.is_running:
                self._engine.clock.sleep(SIGNAL_WAIT_SECONDS)
            report = self.stop(hurry=hurry)
        return self.exit_code(report)

    def drain(self, *, timeout: timedelta | None = None) -> datetime | None:
        """Work until nothing is due, then stop; for a scheduled container. Call it from the main thread or any other.

        Returns when to come again: the next instant at which something comes due (or a lease runs out), or ``None``
        if nothing is pending. After ``timeout`` it claims nothing more and stops within the grace period.

        Raises:
            ConfigurationError: the table is missing, has other keys, or may not be used.
        """
        hurry = Flag()
        with stop_on_signals(self._engine.stopping, hurry, at_once=self._holds_nothing):
            try:
                return self.work_off(timeout=timeout, hurry=hurry)
            except StoppedEarly:
                return None

    def start(self) -> None:
        """Work in the background, in this process: for use inside a web app. End it with ``stop()``.

        Raises:
            ConfigurationError: the table is missing, has other keys, or may not be used.
        """
        self._begin()
        self._registrar.start(after_seconds=REGISTER_SECONDS)
        self._reporter.start(after_seconds=REPORT_SECONDS)
        self._thread = threading.Thread(target=self._loop, name="dynadurable-dispatch", daemon=True)
        self._thread.start()

    def stop(self, *, grace: timedelta | None = None, hurry: Flag | None = None) -> StopReport:
        """Claim nothing more, let bodies end within the grace period, hand back what has not ended.

        May be called twice. ``hurry``, once set, ends the grace period early.
        """
        with self._lock:
            if self._stopped is None:
                self._stopped = self._stop(self._grace if grace is None else grace.total_seconds(), hurry)
            return self._stopped

    def wake(self) -> None:
        """Look for work at once."""
        self._poller.wake()
        self._nudge.set()

    # --- for those who run it: this class, and its twin for event loops ---------------------------

    @property
    def is_running(self) -> bool:
        """Whether nobody has asked it to stop yet, and nothing has ended it."""
        return not self._engine.stopping.is_set() and self._fatal is None

    @property
    def is_over(self) -> bool:
        """Whether it has stopped for good: a worker is used once."""
        return self._stopped is not None

    def work_off(self, *, timeout: timedelta | None, hurry: Flag) -> datetime | None:
        """``drain`` without its signals."""
        self._begin()
        self._registrar.start(after_seconds=REGISTER_DRAIN_SECONDS)
        self._reporter.start(after_seconds=REPORT_DRAIN_SECONDS)
        clock = self._engine.clock
        give_up_at = None if timeout is None else clock.monotonic() + timeout.total_seconds()
        failures = 0
        try:
            while self.is_running and (give_up_at is None or clock.monotonic() < give_up_at):
                self._engine.heartbeat.beat()
                try:
                    wait = self._step()
                    if wait > 0 and self._is_idle() and not self._poller.poll() and not self._poller.unfinished:
                        break
                except StoreUnavailableError as error:
                    failures += 1
                    if failures >= MAX_FAILED_DRAIN_LOOKS:
                        raise
                    log.warning("looking for work failed, trying again: %s", error)
                    wait = _after_failures(failures)
                else:
                    failures = 0
                self._sleep(0.0 if self._is_idle() and not failures else min(wait, SIGNAL_WAIT_SECONDS))
        finally:
            report = self.stop(hurry=hurry)
        self._reporter.report_at_end()
        if self.exit_code(report):
            log.warning("%d bodies would not end and were handed back: %s", len(report.abandoned), report.abandoned)
        due_ms = self._poller.next_due_ms
        return None if due_ms is None else to_datetime(due_ms)

    def exit_code(self, report: StopReport) -> int:
        """What a process ends with. Raises what ended the worker, if something did."""
        if self._fatal is not None:
            raise self._fatal
        return report.exit_code

    # --- eager start ------------------------------------------------------------------------------

    def reserve(self, *, job: str, queue: str) -> Lane | None:
        """A lane with a slot for that job, reserved, if it may begin here at once."""
        if self._forked or self._thread is None or self._engine.stopping.is_set() or not self._poller.serves(queue):
            return None
        known = self._engine.registry.get(job)
        for lane in self._lanes:
            if known is not None and known.is_async == lane.is_async and lane.reserve():
                return lane
        return None

    def knows_pause(self, queue: str) -> bool:
        """Whether it was seen lately if that queue is paused."""
        return self._poller.knows_pause(queue)

    def learn_pause(self, queue: str, *, paused: bool) -> None:
        """It was seen just now whether that queue is paused."""
        self._poller.learn_pause(queue, paused=paused)

    def begin(self, lane: Lane, mark: Mark, run: Run | None, *, run_id: str, sent: float) -> None:
        """Run a mark that was placed as claimed, in the slot that was reserved."""
        lane.submit(lane.attempts.claimed(mark, run_id, sent=sent, run=run))

    def give_up(self, lane: Lane, mark: Mark | None) -> None:
        """Let go of a slot whose enqueue failed, and of its mark, which may have been placed as claimed."""
        if mark is None:
            lane.cancel_reservation()
        else:
            lane.submit(_handed_back(self._engine, mark))

    @property
    def engine(self) -> Engine:
        """What the worker's parts share."""
        return self._engine

    @property
    def registrar(self) -> Registrar:
        """What says that the worker is alive."""
        return self._registrar

    @property
    def reporter(self) -> Reporter:
        """What reports the figures of its queues, if anybody wants them."""
        return self._reporter

    # --- told by lanes, in their threads ----------------------------------------------------------

    def more(self, lane: Lane) -> AttemptPlan | None:
        """The next attempt for a slot that has just ended one."""
        if self._engine.stopping.is_set() or self._fatal is not None:
            return None
        candidate = self._poller.take(lambda seen: self._fits(seen, lane))
        return None if candidate is None else lane.attempts.of(candidate)

    def on_done(self, event: str | None, *, idle: bool) -> None:
        """An attempt has ended."""
        if event is None:
            self._poller.lost()
        elif event != "error":
            self._claimed_once = True
        if idle:
            if self._poller.passed_over:
                self._poller.next_poll_at = 0.0  # a slot has come free for what was not wanted before
            self._nudge.set()

    def on_fatal(self, error: BaseException) -> None:
        """A missing permission at the first claim, or SystemExit and the like out of a body, end the worker."""
        if isinstance(error, ConfigurationError) and self._claimed_once:
            log.error("the store refused a request that it took before, trying again: %s", error)
            return
        self._fatal = self._fatal or error
        self._nudge.set()

    # --- inside -----------------------------------------------------------------------------------

    def _begin(self) -> None:
        if self._used:
            raise ConfigurationError("a worker is used once: ask the app for another with app.worker()")
        self._used = True
        self._engine.driver.run(table.check(self._engine.items))
        self._look_after_schedules()
        self._begun = True

    def _holds_nothing(self) -> bool:
        """Whether it has not begun to look for work: then a signal ends it where it is."""
        return not self._begun

    def _look_after_schedules(self) -> None:
        """Put those of the code in force, and find what a crash has left without its mark."""
        now = self._engine.clock.monotonic()
        if now < self._schedules_at:
            return
        self._schedules_at = now + SCHEDULES_SECONDS
        try:
            self._engine.driver.run(self._engine.deployment.look())
        except ConfigurationError:
            raise
        except DynadurableError as error:
            log.warning("looking after schedules failed, trying again: %s", error)

    def _loop(self) -> None:
        failures = 0
        while not self._engine.stopping.is_set() and self._fatal is None:
            self._engine.heartbeat.beat()
            try:
                self._look_after_schedules()
                wait = self._step()
            except Exception as error:  # noqa: BLE001 - whatever it is, the worker goes on looking
                failures += 1
                self._on_failed_look(error)
                wait = _after_failures(failures)
            else:
                failures, self._looked_once = 0, True
            self._sleep(min(wait, TURN_SECONDS))

    def _on_failed_look(self, error: Exception) -> None:
        if isinstance(error, ConfigurationError):
            self._claimed_once = self._claimed_once or self._looked_once  # what could be read is no missing set-up
            self.on_fatal(error)
        elif isinstance(error, DynadurableError):
            log.warning("looking for work failed, trying again: %s", error)
        else:
            log.error("looking for work met a defect, trying again", exc_info=error)

    def _sleep(self, seconds: float) -> None:
        if seconds > 0:
            self._engine.clock.wait(self._nudge, seconds)
        self._nudge.clear()

    def _step(self) -> float:
        """Give work to free slots, look for more if it is time; the seconds to wait before the next step."""
        self._hand_out()
        if not any(lane.free_slots() for lane in self._used_lanes()):
            return self._poller.longest_wait
        now = self._engine.clock.monotonic()
        if now >= self._poller.next_poll_at and not self._engine.stopping.is_set():
            self._poller.poll(self._is_wanted)
            self._hand_out()
            now = self._engine.clock.monotonic()
        return max(0.0, self._poller.next_poll_at - now)

    def _used_lanes(self) -> list[Lane]:
        """Those of a kind of which there is a job."""
        return [lane for lane in self._lanes if self._engine.registry.has(is_async=lane.is_async)]

    def _hand_out(self) -> None:
        for lane in self._used_lanes():
            while not self._engine.stopping.is_set() and lane.reserve():
                candidate = self._poller.take(lambda seen, lane=lane: self._fits(seen, lane))  # type: ignore[misc]
                if candidate is None:
                    lane.cancel_reservation()
                    break
                lane.submit(lane.attempts.of(candidate))

    def _fits(self, candidate: Candidate, lane: Lane) -> bool:
        if candidate.job == SCHEDULE_JOB:
            return True
        job = self._engine.registry.get(candidate.job)
        return job is not None and job.is_async == lane.is_async

    def _is_wanted(self, candidate: Candidate) -> bool:
        return any(lane.free_slots() and self._fits(candidate, lane) for lane in self._lanes)

    def _is_idle(self) -> bool:
        return all(lane.wait_idle(0.0) for lane in self._lanes)

    def _stop(self, grace: float, hurry: Flag | None) -> StopReport:
        self._engine.stop_claiming()
        self._nudge.set()
        clock = self._engine.clock
        end = clock.monotonic() + grace
        while not self._is_over() and clock.monotonic() < end and not (hurry is not None and hurry.is_set()):
            self._engine.heartbeat.beat()
            self._wait_a_little(min(0.1, max(0.0, end - clock.monotonic())))
        if self._thread is not None and self._is_looking():  # it may be about to give a lane something
            self._thread.join(timeout=DISPATCHER_SECONDS)
        for lane in self._lanes:
            lane.close(abandon=not self._is_idle())
        abandoned = self._abandon()
        self._engine.keeper.stop()
        self._reporter.stop()
        self._registrar.stop()
        return StopReport(abandoned=abandoned)

    def _is_over(self) -> bool:
        """Whether no body runs any more and nobody looks for work."""
        return self._is_idle() and not self._is_looking()

    def _is_looking(self) -> bool:
        """Whether the dispatcher is at work, for instance in a poll that a slow store has not answered yet."""
        return self._thread is not None and self._thread.is_alive() and self._thread is not threading.current_thread()

    def _wait_a_little(self, seconds: float) -> None:
        for lane in self._lanes:
            lane.wait_idle(seconds)
        if self._thread is not None and self._is_idle() and self._is_looking():
            self._thread.join(timeout=seconds)

    def _abandon(self) -> list[str]:
        """Hand back what has not ended. Its body is told that the lease is lost, and can write nothing more."""
        engine, left = self._engine, self._engine.holding()
        for held in left:
            held.tell(LOST)
        if left:
            plans = [marks.hand_back(engine.items, held.mark) for held in left]
            give_up_at = engine.clock.monotonic() + CANCEL_SECONDS
            outcomes = engine.driver.run(_side_by_side(plans), give_up_at=give_up_at)
            for held, outcome in zip(left, outcomes, strict=True):
                if isinstance(outcome, Exception):
                    log.warning("run %s could not be handed back, its lease runs out: %s", held.run_id, outcome)
        return [held.run_id for held in left]


async def _side_by_side(plans: Sequence[Plan[None]]) -> list[Exception | None]:
    outcomes: list[Exception | None] = await Several(plans, limit=PARALLEL_HAND_BACKS)
    return outcomes


def _after_failures(failures: int) -> float:
    """Seconds to wait after so many looks that failed one after the other: 0.5, 1, 2 ... up to 10.

    >>> [_after_failures(number) for number in (1, 2, 3, 9)]
    [0.5, 1.0, 2.0, 10.0]
    """
    wait: float = min(TURN_SECONDS, IDLE_WAIT_SECONDS * 2 ** min(failures - 1, 16))
    return wait


async def _handed_back(engine: Engine, mark: Mark) -> str | None:
    await marks.hand_back(engine.items, mark)
    engine.look_again()  # it is free for everybody, and nobody else may be there
    return "handed back"
