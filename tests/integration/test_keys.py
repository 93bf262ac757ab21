"""Runs that are named by a business key, one at a time, in bulk and in the caller's own transaction."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from dynadurable import App, Fail, JobContext, KeyConflictError, Retry, RunHandle
from dynadurable.errors import InputRefusedError, KeyRefusedError
from dynadurable.testing.clock import ManualClock
from tests.integration.test_asking import claim, drain

ItemsIn = Callable[[App], list[dict[str, Any]]]


@pytest.fixture
def calls() -> list[Any]:
    return []


@pytest.fixture
def sync(app: App, calls: list[Any]) -> Any:
    """A job that notes what it was called with."""

    @app.job(retry=Retry.none())
    def sync(**given: Any) -> None:
        calls.append(given)
        if given.get("fails"):
            raise Fail("no")

    return sync


def test_the_same_call_in_another_order_of_keys_is_the_same_run(app: App, sync: Any, items_in: ItemsIn) -> None:
    """PUB-57."""
    first = app.enqueue(sync.using(key="k"), a=1, b={"c": 2, "d": 3})
    second = app.enqueue(sync.using(key="k"), b={"d": 3, "c": 2}, a=1)
    assert second == first
    before = items_in(app)
    with pytest.raises(KeyConflictError) as raised:
        app.enqueue(sync.using(key="k"), a=1, b={"c": 2, "d": 4})
    assert raised.value.run_id == first.id
    assert items_in(app) == before
    with pytest.raises(KeyConflictError):
        app.enqueue(sync.using(key="k"), a=[1, 2])
    other = app.enqueue(sync.using(key="l"), a=[1, 2])
    with pytest.raises(KeyConflictError):
        app.enqueue(sync.using(key="l"), a=[2, 1])
    assert other != first


def test_spelling_out_a_default_is_the_same_call(app: App) -> None:
    @app.job
    def send(to: str, urgent: bool = False) -> None: ...

    assert app.enqueue(send.using(key="k"), "ada") == app.enqueue(send.using(key="k"), to="ada", urgent=False)


@pytest.mark.parametrize("end", ["success", "dead", "killed", "cancelled"])
def test_a_key_is_free_again_however_its_run_has_ended(
    app: App, clock: ManualClock, sync: Any, calls: list[Any], end: str
) -> None:
    """PUB-56: while live the first run comes back; afterwards a new one is made, and it runs."""
    first = app.enqueue(sync.using(key="sync-7"), fails=end == "dead")
    assert app.enqueue(sync.using(key="sync-7"), fails=end == "dead") == first
    if end == "cancelled":
        first.cancel()
    if end == "killed":
        claim(app, first.id)
        assert app.enqueue(sync.using(key="sync-7"), fails=False) == first
        clock.advance(timedelta(seconds=31))
    drain(app)
    expected = {"success": "succeeded", "killed": "dead"}.get(end, end)
    assert first.status() == expected
    calls.clear()
    again = app.enqueue(sync.using(key="sync-7"), fails=False, round=2)
    assert again.status() == "pending"
    drain(app)
    assert calls == [{"fails": False, "round": 2}]
    assert again.status() == "succeeded"


def test_a_key_stays_taken_for_the_window_that_was_asked_for(
    app: App, clock: ManualClock, sync: Any, calls: list[Any]
) -> None:
    keyed = sync.using(key="daily", unique_for=timedelta(hours=24))
    first = app.enqueue(keyed, n=1)
    drain(app)
    clock.advance(timedelta(hours=23, minutes=59))
    assert app.enqueue(keyed, n=1) == first
    with pytest.raises(KeyConflictError):
        app.enqueue(keyed, n=2)
    drain(app)
    assert calls == [{"n": 1}]
    clock.advance(timedelta(minutes=1))
    app.enqueue(keyed, n=2)
    drain(app)
    assert calls == [{"n": 1}, {"n": 2}]


@pytest.mark.parametrize("length", [1_024, 1_025, 5_000])
def test_long_keys_work_to_their_last_character(app: App, sync: Any, calls: list[Any], length: int) -> None:
    """PUB-32: hashed into the id, so only the run item's own limit counts."""
    one, other = "k" * (length - 1) + "1", "k" * (length - 1) + "2"
    first = app.enqueue(sync.using(key=one), n=1)
    assert app.enqueue(sync.using(key=one), n=1) == first
    assert app.enqueue(sync.using(key=other), n=2) != first
    drain(app)
    assert sorted(call["n"] for call in calls) == [1, 2]
    assert first.info().key == one


