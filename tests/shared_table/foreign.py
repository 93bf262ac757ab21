"""Somebody else's table: other key names, their own items, indexes and a stream, and a time to live that is theirs."""

from __future__ import annotations

from typing import Any

Raw = dict[str, Any]
PREFIX = "7/"
GSI = "gsi1"


def create(client: Any, table: str, *, with_indexes: bool) -> None:
    """The table as its owner has made it."""
    keys = ["PK", "SK", *(["GSI1PK", "GSI1SK"] if with_indexes else [])]
    more: Raw = {}
    if with_indexes:
        index = [{"AttributeName": "GSI1PK", "KeyType": "HASH"}, {"AttributeName": "GSI1SK", "KeyType": "RANGE"}]
        more["GlobalSecondaryIndexes"] = [
            {"IndexName": GSI, "KeySchema": index, "Projection": {"ProjectionType": "ALL"}}
        ]
        more["StreamSpecification"] = {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"}
    client.create_table(
        TableName=table,
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[{"AttributeName": "PK", "KeyType": "HASH"}, {"AttributeName": "SK", "KeyType": "RANGE"}],
        AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"} for key in keys],
        **more,
    )


def foreign_items() -> list[Raw]:
    """The owner's items. Some look like ours, in names, in keys or in what they hold."""
    old = {"N": "1"}
    items: list[Raw] = [
        {"PK": {"S": f"user#{n}"}, "SK": {"S": "profile"}, "GSI1PK": {"S": f"mail{n}"}, "GSI1SK": {"S": "x"}, "n": old}
        for n in range(30)
    ]
    items += [{"PK": {"S": str(n)}, "SK": {"S": str(n)}, "expires": old, "ttl": old, "dd_ttl": old} for n in range(20)]
    for prefix in ("", "7", "77/", "7%2F", "/7/"):
        for kind in ("queue#default#0", "run#default~0~1~2", "dead#default#0", "lease#3", "schedule#all", "workers"):
            whole = {"dd_v": {"N": "1"}, "dd_gen": {"S": "g"}, "dd_state": {"S": "dead"}, "dd_job": {"S": "x"}}
            items.append({"PK": {"S": prefix + kind}, "SK": {"S": "run"}, **whole, "dd_ttl": old, "ttl": old})
            due = {"S": "000000000000001#p.0#x@y"}
            items.append({"PK": {"S": prefix + kind}, "SK": due, **whole, "dd_at": old, "dd_fence": old})
    for kind in ("queue#default#0", "run#x@y", "dead#default#0", "lease#3", "workers"):  # under our very prefix
        items.append({"PK": {"S": PREFIX + kind}, "SK": {"S": "note"}, "dd_ttl": old, "text": {"S": "mine"}})
        items.append({"PK": {"S": PREFIX + kind}, "SK": {"S": "page#1#2#3"}, "dd_v": {"S": "1"}, "dd_ttl": old})
    items.append({"PK": {"S": "x" * 2_048}, "SK": {"S": "é🪲" * 170}, "long": {"B": b"\x00" * 300}})
    return items


def fill(client: Any, table: str) -> None:
    for item in foreign_items():
        client.put_item(TableName=table, Item=item)


def all_items(client: Any, table: str) -> list[Raw]:
    found: list[Raw] = []
    start: Raw = {}
    while True:
        page = client.scan(TableName=table, ConsistentRead=True, **start)
        found += page["Items"]
        if "LastEvaluatedKey" not in page:
            return found
        start = {"ExclusiveStartKey": page["LastEvaluatedKey"]}


def untouched(client: Any, table: str) -> bool:
    """Whether every foreign item is there, as it was."""
    stored = {(item["PK"]["S"], item["SK"]["S"]): item for item in all_items(client, table)}
    return all(stored.get((item["PK"]["S"], item["SK"]["S"])) == item for item in foreign_items())


def ours(client: Any, table: str, *, prefix: str = PREFIX) -> list[Raw]:
    """What an app has in it, with the names that its own table would have."""
    theirs = {(item["PK"]["S"], item["SK"]["S"]) for item in foreign_items()}
    found = []
    for item in all_items(client, table):
        key = (item["PK"]["S"], item["SK"]["S"])
        if key in theirs or not key[0].startswith(prefix):
            continue
        renamed = {{"PK": "pk", "SK": "sk", "dd_ttl": "ttl"}.get(name, name): value for name, value in item.items()}
        found.append({**renamed, "pk": {"S": key[0].removeprefix(prefix)}})
    return found
