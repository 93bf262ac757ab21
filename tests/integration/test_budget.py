"""The cost budget, asserted exactly: write units by item sizes, and by what the server itself reports."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from dynadurable import App, Fail, JobContext, Retry, Snooze
from dynadurable.storage import marks
from dynadurable.testing.clock import ManualClock
from dynadurable.testing.ledger import Ledger, ledger
from dynadurable.worker import worker
from tests.patience import pass_time
from tests.servers import Store

pytestmark = pytest.mark.server


@dataclass(kw_only=True)
class Costs:
    """One scenario's cost, twice over: counted from item sizes, and as reported."""

    counted: Ledger
    reported: float = 0.0


Measure = Callable[[], Any]


@pytest.fixture(autouse=True)
def _nobody_says_that_he_is_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    """How often a worker does depends on how long it takes here, and is no part of what a run costs."""
    monkeypatch.setattr(worker, "REGISTER_DRAIN_SECONDS", 3600.0)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def app(ministack: Store, clock: ManualClock) -> App:
    return App(ministack.table(), client=ministack.client, clock=clock)


@pytest.fixture
def measured(ministack: Store) -> Callable[[], Any]:
    """Counts what the app's client spends, and adds up the ``ConsumedCapacity`` that the server reports."""
    costs: list[Costs] = []

    def ask(params: dict[str, Any], model: Any, **_: Any) -> None:
        if "ReturnConsumedCapacity" in model.input_shape.members:
            params["ReturnConsumedCapacity"] = "TOTAL"

    def add(parsed: dict[str, Any], model: Any, **_: Any) -> None:
        if model.name in ("PutItem", "UpdateItem", "DeleteItem", "TransactWriteItems", "BatchWriteItem"):
            told = parsed.get("ConsumedCapacity") or []
            for one in told if isinstance(told, list) else [told]:
                costs[-1].reported += one["CapacityUnits"]

    @contextmanager
    def measure() -> Iterator[Costs]:
        events = ministack.client.meta.events
        with ledger(ministack.client) as counted:
            costs.append(Costs(counted=counted))
            events.register("provide-client-params.dynamodb.*", ask, unique_id="ask")
            events.register("after-call.dynamodb.*", add, unique_id="add")
            try:
                yield costs[-1]
            finally:
                events.unregister("provide-client-params.dynamodb.*", unique_id="ask")
                events.unregister("after-call.dynamodb.*", unique_id="add")

    return measure


def assert_cost(cost: Costs, write_units: float) -> None:
    assert cost.counted.write_units == write_units, list(map(str, cost.counted.entries))
    assert cost.reported == write_units
    assert cost.counted.scans == 0
    assert cost.counted.failed_writes == 0
    assert cost.counted.guessed == 0


def drain(app: App) -> None:
    app.worker(concurrency=1).drain()


def test_a_plain_job_costs_three(app: App, measured: Measure) -> None:
    @app.job
    def work(number: int) -> None: ...

    with measured() as cost:
        app.enqueue(work, 1)
        drain(app)
    assert_cost(cost, 3)


def test_an_eager_start_costs_two(app: App, measured: Measure) -> None:
    ran = threading.Event()

    @app.job
    def work(number: int) -> None:
        ran.set()

    worker = app.worker(concurrency=1)
    worker.start()
    with measured() as cost:
        app.enqueue(work, 1)
        assert ran.wait(30)
        worker.stop()
    assert_cost(cost, 2)


def test_a_keyed_run_with_a_kept_result_costs_five(app: App, measured: Measure) -> None:
    @app.job(keep_result=timedelta(days=1))
    def work(number: int) -> int:
        return number

    with measured() as cost:
        app.enqueue(work.using(key="k"), 1)
        drain(app)
    assert_cost(cost, 5)


def test_a_duplicate_of_a_live_run_costs_a_read_and_the_vouch(app: App, measured: Measure) -> None:
    @app.job
    def work(number: int) -> None: ...

    app.enqueue(work.using(key="k"), 1)
    with measured() as cost:
        app.enqueue(work.using(key="k"), 1)
    assert_cost(cost, 1)
    assert cost.counted.read_units == 1


def test_to_use_the_key_of_a_dead_run_again_costs_three_more(app: App, measured: Measure) -> None:
    """The one case of a start that is a transaction: the letter goes with the run it tells of."""

    @app.job(retry=Retry.none())
    def hopeless(number: int) -> None:
        if number == 1:
            raise Fail("no")

    app.enqueue(hopeless.using(key="k"), 1)
    app.worker(concurrency=1).drain()
    with measured() as cost:
        app.enqueue(hopeless.using(key="k"), 2)
        app.worker(concurrency=1).drain()
    assert_cost(cost, 5 + 3)
    assert app.dead.count() == 0


