"""The fan-out primitive: what it writes, what it records, where it goes on."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

import boto3
import pytest
from pynamodb.attributes import UnicodeAttribute
from pynamodb.models import Model

from dynadurable import App, Job, JobContext, Retry, fan_out, iterable_pages, paginator_pages, query_pages
from dynadurable.errors import ConfigurationError
from dynadurable.fan_out import MAX_OPEN_PAGES, FanOutReport, QueryPages, RecipientPage
from dynadurable.model import codec
from dynadurable.testing.clock import ManualClock
from dynadurable.testing.ledger import ledger
from dynadurable.worker.endings import decode_failures
from tests import faults
from tests.faults import FaultPlan, Recorded
from tests.process.workshop import wait_until
from tests.servers import Store

SOON = Retry(max_attempts=3, delay=timedelta(seconds=1), jitter=0.0)
ONCE = Retry.none()


class Feed:
    """Followers of one krab in an app's table, and the molts that they got."""

    def __init__(self, app: App, client: Any) -> None:
        self.app = app
        self.client = client
        self.table = app.schema.table
        self.reports: list[FanOutReport] = []

    def follow(self, count: int) -> list[str]:
        names = [f"krab-{number:05d}" for number in range(count)]
        for first in range(0, count, 25):
            puts = [
                {"PutRequest": {"Item": {"pk": {"S": "followers#ferris"}, "sk": {"S": name}}}}
                for name in names[first : first + 25]
            ]
            self.client.batch_write_item(RequestItems={self.table: puts})
        return names

    def query(self, *, page_items: int = 10, **options: Any) -> QueryPages:
        return query_pages(page_items=page_items, **self.query_params(), **options)

    def query_params(self) -> dict[str, Any]:
        return {
            "TableName": self.table,
            "KeyConditionExpression": "pk = :krab",
            "ExpressionAttributeValues": {":krab": {"S": "followers#ferris"}},
        }

    def delivered(self) -> Counter[str]:
        """How many entries each follower has."""
        items = self._everything()
        return Counter(item["pk"]["S"].removeprefix("trench#") for item in items if item["pk"]["S"].startswith("tre"))

    def mark(self) -> dict[str, Any] | None:
        marks = [item for item in self._everything() if "dd_job" in item]
        return marks[0] if marks else None

    def _everything(self) -> list[dict[str, Any]]:
        pages = self.client.get_paginator("scan").paginate(TableName=self.table)
        return [item for page in pages for item in page["Items"]]

    def define(self, body: Callable[[JobContext], FanOutReport], *, retry: Retry = SOON) -> Job[[], None]:
        @self.app.job(retry=retry)
        def deliver(ctx: JobContext) -> None:
            self.reports.append(body(ctx))

        return deliver

    def start(self, body: Callable[[JobContext], FanOutReport], *, retry: Retry = SOON) -> None:
        self.app.enqueue(self.define(body, retry=retry))

    def drain(self) -> None:
        self.app.worker(concurrency=1).drain()


def entry(follower: dict[str, Any]) -> dict[str, Any]:
    return {"pk": f"trench#{follower['sk']['S']}", "sk": "molt-1"}


def entry_for(name: str) -> dict[str, Any]:
    return {"pk": f"trench#{name}", "sk": "molt-1"}


def cursor_of(item: dict[str, Any] | None) -> Any:
    assert item is not None
    return codec.decode(item["dd_cursor"]["B"])["fan_out"]


def checkpoints(calls: Iterable[Recorded]) -> list[Any]:
    """What was recorded, in order."""
    replies = [call.reply["Attributes"] for call in calls if call.reply and "Attributes" in call.reply]
    return [cursor_of(item)[""] for item in replies if "dd_cursor" in item]


@pytest.fixture
def feed(app: App, moto_client: Any) -> Feed:
    return Feed(app, moto_client)


# --- where recipients come from -------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, 9, 10, 11, 55])
def test_every_recipient_of_a_query_gets_one_item(feed: Feed, count: int) -> None:
    names = feed.follow(count)
    feed.start(lambda ctx: fan_out(ctx, feed.query(), entry))
    feed.drain()
    assert feed.delivered() == Counter(names)
    assert feed.reports == [FanOutReport(recipients=count, resumed_after=0)]
    assert feed.mark() is None


