"""Queues as such: pause and resume, priority, counts; and what workers say of themselves."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from dynadurable import App, ConfigurationError, JobContext, PayloadTooLargeError, Queue, Retry
from dynadurable.clock import SystemClock
from dynadurable.errors import NameRefusedError
from dynadurable.storage import workers
from dynadurable.testing.clock import ManualClock
from tests import faults
from tests.faults import FaultPlan
from tests.integration.test_asking import claim, drain

ItemsIn = Callable[[App], list[dict[str, Any]]]
HOUR = timedelta(hours=1)


# --- pause ----------------------------------------------------------------------------------------


def test_a_paused_queue_starts_nothing_until_it_is_resumed(app: App, items_in: ItemsIn) -> None:
    done: list[str] = []

    @app.job
    def plain(name: str) -> None:
        done.append(name)

    app.queues.pause("default", reason="migration")
    app.enqueue(plain, "a")
    app.enqueue(plain.using(queue="other"), "b")
    app.worker(queues=["default", "other"], concurrency=1).drain()
    assert done == ["b"]
    told = app.queues.get("default")
    assert (told.paused, told.reason, told.waiting) == (True, "migration", 1)
    app.queues.resume("default")
    assert not app.queues.get("default").paused
    drain(app)
    assert done == ["b", "a"]
    assert items_in(app) == []


def test_pause_and_resume_are_seen_within_seconds_although_much_was_found_before(make_app: Callable[..., App]) -> None:
    """A worker that has found twenty runs stops after a pause, and an idle one does not sleep through a resume."""
    app = make_app(clock=SystemClock(), queues=[Queue(name="default", shards=1)])
    done: list[int] = []
    begun = threading.Event()

    @app.job
    def slow(number: int) -> None:
        done.append(number)
        begun.set()
        app.clock.sleep(0.3)

    app.enqueue_many(slow.call(number) for number in range(100))
    worker = app.worker(concurrency=1)
    worker.start()
    try:
        assert begun.wait(30)
        app.queues.pause("default")
        stopped_at = settled(app, done)
        app.clock.sleep(1.0)
        assert len(done) == stopped_at
        app.queues.resume("default")
        until = app.clock.monotonic() + 5
        while len(done) == stopped_at and app.clock.monotonic() < until:
            app.clock.sleep(0.05)
        assert len(done) > stopped_at
    finally:
        worker.stop()


def settled(app: App, done: list[int]) -> int:
    """How many were done when no more came for a second; that must be so within seconds."""
    until = app.clock.monotonic() + 6
    before = -1
    while before != len(done):
        assert app.clock.monotonic() < until, "the pause was not seen"
        before = len(done)
        app.clock.sleep(1.0)
    return before


def test_an_eager_start_does_not_pass_by_a_pause(make_app: Callable[..., App], items_in: ItemsIn) -> None:
    """Also of a worker that has not looked for a while: it looks before it claims by itself."""
    clock = ManualClock()
    app = make_app(clock=clock)
    done: list[int] = []

    @app.job
    def plain(number: int) -> None:
        done.append(number)

    worker = app.worker(concurrency=2, poll=(HOUR, HOUR))
    worker.start()
    try:
        app.enqueue(plain, 1)
        wait_until(lambda: done == [1])
        app.queues.pause("default")
        clock.advance(timedelta(seconds=10))
        app.enqueue(plain, 2)
        (mark,) = [item for item in items_in(app) if "dd_job" in item]
        assert "dd_token" not in mark
    finally:
        worker.stop()
    assert done == [1]


def wait_until(holds: Callable[[], bool]) -> None:
    clock = SystemClock()
    until = clock.monotonic() + 30
    while not holds():
        assert clock.monotonic() < until
        clock.sleep(0.01)


def test_a_pause_is_one_write_and_names_are_checked(app: App, moto_client: Any) -> None:
    with FaultPlan(moto_client) as plan:
        app.queues.pause("trench")
        app.queues.resume("trench")
    assert plan.operations == ["PutItem", "DeleteItem"]
    with pytest.raises(NameRefusedError):
        app.queues.pause("")
    with pytest.raises(PayloadTooLargeError):
        app.queues.pause("trench", reason="x" * 1001)


# --- priority -------------------------------------------------------------------------------------


def test_queues_are_served_in_the_order_given_and_the_last_does_not_starve(app: App) -> None:
    order: list[str] = []

    @app.job
    def note(name: str) -> None:
        order.append(name)

    for name in ("low", "middle", "high"):
        app.enqueue_many(note.using(queue=name).call(name) for _ in range(20))
    app.worker(queues=["high", "middle", "low"], concurrency=1).drain()
    assert len(order) == 60
    first = order[:24]
    assert first.count("high") >= 18
    assert first.count("low") >= 1  # every eighth pick begins at the other end
    assert order.index("low") < 20


# --- counts ---------------------------------------------------------------------------------------


def test_counts_tell_what_waits_runs_is_delayed_and_is_dead_without_a_scan(
    app: App, clock: ManualClock, moto_client: Any
) -> None:
    start = clock.now()

    @app.job(retry=Retry.none())
    def plain(fails: bool = False) -> None:
        if fails:
            raise ValueError("no")

    for _ in range(3):
        app.enqueue(plain, fails=True)
    drain(app)
    for _ in range(7):
        app.enqueue(plain)
        clock.advance(timedelta(seconds=1))
    claim(app, app.enqueue(plain).id)
    for _ in range(2):
        app.enqueue(plain.using(delay=HOUR))
    with FaultPlan(moto_client) as plan:
        told = app.queues.get("default")
        listed = app.queues.list()
    assert (told.waiting, told.in_flight, told.delayed, told.dead) == (7, 1, 2, 3)
    assert told.oldest_due_at == start
    assert not told.more
    assert listed == [told]
    assert set(plan.operations) == {"GetItem", "Query"}


def test_queues_of_workers_elsewhere_are_known_too(app: App, make_app: Callable[..., App]) -> None:
    with pytest.raises(ConfigurationError, match="no queue is known"):
        app.dead.list()
    other = make_app()

    @other.job(queue="elsewhere")
    def there() -> None: ...

    other.enqueue(there)
    other.worker().registrar.beat()
    assert [(queue.name, queue.waiting, queue.workers) for queue in app.queues.list()] == [("elsewhere", 1, 1)]
    assert [run.job for run in app.runs.list()] == ["there"]
    assert app.runs.list(queue="nothing") == []


def test_runs_are_listed_in_due_order_by_state_and_job(app: App, clock: ManualClock) -> None:
    @app.job
    def one() -> None: ...

    @app.job
    def two(ctx: JobContext) -> None: ...

    late = app.enqueue(one.using(delay=HOUR))
    due = app.enqueue(two)
    held = app.enqueue(one)
    claim(app, held.id)
    assert [run.run_id for run in app.runs.list()][2] == late.id
    assert {run.run_id for run in app.runs.list(state="pending")} == {late.id, due.id}
    assert [run.run_id for run in app.runs.list(state="running")] == [held.id]
    assert {run.run_id for run in app.runs.list(job="one")} == {late.id, held.id}
    assert len(app.runs.list(limit=1)) == 1


# --- workers --------------------------------------------------------------------------------------


def test_workers_say_who_they_are_until_they_stop_or_fall_silent(
    app: App, make_app: Callable[..., App], clock: ManualClock, items_in: ItemsIn
) -> None:
    """PUB-08: two of one name are two workers; and nothing but this list depends on it."""
    other = make_app(build="v2")

    @other.job(queue="trench")
    def fan_out() -> None: ...

    first = other.worker(name="pod-0", concurrency=3)
    second = other.worker(name="pod-0", concurrency=3)
    first.registrar.beat()
    clock.advance(timedelta(seconds=90))
    second.registrar.beat()
    assert [(one.name, one.queues, one.jobs, one.concurrency, one.build) for one in app.workers.list()] == [
        ("pod-0", ("trench",), ("fan_out",), 3, "v2"),
        ("pod-0", ("trench",), ("fan_out",), 3, "v2"),
    ]
    clock.advance(timedelta(milliseconds=workers.LIVE_MS - 89_000))
    assert len(app.workers.list()) == 1
    first.registrar.beat()
    assert len(app.workers.list()) == 2
    first.registrar.stop()
    second.registrar.stop()
    assert app.workers.list() == []
    left = items_in(app)
    assert [item["sk"]["S"] for item in left] == ["build#v2"]
    assert all("ttl" in item for item in left)


def test_a_worker_that_cannot_say_that_it_lives_works_all_the_same(app: App, moto_client: Any) -> None:
    done: list[int] = []

    @app.job
    def plain() -> None:
        done.append(1)

    app.enqueue(plain)
    worker = app.worker(concurrency=1)
    with FaultPlan(moto_client) as plan:
        plan.on("PutItem", faults.refused("AccessDeniedException"))
        worker.registrar.start(after_seconds=0.0)
        worker.drain()
    assert done == [1]


def test_a_long_list_of_jobs_is_cut(app: App) -> None:
    for number in range(workers.MAX_JOBS + 50):
        app.job(name=f"job-{number:04d}")(lambda: None)
    app.worker().registrar.beat()
    (told,) = app.workers.list()
    assert len(told.jobs) == workers.MAX_JOBS
    assert told.jobs_left_out == 50
    assert told.may_know("job-0249")
