"""The fan-out primitive: what it records, where it goes on, how it stops, what it costs."""

from __future__ import annotations

import threading
from collections import Counter
from datetime import timedelta
from typing import Any

import boto3
import pytest

from dynadurable import App, JobContext, fan_out
from dynadurable.fan_out import MAX_OPEN_PAGES, FanOutReport
from dynadurable.testing.clock import ManualClock
from dynadurable.testing.ledger import ledger
from tests import faults
from tests.faults import FaultPlan, Recorded
from tests.integration.feed import (
    ONCE,
    Feed,
    cancel,
    checkpoints,
    cursor_of,
    entry,
    failure_of,
    puts_in,
    run_of,
    take_over,
)
from tests.process.workshop import wait_until
from tests.servers import Store


@pytest.fixture
def feed(app: App, moto_client: Any) -> Feed:
    return Feed(app, moto_client)


# --- what is recorded -----------------------------------------------------------------------------


def test_an_error_in_to_item_goes_on_at_the_last_page_that_was_done(
    feed: Feed, clock: ManualClock, moto_client: Any
) -> None:
    names = feed.follow(55)
    broken = True

    def to_item(follower: dict[str, Any]) -> dict[str, Any]:
        if broken and follower["sk"]["S"] == names[33]:
            raise ValueError("not this one")
        return entry(follower)

    feed.start(lambda ctx: fan_out(ctx, feed.query(), to_item))
    feed.drain()
    assert feed.delivered() == Counter(names[:30])
    broken = False
    clock.advance(timedelta(seconds=2))
    with FaultPlan(moto_client) as plan:
        feed.drain()
    assert feed.delivered() == Counter(names)
    assert feed.reports == [FanOutReport(recipients=55, resumed_after=30)]
    assert puts_in(plan) == 25


def test_a_checkpoint_never_passes_over_a_batch_that_is_still_on_its_way(feed: Feed, moto_client: Any) -> None:
    feed.follow(55)
    hold = faults.Hold()
    with FaultPlan(moto_client) as plan:
        plan.on("BatchWriteItem", hold, nth=1)
        feed.start(lambda ctx: fan_out(ctx, feed.query(), entry))
        working = threading.Thread(target=feed.drain)
        working.start()
        hold.wait_until_reached()
        wait_until(
            lambda: any(call.reply is not None for call in plan.of("BatchWriteItem")), "another batch is written"
        )
        assert checkpoints(plan.of("UpdateItem")) == []
        hold.release()
        working.join()
    assert checkpoints(plan.of("UpdateItem"))[0]["written"] == 20
    assert len(feed.delivered()) == 55


def test_a_second_attempt_after_the_end_writes_nothing(feed: Feed, clock: ManualClock, moto_client: Any) -> None:
    feed.follow(55)

    def body(ctx: JobContext) -> FanOutReport:
        report = fan_out(ctx, feed.query(), entry)
        if ctx.attempt == 1:
            raise ValueError("after the fan-out")
        return report

    feed.start(body)
    feed.drain()
    clock.advance(timedelta(seconds=2))
    with FaultPlan(moto_client) as plan:
        feed.drain()
    assert feed.reports == [FanOutReport(recipients=55, resumed_after=55)]
    assert puts_in(plan) == 0


def test_two_fan_outs_of_one_body_keep_their_own_cursors(feed: Feed, clock: ManualClock) -> None:
    names = feed.follow(30)
    reports: list[tuple[FanOutReport, FanOutReport]] = []

    def body(ctx: JobContext) -> FanOutReport:
        def second_item(follower: dict[str, Any]) -> dict[str, Any]:
            if ctx.attempt == 1 and follower["sk"]["S"] == names[25]:
                raise ValueError("no")
            return {**entry(follower), "sk": "mention-1"}

        first = fan_out(ctx, feed.query(), entry, name="trench")
        second = fan_out(ctx, feed.query(), second_item, name="mentions")
        reports.append((first, second))
        return second

    feed.start(body)
    feed.drain()
    clock.advance(timedelta(seconds=2))
    feed.drain()
    assert feed.delivered() == Counter(names * 2)
    assert [(first.resumed_after, second.resumed_after) for first, second in reports] == [(30, 20)]


def test_two_fan_outs_of_one_name_are_refused(feed: Feed) -> None:
    """The second would find the end of the first and write nothing."""
    feed.follow(5)

    def body(ctx: JobContext) -> FanOutReport:
        fan_out(ctx, feed.query(), entry)
        return fan_out(ctx, feed.query(), lambda one: {**entry(one), "sk": "mention-1"})

    feed.start(body, retry=ONCE)
    feed.drain()
    assert failure_of(feed) == "ConfigurationError"


