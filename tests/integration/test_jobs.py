"""Plain jobs from enqueue to their end: what is due when, what is retried, what is left in the table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dynadurable import App, ConfigurationError, Fail, JobContext, Queue, Retry, Snooze
from dynadurable.errors import InputRefusedError
from dynadurable.model import codec
from dynadurable.storage.call import Call
from dynadurable.testing.clock import ManualClock
from dynadurable.testing.memory import MemoryClient
from dynadurable.worker.endings import decode_failures

ItemsIn = Callable[[App], list[dict[str, Any]]]
SOON = Retry(max_attempts=3, delay=timedelta(seconds=10), jitter=0.0)


def drain(app: App, **options: Any) -> datetime | None:
    return app.worker(**{"concurrency": 1, **options}).drain()


def test_a_finished_job_leaves_nothing_behind(app: App, items_in: ItemsIn) -> None:
    done: list[int] = []

    @app.job
    def add(number: int) -> None:
        done.append(number)

    app.enqueue(add, 7)
    assert drain(app) is None
    assert done == [7]
    assert items_in(app) == []


def test_a_delayed_job_runs_when_it_is_due_and_not_before(app: App, clock: ManualClock) -> None:
    """PUB-12: due time and lease length have nothing to do with each other."""
    done: list[datetime] = []

    @app.job
    def later() -> None:
        done.append(clock.now())

    due_at = clock.now() + timedelta(days=90)
    app.enqueue(later.using(delay=timedelta(days=90)))
    assert drain(app) == due_at
    clock.advance(timedelta(days=90) - timedelta(milliseconds=1))
    assert drain(app) == due_at
    clock.advance(timedelta(milliseconds=1))
    assert drain(app) is None
    assert done == [due_at]


def test_an_absolute_due_time_is_taken_as_the_instant_it_is(
    app: App, items_in: ItemsIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PUB-28: whatever the process's own time zone."""
    monkeypatch.setenv("TZ", "America/New_York")

    @app.job
    def later() -> None: ...

    with pytest.raises(InputRefusedError, match="aware"):
        app.enqueue(later.using(at=datetime(2027, 1, 15, 12, 0)))  # noqa: DTZ001 - that is the point
    assert items_in(app) == []
    app.enqueue(later.using(at=datetime(2027, 1, 15, 13, 0, tzinfo=UTC)))
    assert [item["sk"]["S"][:15] for item in items_in(app)] == ["001800018000000"]


def test_a_flaky_job_is_retried_until_it_succeeds(app: App, clock: ManualClock, items_in: ItemsIn) -> None:
    attempts: list[int] = []

    @app.job(retry=SOON)
    def flaky(ctx: JobContext) -> None:
        attempts.append(ctx.attempt)
        if ctx.attempt < 3:
            raise ValueError("not yet")

    app.enqueue(flaky)
    assert drain(app) == clock.now() + timedelta(seconds=10)
    clock.advance(timedelta(seconds=10))
    assert drain(app) == clock.now() + timedelta(seconds=20)
    clock.advance(timedelta(seconds=20))
    assert drain(app) is None
    assert attempts == [1, 2, 3]
    (run,) = items_in(app)
    assert run["dd_state"]["S"] == "succeeded"


def test_after_the_last_attempt_the_run_is_a_dead_letter_with_everything_kept(
    app: App, clock: ManualClock, items_in: ItemsIn
) -> None:
    """PUB-54: and there is no wait after the last failure."""
    starts: list[datetime] = []

    @app.job(retry=SOON)
    def bad(order: dict[str, list[int]]) -> None:
        starts.append(clock.now())
        order["items"].append(2)  # PUB-58: what a body does to its input stays there
        raise ValueError(f"broken {order}")

    begun, latest = clock.now(), None
    app.enqueue(bad, {"items": [1]})
    for seconds in (0, 10, 20):
        clock.advance(timedelta(seconds=seconds))
        latest = drain(app)
    assert latest is None
    assert [(start - begun).total_seconds() for start in starts] == [0, 10, 30]
    letter, run = sorted(items_in(app), key=lambda item: item["pk"]["S"])
    assert letter["pk"]["S"].startswith("dead#default#")
    stored = app.items.run.from_raw_data(run)
    assert stored.state == "dead"
    assert codec.decode(stored.input) == {"order": {"items": [1]}}
    failures = decode_failures(stored)
    assert [failure.attempt for failure in failures] == [1, 2, 3]
    assert [failure.message for failure in failures] == ["broken {'items': [1, 2]}"] * 3
    assert "test_jobs.py" in failures[-1].traceback


