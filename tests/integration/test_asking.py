"""Asking for a run: its state, its result, and each reason why there is none."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from dynadurable import (
    App,
    Fail,
    JobContext,
    Retry,
    RunCancelledError,
    RunDeadError,
    RunExpiredError,
    RunNotFinishedError,
    RunUnknownError,
)
from dynadurable.clock import SystemClock
from dynadurable.testing.clock import ManualClock

ItemsIn = Callable[[App], list[dict[str, Any]]]
WEEK = timedelta(days=7)
ONCE = Retry.none()


def drain(app: App) -> None:
    app.worker(concurrency=1).drain()


def test_a_run_is_pending_then_running_then_succeeded(app: App) -> None:
    states: list[str] = []

    @app.job(keep_result=WEEK)
    def ask(ctx: JobContext) -> int:
        states.append(app.run(ctx.run_id).status())
        return 7

    run = app.enqueue(ask)
    states.append(run.status())
    drain(app)
    states.append(app.run(run.id).status())
    assert states == ["pending", "running", "succeeded"]
    assert run.result() == 7


def test_a_plain_job_that_succeeded_is_unknown_afterwards(app: App) -> None:
    @app.job
    def plain() -> int:
        return 7

    run = app.enqueue(plain)
    assert run.info().job == "plain"
    drain(app)
    for ask in (run.status, run.info, run.wait, run.result):
        with pytest.raises(RunUnknownError, match="kept nothing"):
            ask()


@pytest.mark.parametrize("value", [None, 0, False, "", [], {}, 0.0])
def test_falsy_results_are_results(app: App, value: Any) -> None:
    """PUB-44: presence is judged by the record, not by truth value."""
    calls: list[Any] = []

    @app.job(keep_result=WEEK)
    def falsy(given: Any) -> Any:
        calls.append(given)
        return given

    run = app.enqueue(falsy, value)
    drain(app)
    drain(app)
    assert calls == [value]
    assert type(run.result()) is type(value)
    assert run.result() == value


def test_a_result_is_waited_for_only_as_long_as_was_asked(app: App, clock: ManualClock) -> None:
    @app.job(keep_result=WEEK)
    def later() -> None: ...

    run = app.enqueue(later.using(delay=timedelta(hours=1)))
    with pytest.raises(RunNotFinishedError, match="still pending"):
        run.result()
    before = clock.now()
    with pytest.raises(RunNotFinishedError):
        run.result(timeout=timedelta(seconds=10))
    assert timedelta(seconds=10) <= clock.now() - before < timedelta(seconds=11)


def test_a_result_that_comes_while_it_is_waited_for_is_returned(make_app: Callable[..., App]) -> None:
    app = make_app(clock=SystemClock())

    @app.job(keep_result=WEEK)
    def double(number: int) -> int:
        return number * 2

    worker = app.worker(concurrency=1)
    worker.start()
    try:
        assert app.enqueue(double.using(delay=timedelta(seconds=0.3)), 21).result(timeout=timedelta(seconds=30)) == 42
    finally:
        worker.stop()


def test_a_plain_run_that_was_seen_alive_and_is_gone_has_succeeded(make_app: Callable[..., App]) -> None:
    app = make_app(clock=SystemClock())

    @app.job
    def plain() -> None: ...

    run = app.enqueue(plain.using(delay=timedelta(seconds=0.3)))
    worker = app.worker(concurrency=1)
    worker.start()
    try:
        assert run.wait(timeout=timedelta(seconds=30)) == "succeeded"
    finally:
        worker.stop()


class ApiError(Exception):
    def __init__(self, *, status: int, detail: str) -> None:
        self.status, self.detail = status, detail


def test_a_dead_run_tells_type_message_traceback_causes_and_every_attempt(
    make_app: Callable[..., App], clock: ManualClock
) -> None:
    """PUB-29: also of exception classes that nobody can rebuild, to a process that does not know them."""
    app = make_app(build="v7")

    @app.job(retry=Retry(max_attempts=2, delay=timedelta(seconds=10), jitter=0.0))
    def call(ctx: JobContext) -> None:
        try:
            raise ConnectionError(f"attempt {ctx.attempt}")
        except ConnectionError as error:
            raise ApiError(status=503, detail="x") from error

    run = app.enqueue(call)
    drain(app)
    clock.advance(timedelta(seconds=10))
    drain(app)
    with pytest.raises(RunDeadError, match="died after 2 attempts") as raised:
        make_app().run(run.id).result()
    failure, attempts = raised.value.failure, raised.value.attempts
    assert failure.type.endswith("ApiError")
    assert "test_asking" in failure.type
    assert failure.message == "status=503, detail='x'"
    assert "<locals>.call" in failure.traceback
    assert [(cause.relation, cause.type, cause.message) for cause in failure.causes] == [
        ("cause", "ConnectionError", "attempt 2")
    ]
    assert [(one.attempt, one.build) for one in attempts] == [(1, "v7"), (2, "v7")]
    assert "<locals>.call" in "".join(raised.value.__notes__)


def test_a_cancelled_run_has_no_result(app: App) -> None:
    @app.job(keep_result=WEEK)
    def later() -> None: ...

    run = app.enqueue(later.using(delay=timedelta(hours=1)))
    assert run.cancel() == "cancelled"
    assert run.wait() == "cancelled"
    with pytest.raises(RunCancelledError):
        run.result()


def test_what_was_kept_expires_to_the_second_and_frees_its_key(app: App, clock: ManualClock, items_in: ItemsIn) -> None:
    """PUB-50: TTL in whole seconds on ended runs only; an expired item counts as absent although it is there."""

    @app.job(keep_result=WEEK)
    def kept() -> int:
        return 7

    assert clock.now_ms() == 1_800_014_400_000
    run = app.enqueue(kept.using(key="sync-7", unique_for=timedelta(days=3)))
    assert [item for item in items_in(app) if "ttl" in item] == []
    drain(app)
    (stored,) = items_in(app)
    assert stored["ttl"] == {"N": "1800619200"}
    clock.advance(timedelta(days=8))
    assert len(items_in(app)) == 1
    for ask in (run.status, run.result):
        with pytest.raises(RunExpiredError, match="2027-01-22 12:00:00"):
            ask()
    assert run.explain().code == "expired"
    again = app.enqueue(kept.using(key="sync-7"))
    assert again.id == run.id
    assert again.status() == "pending"
    drain(app)
    assert again.result() == 7


def test_a_result_of_a_job_that_keeps_none_says_what_to_do(app: App) -> None:
    @app.job
    def keyed() -> int:
        return 7

    run = app.enqueue(keyed.using(key="k"))
    drain(app)
    assert run.status() == "succeeded"
    with pytest.raises(RunUnknownError, match="keep_result="):
        run.result()


def test_a_large_result_lies_in_an_item_of_its_own(app: App, clock: ManualClock, items_in: ItemsIn) -> None:
    """With the largest input beside it, so that one item could not hold both."""
    value = random.Random(1).randbytes(190_000)

    @app.job(keep_result=WEEK)
    def echo(given: bytes) -> bytes:
        return given

    run = app.enqueue(echo, value)
    drain(app)
    assert run.result() == value
    sizes = {item["sk"]["S"].partition("#")[0]: item["ttl"]["N"] for item in items_in(app)}
    assert sizes == {"run": "1800619200", "page": "1800619200"}


def test_a_result_that_fits_nowhere_is_final_after_one_call_and_tells_size_and_limit(app: App) -> None:
    """PUB-31: the same body would return the same again."""
    calls: list[int] = []

    @app.job(keep_result=WEEK, retry=Retry(max_attempts=5, delay=timedelta()))
    def large(packable: bool) -> bytes:
        calls.append(1)
        return b"x" * 450_000 if packable else random.Random(1).randbytes(450_000)

    packed, refused = app.enqueue(large, True), app.enqueue(large, False)
    drain(app)
    assert packed.result() == b"x" * 450_000
    with pytest.raises(RunDeadError, match=r"takes 454,522 bytes, the limit is 300,000 bytes"):
        refused.result()
    assert len(calls) == 2


@pytest.mark.parametrize("depth", [20, 31, 32, 60])
def test_nested_values_come_back_whatever_their_depth(app: App, items_in: ItemsIn, depth: int) -> None:
    """PUB-33: stored as one binary value, so DynamoDB's 32 levels do not count."""
    value: Any = "x"
    for _ in range(depth):
        value = {"in": value}

    @app.job(keep_result=WEEK)
    def echo(given: Any) -> Any:
        return given

    run = app.enqueue(echo.using(key="k"), value)
    kinds = {next(iter(attribute)) for item in items_in(app) for attribute in item.values()}
    assert kinds <= {"S", "N", "B"}
    drain(app)
    assert run.result() == value


