"""Schedules: one run per slot whatever happens, overlaps, and what the body is told."""

from __future__ import annotations

import contextlib
import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dynadurable import App, JobContext
from dynadurable.testing.clock import ManualClock
from dynadurable.worker.context_aio import AsyncJobContext
from dynadurable.workflow.context import WorkflowContext
from tests.integration.schedule_world import HOUR, MINUTE, NOON, SECOND, World
from tests.mortal import GoneError, MortalClient, drain


@pytest.fixture
def world() -> World:
    world = World()
    world.process().create_table()
    return world


# --- one run per slot -----------------------------------------------------------------------------


def test_each_slot_gets_one_run_however_many_workers_there_are(world: World) -> None:
    """PUB-16: no replica needs any configuration."""
    processes = [world.scheduled() for _ in range(4)]
    for _ in range(33):
        for app in processes:
            drain(app)
        world.clock.advance(30 * SECOND)
    assert world.clock.now() == NOON + 16 * MINUTE
    assert world.slots() == [NOON + number * 5 * MINUTE for number in range(4)]
    assert world.ran == world.slots()
    assert len(world.marks("!schedule")) == 1


def test_after_downtime_the_latest_missed_slot_runs_once(world: World) -> None:
    """PUB-39: down from 09:00 until 12:10:20."""
    world.clock = ManualClock(datetime(2027, 1, 15, 8, 58, tzinfo=UTC))
    app = world.scheduled()
    drain(app)
    world.clock.advance(3 * MINUTE)
    drain(app)
    world.clock.advance(3 * HOUR + 9 * MINUTE + 20 * SECOND)
    assert drain(app) == NOON + 15 * MINUTE
    world.clock.advance(5 * MINUTE)
    drain(app)
    nine = datetime(2027, 1, 15, 9, tzinfo=UTC)
    assert world.ran == [nine, NOON + 10 * MINUTE, NOON + 15 * MINUTE]
    assert app.schedules.list()[0].skipped == 37


@pytest.mark.parametrize(("catch_up", "expected"), [("latest", [3]), ("all", [0, 1, 2, 3]), ("none", [])])
def test_missed_slots_are_treated_as_asked_for(world: World, catch_up: Any, expected: list[int]) -> None:
    app = world.scheduled("0 * * * *", catch_up=catch_up)
    drain(app)
    world.clock.advance(3 * HOUR + 20 * MINUTE)
    drain(app)
    assert world.ran == [NOON + number * HOUR for number in expected]
    world.clock.advance(41 * MINUTE)
    drain(app)
    assert world.ran[-1] == NOON + 4 * HOUR


def test_a_hundred_missed_slots_all_run_in_one_drain(world: World) -> None:
    app = world.scheduled("* * * * *", catch_up="all")
    drain(app)
    world.clock.advance(100 * MINUTE)
    drain(app)
    assert world.ran == [NOON + number * MINUTE for number in range(100)]


@pytest.mark.parametrize("applied", [False, True])
@pytest.mark.parametrize("nth", range(1, 11))
@pytest.mark.parametrize("pause", [0, 10, 7200])
def test_a_crash_at_any_write_still_gives_one_run_per_slot(world: World, nth: int, applied: bool, pause: int) -> None:
    """PUB-40: from the first deploy over the tick and the run to its end; the next worker comes soon, or much later."""
    mortal = MortalClient(world.client, nth=nth, applied=applied)
    victim = world.scheduled("0 12 * * *", client=mortal)

    def live() -> None:
        drain(victim)
        world.clock.advance(MINUTE)
        drain(victim)

    with pytest.raises(GoneError):
        live()
    if world.clock.now() < NOON:  # it died while it was deployed: before the slot another worker looks
        drain(world.scheduled("0 12 * * *"))
        world.clock.advance(MINUTE)
    world.clock.advance(timedelta(seconds=pause))
    for wait in (31 * SECOND, 31 * SECOND, 11 * MINUTE, SECOND):  # past leases, and past the grace for strays
        drain(world.scheduled("0 12 * * *"))
        world.clock.advance(wait)
    assert world.slots() == [NOON]
    assert set(world.ran) == {NOON}
    assert len(world.ran) == 1 or mortal.writes[nth - 1] in ("update_item", "delete_item")  # died after its body
    assert len(world.marks("!schedule")) == 1
    assert world.marks("refresh") == []