@pytest.mark.parametrize("cursor", ["mine", {"page": 3}, {"fan_out": {}, "page": 3}])
def test_a_cursor_of_the_body_itself_is_refused(feed: Feed, cursor: Any) -> None:
    feed.follow(5)

    def body(ctx: JobContext) -> FanOutReport:
        ctx.checkpoint(cursor)
        return fan_out(ctx, feed.query(), entry)

    feed.start(body, retry=ONCE)
    feed.drain()
    assert failure_of(feed) == "ConfigurationError"
    assert feed.delivered() == Counter()


def test_a_cursor_that_is_taken_while_the_fan_out_runs_is_refused(feed: Feed) -> None:
    feed.follow(30)

    def body(ctx: JobContext) -> FanOutReport:
        def to_item(follower: dict[str, Any]) -> dict[str, Any]:
            if follower["sk"]["S"].endswith("15"):
                ctx.checkpoint("mine")
            return entry(follower)

        return fan_out(ctx, feed.query(), to_item)

    feed.start(body, retry=ONCE)
    feed.drain()
    assert failure_of(feed) == "ConfigurationError"


def test_no_batch_at_a_time_is_refused(feed: Feed) -> None:
    feed.start(lambda ctx: fan_out(ctx, feed.query(), entry, in_flight=0), retry=ONCE)
    feed.drain()
    assert failure_of(feed) == "ConfigurationError"


# --- how it stops ---------------------------------------------------------------------------------


def test_a_stopping_worker_ends_its_page_and_hands_back_there(feed: Feed, moto_client: Any) -> None:
    """A deploy repeats nothing and uses no attempt."""
    names = feed.follow(120)

    def to_item(follower: dict[str, Any]) -> dict[str, Any]:
        if follower["sk"]["S"] == names[45]:
            worker.engine.stop_claiming()
        return entry(follower)

    with FaultPlan(moto_client) as plan:
        feed.start(lambda ctx: fan_out(ctx, feed.query(page_items=30), to_item))
        worker = feed.app.worker(concurrency=1)
        worker.drain()
        assert feed.delivered() == Counter(names[:60])
        mark = feed.mark()
        assert mark is not None
        assert "dd_token" not in mark
        assert mark["dd_attempt"]["N"] == "0"
        assert cursor_of(mark)[""]["written"] == 60
        feed.drain()
    assert feed.delivered() == Counter(names)
    assert puts_in(plan) == 120


def test_a_cancelled_run_stops_within_its_page(feed: Feed, moto_client: Any) -> None:
    feed.follow(120)

    def body(ctx: JobContext) -> FanOutReport:
        def to_item(follower: dict[str, Any]) -> dict[str, Any]:
            mark = feed.mark()
            if follower["sk"]["S"].endswith("5") and mark is not None and "dd_cancel" not in mark:
                cancel(feed, mark)
            return entry(follower)

        return fan_out(ctx, feed.query(), to_item, in_flight=1)

    with FaultPlan(moto_client) as plan:
        feed.start(body)
        feed.drain()
    assert feed.reports == []
    assert puts_in(plan) <= 10 * MAX_OPEN_PAGES
    assert run_of(feed)["dd_state"]["S"] == "cancelled"


def test_a_lost_lease_ends_it_and_nothing_more_is_recorded(feed: Feed, moto_client: Any) -> None:
    feed.follow(120)

    def body(ctx: JobContext) -> FanOutReport:
        def to_item(follower: dict[str, Any]) -> dict[str, Any]:
            if follower["sk"]["S"].endswith("25"):
                take_over(feed)
            return entry(follower)

        return fan_out(ctx, feed.query(), to_item, in_flight=1)

    with FaultPlan(moto_client) as plan:
        feed.start(body)
        feed.app.worker(concurrency=1).drain(timeout=timedelta())
        feed.drain()
    assert feed.reports == []
    mark = feed.mark()
    assert mark is not None
    assert mark["dd_token"]["S"] == "somebody else"
    assert cursor_of(mark)[""]["written"] <= 20
    assert puts_in(plan) <= 20 + 10 * MAX_OPEN_PAGES


# --- what DynamoDB does not take at once ----------------------------------------------------------