@pytest.mark.parametrize("count", [0, 1, 10, 55])
def test_a_paginator_is_a_source(feed: Feed, count: int) -> None:
    names = feed.follow(count)
    source = paginator_pages(feed.client.get_paginator("query"), page_items=10, **feed.query_params())
    feed.start(lambda ctx: fan_out(ctx, source, entry))
    feed.drain()
    assert feed.delivered() == Counter(names)


@pytest.mark.parametrize("count", [0, 1, 10, 55])
def test_an_iterable_that_can_begin_after_a_recipient_is_a_source(feed: Feed, count: int) -> None:
    source = iterable_pages(
        lambda after: range(0 if after is None else after + 1, count), cursor_of=lambda number: number, page_items=10
    )
    feed.start(lambda ctx: fan_out(ctx, source, lambda number: entry_for(str(number))))
    feed.drain()
    assert feed.delivered() == Counter(map(str, range(count)))


def test_an_empty_page_with_a_continuation_is_not_the_end(feed: Feed) -> None:
    """A filter, or the service itself, may leave pages empty."""
    feed.follow(55)
    wanted = feed.query(FilterExpression="sk >= :late")
    wanted.params["ExpressionAttributeValues"][":late"] = {"S": "krab-00052"}
    feed.start(lambda ctx: fan_out(ctx, wanted, entry))
    feed.drain()
    assert feed.delivered() == Counter(["krab-00052", "krab-00053", "krab-00054"])


def test_pages_for_which_nothing_is_written_share_a_checkpoint(feed: Feed, moto_client: Any) -> None:
    feed.follow(250)
    with FaultPlan(moto_client) as plan:
        feed.start(lambda ctx: fan_out(ctx, feed.query(), lambda _: None))
        feed.drain()
    assert [state["written"] for state in checkpoints(plan.of("UpdateItem"))] == [100, 200]
    assert plan.of("BatchWriteItem") == []
    assert feed.reports[0].recipients == 250


def test_recipients_for_whom_to_item_gives_none_are_left_out(feed: Feed) -> None:
    names = feed.follow(30)
    feed.start(lambda ctx: fan_out(ctx, feed.query(), lambda one: None if one["sk"]["S"] == names[7] else entry(one)))
    feed.drain()
    assert feed.delivered() == Counter(names) - Counter([names[7]])


def test_a_source_that_goes_on_after_its_last_page_is_refused(feed: Feed) -> None:
    """Else everything after its first page would be left out without a word."""
    pages = [RecipientPage(["a"], None), RecipientPage(["b"], None)]
    feed.start(lambda ctx: fan_out(ctx, lambda _: pages, entry_for), retry=ONCE)
    feed.drain()
    assert failure_of(feed) == "ConfigurationError"
    assert feed.delivered() == Counter()


def test_what_is_no_source_is_refused_by_name(feed: Feed) -> None:
    followers: Any = ["ferris"]
    feed.start(lambda ctx: fan_out(ctx, followers, entry_for), retry=ONCE)
    feed.drain()
    assert failure_of(feed) == "ConfigurationError"


@pytest.mark.parametrize("size", [0, -1])
def test_page_sizes_below_one_are_refused(feed: Feed, size: int) -> None:
    with pytest.raises(ConfigurationError, match="page_items"):
        query_pages(page_items=size, **feed.query_params())
    with pytest.raises(ConfigurationError, match="page_items"):
        paginator_pages(None, page_items=size)
    with pytest.raises(ConfigurationError, match="page_items"):
        iterable_pages(lambda _: "abc", cursor_of=str, page_items=size)
    with pytest.raises(ConfigurationError, match="ExclusiveStartKey"):
        query_pages(ExclusiveStartKey={})


# --- what is written ------------------------------------------------------------------------------


class TrenchEntry(Model):
    class Meta:
        table_name = "named-by-the-model"

    pk = UnicodeAttribute(hash_key=True)
    sk = UnicodeAttribute(range_key=True)


def typed(follower: dict[str, Any]) -> dict[str, Any]:
    return {name: {"S": value} for name, value in entry(follower).items()}


@pytest.mark.parametrize("shape", [entry, typed, lambda follower: TrenchEntry(**entry(follower))])
def test_models_plain_dicts_and_typed_dicts_are_items(feed: Feed, shape: Callable[[Any], Any]) -> None:
    names = feed.follow(30)
    feed.start(lambda ctx: fan_out(ctx, feed.query(), shape, table=feed.table))
    feed.drain()
    assert feed.delivered() == Counter(names)


