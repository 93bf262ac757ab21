"""A krab's followers, and a fan-out to them: what the tests of fan-outs share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

from dynadurable import App, Job, JobContext, Retry, query_pages
from dynadurable.fan_out import FanOutReport, QueryPages
from dynadurable.model import codec
from dynadurable.worker.endings import decode_failures
from tests.faults import FaultPlan, Recorded

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
        items = self.everything()
        return Counter(item["pk"]["S"].removeprefix("trench#") for item in items if item["pk"]["S"].startswith("tre"))

    def mark(self) -> dict[str, Any] | None:
        marks = [item for item in self.everything() if "dd_job" in item]
        return marks[0] if marks else None

    def everything(self) -> list[dict[str, Any]]:
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


def puts_in(plan: FaultPlan) -> int:
    return sum(len(writes) for call in plan.of("BatchWriteItem") for writes in call.params["RequestItems"].values())


def run_of(feed: Feed) -> dict[str, Any]:
    return next(item for item in feed.everything() if item["sk"]["S"] == "run")


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