@pytest.mark.parametrize("applied", [False, True])
@pytest.mark.parametrize("nth", range(1, 4))
def test_a_schedule_whose_first_worker_died_deploying_it_runs_its_first_slot(
    world: World, nth: int, applied: bool
) -> None:
    """The mark was never put and nobody is there to see it until it is overdue."""
    victim = world.scheduled(client=MortalClient(world.client, nth=nth, applied=applied))
    with contextlib.suppress(GoneError):
        drain(victim)
    world.clock.advance(2 * MINUTE)
    drain(world.scheduled())
    world.clock.advance(5 * MINUTE)
    drain(world.scheduled())
    assert world.ran[-1] == NOON + 5 * MINUTE
    assert set(world.ran) <= {NOON, NOON + 5 * MINUTE}


def test_a_finished_run_may_be_deleted_without_disturbing_its_schedule(world: World) -> None:
    app = world.scheduled()
    drain(app)
    for _ in range(3):
        world.clock.advance(5 * MINUTE)
        drain(app)
        for item in world.items("run#"):
            world.client.delete_item(TableName="table", Key={"pk": item["pk"], "sk": item["sk"]})
    assert world.ran == [NOON, NOON + 5 * MINUTE, NOON + 10 * MINUTE]


def test_a_worker_that_was_frozen_in_the_middle_of_a_tick_changes_nothing_more(world: World) -> None:
    """A late worker: it advances nothing that was advanced, and starts no run that was started."""
    app, rival = world.scheduled(), world.scheduled()
    drain(app)
    world.clock.advance(MINUTE)
    original = world.client.update_item
    frozen: list[Any] = []

    def freeze(**request: Any) -> Any:
        if not frozen and request["Key"]["pk"]["S"].startswith("schedule#"):
            frozen.append(request)
            drain(rival)
            world.clock.advance(7 * MINUTE)
            drain(rival)
        return original(**request)

    world.client.update_item = freeze  # type: ignore[method-assign]
    drain(app)
    assert frozen
    assert world.slots() == [NOON, NOON + 5 * MINUTE]
    assert world.ran == world.slots()


def test_a_worker_frozen_between_advance_and_run_does_not_run_the_slot_a_second_time(world: World) -> None:
    app, rival = world.scheduled(), world.scheduled()
    drain(app)
    world.clock.advance(MINUTE)
    original = world.client.put_item
    frozen: list[Any] = []

    def freeze(**request: Any) -> Any:
        if not frozen and request["Item"].get("dd_slot"):
            frozen.append(request)
            drain(rival)
            world.clock.advance(7 * MINUTE)
            drain(rival)
        return original(**request)

    world.client.put_item = freeze  # type: ignore[method-assign]
    drain(app)
    assert frozen
    assert world.slots() == [NOON, NOON + 5 * MINUTE]
    assert world.ran == world.slots()