def test_a_model_goes_to_its_own_table(feed: Feed, moto_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    names = feed.follow(30)
    own = moto_store.table()
    monkeypatch.setattr(TrenchEntry.Meta, "table_name", own)
    feed.start(lambda ctx: fan_out(ctx, feed.query(), lambda one: TrenchEntry(**entry(one))))
    feed.drain()
    assert feed.delivered() == Counter()
    assert moto_store.client.scan(TableName=own)["Count"] == len(names)


def test_a_recipient_that_is_read_twice_is_written_once(feed: Feed, moto_client: Any) -> None:
    """BatchWriteItem refuses a batch that names one key twice."""
    pages = [RecipientPage(["a", "b", "a", "a"], "b"), RecipientPage(["b", "c"], None)]
    feed.start(lambda ctx: fan_out(ctx, lambda _: pages, entry_for))
    feed.drain()
    assert feed.delivered() == Counter(["a", "b", "c"])
    assert len(feed.reports) == 1


def test_of_two_different_items_with_one_key_the_later_stays(feed: Feed) -> None:
    texts = [f"{number % 20:02d}:{number:02d}" for number in range(25)]
    pages = [RecipientPage(texts, None)]
    feed.start(lambda ctx: fan_out(ctx, lambda _: pages, lambda text: {**entry_for(text[:2]), "text": text}))
    feed.drain()
    assert feed.delivered() == Counter(f"{number:02d}" for number in range(20))
    kept = feed.client.get_item(TableName=feed.table, Key={"pk": {"S": "trench#03"}, "sk": {"S": "molt-1"}})["Item"]
    assert kept["text"]["S"] == "03:23"


@pytest.mark.parametrize("nothing", ["text", {}, 7, [{"pk": "a"}], {"pk": "a", "sk": 1.5}])
def test_what_is_no_item_fails_the_attempt(feed: Feed, nothing: Any) -> None:
    feed.follow(3)
    feed.start(lambda ctx: fan_out(ctx, feed.query(), lambda _: nothing), retry=ONCE)
    feed.drain()
    assert failure_of(feed) == "InputRefusedError"
    assert feed.delivered() == Counter()


def test_an_item_that_dynamodb_refuses_fails_the_attempt_and_keeps_what_is_done(feed: Feed) -> None:
    names = feed.follow(40)

    def broken(follower: dict[str, Any]) -> dict[str, Any]:
        return {"pk": "trench#nobody"} if follower["sk"]["S"] == names[35] else entry(follower)

    feed.start(lambda ctx: fan_out(ctx, feed.query(), broken, in_flight=1), retry=ONCE)
    feed.drain()
    assert failure_of(feed) == "RequestRefusedError"
    assert feed.delivered() >= Counter(names[:30])
    assert cursor_of(run_of(feed))[""]["written"] == 30


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


# --- helpers --------------------------------------------------------------------------------------


def puts_in(plan: FaultPlan) -> int:
    return sum(len(writes) for call in plan.of("BatchWriteItem") for writes in call.params["RequestItems"].values())


def run_of(feed: Feed) -> dict[str, Any]:
    return next(item for item in feed._everything() if item["sk"]["S"] == "run")


def failure_of(feed: Feed) -> str:
    run = feed.app.items.run.from_raw_data(run_of(feed))
    return decode_failures(run)[-1].type.rsplit(".", 1)[-1]


def cancel(feed: Feed, mark: dict[str, Any]) -> None:
    feed.client.update_item(
        TableName=feed.table,
        Key={"pk": mark["pk"], "sk": mark["sk"]},
        UpdateExpression="SET dd_cancel = :yes",
        ExpressionAttributeValues={":yes": {"BOOL": True}},
    )


def take_over(feed: Feed) -> None:
    mark = feed.mark()
    assert mark is not None
    feed.client.update_item(
        TableName=feed.table,
        Key={"pk": mark["pk"], "sk": mark["sk"]},
        UpdateExpression="SET dd_token = :token, dd_fence = dd_fence + :one",
        ExpressionAttributeValues={":token": {"S": "somebody else"}, ":one": {"N": "1"}},
    )