@pytest.mark.parametrize(
    ("key", "message"),
    [("", "non-empty"), ("k" * 8_193, "8,192 bytes"), ("é" * 5_000, "10,000 bytes"), ("\ud800", "UTF-8")],
)
def test_a_key_that_cannot_be_stored_is_refused_before_any_request(
    app: App, sync: Any, items_in: ItemsIn, key: str, message: str
) -> None:
    """PUB-32."""
    for enqueue in (lambda: app.enqueue(sync.using(key=key)), lambda: app.transact_items(sync.using(key=key))):
        with pytest.raises(KeyRefusedError, match=message):
            enqueue()
    assert items_in(app) == []


def test_keys_of_two_jobs_are_two_things(app: App) -> None:
    @app.job
    def one() -> None: ...

    @app.job
    def two() -> None: ...

    assert app.enqueue(one.using(key="k")) != app.enqueue(two.using(key="k"))


def test_many_enqueues_of_one_key_at_once_are_one_run(app: App, sync: Any, calls: list[Any]) -> None:
    runs: list[RunHandle[Any]] = []
    start = threading.Barrier(8)

    def enqueue() -> None:
        start.wait()
        runs.append(app.enqueue(sync.using(key="k"), n=1))

    threads = [threading.Thread(target=enqueue) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    drain(app)
    assert len(runs) == 8
    assert len(set(runs)) == 1
    assert calls == [{"n": 1}]


def test_a_key_in_the_callers_transaction_is_taken_with_it(
    app: App, clock: ManualClock, moto_client: Any, sync: Any, calls: list[Any]
) -> None:
    own = {"Put": {"TableName": app.schema.table, "Item": {"pk": {"S": "molt"}, "sk": {"S": "1"}}}}
    elements = app.transact_items(sync.using(key="k"), n=1)
    moto_client.transact_write_items(TransactItems=[own, *elements])
    assert app.enqueue(sync.using(key="k"), n=1).id == elements.run_id
    with pytest.raises(ClientError, match="ConditionalCheckFailed"):
        moto_client.transact_write_items(TransactItems=app.transact_items(sync.using(key="k"), n=1))
    drain(app)
    assert calls == [{"n": 1}]
    clock.advance(timedelta(seconds=1))
    moto_client.transact_write_items(TransactItems=app.transact_items(sync.using(key="k"), n=2))
    drain(app)
    assert calls == [{"n": 1}, {"n": 2}]


def test_an_idempotency_key_stays_over_attempts_and_replays_and_not_over_lives(app: App, clock: ManualClock) -> None:
    seen: list[str] = []
    fixed: list[bool] = []

    @app.job(retry=Retry(max_attempts=2, delay=timedelta(seconds=1), jitter=0.0))
    def charge(ctx: JobContext) -> None:
        seen.append(ctx.idempotency_key("charge"))
        if not fixed:
            raise ValueError("no card")

    run = app.enqueue(charge.using(key="order-1"))
    drain(app)
    clock.advance(timedelta(seconds=1))
    drain(app)
    assert run.status() == "dead"
    fixed.append(True)
    clock.advance(timedelta(hours=1))
    app.dead.replay(run.id)
    drain(app)
    assert len(seen) == 3
    assert len(set(seen)) == 1
    clock.advance(timedelta(hours=1))
    app.enqueue(charge.using(key="order-1"))
    drain(app)
    assert len(set(seen)) == 2


def test_options_that_make_no_sense_are_refused(sync: Any) -> None:
    with pytest.raises(InputRefusedError, match="unique_for= needs key="):
        sync.using(unique_for=timedelta(hours=1))


def test_keys_and_names_of_any_script_find_the_same_run(app: App, make_app: Callable[..., App]) -> None:
    """PUB-30: in the id, in lists and in what is shown; nothing is stripped."""
    key, text = "order/😀/7\0", "a\0b\x1f\u2028 👩‍👩‍👧 é"

    @app.job(name="rapport-été", queue="file d'été #1", retry=Retry.none(), keep_result=timedelta(days=1))
    def report(t: str, fails: bool) -> str:
        if fails:
            raise ValueError(t)
        return t

    runs = [app.enqueue(report.using(key=f"{key}{fails}"), text, fails) for fails in (False, True)]
    assert app.enqueue(report.using(key=f"{key}False"), text, False) == runs[0]
    app.worker(concurrency=1).drain()
    other = make_app()
    assert other.run(runs[0].id).result() == text
    (letter,) = other.dead.list(queue="file d'été #1")
    assert (letter.run_id, letter.job, letter.error) == (runs[1].id, "rapport-été", f"ValueError: {text}")
    assert other.dead.get(letter.run_id).key == f"{key}True"