def test_a_permanent_error_makes_no_further_attempt(app: App, items_in: ItemsIn) -> None:
    starts: list[int] = []

    @app.job(retry=SOON)
    def doomed() -> None:
        starts.append(1)
        raise Fail("the card was stolen")

    app.enqueue(doomed)
    assert drain(app) is None
    assert starts == [1]
    assert "dead" in {item.get("dd_state", {}).get("S") for item in items_in(app)}


def test_errors_outside_the_policy_are_final(app: App) -> None:
    starts: list[int] = []

    @app.job(retry=Retry(max_attempts=3, retry_on=(ConnectionError,)))
    def picky() -> None:
        starts.append(1)
        raise KeyError("x")

    app.enqueue(picky)
    assert drain(app) is None
    assert starts == [1]


def test_a_snooze_uses_no_attempt(app: App, clock: ManualClock, items_in: ItemsIn) -> None:
    """PUB-55: ten snoozes, two failures, success; and nothing grows with the number of snoozes."""
    starts: list[int] = []

    @app.job(retry=Retry(max_attempts=3, delay=timedelta(seconds=60), jitter=0.0, backoff=1.0))
    def poll(ctx: JobContext) -> None:
        starts.append(ctx.attempt)
        if len(starts) <= 10:
            raise Snooze(timedelta(seconds=60))
        if len(starts) <= 12:
            raise ValueError("failed")

    app.enqueue(poll)
    for _ in range(13):
        drain(app)
        clock.advance(timedelta(seconds=60))
    assert starts == [1] * 11 + [2, 3]
    (run,) = items_in(app)
    assert (run["dd_state"]["S"], run["dd_snoozes"]["N"], run["dd_attempts"]["N"]) == ("succeeded", "10", "3")


def test_an_absurd_snooze_ends_the_run_and_not_the_worker(app: App) -> None:
    """PUB-53."""
    done: list[str] = []

    @app.job
    def silly() -> None:
        raise Snooze(timedelta(seconds=-1))

    @app.job
    def endless() -> None:
        raise Snooze(timedelta.max)

    @app.job
    def ordinary() -> None:
        done.append("ordinary")

    for job in (silly, endless, ordinary):
        app.enqueue(job)
    drain(app)
    assert done == ["ordinary"]


def test_an_unreadable_payload_uses_its_attempts_and_is_kept_byte_for_byte(
    app: App, clock: ManualClock, items_in: ItemsIn
) -> None:
    """PUB-11: and the good jobs behind it succeed."""
    done: list[int] = []

    @app.job(retry=Retry(max_attempts=2, delay=timedelta(seconds=1)))
    def work(number: int) -> None:
        done.append(number)

    raw = b'{"__v": 99, "data": "???"}'
    _, elements = app.operations.transact_items(work, (1,), {})
    (holder,) = [element["Put"]["Item"] for element in elements if "dd_input" in element["Put"]["Item"]]
    holder["dd_input"] = {"B": raw}
    app.driver.send(_transaction(elements))
    for number in range(5):
        app.enqueue(work, number)
    drain(app)
    clock.advance(timedelta(seconds=2))
    drain(app)
    assert sorted(done) == [0, 1, 2, 3, 4]
    (run,) = [item for item in items_in(app) if item["sk"]["S"] == "run"]
    assert run["dd_state"]["S"] == "dead"
    assert bytes(run["dd_input"]["B"]) == raw
    assert "PayloadUnreadableError" in run["dd_error"]["S"]


def test_arguments_that_do_not_fit_are_refused_before_anything_is_written(app: App, items_in: ItemsIn) -> None:
    @app.job
    def work(number: int) -> None: ...

    with pytest.raises(InputRefusedError, match="work"):
        app.enqueue(work, 1, 2)  # type: ignore[call-arg]
    with pytest.raises(InputRefusedError, match=r"work\.number"):
        app.enqueue(work, object())  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match=r"@app\.job"):
        app.enqueue(lambda: None)  # type: ignore[arg-type]
    assert items_in(app) == []


