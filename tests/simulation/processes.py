"""Processes of a world, and who of them acts next: at random, one request at a time.

A process has threads, which live and die together. It may be frozen for longer than a lease, or killed. Where nobody
can act, time passes until somebody can.
"""

from __future__ import annotations

from collections.abc import Sequence

from dynadurable.errors import DynadurableError
from tests.simulation.world import Steps, World

STEP_MS = (0, 0, 0, 100, 500, 1000)
JUMPS_MS = (4_000, 12_000, 25_000)
FREEZES_MS = (3_000, 15_000, 45_000, 90_000)
MAX_STEPS = 60_000


class Thread:
    """One line of requests of a process."""

    def __init__(self, process: Process, steps: Steps) -> None:
        self.process, self._steps = process, steps
        self.wakes_ms = 0

    def step(self) -> bool:
        """Let it act once; false when it has ended."""
        try:
            self.wakes_ms = next(self._steps) or 0
        except (StopIteration, DynadurableError):
            return False
        return True

    def close(self) -> None:
        self._steps.close()


class Process:
    """Ends when its first thread does; the others are its helpers."""

    def __init__(self, threads: Sequence[Steps]) -> None:
        self.threads = [Thread(self, steps) for steps in threads]
        self.thaws_ms = 0

    def end(self) -> None:
        for thread in self.threads:
            thread.close()


class Scheduler:
    """Lets the processes of a world act."""

    def __init__(self, world: World, processes: Sequence[Process]) -> None:
        self._world = world
        self._processes = list(processes)
        self.steps = 0

    def run(self) -> None:
        """Until all have ended."""
        while self._processes and self.steps < MAX_STEPS:
            self._time_passes()
            thread = self._next()
            if thread is not None:
                self._act(thread)
        for process in self._processes:
            process.end()

    def _time_passes(self) -> None:
        world, dice = self._world, self._world.dice
        world.now_ms += world.one_of(STEP_MS) // world.weather.hurry
        if dice.random() < world.weather.jump:
            world.now_ms += world.one_of(JUMPS_MS)
        if dice.random() < world.weather.clock and world.clocks:
            world.one_of(world.clocks).set()
        if world.on_the_way:
            world.deliver()

    def _next(self) -> Thread | None:
        """Somebody who can act; if nobody can, it becomes later."""
        now_ms = self._world.now_ms
        ready = [
            thread
            for process in self._processes
            if process.thaws_ms <= now_ms
            for thread in process.threads
            if thread.wakes_ms <= now_ms
        ]
        if ready:
            return self._world.one_of(ready)
        self._world.now_ms = min(
            max(process.thaws_ms, thread.wakes_ms) for process in self._processes for thread in process.threads
        )
        return None

    def _act(self, thread: Thread) -> None:
        world, process, weather = self._world, thread.process, self._world.weather
        self.steps += 1
        chance = world.dice.random()
        if chance < weather.kill:
            self._remove(process)
            world.note("a process", "was killed")
        elif chance < weather.kill + weather.frozen:
            process.thaws_ms = world.now_ms + world.one_of(FREEZES_MS)
        elif not thread.step():
            world.check()
            self._remove(process)

    def _remove(self, process: Process) -> None:
        self._processes.remove(process)
        process.end()
