"""Stops while a request is under way, and stores that fail for longer than the driver tries again by itself."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from dynadurable import App, JobContext, Retry
from dynadurable.errors import PermissionMissingError, StoreUnavailableError
from tests import faults
from tests.faults import FaultPlan, Hold
from tests.patience import until
from tests.servers import Store

ItemsIn = Callable[[App], list[dict[str, Any]]]
LONG = timedelta(minutes=10)


@pytest.fixture
def real_app(moto_store: Store) -> App:
    """On the machine's own clock."""
    return App(moto_store.table(), client=moto_store.client)


def marks(app: App, items_in: ItemsIn) -> list[dict[str, Any]]:
    return [item for item in items_in(app) if item["pk"]["S"].startswith("queue#")]


def test_a_poll_that_is_not_answered_does_not_prolong_the_grace_period(real_app: App, moto_client: Any) -> None:
    real_app.job(name="work")(lambda: None)
    before = set(threading.enumerate())
    with FaultPlan(moto_client) as plan:
        hold = Hold()
        plan.on("Query", hold, nth=3)
        worker = real_app.worker(grace=timedelta(seconds=0.3))
        worker.start()
        hold.wait_until_reached()
        assert worker.stop().abandoned == []
        assert "dynadurable-dispatch" in {thread.name for thread in threading.enumerate()}
        hold.release()
        until(lambda: set(threading.enumerate()) <= before, "threads end")


def test_a_claim_that_is_answered_after_the_stop_is_handed_back_unused(
    real_app: App, moto_client: Any, items_in: ItemsIn
) -> None:
    """PUB-02: nobody must wait for the end of a lease."""
    starts: list[int] = []
    real_app.enqueue(real_app.job(name="work")(lambda: starts.append(1)))
    with FaultPlan(moto_client) as plan:
        hold = Hold(applied=True)
        plan.on("UpdateItem", hold, nth=1)
        worker = real_app.worker(lease=timedelta(minutes=5))
        worker.start()
        hold.wait_until_reached()
        stopping = threading.Thread(target=worker.stop)
        stopping.start()
        hold.release()
        stopping.join()
    [mark] = marks(real_app, items_in)
    assert "dd_token" not in mark
    assert "dd_lease" not in mark
    assert mark["dd_attempt"]["N"] == "0"
    assert starts == []


def test_many_bodies_that_will_not_end_are_told_first_and_handed_back_side_by_side(
    real_app: App, moto_client: Any, items_in: ItemsIn
) -> None:
    """Although the table takes none of the hand-backs, the stop ends: each would be tried again for seconds."""
    ended, begun, told = threading.Event(), threading.Semaphore(0), []

    @real_app.job
    def work(ctx: JobContext) -> None:
        begun.release()
        while not ended.wait(0.01):
            if ctx.stop_reason == "lease lost":
                told.append(ctx.run_id)
                return

    for _ in range(12):
        real_app.enqueue(work)
    worker = real_app.worker(concurrency=12, grace=timedelta())
    worker.start()
    for _ in range(12):
        begun.acquire()
    with FaultPlan(moto_client) as plan:
        hold = Hold()
        plan.on("UpdateItem", hold, nth=1, times=1)
        stopping = threading.Thread(target=worker.stop)
        stopping.start()
        hold.wait_until_reached()
        until(lambda: len(told) == 12, "all bodies are told")
        hold.release()
        stopping.join()
    ended.set()
    assert [mark.get("dd_token") for mark in marks(real_app, items_in)] == [None] * 12