def test_leftovers_are_sent_again_after_a_pause(feed: Feed, clock: ManualClock, moto_client: Any) -> None:
    """Else what DynamoDB leaves over would be missing, and nobody would be told."""
    names = feed.follow(55)
    began = clock.monotonic()
    with FaultPlan(moto_client) as plan:
        plan.on("BatchWriteItem", faults.leftovers(lambda write: "7" in str(write)), nth=range(1, 40, 2))
        feed.start(lambda ctx: fan_out(ctx, feed.query(), entry))
        feed.drain()
    assert feed.delivered() == Counter(names)
    assert len(feed.reports) == 1
    assert clock.monotonic() > began


def test_a_batch_of_which_a_little_is_taken_each_time_is_written_in_the_end(feed: Feed, moto_client: Any) -> None:
    names = feed.follow(25)
    first_of_call = False

    def more_than_one(call: Recorded) -> bool:
        nonlocal first_of_call
        first_of_call = True
        return sum(map(len, call.params["RequestItems"].values())) > 1

    def select(write: dict[str, Any]) -> bool:
        nonlocal first_of_call
        taken, first_of_call = first_of_call, False
        return not taken

    with FaultPlan(moto_client) as plan:
        plan.on("BatchWriteItem", faults.leftovers(select), when=more_than_one)
        feed.start(lambda ctx: fan_out(ctx, feed.query(page_items=25), entry), retry=ONCE)
        feed.drain()
    assert feed.delivered() == Counter(names)
    assert len(plan.of("BatchWriteItem")) == 25
    assert len(feed.reports) == 1


def test_a_batch_that_is_never_taken_fails_the_attempt_which_goes_on_later(
    feed: Feed, clock: ManualClock, moto_client: Any
) -> None:
    names = feed.follow(55)
    with FaultPlan(moto_client) as plan:
        plan.on("BatchWriteItem", faults.leftovers(), when=lambda call: names[33] in str(call.params))
        feed.start(lambda ctx: fan_out(ctx, feed.query(), entry))
        feed.drain()
        assert feed.reports == []
        assert cursor_of(run_of(feed))[""]["written"] == 30
    clock.advance(timedelta(seconds=2))
    feed.drain()
    assert feed.delivered() == Counter(names)
    assert feed.reports == [FanOutReport(recipients=55, resumed_after=30)]


@pytest.mark.parametrize("fault", ["throttled", "internal_error", "lost_request", "lost_reply", "unreachable"])
def test_any_request_may_fail_once(feed: Feed, moto_client: Any, fault: str) -> None:
    names = feed.follow(55)
    with FaultPlan(moto_client) as plan:
        plan.on(None, getattr(faults, fault)(), probability=0.4)
        feed.start(lambda ctx: fan_out(ctx, feed.query(), entry))
        feed.drain()
        assert len(plan.calls) > 20
    assert feed.delivered() == Counter(names)
    assert [report.resumed_after for report in feed.reports] == [0]
    assert feed.mark() is None


# --- what it costs --------------------------------------------------------------------------------


class Spending:
    """A feed on a store that is right about write units; what the users' own writes cost is not counted."""

    def __init__(self, store: Store, count: int) -> None:
        self.users = boto3.client("dynamodb", **store.client_kwargs)
        self.feed = Feed(App(store.table(), client=store.client, clock=ManualClock()), self.users)
        self.names = self.feed.follow(count)
        self._store = store

    def units(self, *, in_flight: int) -> float:
        """Write units from the enqueue to the end, less those of a worker that finds nothing."""
        source = self.feed.query(page_items=100)
        deliver = self.feed.define(
            lambda ctx: fan_out(ctx, source, entry, client=self.users, in_flight=in_flight), retry=ONCE
        )
        with ledger(self._store.client) as idle:
            self.feed.drain()
        with ledger(self._store.client) as cost:
            self.feed.app.enqueue(deliver)
            self.feed.drain()
        assert cost.failed_writes == cost.scans == 0
        assert self.feed.delivered() == Counter(self.names)
        self.users.close()
        return cost.write_units - idle.write_units


@pytest.mark.server
@pytest.mark.parametrize(("count", "pages"), [(0, 0), (1, 1), (100, 1), (101, 2), (900, 9), (950, 10)])
def test_it_costs_a_unit_for_each_page_and_three_for_the_run(ministack: Store, count: int, pages: int) -> None:
    """ceil(N / P) + 3."""
    assert Spending(ministack, count).units(in_flight=1) == pages + 3


@pytest.mark.server
def test_batches_in_flight_never_cost_more_checkpoints(ministack: Store) -> None:
    assert 3 < Spending(ministack, 950).units(in_flight=8) <= 10 + 3
