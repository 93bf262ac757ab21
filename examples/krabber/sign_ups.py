"""Signing up: a krab has three days to activate its account.

| item    | partition key | sort key |
| sign-up | signups       | <name>   |
"""

from typing import Any

from pynamodb.attributes import NumberAttribute

from .models import TABLE, Item

PARTITION = "signups"
DAYS_TO_ACTIVATE = 3
DAY_MS = 86_400_000


class SignUp(Item):
    """Somebody who wants to be a krab; activated once the link in the mail was followed."""

    class Meta:
        table_name = TABLE

    signed_up_ms = NumberAttribute()
    activated_ms = NumberAttribute(null=True)


def sign_up(client: Any, name: str, *, now_ms: int) -> None:
    """Ask for an account. A name that is taken is refused by the condition."""
    new = SignUp(PARTITION, name, signed_up_ms=now_ms)
    client.put_item(TableName=TABLE, Item=new.serialize(), ConditionExpression="attribute_not_exists(pk)")


def activate(client: Any, name: str, *, now_ms: int) -> None:
    """The link in the mail was followed. Too late if the sign-up has expired: the condition refuses it."""
    client.update_item(
        TableName=TABLE,
        Key=key_of(name),
        UpdateExpression="SET activated_ms = :now",
        ConditionExpression="attribute_exists(pk)",
        ExpressionAttributeValues={":now": {"N": str(now_ms)}},
    )


def expire(client: Any, *, before_ms: int) -> list[str]:
    """Remove the sign-ups from before then that were never activated; their names are free again.

    Safe to do twice, and beside somebody who activates at this very moment: each delete is conditional.
    """
    expired: list[str] = []
    for found in all_sign_ups(client):
        if found.attribute_values.get("activated_ms") is not None or found.signed_up_ms >= before_ms:
            continue
        try:
            client.delete_item(
                TableName=TABLE,
                Key=key_of(found.sk),
                ConditionExpression="attribute_not_exists(activated_ms) AND signed_up_ms < :before",
                ExpressionAttributeValues={":before": {"N": str(before_ms)}},
            )
        except client.exceptions.ConditionalCheckFailedException:
            continue  # activated meanwhile, or removed by another attempt of this very run
        expired.append(found.sk)
    return expired


def all_sign_ups(client: Any) -> list[SignUp]:
    """Everybody who has signed up, by name."""
    pages = client.get_paginator("query").paginate(
        TableName=TABLE,
        KeyConditionExpression="pk = :signups",
        ExpressionAttributeValues={":signups": {"S": PARTITION}},
        ConsistentRead=True,
    )
    return [SignUp.from_raw_data(item) for page in pages for item in page["Items"]]


def key_of(name: str) -> dict[str, Any]:
    return {"pk": {"S": PARTITION}, "sk": {"S": name}}