def test_a_worker_with_a_clock_that_is_off_runs_no_slot_twice(world: World) -> None:
    apps = []
    for skew in (-5, 0, 5):
        app = world.process(skew=skew * MINUTE)

        @app.schedule("* * * * *", catch_up="all")
        def refresh(ctx: JobContext) -> None:
            world.ran.append(ctx.slot)

        apps.append(app)
    for _ in range(120):
        for app in apps:
            drain(app)
        world.clock.advance(10 * SECOND)
    assert len(world.ran) == len(set(world.ran))
    assert world.slots() == [world.slots()[0] + number * MINUTE for number in range(len(world.slots()))]
    assert len(world.slots()) >= 20


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_four_workers_ten_schedules_an_hour_of_kills_and_one_run_per_slot(world: World, seed: int) -> None:
    """Every worker dies again and again, at any of its writes; another takes its place."""
    dice = random.Random(seed)
    minutes = [1, 2, 3, 4, 5, 6, 10, 12, 15, 20]

    def start() -> App:
        app = world.process(MortalClient(world.client, nth=dice.randint(5, 120), applied=dice.random() < 0.5))
        for every in minutes:

            @app.schedule(f"*/{every} * * * *", name=f"every-{every}", catch_up="all" if every % 2 else "latest")
            @app.job(name=f"job-{every}")
            def work() -> None: ...

        return app

    crowd, deaths = [start() for _ in range(4)], 0
    while world.clock.now() < NOON + HOUR + 2 * MINUTE:
        number = dice.randrange(4)
        try:
            drain(crowd[number])
        except GoneError:
            crowd[number] = start()
            deaths += 1
            world.clock.advance(SECOND)
        else:
            world.clock.advance(dice.choice([5, 10, 20]) * SECOND)
    assert deaths > 10
    keys = Counter(item["dd_key"]["S"] for item in world.items("run#"))
    assert set(keys.values()) == {1}
    for every in minutes:
        slots = {key.rpartition(" ")[2] for key in keys if f"every-{every} " in key}
        wanted = {(NOON + number * MINUTE).isoformat() for number in range(0, 61, every)}
        assert wanted <= slots, f"every {every}: missing {sorted(wanted - slots)}"
    assert len(world.marks("!schedule")) == len(minutes)


# --- what the body is told ------------------------------------------------------------------------


def test_every_kind_of_body_can_ask_its_slot(world: World) -> None:
    app = world.process()
    told: dict[str, Any] = {}

    @app.schedule("0 12 * * *", arguments={"shop": "berlin"})
    def plain(ctx: JobContext, shop: str, limit: int = 7) -> None:
        told["plain"] = (ctx.slot, shop, limit)

    @app.schedule("0 12 * * *")
    async def asynchronous(ctx: AsyncJobContext) -> None:
        told["async"] = ctx.slot

    @app.schedule("0 12 * * *", name="nightly")
    @app.workflow
    def workflow(ctx: WorkflowContext) -> None:
        told["workflow"] = ctx.step(lambda: ctx.slot, name="slot")

    drain(app)
    world.clock.advance(HOUR)
    drain(app)
    assert told == {"plain": (NOON, "berlin", 7), "async": NOON, "workflow": NOON}


def test_a_run_that_was_enqueued_otherwise_has_no_slot(world: World) -> None:
    app = world.scheduled()
    app.enqueue(app.registry.get("refresh"))  # type: ignore[arg-type]
    drain(app)
    assert world.ran == [None]


def test_a_failed_slot_is_tried_again_and_keeps_its_slot(world: World) -> None:
    app, seen = world.process(), []

    @app.schedule("0 12 * * *")
    def flaky(ctx: JobContext) -> None:
        seen.append((ctx.slot, ctx.attempt))
        if ctx.attempt < 3:
            raise ValueError("not yet")

    drain(app)
    world.clock.advance(MINUTE)
    for _ in range(3):
        drain(app)
        world.clock.advance(10 * SECOND)
    assert seen == [(NOON, 1), (NOON, 2), (NOON, 3)]


def test_a_job_stays_a_job_with_its_own_queue_and_options(world: World) -> None:
    app = world.process()

    @app.schedule("0 12 * * *")
    @app.schedule("0 13 * * *", name="again", queue="night")
    @app.job(queue="day", keep_result=HOUR)
    def add(one: int = 1, two: int = 2) -> int:
        return one + two

    assert add(3, 4) == 7
    drain(app)  # the queues of schedules are served as well
    world.clock.advance(2 * HOUR)
    drain(app)
    assert {(run["dd_queue"]["S"], run["dd_keep"]["N"]) for run in world.items("run#")} == {
        ("day", "3600"),
        ("night", "3600"),
    }
    told = app.schedules.get("add")
    assert told is not None
    assert app.run(told.last_run_id or "").result() == 3