@pytest.mark.parametrize(
    "run_id", ["", "abc", "x" * 5000, "a~0~b", "job@nothing", "\ud800", "default~0~000000001~" + "0" * 22]
)
def test_whatever_is_asked_for_is_answered(app: App, run_id: str) -> None:
    assert app.run(run_id).explain().code == "unknown"
    for ask in (app.run(run_id).status, app.run(run_id).cancel, app.run(run_id).run_now):
        with pytest.raises(RunUnknownError):
            ask()


def test_a_dead_run_cannot_be_hurried_but_replayed(app: App) -> None:
    @app.job(retry=ONCE)
    def hopeless() -> None:
        raise Fail("no")

    run = app.enqueue(hopeless)
    drain(app)
    with pytest.raises(RunDeadError):
        run.run_now()
    assert run.cancel() == "dead"


# --- why it is not running ------------------------------------------------------------------------


def test_each_obstacle_is_explained_from_the_table(app: App, make_app: Callable[..., App], clock: ManualClock) -> None:
    codes: list[str] = []
    running: list[str] = []

    @app.job(queue="trench", retry=Retry(max_attempts=2, delay=timedelta(seconds=10), jitter=0.0))
    def flaky(ctx: JobContext) -> None:
        running.append(app.run(ctx.run_id).explain().code)
        raise ValueError("no card")

    run = app.enqueue(flaky.using(delay=timedelta(minutes=5)))
    codes.append(run.explain().code)
    clock.advance(timedelta(minutes=5))
    codes.append(run.explain().code)
    app.queues.pause("trench", reason="the provider is down")
    codes.append(run.explain().code)
    assert "the provider is down" in str(run.explain())
    app.queues.resume("trench")
    beat(make_app(), queues=("other",), jobs=("flaky",))
    codes.append(run.explain().code)
    beat(make_app(), queues=("trench",), jobs=("other",))
    codes.append(run.explain().code)
    beat(make_app(), queues=("trench",), jobs=("flaky",))
    codes.append(run.explain().code)
    app.enqueue(flaky.using(delay=timedelta(hours=1)))
    drain(app)
    explained = run.explain()
    codes.append(explained.code)
    assert explained.why.startswith("Attempt 1 of 2 failed with ValueError: no card; the next one is due")
    clock.advance(timedelta(seconds=10))
    drain(app)
    codes.append(run.explain().code)
    assert "2 of 2" in run.explain().why
    assert codes == [
        "not due",
        "no worker",
        "queue paused",
        "queue not served",
        "job unknown",
        "waiting",
        "not due",
        "dead",
    ]
    assert running == ["running", "running"]


