"""Krabber's chores: the public timeline is refreshed by a ticker, sign-ups expire if they are never activated."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dynadurable import App
from dynadurable.demo import place
from dynadurable.testing.clock import ManualClock

pytest.importorskip("networkx")
place.put_on_path()

NOON = datetime(2027, 1, 15, 12, tzinfo=UTC)


@pytest.fixture
def client(moto_client: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    from krabber import chores
    from krabber.app import app
    from krabber.models import TABLE

    for name, value in (("ACCESS_KEY_ID", "testing"), ("SECRET_ACCESS_KEY", "testing")):
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.setattr(chores, "client", lambda: moto_client)
    App(TABLE, client=moto_client).create_table()
    yield moto_client
    moto_client.delete_table(TableName=TABLE)
    for name in ("refresh_timeline", "expire_sign_ups"):  # the example's app is shared with other tests
        app.registry._jobs.pop(name)
    app.registry.schedules.clear()
    sys.modules.pop("krabber.chores")
    del sys.modules["krabber"].chores


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOON - timedelta(seconds=10))


@pytest.fixture
def chores(client: Any, clock: ManualClock) -> App:
    """The example's jobs and schedules, on a clock that the test moves."""
    from krabber import chores as _  # noqa: F401 - it defines them
    from krabber.app import app
    from krabber.models import TABLE

    moved = App(TABLE, client=client, clock=clock)
    for job in app.registry.jobs():
        moved.registry.add(job)
    for schedule in app.registry.schedules.values():
        moved.registry.add_schedule(schedule, app.registry.get(schedule.job).function)  # type: ignore[union-attr]
    return moved


def drain(app: App) -> None:
    app.worker(concurrency=1).drain()


def test_the_public_timeline_is_refreshed_by_a_ticker(client: Any, clock: ManualClock, chores: App) -> None:
    from krabber import sign_ups, timeline
    from krabber.models import Molt

    for name in ("ferris", "clawdia", "lurker"):
        sign_ups.sign_up(client, name, now_ms=clock.now_ms())
    for name in ("ferris", "clawdia"):
        sign_ups.activate(client, name, now_ms=clock.now_ms())
    for number, name in enumerate(["ferris", "clawdia", "lurker", "ferris"]):
        molt = Molt.by(name, molt_id=f"{clock.now_ms()}-{number}", text=f"molt {number}")
        client.put_item(TableName="krabber", Item=molt.serialize())
    drain(chores)
    assert timeline.read(client) == []
    clock.advance(timedelta(seconds=30))
    drain(chores)
    assert timeline.read(client) == ["ferris: molt 3", "clawdia: molt 1", "ferris: molt 0"]
    assert not timeline.refresh(client, slot=NOON - timedelta(minutes=1))  # a run that comes late
    assert timeline.refresh(client, slot=NOON)  # a second attempt of the same slot


def test_sign_ups_that_were_never_activated_expire_after_three_days(
    client: Any, clock: ManualClock, chores: App
) -> None:
    from krabber import sign_ups

    sign_ups.sign_up(client, "ghost", now_ms=clock.now_ms())
    sign_ups.sign_up(client, "ferris", now_ms=clock.now_ms())
    sign_ups.activate(client, "ferris", now_ms=clock.now_ms())
    with pytest.raises(client.exceptions.ConditionalCheckFailedException):
        sign_ups.sign_up(client, "ghost", now_ms=clock.now_ms())
    drain(chores)
    clock.advance(timedelta(days=2, hours=23))
    drain(chores)
    assert [found.sk for found in sign_ups.all_sign_ups(client)] == ["ferris", "ghost"]
    clock.advance(timedelta(hours=2))
    drain(chores)
    assert [found.sk for found in sign_ups.all_sign_ups(client)] == ["ferris"]
    with pytest.raises(client.exceptions.ConditionalCheckFailedException):
        sign_ups.activate(client, "ghost", now_ms=clock.now_ms())
    sign_ups.sign_up(client, "ghost", now_ms=clock.now_ms())


def test_the_chores_stand_in_the_list_of_schedules(chores: App) -> None:
    drain(chores)
    assert [(told.name, told.rule, told.queue) for told in chores.schedules.list()] == [
        ("expire_sign_ups", "17 * * * *", "chores"),
        ("refresh_timeline", "every 0:00:30", "chores"),
    ]
