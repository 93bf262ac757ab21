"""Worker processes deliver a molt, and are killed on the way."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from ..errors import DynadurableError
from .crew import APP, WorkerProcess
from .door import Passage
from .marks import MarkInTable
from .report import Kill
from .screen import Bar
from .stage import Stage
from .tally import FINISHED, Claim

PATIENCE_SECONDS = 60.0
GLANCE_SECONDS = 0.05
BEYOND = 75
"""Writes that a worker has done beyond its last checkpoint when it is killed: the next one repeats them."""


class StoodStillError(DynadurableError):
    """A process ended, or did nothing for a minute, without being killed by us."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Killed:
    """A kill as far as it is known when it happens."""

    pid: int
    at: float
    recorded: int
    repeated_before: int


class Delivery:
    """From the first worker's start to the mark's end."""

    def __init__(self, stage: Stage, marks: MarkInTable) -> None:
        self._stage = stage
        self._tally = stage.tally
        self._marks = marks
        self._killed: list[_Killed] = []
        self._told_claims = 0

    def run(self) -> list[Kill]:
        """The kills.

        Raises:
            StoodStillError: it did not come to its end.
        """
        stage = self._stage
        with stage.screen.bar("starting a worker", stage.followers) as bar:
            for number in range(1, stage.settings.kills + 1):
                self._until_killed(bar, stage.settings.kill_at(number, stage.followers))
            self._until_done(bar)
        repeated = [*(killed.repeated_before for killed in self._killed), self._tally.repeated]
        return [
            Kill(
                pid=killed.pid,
                recorded=killed.recorded,
                take_over_seconds=self._next_claim(killed).at - killed.at,
                repeated=after - before,
            )
            for killed, (before, after) in zip(self._killed, pairwise(repeated), strict=True)
        ]

    def _next_claim(self, killed: _Killed) -> Claim:
        return next(claim for claim in self._tally.claims if claim.at > killed.at)

    def _until_killed(self, bar: Bar, recorded: int) -> None:
        """A worker works until a checkpoint covers so many followers and some writes have gone beyond it."""
        stage, dead = self._stage, threading.Event()
        with self._worker() as worker:

            def kill_in_time(_: Passage) -> None:
                if not dead.is_set() and self._is_time(recorded):
                    worker.kill()
                    dead.set()

            stage.on_passage = kill_in_time
            self._watch(bar, worker, dead.is_set)
            now = stage.clock.monotonic()
            self._killed.append(
                _Killed(pid=worker.pid, at=now, recorded=self._tally.recorded, repeated_before=self._tally.repeated)
            )
            bar.to(self._tally.delivered)
            bar.about("nobody delivers ")
        stage.screen.say(f"kill -9 {worker.pid}. What lies in the table now:", style="bold red")
        stage.screen.table_holds(self._marks.rows())

    def _is_time(self, recorded: int) -> bool:
        if len(self._tally.claims) <= len(self._killed):
            return False
        reached = self._tally.recorded
        beyond = self._tally.delivered - reached
        return reached >= recorded and beyond >= min(BEYOND, (self._stage.followers - reached) // 2)

    def _until_done(self, bar: Bar) -> None:
        with self._worker() as worker:
            self._watch(bar, worker, lambda: FINISHED in self._tally.spent())
            bar.to(self._tally.delivered)
            if worker.stop() != 0:
                raise StoodStillError(f"the last worker did not stop gracefully:\n{worker.log()}")

    def _worker(self) -> WorkerProcess:
        stage, number = self._stage, len(self._killed) + 1
        worker = WorkerProcess(
            stage.door.endpoint_url,
            lease_seconds=stage.settings.lease_seconds,
            log=stage.folder / f"worker-{number}.log",
        )
        stage.screen.say(f"worker {number} starts: process {worker.pid}, dynadurable worker {APP}")
        return worker

    def _watch(self, bar: Bar, worker: WorkerProcess, done: Callable[[], bool]) -> None:
        clock, tally = self._stage.clock, self._tally
        moved_at, seen = clock.monotonic(), -1
        pause = threading.Event()
        while not done():
            self._tell_claims(bar)
            bar.to(tally.delivered)
            if tally.deliveries != seen:
                moved_at, seen = clock.monotonic(), tally.deliveries
            if worker.ended and not done():
                raise StoodStillError(f"worker {worker.pid} ended by itself:\n{worker.log()}")
            if clock.monotonic() - moved_at > PATIENCE_SECONDS:
                raise StoodStillError(f"nothing was delivered for {PATIENCE_SECONDS:.0f} s:\n{worker.log()}")
            clock.wait(pause, GLANCE_SECONDS)
        self._tell_claims(bar)

    def _tell_claims(self, bar: Bar) -> None:
        number = len(self._killed) + 1
        if len(self._tally.claims) == self._told_claims:
            return
        self._told_claims = len(self._tally.claims)
        bar.about(f"worker {number} delivers")
        if self._killed:
            after = self._next_claim(self._killed[-1]).at - self._killed[-1].at
            self._stage.screen.say(
                f"worker {number} takes over {after:.1f} s after the kill and goes on after {self._tally.recorded:,}"
            )
