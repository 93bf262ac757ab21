"""The fan-out primitive: where recipients come from and what is written for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from pynamodb.attributes import UnicodeAttribute
from pynamodb.models import Model

from dynadurable import App, fan_out, iterable_pages, paginator_pages, query_pages
from dynadurable.errors import ConfigurationError
from dynadurable.fan_out import FanOutReport, RecipientPage
from tests.faults import FaultPlan
from tests.integration.feed import ONCE, Feed, checkpoints, cursor_of, entry, entry_for, failure_of, run_of
from tests.servers import Store


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
