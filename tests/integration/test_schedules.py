"""Schedules: one run per slot whatever happens, changes at run time and by deploys, overlaps, what the body is told."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dynadurable import App, ConfigurationError, JobContext, Queue
from dynadurable.control.schedules import Schedules
from dynadurable.control.schedules_aio import AioSchedules
from dynadurable.errors import (
    InputRefusedError,
    NameRefusedError,
    PayloadTooLargeError,
    ScheduleExistsError,
    ScheduleUnknownError,
)
from dynadurable.testing.clock import ManualClock
from dynadurable.testing.memory import MemoryClient, MemoryStore
from dynadurable.worker.context_aio import AsyncJobContext
from dynadurable.workflow.context import WorkflowContext
from tests.mortal import GoneError, MortalClient, drain

BEFORE_NOON = datetime(2027, 1, 15, 11, 59, 30, tzinfo=UTC)
NOON = datetime(2027, 1, 15, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)


@dataclass
class World:
    """A table, a clock, and processes on them."""

    clock: ManualClock = field(default_factory=lambda: ManualClock(BEFORE_NOON))
    client: MemoryClient = field(default_factory=lambda: MemoryClient(MemoryStore(locked=True)))
    ran: list[datetime | None] = field(default_factory=list)

    def process(self, client: Any = None, *, skew: timedelta = timedelta(), **options: Any) -> App:
        clock = ManualClock(skew=skew, also=self.clock)
        return App("table", client=client or self.client, clock=clock, **options)

    def scheduled(self, cron: str = "*/5 * * * *", client: Any = None, **options: Any) -> App:
        """A process whose code has one schedule, which notes its slots."""
        app = self.process(client)

        @app.schedule(cron, **options)
        def refresh(ctx: JobContext) -> None:
            self.ran.append(ctx.slot)

        return app

    def items(self, prefix: str) -> list[dict[str, Any]]:
        found = self.client.scan(TableName="table")["Items"]
        return [item for item in found if item["pk"]["S"].startswith(prefix)]

    def slots(self) -> list[datetime]:
        """Of the runs in the table, live and ended."""
        runs = [item for item in self.items("run#") if "dd_slot" in item]
        return sorted(datetime.fromtimestamp(int(item["dd_slot"]["N"]) / 1000, UTC) for item in runs)

    def marks(self, job: str) -> list[dict[str, Any]]:
        return [item for item in self.items("queue#") if item["dd_job"]["S"] == job]


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


# --- deploys --------------------------------------------------------------------------------------


def test_an_unchanged_schedule_is_not_written_again(world: World) -> None:
    drain(world.scheduled())
    before = world.items("")
    for _ in range(3):
        mortal = MortalClient(world.client)
        drain(world.scheduled(client=mortal))
        assert mortal.writes == []
    assert world.items("") == before


def test_a_changed_expression_takes_effect_at_the_next_deploy(world: World) -> None:
    drain(world.scheduled("*/5 * * * *"))
    world.clock.advance(MINUTE)
    drain(world.scheduled("*/5 * * * *"))
    new = world.scheduled("7,22 * * * *")
    assert drain(new) == NOON + 7 * MINUTE
    for _ in range(5):
        world.clock.advance(5 * MINUTE)
        drain(new)
    assert world.ran == [NOON, NOON + 7 * MINUTE, NOON + 22 * MINUTE]
    assert len(world.marks("!schedule")) == 1


def test_what_was_due_under_the_old_definition_is_dealt_with_before_a_change(world: World) -> None:
    drain(world.scheduled("0 12 * * *"))
    world.clock.advance(HOUR)
    new = world.scheduled("30 8 * * *")
    drain(new)
    assert world.ran == [NOON]
    assert app_next(new) == datetime(2027, 1, 16, 8, 30, tzinfo=UTC)


def test_two_versions_of_the_code_side_by_side_do_not_fight(world: World) -> None:
    """The newest definition wins; workers of the old version that start again do not flip it back."""
    old, new = "0 * * * *", "30 * * * *"
    drain(world.scheduled(old))
    drain(world.scheduled(new))
    before = world.items("schedule#")
    for _ in range(3):
        mortal = MortalClient(world.client)
        drain(world.scheduled(old, client=mortal))
        assert mortal.writes == []
        drain(world.scheduled(new))
    assert world.items("schedule#") == before
    for _ in range(8):  # hours of it: the old one ticks for the new one as well
        world.clock.advance(15 * MINUTE)
        drain(world.scheduled(old))
        drain(world.scheduled(new))
    assert world.ran == [NOON + 30 * MINUTE, NOON + 90 * MINUTE]


def test_a_version_that_was_rolled_back_to_comes_into_force_when_the_other_is_gone(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "dynadurable.schedules")
    drain(world.scheduled("0 * * * *"))
    drain(world.scheduled("30 * * * *"))
    drain(world.scheduled("0 * * * *"))
    assert "a newer definition is in force" in caplog.text
    world.clock.advance(11 * MINUTE)
    back = world.scheduled("0 * * * *")
    drain(back)
    assert app_next(back) == NOON + HOUR
    drain(world.scheduled("30 * * * *"))  # deployed again at once: the same rule the other way round
    assert app_next(back) == NOON + HOUR


def test_a_live_worker_keeps_its_definition_in_force(world: World) -> None:
    drain(world.scheduled("0 12 * * *"))
    newest = world.scheduled("0 13 * * *")
    worker = newest.worker()
    newest.driver.run(worker.engine.deployment.look())
    for _ in range(4):
        world.clock.advance(10 * MINUTE)
        worker.registrar.beat()
        drain(world.scheduled("0 12 * * *"))
    assert app_next(newest) == NOON + HOUR
    world.clock.advance(10 * MINUTE)
    drain(world.scheduled("0 12 * * *"))
    assert app_next(newest) == NOON + 24 * HOUR


def test_a_worker_looks_again_whether_its_definition_has_come_into_force(world: World) -> None:
    """The last worker of a roll-back may have started while the other version was still alive."""
    drain(world.scheduled("0 12 * * *"))
    drain(world.scheduled("0 13 * * *"))
    back = world.scheduled("0 12 * * *")
    worker = back.worker()
    worker._begin()
    world.clock.advance(11 * MINUTE)
    worker._look_after_schedules()
    assert app_next(back) == NOON + 24 * HOUR


def test_a_worker_that_does_not_know_schedules_leaves_their_marks_alone(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    drain(world.scheduled())
    world.clock.advance(MINUTE)
    old = world.process()

    @old.job
    def work() -> None: ...

    worker = old.worker()
    monkeypatch.setattr(worker.engine, "knows", lambda job: job == "work")
    before = world.items("")
    worker.drain()
    assert world.items("") == before
    assert "no job '!schedule' is known here" in caplog.text


def test_a_worker_that_does_not_know_the_job_ticks_all_the_same(world: World) -> None:
    drain(world.scheduled())
    world.clock.advance(MINUTE)
    other = world.process()

    @other.job
    def work() -> None: ...

    drain(other)
    assert world.slots() == [NOON]
    assert world.ran == []
    drain(world.scheduled())
    assert world.ran == [NOON]


def test_an_async_only_process_ticks_as_well(world: World) -> None:
    app, ran = world.process(), []

    @app.schedule("*/5 * * * *")
    async def refresh(ctx: AsyncJobContext) -> None:
        ran.append(ctx.slot)

    drain(app)
    world.clock.advance(MINUTE)
    asyncio.run(app.aio.worker().drain())
    assert ran == [NOON]


def test_a_definition_that_this_worker_cannot_read_is_left_to_others(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    drain(world.scheduled())
    (item,) = world.items("schedule#")
    world.client.put_item(
        TableName="table", Item={**item, "dd_def": {"S": '{"cron":"0 0 * * MOON","job":"refresh","queue":"default"}'}}
    )
    world.clock.advance(MINUTE)
    other = world.process()

    @other.job
    def work() -> None: ...

    drain(other)
    assert "schedule 'refresh' is left alone here" in caplog.text
    assert len(world.marks("!schedule")) == 1
    (told,) = other.schedules.list()
    assert told.state == "unreadable"


def test_a_schedule_of_a_newer_format_is_left_alone(world: World, caplog: pytest.LogCaptureFixture) -> None:
    drain(world.scheduled())
    (item,) = world.items("schedule#")
    world.client.put_item(TableName="table", Item={**item, "dd_v": {"N": "99"}})
    world.clock.advance(MINUTE)
    before = world.items("")
    drain(world.scheduled("1 2 3 4 *"))
    assert world.items("") == before
    assert "newer version" in caplog.text


# --- at run time ----------------------------------------------------------------------------------


def app_next(app: App) -> datetime | None:
    (told,) = app.schedules.list()
    return told.next_slot


def test_a_paused_schedule_runs_nothing_and_does_not_catch_up(world: World) -> None:
    app = world.scheduled(catch_up="all")
    drain(app)
    app.schedules.pause("refresh")
    app.schedules.pause("refresh")
    assert world.marks("!schedule") == []
    world.clock.advance(12 * MINUTE)
    assert drain(app) is None
    (told,) = app.schedules.list()
    assert (told.state, told.next_slot, told.paused_at) == ("paused", None, BEFORE_NOON)
    app.schedules.resume("refresh")
    app.schedules.resume("refresh")
    assert drain(app) == NOON + 15 * MINUTE
    world.clock.advance(5 * MINUTE)
    drain(app)
    assert world.ran == [NOON + 15 * MINUTE]


def test_a_schedule_is_triggered_by_hand_beside_its_slots(world: World) -> None:
    app = world.scheduled()
    drain(app)
    run_id = app.schedules.trigger("refresh")
    app.schedules.pause("refresh")
    second = app.schedules.trigger("refresh")
    drain(app)
    assert world.ran == [BEFORE_NOON, BEFORE_NOON]
    assert run_id != second
    (told,) = app.schedules.list()
    assert (told.last_run_id, told.last_slot) == (second, BEFORE_NOON)


def test_a_change_by_hand_stays_until_the_code_changes(world: World) -> None:
    app = world.scheduled("*/5 * * * *")
    drain(app)
    told = app.schedules.change("refresh", "10 * * * *", overlap="skip")
    assert (told.rule, told.overlap, told.next_slot) == ("10 * * * *", "skip", NOON + 10 * MINUTE)
    assert drain(world.scheduled("*/5 * * * *")) == NOON + 10 * MINUTE
    assert drain(world.scheduled("*/6 * * * *")) == NOON
    (told,) = app.schedules.list()
    assert (told.rule, told.overlap) == ("*/6 * * * *", "allow")


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"tz": "Europe/Berlin"}, "*/5 * * * * Europe/Berlin"),
        ({"every": 90 * SECOND}, "every 0:01:30"),
        ({"cron": "@daily", "tz": "Asia/Tokyo"}, "@daily Asia/Tokyo"),
        ({"jitter": 3 * SECOND}, "*/5 * * * *"),
        ({"end": NOON + HOUR}, "*/5 * * * *"),
        ({"arguments": {"limit": 9}}, "*/5 * * * *"),
    ],
)
def test_what_is_not_given_stays_as_it_was(world: World, change: dict[str, Any], rule: str) -> None:
    app = world.process()

    @app.schedule("*/5 * * * *", jitter=SECOND, catch_up="all", arguments={"limit": 1})
    def work(limit: int) -> None: ...

    drain(app)
    app.schedules.change("work", **change)
    told = app.schedules.get("work")
    assert told is not None
    assert told.rule == rule
    assert told.catch_up == "all"
    assert told.jitter == change.get("jitter", SECOND)
    assert told.end == change.get("end")
    assert told.arguments == change.get("arguments", {"limit": 1})


@pytest.mark.parametrize(
    "change",
    [{"cron": "61 * * * *"}, {"tz": "Mars"}, {"arguments": {"no": 1}}, {"end": datetime(2027, 1, 1)}],  # noqa: DTZ001
)
def test_a_change_that_cannot_be_used_is_refused_and_changes_nothing(world: World, change: dict[str, Any]) -> None:
    app = world.scheduled()
    drain(app)
    before = world.items("")
    with pytest.raises((ConfigurationError, InputRefusedError)):
        app.schedules.change("refresh", **change)
    assert world.items("") == before


def test_a_deleted_schedule_is_gone_and_comes_back_with_another_definition_in_code(world: World) -> None:
    app = world.scheduled()
    drain(app)
    app.schedules.delete("refresh")
    assert app.schedules.list() == []
    assert app.schedules.get("refresh") is None
    assert drain(world.scheduled()) is None
    assert world.marks("!schedule") == []
    assert drain(world.scheduled("7 * * * *")) == NOON + 7 * MINUTE


def test_schedules_are_created_at_run_time_too(world: World) -> None:
    app = world.process()

    @app.job
    def work(shop: str) -> None:
        world.ran.append(world.clock.now())

    told = app.schedules.create("berlin", work, "*/5 * * * *", arguments={"shop": "berlin"})
    assert (told.next_slot, told.from_code, told.arguments) == (NOON, False, {"shop": "berlin"})
    with pytest.raises(ScheduleExistsError, match="'berlin'"):
        app.schedules.create("berlin", work, "* * * * *", arguments={"shop": "paris"})
    assert drain(app) == NOON
    world.clock.advance(MINUTE)
    drain(app)
    assert len(world.ran) == 1
    app.schedules.delete("berlin")
    app.schedules.create("berlin", work, every=HOUR, arguments={"shop": "berlin"})
    assert drain(app) == NOON + HOUR
    (item,) = world.items("schedule#")
    assert "ttl" not in item


def test_what_is_not_there_cannot_be_changed(world: World) -> None:
    app = world.scheduled()
    schedules = app.schedules
    acts: list[Callable[[str], Any]] = [schedules.pause, schedules.resume, schedules.trigger, schedules.delete]
    for act in (*acts, schedules.change, schedules.next):
        with pytest.raises(ScheduleUnknownError, match="'unknown'"):
            act("unknown")


def test_the_next_instants_are_told(world: World) -> None:
    app = world.scheduled("30 2 * * *", tz="Europe/Berlin")
    drain(app)
    after = datetime(2027, 3, 27, tzinfo=UTC)
    assert [f"{slot:%d %H:%M}" for slot in app.schedules.next("refresh", 3, after=after)] == [
        "27 01:30",
        "28 01:00",
        "29 00:30",
    ]
    for count in (0, 1001):
        with pytest.raises(InputRefusedError):
            app.schedules.next("refresh", count)


@pytest.mark.parametrize("applied", [False, True])
@pytest.mark.parametrize("act", ["pause", "resume", "delete", "change", "create", "trigger"])
@pytest.mark.parametrize("nth", [1, 2, 3])
def test_a_change_that_dies_at_any_write_leaves_a_schedule_that_works(
    world: World, act: str, nth: int, applied: bool
) -> None:
    home = world.scheduled()
    drain(home)
    if act == "resume":
        home.schedules.pause("refresh")
    mortal = MortalClient(world.client, nth=nth, applied=applied)
    operator = world.process(mortal)
    job = world.scheduled().registry.get("refresh")
    changes: dict[str, Callable[[], Any]] = {
        "pause": lambda: operator.schedules.pause("refresh"),
        "resume": lambda: operator.schedules.resume("refresh"),
        "delete": lambda: operator.schedules.delete("refresh"),
        "change": lambda: operator.schedules.change("refresh", "*/10 * * * *"),
        "create": lambda: operator.schedules.create("other", job, "*/5 * * * *"),  # type: ignore[arg-type]
        "trigger": lambda: operator.schedules.trigger("refresh"),
    }
    with contextlib.suppress(GoneError):  # some have fewer writes
        changes[act]()
    after = {told.name: told.state for told in home.schedules.list()}
    world.clock.advance(2 * MINUTE)
    drain(world.scheduled())
    for _ in range(4):
        world.clock.advance(5 * MINUTE)
        drain(world.scheduled())
    slots = Counter(item["dd_key"]["S"] for item in world.items("run#") if "dd_key" in item)
    assert set(slots.values()) <= {1}
    for name, state in after.items():
        ran = {key for key in slots if f" {name} " in key}
        assert len(ran) >= (2 if state == "active" else 0), (name, state, slots)
        assert state == "active" or not ran
    assert len(world.marks("!schedule")) == list(after.values()).count("active")


def test_the_mark_of_a_schedule_is_no_run_and_counts_only_when_it_is_due(world: World) -> None:
    app = world.scheduled()
    drain(app)
    queue = app.queues.get("default")
    assert (queue.waiting, queue.delayed, queue.oldest_due_at) == (0, 0, None)
    assert app.runs.list() == []
    world.clock.advance(MINUTE)
    queue = app.queues.get("default")
    assert (queue.waiting, queue.delayed, queue.oldest_due_at) == (1, 0, NOON)
    assert app.runs.list() == []


# --- definition -----------------------------------------------------------------------------------


def test_what_cannot_be_scheduled_is_refused_at_definition(world: World) -> None:
    app = world.process()

    @app.job
    def work(number: int) -> None: ...

    @app.job
    def idle() -> None: ...

    large = {"number": random.Random(7).randbytes(5000)}
    refused: list[tuple[Any, type[Exception]]] = [
        (lambda: app.schedule("61 * * * *"), ConfigurationError),
        (lambda: app.schedule("* * * * *", tz="Mars"), ConfigurationError),
        (lambda: app.schedule(), ConfigurationError),
        (lambda: app.schedule("* * * * *", every=HOUR), ConfigurationError),
        (lambda: app.schedule("* * * * *")(work), InputRefusedError),
        (lambda: app.schedule("* * * * *", arguments={"number": object()})(work), InputRefusedError),
        (lambda: app.schedule("* * * * *", arguments={"n": 1})(work), InputRefusedError),
        (
            lambda: app.schedule("* * * * *", arguments=large)(work),
            PayloadTooLargeError,
        ),
        (lambda: app.schedule("* * * * *")(idle.using(key="k")), ConfigurationError),
        (lambda: app.schedule("* * * * *")(idle.using(delay=HOUR)), ConfigurationError),
        (lambda: app.schedule("* * * * *", keep_result=HOUR)(idle), ConfigurationError),
        (lambda: app.schedule("* * * * *", name="")(idle), NameRefusedError),
        (lambda: app.schedule("* * * * *", queue="")(idle), NameRefusedError),
        (lambda: app.schedule("* * * * *")(7), ConfigurationError),  # type: ignore[call-overload]
        (lambda: app.job(name="!schedule")(lambda: None), NameRefusedError),
    ]
    for define, error in refused:
        with pytest.raises(error):
            define()
    assert app.registry.schedules == {}


def test_two_schedules_of_one_name_are_refused(world: World) -> None:
    app = world.process()

    @app.job
    def one() -> None: ...

    @app.job
    def two() -> None: ...

    app.schedule("0 1 * * *")(one)
    app.schedule("0 1 * * *")(one)
    with pytest.raises(ConfigurationError, match="name="):
        app.schedule("0 2 * * *")(one)
    with pytest.raises(ConfigurationError, match="two schedules"):
        app.schedule("0 1 * * *", name="one")(two)


@pytest.mark.parametrize("name", ["a", "a#b", "ä" * 60, "every five ~ minutes@x", "%23", "!schedule"])
def test_any_name_is_a_schedule_of_its_own(world: World, name: str) -> None:
    app, ran = world.process(queues=[Queue(name="default", shards=2)]), []

    @app.schedule("*/5 * * * *", name=name)
    def work(ctx: JobContext) -> None:
        ran.append(ctx.slot)

    drain(app)
    world.clock.advance(MINUTE)
    drain(app)
    assert ran == [NOON]
    assert [told.name for told in app.schedules.list()] == [name]


def test_the_twins_have_the_same_methods() -> None:
    for name, method in inspect.getmembers(Schedules, inspect.isfunction):
        if not name.startswith("_"):
            twin = inspect.signature(getattr(AioSchedules, name))
            assert list(twin.parameters.values()) == list(inspect.signature(method).parameters.values()), name


def test_the_same_can_be_done_on_an_event_loop(world: World) -> None:
    app = world.process()

    @app.job
    def work() -> None: ...

    async def test() -> None:
        schedules = app.aio.schedules
        await schedules.create("nightly", work, "0 3 * * *")
        await schedules.change("nightly", every=HOUR)
        await schedules.pause("nightly")
        await schedules.resume("nightly")
        assert (await schedules.list())[0] == await schedules.get("nightly") == app.schedules.get("nightly")
        assert len(await schedules.next("nightly")) == 5
        run_id = await schedules.trigger("nightly")
        assert await app.aio.run(run_id).status() == "pending"
        await schedules.delete("nightly")
        assert await schedules.list() == []

    asyncio.run(test())
