"""A worker inside somebody's own process; marks inside somebody's own transaction; threads and forks."""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import boto3
import pytest
from pynamodb.attributes import UnicodeAttribute
from pynamodb.connection import Connection
from pynamodb.models import Model
from pynamodb.transactions import TransactWrite

from dynadurable import App, ConfigurationError, JobContext, Retry
from dynadurable.testing.clock import ManualClock
from tests import faults
from tests.faults import FaultPlan
from tests.servers import Store

ItemsIn = Callable[[App], list[dict[str, Any]]]


@pytest.fixture
def real_time_app(ministack: Store, app_type: type[App]) -> App:
    """On the machine's own clock, with a server that is safe for threads."""
    return app_type(ministack.table(), client=ministack.client)


# --- the caller's own transaction -----------------------------------------------------------------


def test_the_mark_commits_with_the_callers_own_item_or_not_at_all(
    app: App, moto_client: Any, items_in: ItemsIn
) -> None:
    done: list[str] = []

    @app.job
    def fan_out(molt_id: str) -> None:
        done.append(molt_id)

    put = {"Put": {"TableName": app.schema.table, "Item": {"pk": {"S": "molt#1"}, "sk": {"S": "molt"}}}}
    never = {**put["Put"], "ConditionExpression": "attribute_exists(pk)"}
    with pytest.raises(moto_client.exceptions.TransactionCanceledException):
        moto_client.transact_write_items(TransactItems=[{"Put": never}, *app.transact_items(fan_out, molt_id="m1")])
    assert items_in(app) == []
    elements = app.transact_items(fan_out, molt_id="m1")
    moto_client.transact_write_items(TransactItems=[put, *elements])
    assert len(items_in(app)) == 2
    assert elements.run_id in {item["sk"]["S"].partition("#")[2] for item in items_in(app)}
    app.worker(concurrency=1).drain()
    assert done == ["m1"]
    assert [item["pk"]["S"] for item in items_in(app)] == ["molt#1"]


def test_a_keyed_run_in_the_callers_transaction_is_refused_while_the_key_is_taken(app: App, moto_client: Any) -> None:
    done: list[int] = []

    @app.job
    def work(number: int) -> None:
        done.append(number)

    def commit() -> None:
        moto_client.transact_write_items(TransactItems=app.transact_items(work.using(key="k"), 1))

    commit()
    with pytest.raises(moto_client.exceptions.TransactionCanceledException):
        commit()
    app.worker(concurrency=1).drain()
    commit()
    app.worker(concurrency=1).drain()
    assert done == [1, 1]


