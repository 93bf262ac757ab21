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
from dynadurable.storage import runs
from tests.simulation.actors import Cast
from tests.simulation.casts import cast_of
from tests.simulation.processes import Process, Scheduler
from tests.simulation.world import CALM, CheckFailedError, Weather, World

CLEAN_UP_ROUNDS = 60
GRACE_MS = 40_000  # shorter than in earnest, so that seeds see what happens past it
LIE_MS = 15_000


def play(seed: int, cast_type: type[Cast] | None = None) -> World:
    """One seed from the beginning to the end, played by that cast, or by the one whose turn it is.

    Raises:
        CheckFailedError: a promise was broken; the world's history is in its ``history``.
    """
    world = World(seed=seed)
    kind = cast_type or cast_of(seed)
    _decide(world, kind)
    try:
        with mock.patch.object(runs, "GRACE_MS", GRACE_MS), kind.surroundings():
            cast = kind(world)
            Scheduler(world, [Process(threads) for threads in cast.processes()]).run()
            world.check()
            _clean_up(world, cast)
            if world.dice.random() < 0.2:
                _use_again(world, cast)
    except CheckFailedError as error:
        error.history = world.history
        raise
    return world


def _decide(world: World, kind: type[Cast]) -> None:
    """What kind of world it is."""
    dice = world.dice
    if kind.may_be_calm and dice.random() < 0.1:
        return
    world.weather = Weather(
        lost_request=dice.choice((0.0, 0.02, 0.08)),
        lost_reply=dice.choice((0.0, 0.02, 0.08)),
        twice=dice.choice((0.0, 0.0, 0.03)),
        late=dice.choice((0.0, 0.0, 0.03)),
        slow=dice.choice((0.0, 0.0, 0.05)),
        throttled=dice.choice((0.0, 0.02)),
        conflict=dice.choice((0.0, 0.05)),
        kill=dice.choice((0.0, 0.003, 0.012)),
        frozen=dice.choice((0.0, 0.006, 0.02)),
        jump=0.01,
        hurry=1,
        clock=dice.choice((0.0, 0.0, 0.01)),
    )
    world.lie_ms = LIE_MS if dice.random() < 0.1 else 0
    world.starts_with_nothing = dice.random() < 0.1


def _clean_up(world: World, cast: Cast) -> None:
    """Faults stop. Fresh workers work until nothing is due; nothing may be left."""
    world.weather, world.lie_ms = CALM, 0
    world.note("-", "faults stop")
    world.deliver(all_of_it=True)
    for steps in cast.last_words():
        world.to_the_end(steps)
    for round_number in range(CLEAN_UP_ROUNDS):
        world.now_ms += 30_000
        Scheduler(world, [Process(cast.worker(f"worker-again-{round_number}", 12, patient=False))]).run()
        world.check()
        if cast.is_over():
            break
    cast.checker.at_the_end()


def _use_again(world: World, cast: Cast) -> None:
    """What has ended does not stand in the way of what comes after it."""
    for steps in cast.afterwards():
        world.to_the_end(steps)
    _clean_up(world, cast)


# --- the command ----------------------------------------------------------------------------------


def failing(seeds: Iterable[int], cast_type: type[Cast] | None = None) -> list[tuple[int, str, list[str]]]:
    """The seeds that break a promise."""
    found = []
    for seed in seeds:
        try:
            play(seed, cast_type)
        except CheckFailedError as error:
            found.append((seed, str(error), list(error.history)))
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
        history, verdict = list(error.history), str(error)
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