def test_jitter_delays_the_run_and_not_its_slot(world: World) -> None:
    app = world.scheduled("0 12 * * *", jitter=10 * MINUTE)
    drain(app)
    world.clock.advance(30 * SECOND)
    due = drain(app)
    assert world.ran == []
    assert due is not None
    assert NOON < due < NOON + 10 * MINUTE
    world.clock.advance(10 * MINUTE)
    drain(app)
    assert world.ran == [NOON]


def test_a_schedule_begins_and_ends_as_said(world: World) -> None:
    app = world.scheduled(start=NOON + 8 * MINUTE, end=NOON + 20 * MINUTE)
    assert drain(app) == NOON + 10 * MINUTE
    for _ in range(8):
        world.clock.advance(5 * MINUTE)
        drain(app)
    assert world.ran == [NOON + number * MINUTE for number in (10, 15, 20)]
    assert world.marks("!schedule") == []
    (told,) = app.schedules.list()
    assert (told.state, told.next_slot) == ("over", None)


def test_an_interval_counts_from_its_start(world: World) -> None:
    app, ran = world.process(), []

    @app.schedule(every=7 * MINUTE, start=NOON + 3 * MINUTE)
    def work(ctx: JobContext) -> None:
        ran.append(ctx.slot)

    drain(app)
    for _ in range(20):
        world.clock.advance(MINUTE)
        drain(app)
    assert ran == [NOON + 3 * MINUTE, NOON + 10 * MINUTE, NOON + 17 * MINUTE]


def test_slots_are_those_of_the_schedule_s_zone_and_never_of_the_process(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    app = world.scheduled("0 14 * * *", tz="Europe/Berlin")
    assert drain(app) == NOON + HOUR


# --- overlaps -------------------------------------------------------------------------------------


def slow_schedule(world: World, overlap: Any) -> App:
    """Its runs go on until the test lets them end."""
    app = world.process()

    @app.schedule("* * * * *", overlap=overlap)
    @app.workflow
    def slow(ctx: WorkflowContext) -> None:
        world.ran.append(ctx.slot)
        ctx.wait_event("go on")

    return app


def let_one_go(app: App, world: World) -> None:
    for item in world.items("run#"):
        if item["sk"]["S"] == "run" and item["dd_state"]["S"] == "live":
            app.run(item["pk"]["S"].removeprefix("run#")).send_event("go on", None)
            return


def minutes_of(world: World) -> list[int]:
    return sorted({(slot - NOON) // MINUTE for slot in world.ran if slot is not None})


def test_overlapping_runs_are_allowed_unless_said_otherwise(world: World) -> None:
    app = slow_schedule(world, "allow")
    drain(app)
    for _ in range(3):
        world.clock.advance(MINUTE)
        drain(app)
    assert minutes_of(world) == [0, 1, 2]


def test_a_slot_is_skipped_while_the_last_run_goes_on(world: World) -> None:
    app = slow_schedule(world, "skip")
    drain(app)
    for _ in range(4):
        world.clock.advance(MINUTE)
        drain(app)
    assert minutes_of(world) == [0]
    let_one_go(app, world)
    drain(app)
    world.clock.advance(MINUTE)
    drain(app)
    assert minutes_of(world) == [0, 4]
    assert app.schedules.list()[0].skipped == 3


def test_one_slot_is_queued_while_the_last_run_goes_on_and_runs_when_that_has_ended(world: World) -> None:
    app = slow_schedule(world, "queue")
    drain(app)
    for _ in range(4):
        world.clock.advance(MINUTE)
        drain(app)
    assert minutes_of(world) == [0]
    (told,) = app.schedules.list()
    assert (told.queued_slot, told.skipped) == (NOON + MINUTE, 2)
    let_one_go(app, world)
    drain(app)
    for _ in range(5):
        world.clock.advance(10 * SECOND)
        drain(app)
    assert minutes_of(world) == [0, 1]
