"""Somebody else's table: other key names, their own items, indexes and a stream, and a time to live that is theirs."""

from __future__ import annotations

import zlib
from typing import Any

from dynadurable.storage.schema import TableSchema

Raw = dict[str, Any]
GSI = "gsi1"
BATCH = 25
PLACES = (
    TableSchema(table="theirs-0", partition_key="PK", sort_key="SK", ttl=None, prefix="7/"),
    TableSchema(table="theirs-1", partition_key="id", sort_key="range", ttl="expires", prefix="2026"),
    TableSchema(table="theirs-2", partition_key="hash key", sort_key="sort.key", ttl=None, prefix="run#"),
    TableSchema(table="theirs-3", partition_key="sk", sort_key="pk", ttl="ttl", prefix="jobs/🪲%"),
)
"""How an app may live in such a table: key names, time to live, prefix."""


def place_for(name: str) -> TableSchema:
    """One of the places, always the same for a test of that name."""
    return PLACES[zlib.crc32(name.encode()) % len(PLACES)]


def options_of(place: TableSchema) -> Raw:
    """What an app is told, to live there."""
    names = ("partition_key", "sort_key", "ttl", "prefix")
    return {name: getattr(place, name) for name in names}


def create(client: Any, place: TableSchema, *, with_indexes: bool) -> None:
    """The table as its owner has made it."""
    keys = [place.partition_key, place.sort_key, *(["GSI1PK", "GSI1SK"] if with_indexes else [])]
    more: Raw = {}
    if with_indexes:
        index = [{"AttributeName": "GSI1PK", "KeyType": "HASH"}, {"AttributeName": "GSI1SK", "KeyType": "RANGE"}]
        more["GlobalSecondaryIndexes"] = [
            {"IndexName": GSI, "KeySchema": index, "Projection": {"ProjectionType": "ALL"}}
        ]
        more["StreamSpecification"] = {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"}
    client.create_table(
        TableName=place.table,
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[
            {"AttributeName": place.partition_key, "KeyType": "HASH"},
            {"AttributeName": place.sort_key, "KeyType": "RANGE"},
        ],
        AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"} for key in keys],
        **more,
    )


def foreign_items(place: TableSchema) -> list[Raw]:
    """The owner's items. Some look like ours, in names, in keys or in what they hold."""
    old = {"N": "1"}

    def item(pk: str, sk: str, **more: Any) -> Raw:
        return {place.partition_key: {"S": pk}, place.sort_key: {"S": sk}, **more}

    items = [item(f"user#{n}", "profile", GSI1PK={"S": f"mail{n}"}, GSI1SK={"S": "x"}, n=old) for n in range(30)]
    items += [item(str(n), str(n), expires=old, ttl=old, dd_ttl=old) for n in range(20)]
    whole = {"dd_v": {"N": "1"}, "dd_gen": {"S": "g"}, "dd_state": {"S": "dead"}, "dd_job": {"S": "x"}}
    for prefix in ("", "7", "/7/", "202", "jobs/", "run"):
        for kind in ("queue#default#0", "run#default~0~1~2", "dead#default#0", "lease#3", "schedule#all", "workers"):
            items.append(item(prefix + kind, "run", **whole, dd_ttl=old, ttl=old, expires=old))
            items.append(item(prefix + kind, "000000000000001#p.0#x@y", **whole, dd_at=old, dd_fence=old))
    ours = place.prefix.replace("%", "%25").replace("#", "%23")
    for kind in ("queue#default#0", "run#x@y", "dead#default#0", "lease#3", "workers"):  # under our very prefix
        items.append(item(ours + kind, "note", dd_ttl=old, ttl=old, expires=old, text={"S": "mine"}))
        items.append(item(ours + kind, "page#1#2#3", dd_v={"S": "1"}, dd_ttl=old, ttl=old, expires=old))
    items.append(item("x" * 2_048, "é🪲" * 170, long={"B": b"\x00" * 300}))
    return items


def fill(client: Any, place: TableSchema) -> None:
    rest = [{"PutRequest": {"Item": item}} for item in foreign_items(place)]
    while rest:
        reply = client.batch_write_item(RequestItems={place.table: rest[:BATCH]})
        rest = [*reply.get("UnprocessedItems", {}).get(place.table, ()), *rest[BATCH:]]


def all_items(client: Any, place: TableSchema) -> list[Raw]:
    found: list[Raw] = []
    start: Raw = {}
    while True:
        page = client.scan(TableName=place.table, ConsistentRead=True, **start)
        found += page["Items"]
        if "LastEvaluatedKey" not in page:
            return found
        start = {"ExclusiveStartKey": page["LastEvaluatedKey"]}


def key_of(item: Raw, place: TableSchema) -> tuple[str, str]:
    return item[place.partition_key]["S"], item[place.sort_key]["S"]


def changed(client: Any, place: TableSchema) -> list[Raw]:
    """The foreign items that are not there any more as they were."""
    stored = {key_of(item, place): item for item in all_items(client, place)}
    return [item for item in foreign_items(place) if stored.get(key_of(item, place)) != item]


def ours(client: Any, place: TableSchema) -> list[Raw]:
    """What an app has in it, with the names that its own table would have."""
    theirs = {key_of(item, place) for item in foreign_items(place)}
    prefix = place.prefix.replace("%", "%25").replace("#", "%23")
    mine = [item for item in all_items(client, place) if key_of(item, place) not in theirs]
    assert all(key_of(item, place)[0].startswith(prefix) for item in mine)
    return [_renamed(item, place, prefix) for item in mine]


def _renamed(item: Raw, place: TableSchema, prefix: str) -> Raw:
    pk, sk = key_of(item, place)
    rest = {name: value for name, value in item.items() if name not in {place.partition_key, place.sort_key}}
    ttl = {"ttl": rest.pop(place.ttl_attribute)} if place.ttl_attribute in rest else {}
    return {**rest, **ttl, "pk": {"S": pk.removeprefix(prefix)}, "sk": {"S": sk}}
