"""Time travel: the clock is turned, and what waits for it happens; nothing sleeps for real."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest

from dynadurable import LeaseBusyError, RunExpiredError
from dynadurable.storage import marks
from dynadurable.testing.clock import ManualClock
from dynadurable.testing.kit import Kit
from tests.kit import shop


@pytest.fixture(autouse=True)
def _nothing_sleeps(monkeypatch: pytest.MonkeyPatch) -> None:
    def slept(seconds: float) -> None:
        raise AssertionError(f"somebody really slept, for {seconds} s")

    monkeypatch.setattr(time, "sleep", slept)


def test_a_delayed_run_is_due_when_its_time_has_come(tools: Kit) -> None:
    shop.app.enqueue(shop.send.using(delay=timedelta(days=3)), to="ada")
    assert tools.assert_enqueued(shop.send).due_at == tools.clock.now() + timedelta(days=3)
    tools.clock.advance(timedelta(days=3) - timedelta(seconds=1))
    tools.run_until_idle()
    assert "ada" not in shop.outbox
    tools.clock.advance(timedelta(seconds=1))
    tools.run_until_idle()
    assert shop.outbox.count("ada") == 1


def test_retries_come_due(tools: Kit) -> None:
    run = shop.app.enqueue(shop.send, to="ada", fails=2)
    tools.run_until_idle()
    assert (shop.outbox, run.status()) == ([], "pending")
    for _ in range(2):
        assert "ada" not in shop.outbox
        tools.clock.advance(timedelta(minutes=2))
        tools.run_until_idle()
    assert shop.outbox == ["ada"]
    assert tools.body_starts(shop.send) == 3


def test_a_workflow_sleeps_through_three_days(tools: Kit) -> None:
    run = shop.app.enqueue(shop.order, 1)
    tools.run_until_idle()
    tools.clock.advance(timedelta(days=2))
    tools.run_until_idle()
    assert run.status() == "pending"
    tools.clock.advance(timedelta(days=1))
    tools.run_until_idle()
    assert run.status() == "succeeded"


def test_patience_for_an_event_runs_out(tools: Kit) -> None:
    waited = shop.app.enqueue(shop.impatient)
    told = shop.app.enqueue(shop.impatient)
    tools.run_until_idle()
    told.send_event("approved", "the boss")
    tools.clock.advance(timedelta(hours=48))
    tools.run_until_idle()
    assert (waited.result(), told.result()) == ("nobody", "the boss")


def test_a_schedule_fires_once_for_a_long_absence_and_daily_for_who_was_there(tools: Kit) -> None:
    tools.run_until_idle()
    assert tools.enqueued == []  # what arms the schedule is no run of anybody's
    tools.clock.advance(timedelta(days=3))
    tools.run_until_idle()
    assert shop.outbox == ["report"]
    tools.run_for(timedelta(days=3))
    assert shop.outbox == ["report"] * 4
    assert tools.clock.now() == datetime(2027, 1, 21, 12, tzinfo=UTC)


def test_the_lease_of_a_lost_worker_runs_out(tools: Kit) -> None:
    shop.app.enqueue(shop.send, to="ada")
    claim_and_die(tools)
    free_at = tools.run_until_idle()
    assert shop.outbox == []
    assert free_at is not None
    tools.clock.advance(free_at - tools.clock.now() + timedelta(milliseconds=1))
    tools.run_until_idle()
    assert shop.outbox == ["ada"]


def test_a_named_lease_runs_out_with_its_holder(tools: Kit) -> None:
    ttl = timedelta(seconds=15)
    lost = shop.app.lease("refresher", ttl=ttl).acquire()
    fence = lost.fence
    shop.app.lease_parts.keeper.stop()  # as if its process were gone
    with pytest.raises(LeaseBusyError):
        shop.app.lease("refresher", ttl=ttl).acquire()
    tools.clock.advance(timedelta(minutes=1))
    with shop.app.lease("refresher", ttl=ttl) as lease:
        assert lease.fence > fence


def test_a_kept_result_expires(tools: Kit) -> None:
    run = shop.app.enqueue(shop.send, to="ada")
    tools.run_until_idle()
    assert run.result() == "sent to ada"
    tools.clock.advance(timedelta(days=2))
    with pytest.raises(RunExpiredError):
        run.result()


def test_a_clock_may_begin_at_any_instant() -> None:
    clock = ManualClock(datetime(2030, 2, 28, 23, 59, tzinfo=UTC))
    clock.advance(timedelta(minutes=1))
    assert clock.now() == datetime(2030, 3, 1, tzinfo=UTC)


def claim_and_die(tools: Kit) -> None:
    """A worker takes the run and is gone."""
    app = tools.app
    (run,) = tools.enqueued
    for shard in range(4):
        page = app.driver.run(marks.poll(app.items, queue="default", shard=shard, limit=4, until_ms=None))
        for seen in page.candidates:
            if seen.run_id == run.run_id:
                plan = marks.claim(
                    app.items,
                    pk=seen.pk,
                    sk=seen.sk,
                    token="token-of-the-dead",
                    now_ms=app.clock.earliest_ms(),
                    lease_until_ms=app.clock.latest_ms() + 30_000,
                    worker="w",
                )
                assert app.driver.run(plan) is not None
