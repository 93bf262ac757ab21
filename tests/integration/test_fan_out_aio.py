"""The fan-out for event loops: everybody gets one item, checkpoints pass over nothing, and it ends as it is told to."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from dynadurable import (
    App,
    AsyncJobContext,
    ConfigurationError,
    LeaseLostError,
    async_iterable_pages,
    async_paginator_pages,
    fan_out_async,
    iterable_pages,
)
from dynadurable.errors import Interrupted
from dynadurable.fan_out import FanOutReport, RecipientPage
from dynadurable.testing.clock import ManualClock
from tests import faults
from tests.faults import Hold
from tests.integration.feed import SOON, Feed, cancel, checkpoints, entry, entry_for, puts_in, take_over
from tests.integration.world import World, our_threads
from tests.patience import until

Body = Callable[[AsyncJobContext], Awaitable[FanOutReport]]


class AsyncFeed(Feed):
    """A feed whose fan-out is an ``async def``."""

    def __init__(self, app: App, client: Any) -> None:
        super().__init__(app, client)
        self.raised: list[type[BaseException]] = []

    def begin(self, body: Body) -> None:
        @self.app.job(name="deliver", retry=SOON)
        async def deliver(ctx: AsyncJobContext) -> None:
            try:
                self.reports.append(await body(ctx))
            except BaseException as error:
                self.raised.append(type(error))
                raise
            finally:
                assert [task for task in asyncio.all_tasks() if "_Flight" in str(task.get_coro())] == []

        self.app.enqueue(deliver)

    def again(self, clock: ManualClock) -> None:
        """The next attempt."""
        clock.advance(timedelta(seconds=2))
        self.drain()


@pytest.fixture
def feed(still_world: World) -> Iterator[AsyncFeed]:
    yield AsyncFeed(still_world.app, still_world.store.client)
    assert our_threads() == []


async def after(cursor: str | None, names: list[str]) -> AsyncIterator[str]:
    for name in names:
        if cursor is None or name > cursor:
            await asyncio.sleep(0)
            yield name


def itself(name: str) -> str:
    return name


# --- everybody gets one item ----------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, 9, 10, 11, 30, 137])
def test_every_recipient_of_a_query_gets_one_item(feed: AsyncFeed, count: int) -> None:
    names = feed.follow(count)
    feed.begin(lambda ctx: fan_out_async(ctx, feed.query(), entry))
    feed.drain()
    assert feed.delivered() == dict.fromkeys(names, 1)
    assert feed.reports == [FanOutReport(recipients=count, resumed_after=0)]


@pytest.mark.parametrize("count", [0, 1, 10, 11, 60])
@pytest.mark.parametrize("kind", ["asynchronous", "plain"])
def test_an_iterable_is_a_source(feed: AsyncFeed, count: int, kind: str) -> None:
    names = [f"krab-{number:05d}" for number in range(count)]
    sources: dict[str, Any] = {
        "asynchronous": async_iterable_pages(lambda cursor: after(cursor, names), cursor_of=itself, page_items=10),
        "plain": iterable_pages(
            lambda cursor: [name for name in names if cursor is None or name > cursor], cursor_of=itself, page_items=10
        ),
    }
    feed.begin(lambda ctx: fan_out_async(ctx, sources[kind], entry_for))
    feed.drain()
    assert feed.delivered() == dict.fromkeys(names, 1)


@pytest.mark.aio
@pytest.mark.server
@pytest.mark.parametrize("still_world", ["aioboto3"], indirect=True)
def test_a_client_and_a_paginator_of_aioboto3_serve(feed: AsyncFeed, still_world: World) -> None:
    names, session = feed.follow(35), still_world.session
    assert session is not None

    async def body(ctx: AsyncJobContext) -> FanOutReport:
        async with session.client("dynamodb") as client:
            pages = async_paginator_pages(client.get_paginator("query"), page_items=10, **feed.query_params())
            return await fan_out_async(ctx, pages, entry, client=client)

    feed.begin(body)
    feed.drain()
    assert feed.delivered() == dict.fromkeys(names, 1)


def test_an_item_may_be_awaited_and_a_recipient_left_out(feed: AsyncFeed) -> None:
    names = feed.follow(20)

    async def to_item(follower: dict[str, Any]) -> dict[str, Any] | None:
        await asyncio.sleep(0)
        return entry(follower) if follower["sk"]["S"] != names[3] else None

    feed.begin(lambda ctx: fan_out_async(ctx, feed.query(), to_item))
    feed.drain()
    assert set(feed.delivered()) == set(names) - {names[3]}


def test_two_fan_outs_of_one_body_keep_their_own_cursors(feed: AsyncFeed, clock: ManualClock) -> None:
    feed.follow(20)
    failing = [True]

    async def body(ctx: AsyncJobContext) -> FanOutReport:
        await fan_out_async(ctx, feed.query(), entry, name="first")
        if failing.pop() if failing else False:
            raise ValueError("in between")
        return await fan_out_async(
            ctx, feed.query(), lambda follower: {**entry(follower), "sk": "molt-2"}, name="second"
        )

    feed.begin(body)
    feed.drain()
    feed.again(clock)
    assert set(feed.delivered().values()) == {2}


# --- what is refused ------------------------------------------------------------------------------


async def _goes_on(cursor: Any) -> AsyncIterator[RecipientPage[str]]:
    yield RecipientPage(["a"], None)
    yield RecipientPage(["b"], None)


@pytest.mark.parametrize(
    ("source", "options", "words"),
    [
        (_goes_on, {}, "another"),
        (["a"], {}, "not from"),
        (_goes_on, {"in_flight": 0}, "in_flight"),
    ],
)
def test_what_cannot_be_right_is_refused(feed: AsyncFeed, source: Any, options: Any, words: str) -> None:
    feed.begin(lambda ctx: fan_out_async(ctx, source, entry_for, **options))
    feed.drain()
    assert feed.raised == [ConfigurationError]
    assert feed.delivered() == {}


# --- progress -------------------------------------------------------------------------------------


def test_several_batches_are_in_flight_and_a_checkpoint_passes_over_none(feed: AsyncFeed, still_world: World) -> None:
    feed.follow(100)
    hold, plan = Hold(), still_world.plan
    plan.on("BatchWriteItem", hold, times=1, when=lambda call: "krab-00000" in str(call.params))
    before = len(plan.of("BatchWriteItem"))
    feed.begin(lambda ctx: fan_out_async(ctx, feed.query(page_items=50), entry, in_flight=3))
    draining = threading.Thread(target=feed.drain)
    draining.start()
    hold.wait_until_reached()
    until(lambda: len(plan.of("BatchWriteItem")) - before == 4, "the batches of two pages")
    assert checkpoints(plan.calls) == []
    hold.release()
    draining.join()
    assert [state["written"] for state in checkpoints(plan.calls)] == [100]
    assert len(feed.delivered()) == 100


def test_an_error_goes_on_at_the_last_page_that_was_done(
    feed: AsyncFeed, still_world: World, clock: ManualClock
) -> None:
    names = feed.follow(60)
    failing = [True]

    def to_item(follower: dict[str, Any]) -> dict[str, Any]:
        if follower["sk"]["S"] == names[45] and failing:
            failing.clear()
            raise ValueError("once")
        return entry(follower)

    feed.begin(lambda ctx: fan_out_async(ctx, feed.query(), to_item))
    feed.drain()
    assert checkpoints(still_world.plan.calls)[-1]["written"] == 40
    still_world.plan.calls.clear()
    feed.again(clock)
    assert feed.reports == [FanOutReport(recipients=60, resumed_after=40)]
    assert puts_in(still_world.plan) == 20
    assert feed.delivered() == dict.fromkeys(names, 1)


FAULTS = {
    "throttled": faults.throttled,
    "lost reply": faults.lost_reply,
    "lost request": faults.lost_request,
    "internal error": faults.internal_error,
    "leftovers": faults.leftovers,
}


@pytest.mark.parametrize("fault", FAULTS)
def test_any_batch_may_fail_once(feed: AsyncFeed, still_world: World, fault: str) -> None:
    names = feed.follow(60)
    for batch in range(1, 4):
        still_world.plan.on("BatchWriteItem", FAULTS[fault](), nth=len(still_world.plan.of("BatchWriteItem")) + batch)
    feed.begin(lambda ctx: fan_out_async(ctx, feed.query(page_items=25), entry))
    feed.drain()
    assert feed.delivered() == dict.fromkeys(names, 1)
    assert len(feed.reports) == 1


def test_a_lost_lease_ends_it_and_nothing_more_is_recorded(feed: AsyncFeed, still_world: World) -> None:
    feed.follow(60)
    seen: list[str] = []

    def to_item(follower: dict[str, Any]) -> dict[str, Any]:
        seen.append(follower["sk"]["S"])
        if len(seen) == 25:
            take_over(feed)
        return entry(follower)

    feed.begin(lambda ctx: fan_out_async(ctx, feed.query(), to_item))
    worker = feed.app.worker()
    worker.start()
    until(lambda: feed.raised, "the end of the body")
    worker.stop()
    assert feed.raised in ([LeaseLostError], [asyncio.CancelledError])
    assert len(seen) < 60
    mark = feed.mark()
    assert mark is not None
    assert mark["dd_token"]["S"] == "somebody else"
    assert [state["written"] for state in checkpoints(still_world.plan.calls)][-1:] in ([10], [20])


def test_a_cancelled_run_stops(feed: AsyncFeed, still_world: World) -> None:
    feed.follow(60)
    seen: list[str] = []

    def to_item(follower: dict[str, Any]) -> dict[str, Any]:
        seen.append(follower["sk"]["S"])
        mark = feed.mark()
        if len(seen) == 5:
            assert mark is not None
            cancel(feed, mark)
        return entry(follower)

    feed.begin(lambda ctx: fan_out_async(ctx, feed.query(), to_item))
    feed.drain()
    assert len(seen) <= 30
    assert feed.raised in ([Interrupted], [asyncio.CancelledError])
    assert [item for item in feed.everything() if item.get("dd_state", {}).get("S") == "cancelled"]


def test_a_stop_ends_its_page_and_hands_back_there(feed: AsyncFeed, still_world: World, clock: ManualClock) -> None:
    names = feed.follow(60)
    worker = feed.app.worker(queues=["default"], poll=(timedelta(seconds=0.02), timedelta(seconds=0.1)))
    seen: list[str] = []

    def to_item(follower: dict[str, Any]) -> dict[str, Any]:
        seen.append(follower["sk"]["S"])
        if len(seen) == 15:
            worker.engine.stop_claiming()
        return entry(follower)

    feed.begin(lambda ctx: fan_out_async(ctx, feed.query(), to_item))
    worker.start()
    until(lambda: feed.raised, "the end of the body")
    assert worker.stop().abandoned == []
    assert feed.raised == [Interrupted]
    assert checkpoints(still_world.plan.calls)[-1]["written"] == 20
    feed.drain()
    assert feed.reports == [FanOutReport(recipients=60, resumed_after=20)]
    assert feed.delivered() == dict.fromkeys(names, 1)


def test_at_the_end_of_the_grace_period_what_is_done_is_recorded(feed: AsyncFeed, still_world: World) -> None:
    """The source hangs; the batches that were written before need not be written again."""

    async def hangs(cursor: Any) -> AsyncIterator[RecipientPage[str]]:
        if cursor is None:
            yield RecipientPage(["a", "b"], "b")
            hanging.set()
            await asyncio.sleep(3600)
        yield RecipientPage(["c"], None)

    hanging = threading.Event()
    feed.begin(lambda ctx: fan_out_async(ctx, hangs, entry_for))
    worker = feed.app.worker(grace=timedelta(0), poll=(timedelta(seconds=0.02), timedelta(seconds=0.1)))
    worker.start()
    assert hanging.wait(30)
    assert worker.stop().abandoned == []
    assert feed.raised == [asyncio.CancelledError]
    assert [state["after"] for state in checkpoints(still_world.plan.calls)] == ["b"]
    feed.drain()
    assert feed.reports == [FanOutReport(recipients=3, resumed_after=2)]
    assert feed.delivered() == {"a": 1, "b": 1, "c": 1}


def test_a_batch_that_does_not_come_back_does_not_hold_the_end_up(feed: AsyncFeed, still_world: World) -> None:
    feed.follow(30)
    hold = Hold()
    still_world.plan.on("BatchWriteItem", hold, times=1, when=lambda call: "trench" in str(call.params))
    feed.begin(lambda ctx: fan_out_async(ctx, feed.query(), entry))
    worker = feed.app.worker(grace=timedelta(0))
    worker.start()
    hold.wait_until_reached()
    stopping = threading.Thread(target=worker.stop)
    stopping.start()
    until(lambda: feed.raised, "the end of the body")
    hold.release()
    stopping.join()
    assert feed.raised == [asyncio.CancelledError]
    mark = feed.mark()
    assert mark is not None
    assert "dd_token" not in mark
    feed.drain()
    assert set(feed.delivered().values()) == {1}