def test_jobs_run_in_due_order_and_in_enqueue_order_within_a_millisecond(app: App, clock: ManualClock) -> None:
    """PUB-45."""
    done: list[int] = []

    @app.job
    def work(number: int) -> None:
        done.append(number)

    due = datetime(2027, 1, 15, 12, 5, 28, tzinfo=UTC)
    for number, milliseconds in ((2, 1017), (0, 991), (1, 1000)):
        app.enqueue(work.using(at=due + timedelta(milliseconds=milliseconds)), number)
    for number in range(3, 53):
        app.enqueue(work.using(at=due + timedelta(seconds=2)), number)
    clock.advance(timedelta(minutes=10))
    drain(app)
    assert done == list(range(53))


def test_an_unknown_job_stays_pending_with_one_warning(
    make_app: Callable[..., App], items_in: ItemsIn, caplog: pytest.LogCaptureFixture
) -> None:
    """PUB-10."""
    new, old = make_app(), make_app()
    done: list[str] = []

    @new.job(name="billing.v2")
    def billing_2() -> None:
        done.append("v2")

    @old.job(name="billing.v1")
    def billing_1() -> None:
        done.append("v1")

    new.enqueue(billing_2)
    worker = old.worker()
    for _ in range(3):
        worker._poller.poll()
    drain(old)
    (mark,) = items_in(old)
    assert "dd_token" not in mark
    assert mark["dd_attempt"]["N"] == "0"
    assert len([record for record in caplog.records if "billing.v2" in record.message]) == 2  # one for each worker
    drain(new)
    assert done == ["v2"]


def test_what_is_in_flight_at_the_head_does_not_hide_what_is_due_behind(
    memory: MemoryClient, clock: ManualClock, app_type: type[App]
) -> None:
    """PUB-49: 500 marks that others hold sort before the only one that is free."""
    app = app_type("shop", client=memory, clock=clock)
    app.create_table()
    done: list[int] = []

    @app.job
    def work(number: int) -> None:
        done.append(number)

    lease = str(clock.now_ms() + 3_600_000)
    for first in range(0, 500, 25):
        puts = []
        for number in range(first, first + 25):
            _, born = app.operations.born(work, (number,), {})
            raw = {**born.mark.serialize(), "dd_token": {"S": "other"}, "dd_lease": {"N": lease}}
            puts.append({"PutRequest": {"Item": {**raw, "pk": {"S": "queue#default#0"}}}})
        memory.batch_write_item(RequestItems={app.schema.table: puts})
    clock.advance(timedelta(seconds=1))
    app.enqueue(work, 1000)
    for _ in range(3):
        drain(app)
    assert done == [1000]


def test_marks_of_a_busy_queue_are_spread_over_its_shards(
    memory: MemoryClient, clock: ManualClock, app_type: type[App]
) -> None:
    """PUB-52."""
    app = app_type("shop", client=memory, clock=clock)
    app.create_table()
    done: list[int] = []

    @app.job
    def work(number: int) -> None:
        done.append(number)

    for number in range(1000):
        app.enqueue(work, number)
    partitions = [item["pk"]["S"] for item in memory.store.items("shop")]
    shards = Counter(partition for partition in partitions if partition.startswith("queue#"))
    assert len(shards) == 4
    assert max(shards.values()) < 350
    drain(app, concurrency=2)
    drain(app, concurrency=2)
    assert sorted(done) == list(range(1000))


def test_marks_beyond_the_known_shards_are_found(make_app: Callable[..., App]) -> None:
    done: list[int] = []
    for_enqueue, for_work = make_app(queues=[Queue(name="default", shards=16)]), make_app()
    for app in (for_enqueue, for_work):

        @app.job
        def work(number: int) -> None:
            done.append(number)

    for number in range(40):
        for_enqueue.enqueue(for_enqueue.registry.get("work"), number)  # type: ignore[arg-type]
    drain(for_work)
    assert sorted(done) == list(range(40))


def _transaction(elements: list[dict[str, Any]]) -> Call:
    return Call(operation="TransactWriteItems", params={"TransactItems": elements})
