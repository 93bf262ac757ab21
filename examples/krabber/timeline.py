"""The public timeline: the newest molts of all krabs, in one item that everybody reads.

| item     | partition key | sort key |
| timeline | timeline      | public   |
"""

from datetime import datetime
from typing import Any

from pynamodb.attributes import NumberAttribute, UnicodeAttribute

from .models import TABLE, Item, Molt
from .sign_ups import all_sign_ups

MOLTS_EACH = 5
MOLTS_SHOWN = 50
KEY = {"pk": {"S": "timeline"}, "sk": {"S": "public"}}


class Timeline(Item):
    """What stands there, and for which slot it was made."""

    class Meta:
        table_name = TABLE

    molts = UnicodeAttribute()
    slot_ms = NumberAttribute()


def refresh(client: Any, *, slot: datetime) -> bool:
    """Make the timeline anew; false if a later slot's is there already.

    A run that is late, or a second attempt, never replaces a newer timeline by an older one: that is the condition.
    """
    newest = sorted(
        (molt for krab in all_sign_ups(client) if krab.activated_ms for molt in _newest_of(client, krab.sk)),
        key=lambda molt: molt.sk,
        reverse=True,
    )[:MOLTS_SHOWN]
    slot_ms = round(slot.timestamp() * 1000)
    timeline = Timeline("timeline", "public", molts="\n".join(f"{m.author}: {m.text}" for m in newest), slot_ms=slot_ms)
    try:
        client.put_item(
            TableName=TABLE,
            Item=timeline.serialize(),
            ConditionExpression="attribute_not_exists(pk) OR slot_ms <= :slot",
            ExpressionAttributeValues={":slot": {"N": str(slot_ms)}},
        )
    except client.exceptions.ConditionalCheckFailedException:
        return False
    return True


def read(client: Any) -> list[str]:
    """The timeline, newest molt first: one read of one item."""
    item = client.get_item(TableName=TABLE, Key=KEY).get("Item")
    molts: str = Timeline.from_raw_data(item).molts if item else ""
    return molts.splitlines()


def _newest_of(client: Any, krab: str) -> list[Molt]:
    reply = client.query(
        TableName=TABLE,
        KeyConditionExpression="pk = :molts",
        ExpressionAttributeValues={":molts": {"S": f"molts#{krab}"}},
        ScanIndexForward=False,
        Limit=MOLTS_EACH,
    )
    return [Molt.from_raw_data(item) for item in reply["Items"]]
