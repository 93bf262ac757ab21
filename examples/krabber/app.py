"""What Krabber does: post a molt, deliver it to the followers, read a Trench."""

from __future__ import annotations

import uuid
from typing import Any

from dynadurable import App, JobContext, Retry, fan_out, query_pages

from .models import TABLE, Molt, TrenchEntry

app = App(TABLE)


@app.job(queue="trench", retry=Retry(max_attempts=8))
def deliver(ctx: JobContext, author: str, molt_id: str) -> None:
    """Put a molt into the Trench of everybody who follows its author."""
    followers = query_pages(
        TableName=TABLE,
        KeyConditionExpression="pk = :followers",
        ExpressionAttributeValues={":followers": {"S": f"followers#{author}"}},
    )
    fan_out(ctx, followers, lambda item: TrenchEntry.of(item["sk"]["S"], author=author, molt_id=molt_id))


def post(client: Any, author: str, text: str) -> Molt:
    """Post a molt. One transaction: either the molt is there and will be delivered, or nothing has happened."""
    molt = Molt.by(author, molt_id=new_molt_id(), text=text)
    put_molt = {"Put": {"TableName": TABLE, "Item": molt.serialize()}}
    deliver_it = app.transact_items(deliver, author=author, molt_id=molt.sk)
    client.transact_write_items(TransactItems=[put_molt, *deliver_it])
    return molt


def read_trench(client: Any, krab: str, *, limit: int = 20) -> list[Molt]:
    """The newest molts in a krab's Trench, newest first."""
    entries = client.query(
        TableName=TABLE,
        KeyConditionExpression="pk = :trench",
        ExpressionAttributeValues={":trench": {"S": f"trench#{krab}"}},
        ScanIndexForward=False,
        Limit=limit,
    )["Items"]
    keys = [{"pk": {"S": f"molts#{entry['author']['S']}"}, "sk": entry["sk"]} for entry in entries]
    found = [client.get_item(TableName=TABLE, Key=key) for key in keys]
    return [Molt.from_raw_data(reply["Item"]) for reply in found if "Item" in reply]


def new_molt_id() -> str:
    """Sorts by time."""
    return f"{app.clock.now_ms()}-{uuid.uuid4().hex[:8]}"