def beat(app: App, *, queues: tuple[str, ...], jobs: tuple[str, ...]) -> None:
    """A worker says that it is alive."""
    for name in jobs:
        app.job(name=name)(lambda: None)
    app.worker(queues=queues, name="-".join(queues)).registrar.beat()


def test_runs_before_it_are_counted(app: App, clock: ManualClock) -> None:
    @app.job
    def plain(number: int) -> None: ...

    runs = [app.enqueue(plain.using(queue="one"), number) for number in range(30)]
    beat(app, queues=("one",), jobs=())
    clock.advance(timedelta(seconds=1))
    counts = [app.driver.run(app.run_plans.explain(run.id)).why for run in runs]
    assert any("is before it" in why or "are before it" in why for why in counts)
    assert any("next in its part of the queue" in why for why in counts)


def test_what_no_worker_is_left_to_renew_is_explained_as_lost(app: App, clock: ManualClock) -> None:
    @app.job
    def plain() -> None: ...

    run = app.enqueue(plain)
    claim(app, run.id)
    assert run.explain().code == "running"
    clock.advance(timedelta(seconds=31))
    beat(app, queues=("default",), jobs=())
    assert run.explain().code == "worker lost"


def claim(app: App, run_id: str) -> None:
    """Another worker takes the run, and is never heard of again."""
    from dynadurable.storage import lookup, marks

    mark = app.driver.run(lookup.find(app.items, run_id)).mark
    assert mark is not None
    plan = marks.claim(
        app.items,
        pk=mark.pk,
        sk=mark.sk,
        token="somebody",
        now_ms=app.clock.earliest_ms(),
        lease_until_ms=app.clock.latest_ms() + 30_000,
        worker="pod-3",
    )
    assert app.driver.run(plan) is not None


def test_the_arguments_of_a_workflow_are_told_however_large(app: App) -> None:
    value = random.Random(1).randbytes(100_000)

    @app.workflow
    def flow(ctx: Any, given: bytes) -> None: ...

    assert app.enqueue(flow, value).info().arguments() == {"given": value}
    assert app.enqueue(flow, b"x").info().arguments() == {"given": b"x"}