def test_the_mark_goes_into_a_pynamodb_transaction(moto_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    app = App(moto_store.table(), client=moto_store.client)
    done: list[str] = []

    @app.job
    def fan_out(molt_id: str) -> None:
        done.append(molt_id)

    class Molt(Model):
        class Meta:
            table_name = app.schema.table
            region = "us-east-1"

        pk = UnicodeAttribute(hash_key=True)
        sk = UnicodeAttribute(range_key=True)

    with TransactWrite(connection=Connection(region="us-east-1")) as transaction:
        transaction.save(Molt("molt#1", "molt"))
        for model, condition in app.transact_models(fan_out, molt_id="m1"):
            transaction.save(model, condition=condition)
    app.worker(concurrency=1).drain()
    assert done == ["m1"]


# --- inside the web process -----------------------------------------------------------------------


@pytest.mark.server
def test_what_is_enqueued_beside_a_worker_begins_at_once(real_time_app: App) -> None:
    """Eager start: with the longest poll interval there is, so no poll can have found it."""
    app, ran = real_time_app, threading.Event()
    seen: list[tuple[int, int]] = []

    @app.job
    def work(ctx: JobContext) -> None:
        seen.append((ctx.attempt, ctx.fence))
        ran.set()

    worker = app.worker(poll=(timedelta(seconds=60), timedelta(seconds=60)))
    worker.start()
    app.enqueue(work)
    assert ran.wait(10)
    assert worker.stop().exit_code == 0
    assert worker.stop().exit_code == 0
    assert seen == [(1, 1)]


@pytest.mark.server
def test_more_than_there_are_slots_for_waits_and_is_done_too(real_time_app: App) -> None:
    app, release, done = real_time_app, threading.Event(), threading.Semaphore(0)

    @app.job
    def work(number: int) -> None:
        release.wait(30)
        done.release()

    worker = app.worker(concurrency=2)
    worker.start()
    for number in range(10):
        app.enqueue(work, number)
    release.set()
    assert all(done.acquire(timeout=30) for _ in range(10))
    assert worker.stop().exit_code == 0


def test_a_worker_is_used_once(app: App) -> None:
    @app.job
    def work() -> None: ...

    worker = app.worker()
    worker.drain()
    with pytest.raises(ConfigurationError, match="used once"):
        worker.drain()


@pytest.mark.server
def test_a_stop_hands_back_what_will_not_end_and_its_body_can_write_nothing_more(real_time_app: App) -> None:
    app, started, release = real_time_app, threading.Event(), threading.Event()
    errors: list[BaseException] = []

    @app.job
    def work(ctx: JobContext) -> None:
        started.set()
        release.wait(30)
        try:
            ctx.checkpoint(1)
        except BaseException as error:
            errors.append(error)
            raise

    app.enqueue(work)
    worker = app.worker(grace=timedelta(seconds=0.1))
    worker.start()
    assert started.wait(30)
    report = worker.stop()
    assert len(report.abandoned) == 1
    assert report.exit_code == 2
    release.set()
    end = threading.Event()
    for _ in range(200):
        if errors:
            break
        end.wait(0.02)
    assert [type(error).__name__ for error in errors] == ["LeaseLostError"]


# --- renewal --------------------------------------------------------------------------------------


@pytest.mark.server
def test_failing_renewals_are_tried_again_and_the_body_stays_the_only_one(real_time_app: App, ministack: Store) -> None:
    """PUB-19: throttled, then unreachable, then it works."""
    app, starts = real_time_app, []

    @app.job
    def work(ctx: JobContext) -> None:
        starts.append(ctx.attempt)
        ctx.stopping.wait(4.0)
        assert not ctx.stopping.is_set()

    with FaultPlan(ministack.client) as plan:
        renewals = iter(range(1, 100))
        plan.on("UpdateItem", faults.throttled(), when=lambda call: _is_renewal(call.params) and next(renewals) == 2)
        plan.on("UpdateItem", faults.unreachable(), when=lambda call: _is_renewal(call.params) and next(renewals) == 4)
        app.enqueue(work)
        worker, rival = app.worker(lease=timedelta(seconds=2)), app.worker(lease=timedelta(seconds=2))
        rival.start()
        worker.start()
        worker_done = threading.Event()
        while not (starts and not app.operations.workers[0].engine.holding() + rival.engine.holding()):
            worker_done.wait(0.05)
        worker.stop()
        rival.stop()
        assert sum(_is_renewal(call.params) for call in plan.of("UpdateItem")) >= 4
    assert starts == [1]


@pytest.mark.server
def test_a_body_is_told_before_anybody_else_can_have_its_run(real_time_app: App, ministack: Store) -> None:
    app, told = real_time_app, []

    @app.job(retry=Retry(max_attempts=1))
    def work(ctx: JobContext) -> None:
        assert ctx.stopping.wait(20)
        told.append((ctx.stop_reason, ctx.lease_remaining > timedelta(0)))

    with FaultPlan(ministack.client) as plan:
        plan.on("UpdateItem", faults.unreachable(), when=lambda call: _is_renewal(call.params), attempts=None)
        app.enqueue(work)
        worker = app.worker(lease=timedelta(seconds=1.5))
        worker.start()
        waiting = threading.Event()
        for _ in range(1000):
            if told:
                break
            waiting.wait(0.02)
        worker.stop()
    assert told == [("lease lost", True)]


def _is_renewal(params: dict[str, Any]) -> bool:
    names = params.get("ExpressionAttributeNames", {}).values()
    return params["UpdateExpression"].count("=") == 1 and (
        "dd_lease" in names or "dd_lease" in params["UpdateExpression"]
    )


# --- threads and forks ----------------------------------------------------------------------------


@pytest.mark.server
def test_fifty_threads_may_make_the_first_call_at_once(ministack: Store, app_type: type[App]) -> None:
    """PUB-59."""
    table = ministack.table()
    for _ in range(3):
        app = app_type(table, session=boto3.session.Session(**_session(ministack)), endpoint_url=ministack.endpoint_url)

        @app.job
        def work(number: int) -> None: ...

        barrier = threading.Barrier(50)

        def first(number: int, app: App = app, barrier: threading.Barrier = barrier, job: Any = work) -> str:
            barrier.wait(30)
            return app.enqueue(job, number).id

        with ThreadPoolExecutor(50) as pool:
            assert len(set(pool.map(first, range(50)))) == 50
    assert len(_marks(ministack, table)) == 150


@pytest.mark.server
@pytest.mark.parametrize("given", ["client", "session"])
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork.*:DeprecationWarning")
def test_a_parent_and_its_forks_share_nothing(ministack: Store, app_type: type[App], given: str) -> None:
    """PUB-59: the parent works and enqueues, two children enqueue; nothing is crossed or lost."""
    table = ministack.table()
    if given == "client":
        app = app_type(table, client=ministack.client)
    else:
        app = app_type(table, session=boto3.session.Session(**_session(ministack)), endpoint_url=ministack.endpoint_url)
    release = threading.Event()

    @app.job(queue="other")
    def hold(ctx: JobContext) -> None:
        release.wait(60)

    @app.job
    def work(number: int) -> None: ...

    app.enqueue(hold)
    worker = app.worker(queues=["other"])
    worker.start()

    def enqueue_hundred() -> None:
        for number in range(100):
            app.enqueue(work, number)

    fork = multiprocessing.get_context("fork")
    children = [fork.Process(target=enqueue_hundred) for _ in range(2)]
    for child in children:
        child.start()
    enqueue_hundred()
    for child in children:
        child.join(60)
    assert [child.exitcode for child in children] == [0, 0]
    release.set()
    assert worker.stop().exit_code == 0
    assert len({mark["sk"]["S"] for mark in _marks(ministack, table)}) == 300


def test_two_threads_never_get_the_same_run_id(app: App, clock: ManualClock) -> None:
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: [app.operations.ids.make(clock.now_ms()) for _ in range(500)], range(8)))
    ids = [one for some in made for one in some]
    assert len(set(ids)) == 4000
    assert all(some == sorted(some) for some in made)


def _session(store: Store) -> dict[str, Any]:
    names = ("aws_access_key_id", "aws_secret_access_key", "region_name")
    return {name: store.client_kwargs[name] for name in names}


def _marks(store: Store, table: str) -> list[dict[str, Any]]:
    pages = store.client.get_paginator("scan").paginate(TableName=table)
    return [item for page in pages for item in page["Items"] if item["pk"]["S"].startswith("queue#default#")]
