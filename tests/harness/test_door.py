"""The demo's door: requests pass it unchanged, and what passed is counted right."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import boto3
import pytest

from dynadurable import App, JobContext, fan_out, iterable_pages
from dynadurable.clock import SystemClock
from dynadurable.demo.door import Door, Passage
from dynadurable.demo.tally import CHECKPOINTED, CLAIMED, FINISHED, POSTED, REFUSED, Tally
from dynadurable.drivers.clients import client_config
from dynadurable.testing.ledger import ledger
from tests.servers import Store

pytestmark = pytest.mark.server


class Counted:
    """An app on a store behind a door."""

    def __init__(self, store: Store) -> None:
        port = int(store.endpoint_url.rpartition(":")[2])
        self.door = Door(port, self._observe)
        kwargs = {**store.client_kwargs, "endpoint_url": self.door.endpoint_url}
        self.client: Any = boto3.Session().client("dynamodb", config=client_config(4), **kwargs)
        self.reader: Any = store.client
        self.table = store.table()
        self.passages: list[Passage] = []
        self.app = App(self.table, client=self.client)
        self.tally = Tally(self.app.items, SystemClock(), ours="queue#", entries="trench#")

    def _observe(self, passage: Passage) -> None:
        self.passages.append(passage)
        self.tally.observe(passage)


@pytest.fixture
def counted(ministack: Store) -> Iterator[Counted]:
    made = Counted(ministack)
    with made.door:
        yield made
    made.client.close()


def test_every_kind_of_value_passes_unchanged(counted: Counted) -> None:
    item: dict[str, Any] = {
        "pk": {"S": "ü#1"},
        "sk": {"S": "1"},
        "bytes": {"B": b"\x00\xff"},
        "number": {"N": "12.5"},
        "nested": {"M": {"list": {"L": [{"B": b"x"}, {"NULL": True}]}, "B": {"S": "a name"}}},
    }
    counted.client.put_item(TableName=counted.table, Item=item)
    key = {"pk": item["pk"], "sk": item["sk"]}
    assert counted.client.get_item(TableName=counted.table, Key=key)["Item"] == item
    assert counted.passages[-1].reply["Item"] == item
    assert counted.passages[-2].params["Item"] == item


def test_a_refusal_passes_with_its_code(counted: Counted) -> None:
    item = {"pk": {"S": "a"}, "sk": {"S": "b"}}
    with pytest.raises(counted.client.exceptions.ConditionalCheckFailedException):
        counted.client.put_item(TableName=counted.table, Item=item, ConditionExpression="attribute_exists(pk)")
    assert counted.passages[-1].error == "ConditionalCheckFailedException"


def test_the_units_of_a_mark_are_those_that_the_ledger_finds(counted: Counted) -> None:
    @counted.app.job(queue="trench")
    def deliver(ctx: JobContext, count: int) -> None:
        source = iterable_pages(lambda after: range((after or -1) + 1, count), cursor_of=int, page_items=50)
        fan_out(ctx, source, lambda number: {"pk": f"trench#{number}", "sk": "m1"}, client=counted.reader, in_flight=1)

    with ledger(counted.client) as cost:
        counted.client.transact_write_items(TransactItems=counted.app.transact_items(deliver, count=230))
        counted.app.worker(concurrency=1).drain()
    spent = counted.tally.spent()
    assert {kind: one.writes for kind, one in spent.items()} == {POSTED: 1, CLAIMED: 1, CHECKPOINTED: 5, FINISHED: 1}
    assert sum(one.units for one in spent.values()) == cost.write_units == 9
    assert counted.tally.recorded == 230
    assert [claim.attempt for claim in counted.tally.claims] == [1]


def test_a_write_that_is_repeated_is_counted_again_and_one_that_is_left_over_is_not(counted: Counted) -> None:
    def put(*numbers: int) -> None:
        puts = [{"PutRequest": {"Item": {"pk": {"S": f"trench#{one}"}, "sk": {"S": "m1"}}}} for one in numbers]
        counted.client.batch_write_item(RequestItems={counted.table: puts})

    put(1, 2, 3)
    put(3, 4)
    assert (counted.tally.delivered, counted.tally.deliveries, counted.tally.repeated) == (4, 5, 1)
    last = counted.passages[-1]
    left = {"UnprocessedItems": {counted.table: [last.params["RequestItems"][counted.table][0]]}}
    counted.tally.observe(Passage(operation=last.operation, params=last.params, reply=left, error=None))
    assert (counted.tally.delivered, counted.tally.deliveries) == (4, 6)


def test_a_refused_write_of_a_mark_costs_a_unit_and_changes_nothing(counted: Counted) -> None:
    with pytest.raises(counted.client.exceptions.ConditionalCheckFailedException):
        counted.client.delete_item(
            TableName=counted.table,
            Key={"pk": {"S": "queue#trench#0"}, "sk": {"S": "1"}},
            ConditionExpression="attribute_exists(pk)",
        )
    assert {kind: one.units for kind, one in counted.tally.spent().items()} == {REFUSED: 1.0}