@pytest.mark.parametrize("operation", ["DescribeTable", "GetItem"])
def test_a_signal_before_the_first_look_ends_it_at_once(real_app: App, moto_client: Any, operation: str) -> None:
    """Also while the table does not answer: nothing is held yet that would have to be handed back."""
    real_app.job(name="work")(lambda: None)

    over = threading.Event()

    def strike() -> None:
        hold.wait_until_reached()
        while not over.wait(0.05):  # again: one that comes just before a wait begins is noticed only after it
            os.kill(os.getpid(), signal.SIGTERM)

    before = signal.signal(signal.SIGTERM, lambda _number, _frame: None)
    try:
        for end in (lambda: real_app.worker().run(), lambda: real_app.worker().drain()):
            over.clear()
            with FaultPlan(moto_client) as plan:
                hold = Hold()
                plan.on(operation, hold, nth=1)
                striking = threading.Thread(target=strike)
                striking.start()
                assert not end()
                over.set()
                striking.join()
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize("fault", [faults.throttled, faults.lost_reply, faults.lost_request, faults.internal_error])
@pytest.mark.parametrize("operation", ["DeleteItem", "TransactWriteItems"])
def test_an_end_is_recorded_however_long_the_table_refuses_it_within_the_lease(
    app: App, moto_client: Any, items_in: ItemsIn, fault: Any, operation: str
) -> None:
    """The body has done its work: it must not do it again because the table was throttled for a minute."""
    starts: list[int] = []

    @app.job(retry=Retry(max_attempts=2, delay=timedelta(days=1), jitter=0.0))
    def work(ctx: JobContext) -> None:
        starts.append(ctx.attempt)
        if operation == "TransactWriteItems":
            raise ValueError("turned into a run with a failure")

    app.enqueue(work)
    with FaultPlan(moto_client) as plan:
        plan.on(operation, fault(), times=25)
        app.worker(concurrency=1, lease=LONG).drain()
    assert starts == [1]
    if operation == "DeleteItem":
        assert items_in(app) == []
    else:
        [run] = [item for item in items_in(app) if "dd_state" in item]
        assert run["dd_attempts"]["N"] == "1"


def test_a_checkpoint_is_tried_for_as_long_as_the_lease_stands(app: App, moto_client: Any) -> None:
    starts: list[int] = []

    @app.job
    def work(ctx: JobContext) -> None:
        starts.append(ctx.attempt)
        with FaultPlan(moto_client) as plan:
            plan.on("UpdateItem", faults.throttled(), times=20)
            ctx.checkpoint("half")

    app.enqueue(work)
    app.worker(concurrency=1, lease=LONG).drain()
    assert starts == [1]


def test_a_drain_looks_again_after_a_look_that_failed(app: App, moto_client: Any, items_in: ItemsIn) -> None:
    app.enqueue(app.job(name="work")(lambda: None))
    with FaultPlan(moto_client) as plan:
        plan.on("Query", faults.throttled(), times=40)
        assert app.worker().drain() is None
    assert items_in(app) == []


def test_a_drain_that_can_never_look_says_so(app: App, moto_client: Any) -> None:
    app.enqueue(app.job(name="work")(lambda: None))
    with FaultPlan(moto_client) as plan:
        plan.on("Query", faults.throttled())
        with pytest.raises(StoreUnavailableError):
            app.worker().drain()


def test_credentials_that_expire_under_an_idle_worker_are_waited_for(
    real_app: App, moto_client: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """They are renewed by themselves as a rule. A worker that never could read ends at once, as before."""
    done = threading.Event()
    work = real_app.job(name="work")(done.set)
    expired = faults.refused("ExpiredTokenException", "The security token included in the request is expired")
    with FaultPlan(moto_client) as plan, caplog.at_level(logging.ERROR):
        plan.on("Query", expired, nth=range(60, 1000))
        worker = real_app.worker(poll=(timedelta(seconds=0.01), timedelta(seconds=0.01)))
        worker.start()
        until(lambda: "ExpiredTokenException" in caplog.text, "a look fails")
        plan.clear()
        real_app.enqueue(work)
        assert done.wait(20)
        assert worker.is_running
        worker.stop()
    with FaultPlan(moto_client) as plan:
        plan.on("Query", expired)
        with pytest.raises(PermissionMissingError):
            real_app.worker().run()
