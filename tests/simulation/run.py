"""Runs seeds: ``python -m tests.simulation.run --seeds 100000``; a seed that fails prints its history.

python -m tests.simulation.run --seeds 20000 --from 5000
python -m tests.simulation.run --seed 4711              one seed with its history
python -m tests.simulation.run --mutants                the table of removed conditions
"""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import sys
from collections.abc import Callable, Iterable
from unittest import mock

from dynadurable.clock import SystemClock
from dynadurable.errors import DynadurableError
from dynadurable.storage import runs
from tests.simulation.actors import Cast
from tests.simulation.world import CALM, CheckFailedError, Steps, Weather, World

STEP_MS = (0, 0, 0, 100, 500, 1000)
JUMPS_MS = (4_000, 12_000, 25_000)
MAX_STEPS = 60_000
CLEAN_UP_ROUNDS = 60
GRACE_MS = 40_000  # shorter than in earnest, so that seeds see what happens past it


def play(seed: int, cast_type: type[Cast] = Cast) -> World:
    """One seed from the beginning to the end, played by that cast.

    Raises:
        CheckFailedError: a promise was broken; the world's history is in its ``history``.
    """
    world = World(seed=seed)
    dice = world.dice
    world.weather = Weather(
        lost_request=dice.choice((0.0, 0.02, 0.08)),
        lost_reply=dice.choice((0.0, 0.02, 0.08)),
        twice=dice.choice((0.0, 0.0, 0.03)),
        throttled=dice.choice((0.0, 0.02)),
        kill=dice.choice((0.0, 0.002, 0.01)),
    )
    cast = cast_type(world)
    try:
        with mock.patch.object(runs, "GRACE_MS", GRACE_MS):
            _act(world, cast)
        _clean_up(world, cast)
        cast.checker.at_the_end()
    except CheckFailedError as error:
        error.history = world.history  # type: ignore[attr-defined]
        raise
    return world


def _act(world: World, cast: Cast) -> None:
    """Everybody at once, request by request, with everything that may go wrong."""
    dice = world.dice
    processes: list[list[Steps]] = [cast.worker(f"worker-{n}", dice.randint(15, 40)) for n in range(3)]
    processes += [[cast.enqueuer(f"caller-{n}")] for n in range(dice.randint(3, 9))]
    processes += [[cast.operator(f"operator-{n}")] for n in range(dice.choice((0, 1, 3, 6)))]
    processes += cast.others()
    asleep: dict[int, int] = {}
    for _ in range(MAX_STEPS):
        if not any(not _is_keeper_only(process) for process in processes):
            break
        world.now_ms += dice.choice(STEP_MS)
        if dice.random() < 0.01:
            world.now_ms += dice.choice(JUMPS_MS)
        process = dice.choice(processes)
        if asleep.get(id(process), 0) > world.now_ms:
            continue
        if dice.random() < world.weather.kill:
            processes.remove(process)
            _close(process)
            world.note("a process", "was killed")
            continue
        if dice.random() < 0.006:
            asleep[id(process)] = world.now_ms + dice.choice((3_000, 15_000, 45_000, 90_000))
        if not _step(process):
            processes.remove(process)
            _close(process)
    for process in processes:
        _close(process)


def _clean_up(world: World, cast: Cast) -> None:
    """Faults stop. Fresh workers work until nothing is due; nothing may be left."""
    world.weather = CALM
    world.note("-", "faults stop")
    for round_number in range(CLEAN_UP_ROUNDS):
        world.now_ms += 30_000
        worker = cast.worker(f"cleaner-{round_number}", 12)
        while _step([worker[0]]):
            world.now_ms += 10
        _close(worker)
        if not cast.checker.marks:
            return


def _step(process: list[Steps]) -> bool:
    for steps in process:
        try:
            next(steps)
        except StopIteration:
            return False
        except DynadurableError:
            return False
    return True


def _is_keeper_only(process: list[Steps]) -> bool:
    return not process


def _close(process: list[Steps]) -> None:
    for steps in process:
        steps.close()


# --- the command ----------------------------------------------------------------------------------


def failing(seeds: Iterable[int], cast_type: type[Cast] = Cast) -> list[tuple[int, str, list[str]]]:
    """The seeds that break a promise."""
    found = []
    for seed in seeds:
        try:
            play(seed, cast_type)
        except CheckFailedError as error:
            found.append((seed, str(error), getattr(error, "history", [])))
    return found


def _some(chunk: tuple[int, int]) -> list[tuple[int, str, list[str]]]:
    logging.disable(logging.CRITICAL)
    return failing(range(*chunk))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=2_000)
    parser.add_argument("--from", dest="first", type=int, default=0)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--mutants", action="store_true")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    if options.mutants:
        from tests.simulation.mutants import show

        return show(options.seeds)
    if options.seed is not None:
        return _one(options.seed, print)
    return _many(options.first, options.seeds, options.processes, print)


def _one(seed: int, write: Callable[[str], object]) -> int:
    try:
        history, verdict = play(seed).history, "every promise was kept"
    except CheckFailedError as error:
        history, verdict = getattr(error, "history", []), str(error)
    for line in history:
        write(line)
    write(verdict)
    return int(verdict != "every promise was kept")


def _many(first: int, count: int, processes: int, write: Callable[[str], object]) -> int:
    clock = SystemClock()
    began = clock.monotonic()
    chunks = [(start, min(start + 50, first + count)) for start in range(first, first + count, 50)]
    failures: list[tuple[int, str, list[str]]] = []
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        for found in pool.imap_unordered(_some, chunks):
            failures.extend(found)
            if len(failures) > 20:
                break
    seconds = clock.monotonic() - began
    for seed, why, _ in sorted(failures)[:20]:
        write(f"seed {seed}: {why}")
    write(f"{count} seeds, {len(failures)} failures, {count / seconds:.0f} seeds/s")
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main())
