"""Every write of every operation: the request lost, or applied and its reply lost; the process dies there, or goes on.

In the end the table says the same as after an undisturbed run, on both tiers: a plain job in its mark, and one with a
run item.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from dynadurable import App, Fail, JobContext, Retry, RunUnknownError, Snooze
from dynadurable.model import codec
from tests.integration.stepping import Died, Fault, Process, World

TIERS = ("mark", "run")
RETRY = Retry(max_attempts=4, delay=timedelta(seconds=10), jitter=0.0)


def define(app: App, world: World) -> None:
    """The jobs of every process. What they do depends on how often they were called in this world, not by whom."""
    define_ending(app, world)
    define_stopping(app, world)


def note(world: World, name: str) -> int:
    """Which call of that body in this world it is, from 1."""
    world.effects.append(name)
    return world.effects.count(name)


def define_ending(app: App, world: World) -> None:
    @app.job(retry=RETRY)
    def good() -> str:
        note(world, "good")
        return "fine"

    @app.job(retry=RETRY, keep_result=timedelta(days=1))
    def large() -> bytes:
        note(world, "large")
        return random.Random(1).randbytes(20_000)  # cannot be compressed

    @app.job(retry=RETRY)
    def flaky() -> None:
        if note(world, "flaky") <= 2:
            raise ValueError("not yet")

    @app.job(retry=RETRY)
    def sleepy() -> None:
        if note(world, "sleepy") == 1:
            raise Snooze(timedelta(minutes=1))


def define_stopping(app: App, world: World) -> None:
    @app.job(retry=RETRY)
    def hopeless(ctx: JobContext) -> None:
        note(world, "hopeless")
        if ctx.cursor != "half":
            ctx.checkpoint("half")
        if not world.notes.get("fixed"):
            raise Fail("no card")

    @app.job(retry=RETRY)
    def cancelled(ctx: JobContext) -> None:
        note(world, "cancelled")
        cancel: Callable[[], Any] | None = world.notes.pop("cancel", None)
        if cancel is not None:
            cancel()
        ctx.checkpoint("told")
        ctx.raise_if_stopping()


@dataclass(frozen=True)
class Scenario:
    """``before`` is undisturbed; ``act`` is what is stopped; ``again`` is what its caller does, not having heard.

    Once the caller has heard, the run stands as after an undisturbed call, without any worker's help.
    """

    act: Callable[[Process, World], None]
    before: Callable[[Process, World], None] = lambda _process, _world: None
    again: Callable[[Process, World], None] | None = None
    tiers: tuple[str, ...] = TIERS


def of_tier(process: Process, world: World, name: str) -> Any:
    job = process.job(name)
    return job.using(key=f"key of {name}") if world.notes["tier"] == "run" else job


def enqueue(name: str, **options: Any) -> Callable[[Process, World], None]:
    def act(process: Process, world: World) -> None:
        job = of_tier(process, world, name)
        if options:
            job = process.job(name).using(key=job.options.key, **options)
        world.notes["run_id"] = process.app.enqueue(job).id

    return act


def work(process: Process, _world: World) -> None:
    process.work()


def cancel(process: Process, world: World) -> None:
    process.app.run(world.notes["run_id"]).cancel()


def replay(process: Process, world: World) -> None:
    world.notes["fixed"] = True
    process.app.dead.replay(world.notes["run_id"])


def then(*acts: Callable[[Process, World], None]) -> Callable[[Process, World], None]:
    def both(process: Process, world: World) -> None:
        for act in acts:
            act(process, world)

    return both


def wait(seconds: float) -> Callable[[Process, World], None]:
    return lambda _process, world: world.clock.advance(timedelta(seconds=seconds))


def cancel_from_within(process: Process, world: World) -> None:
    """The body runs while the operator of ``process`` cancels it; killed, another operator does."""

    def operator() -> None:
        try:
            cancel(process, world)
        except Died:
            cancel(world.process(), world)

    world.notes["cancel"] = operator
    world.process().work()


def work_cancelled(process: Process, world: World) -> None:
    """The run is cancelled while its body runs in ``process``."""
    world.notes["cancel"] = lambda: cancel(world.process(), world)
    process.work()


def die_in_the_body(_process: Process, world: World) -> None:
    """A worker claims the run, and dies at its next write."""
    with pytest.raises(Died):
        world.process(Fault(nth=2, applied=False, dies=True)).work()
    world.clock.advance(timedelta(seconds=31))


def enqueue_many(process: Process, world: World) -> None:
    jobs = [of_tier(process, world, name) for name in ("good", "sleepy", "large")]
    world.notes["run_ids"] = [run.id for run in process.app.enqueue_many(job.call() for job in jobs)]


def purge(process: Process, world: World) -> None:
    process.app.dead.purge(world.notes["run_id"])


SCENARIOS = {
    "enqueue": Scenario(act=enqueue("good"), again=enqueue("good")),
    "enqueue with a large result": Scenario(act=enqueue("large"), again=enqueue("large")),
    "enqueue over an ended run of the key": Scenario(
        before=then(enqueue("good"), work), act=enqueue("good"), again=enqueue("good"), tiers=("run",)
    ),
    "enqueue over a dead run of the key": Scenario(
        before=then(enqueue("hopeless"), work), act=enqueue("hopeless"), again=enqueue("hopeless"), tiers=("run",)
    ),
    "enqueue meets a live run of the key": Scenario(
        before=enqueue("good", delay=timedelta(seconds=5)), act=enqueue("good"), again=enqueue("good"), tiers=("run",)
    ),
    "enqueue many": Scenario(act=enqueue_many, again=enqueue_many),
    "claim and finish": Scenario(before=enqueue("good"), act=work),
    "finish with a large result": Scenario(before=enqueue("large"), act=work),
    "take over": Scenario(before=then(enqueue("hopeless"), die_in_the_body), act=work),
    "first retry": Scenario(before=enqueue("flaky"), act=work),
    "later retry": Scenario(before=then(enqueue("flaky"), work, wait(10)), act=work),
    "snooze": Scenario(before=enqueue("sleepy"), act=work),
    "dead letter at once": Scenario(before=enqueue("hopeless"), act=work),
    "cancel while pending": Scenario(before=enqueue("good", delay=timedelta(days=30)), act=cancel, again=cancel),
    "cancel while a retry is pending": Scenario(before=then(enqueue("flaky"), work), act=cancel, again=cancel),
    "cancel while running": Scenario(before=enqueue("cancelled"), act=cancel_from_within),
    "end as cancelled": Scenario(before=enqueue("cancelled"), act=work_cancelled),
    "cancel after the worker was lost": Scenario(
        before=then(enqueue("hopeless"), die_in_the_body), act=cancel, again=cancel
    ),
    "run now": Scenario(
        before=enqueue("good", delay=timedelta(days=300)),
        act=lambda process, world: process.app.run(world.notes["run_id"]).run_now(),
        again=lambda process, world: process.app.run(world.notes["run_id"]).run_now(),
    ),
    "put off": Scenario(
        before=enqueue("good"),
        act=lambda process, world: process.app.run(world.notes["run_id"]).delay_until(
            world.clock.now() + timedelta(minutes=5)
        ),
    ),
    "replay": Scenario(before=then(enqueue("hopeless"), work), act=replay, again=replay),
    "work after a replay": Scenario(before=then(enqueue("hopeless"), work, replay), act=work),
    "purge": Scenario(before=then(enqueue("hopeless"), work), act=purge, again=purge),
}


@pytest.fixture
def new_world() -> Iterator[Callable[[str], World]]:
    worlds: list[World] = []

    def make(tier: str) -> World:
        worlds.append(World(define=define, notes={"tier": tier}))
        return worlds[-1]

    yield make
    for world in worlds:
        world.close()


def stands(world: World) -> str:
    """How the run stands: its state, and whether it is due."""
    if "run_id" not in world.notes:
        return ""
    try:
        info = world.process().app.run(world.notes["run_id"]).info()
    except RunUnknownError:
        return "unknown"
    return f"{info.state}, due {info.due_at is not None and info.due_at <= world.clock.now()}"


def cases() -> list[Any]:
    return [
        pytest.param(scenario, tier, id=f"{name}, {tier}")
        for name, scenario in SCENARIOS.items()
        for tier in scenario.tiers
    ]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize(("scenario", "tier"), cases())
def test_a_stop_after_any_write_ends_as_an_undisturbed_run(
    scenario: Scenario, tier: str, new_world: Callable[[str], World]
) -> None:
    world = new_world(tier)
    scenario.before(world.process(), world)
    undisturbed = world.process()
    writes_before = undisturbed.client.writes
    scenario.act(undisturbed, world)
    heard = stands(world)
    writes = undisturbed.client.writes - writes_before
    world.recover()
    expected = world.end_state()
    assert writes > 0
    for nth in range(1, writes + 1):
        for applied in (False, True):
            for dies in (True, False):
                fault = Fault(nth=nth, applied=applied, dies=dies)
                assert end_with(scenario, new_world(tier), fault, heard) == expected, str(fault)


def end_with(scenario: Scenario, world: World, fault: Fault, heard: str) -> dict[str, Any]:
    """The state in which a world ends whose process meets that fault."""
    scenario.before(world.process(), world)
    process = world.process(fault)
    try:
        scenario.act(process, world)
    except Died:
        if scenario.again is not None:
            scenario.again(world.process(), world)
    assert process.client.fault_met
    if scenario.again is not None:
        assert stands(world) == heard, str(fault)
    world.recover()
    return world.end_state()


@pytest.mark.parametrize("tier", TIERS)
def test_what_was_recorded_before_the_stop_is_there_after_it(tier: str, new_world: Callable[[str], World]) -> None:
    """Promotion, burial and replay keep the cursor and the input."""
    world = new_world(tier)
    enqueue("hopeless")(world.process(), world)
    world.process().work()
    told = world.process().app.dead.get(world.notes["run_id"])
    assert told.payload == codec.encode({})
    replay(world.process(), world)
    world.process().work()
    run = world.process().app
    assert run.run(world.notes["run_id"]).status() == "succeeded"
    assert world.effects == ["hopeless", "hopeless"]


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("applied", [False, True])
def test_an_operator_whose_reply_was_lost_is_told_what_it_did(
    tier: str, applied: bool, new_world: Callable[[str], World]
) -> None:
    """Its own write is not taken for somebody else's."""
    world = new_world(tier)
    then(enqueue("hopeless"), work)(world.process(), world)
    operator = world.process(Fault(nth=1, applied=applied, dies=False))
    report = operator.app.dead.replay(world.notes["run_id"])
    assert operator.client.fault_met
    assert (report.done, report.skipped) == (1, 0)
    again = world.process().app.dead.replay(world.notes["run_id"])
    assert (again.done, again.skipped) == (0, 1)