def test_the_first_failure_costs_six_and_a_later_retry_three(app: App, clock: ManualClock, measured: Measure) -> None:
    @app.job(retry=Retry(max_attempts=10, delay=timedelta(seconds=1), backoff=1.0, jitter=0.0))
    def work(ctx: JobContext) -> None:
        if ctx.attempt <= 3:
            raise ValueError("no")

    app.enqueue(work)
    for expected in (1 + 6, 1 + 3, 1 + 3, 1 + 2):
        with measured() as cost:
            drain(app)
        assert_cost(cost, expected)
        clock.advance(timedelta(seconds=1))


def test_a_snooze_costs_what_a_retry_costs(app: App, clock: ManualClock, measured: Measure) -> None:
    naps: list[int] = []

    @app.job
    def work() -> None:
        naps.append(1)
        if len(naps) <= 2:
            raise Snooze(timedelta(seconds=1))

    app.enqueue(work)
    for expected in (1 + 6, 1 + 3, 1 + 2):
        with measured() as cost:
            drain(app)
        assert_cost(cost, expected)
        clock.advance(timedelta(seconds=1))


def test_a_take_over_costs_one_more(app: App, clock: ManualClock, measured: Measure) -> None:
    @app.job
    def work() -> None: ...

    with measured() as cost:
        app.enqueue(work)
        _claim_and_die(app, clock)
        clock.advance(timedelta(minutes=1))
        drain(app)
    assert_cost(cost, 3 + 1)


def test_a_cron_slot_costs_three_and_its_run(app: App, clock: ManualClock, measured: Measure) -> None:
    """Advance the schedule, put its next mark, delete the old one; and a keyed run costs five."""

    @app.schedule("*/5 * * * *", arguments={"shop": "berlin"})
    def work(shop: str) -> None: ...

    drain(app)
    for _ in range(3):
        clock.advance(timedelta(minutes=5))
        with measured() as cost:
            drain(app)
        assert_cost(cost, 3 + 5)


def test_a_schedule_costs_nothing_between_its_slots(app: App, clock: ManualClock, measured: Measure) -> None:
    @app.schedule("0 0 * * *")
    def work() -> None: ...

    drain(app)
    with measured() as cost:
        for _ in range(3):
            clock.advance(timedelta(hours=1))
            drain(app)
    assert_cost(cost, 0)


def test_a_held_lease_costs_one_per_renewal(app: App, clock: ManualClock, measured: Measure) -> None:
    with measured() as cost, app.lease("refresher", ttl=timedelta(seconds=15)):
        pass_time(app.lease_parts.keeper, clock, 20.0, step=5.0)
    assert_cost(cost, 1 + 4 + 1)


def test_an_idle_poll_reads_half_a_unit_per_shard(app: App, clock: ManualClock, measured: Measure) -> None:
    @app.job
    def work() -> None: ...

    app.enqueue(work.using(delay=timedelta(days=1)))
    worker = app.worker()
    worker._poller.poll()
    with measured() as cost:
        worker._poller.poll()
    assert cost.counted.read_units == 4 * 0.5
    assert cost.counted.calls == 4


def test_an_idle_worker_looks_less_and_less_often(app: App, clock: ManualClock) -> None:
    """From 0.2 s to 20 s, so about 4 x 180 requests an hour."""

    @app.job
    def work() -> None: ...

    poller = app.worker()._poller
    waits = []
    for _ in range(10):
        poller.poll()
        waits.append(poller.next_poll_at - clock.monotonic())
    assert 0.3 < waits[0] < 0.5
    assert 18 <= waits[-1] <= 22
    assert all(later > 1.5 * sooner for sooner, later in pairwise(waits[:6]))


def _claim_and_die(app: App, clock: ManualClock) -> None:
    for shard in range(4):
        page = app.driver.run(marks.poll(app.items, queue="default", shard=shard, limit=4, until_ms=None))
        for seen in page.candidates:
            plan = marks.claim(
                app.items,
                pk=seen.pk,
                sk=seen.sk,
                token="token-of-the-dead",
                now_ms=clock.earliest_ms(),
                lease_until_ms=clock.latest_ms() + 30_000,
                worker="w",
            )
            assert app.driver.run(plan) is not None
