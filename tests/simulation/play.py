"""Plays a seed from the beginning to the end: faults first, then none, and then everything has ended."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from unittest import mock

from dynadurable.storage import runs
from tests.simulation.actors import Cast
from tests.simulation.casts import cast_of
from tests.simulation.processes import Process, Scheduler
from tests.simulation.speed import quick_models
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
        with quick_models(), mock.patch.object(runs, "GRACE_MS", GRACE_MS), kind.surroundings():
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
    world.weather = replace(world.weather, **kind.weather)
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


def failing(seeds: Iterable[int], cast_type: type[Cast] | None = None) -> list[tuple[int, str, list[str]]]:
    """The seeds that break a promise."""
    found = []
    for seed in seeds:
        try:
            play(seed, cast_type)
        except CheckFailedError as error:
            found.append((seed, str(error), list(error.history)))
    return found
