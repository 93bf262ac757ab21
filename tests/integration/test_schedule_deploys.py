"""Schedules in code: how a definition gets into force, beside other versions of the code and workers that know less."""

from __future__ import annotations

import asyncio
import inspect
import logging
import random
from datetime import UTC, datetime
from typing import Any

import pytest

from dynadurable import ConfigurationError, JobContext, Queue
from dynadurable.control.schedules import Schedules
from dynadurable.control.schedules_aio import AioSchedules
from dynadurable.errors import (
    InputRefusedError,
    NameRefusedError,
    PayloadTooLargeError,
)
from dynadurable.worker.context_aio import AsyncJobContext
from tests.integration.schedule_world import HOUR, MINUTE, NOON, World, app_next
from tests.mortal import MortalClient, drain


@pytest.fixture
def world() -> World:
    world = World()
    world.process().create_table()
    return world


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
