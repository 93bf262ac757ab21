"""Schedules at run time: create, change, pause, resume, trigger, delete, list; and a death at any write of these."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from dynadurable import ConfigurationError
from dynadurable.errors import (
    InputRefusedError,
    ScheduleExistsError,
    ScheduleUnknownError,
)
from tests.integration.schedule_world import BEFORE_NOON, HOUR, MINUTE, NOON, SECOND, World
from tests.mortal import GoneError, MortalClient, drain


@pytest.fixture
def world() -> World:
    world = World()
    world.process().create_table()
    return world


# --- at run time ----------------------------------------------------------------------------------


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


def test_an_operator_whose_clock_is_behind_takes_no_slot_back(world: World) -> None:
    app, operator = world.scheduled(catch_up="all"), world.process(skew=-12 * MINUTE)
    drain(app)
    world.clock.advance(5 * MINUTE)
    drain(app)
    operator.schedules.pause("refresh")
    operator.schedules.resume("refresh")
    assert drain(app) == NOON + 5 * MINUTE
    assert world.ran == [NOON]


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
