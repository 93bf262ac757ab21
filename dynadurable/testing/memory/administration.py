"""Operations on tables themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dynadurable.clock import to_datetime
from dynadurable.testing.memory import params
from dynadurable.testing.memory.catalog import Catalog
from dynadurable.testing.memory.refusal import TABLE_EXISTS, RefusalError, invalid
from dynadurable.testing.memory.table import HASH_BYTES, RANGE_BYTES, KeyAttribute, Table

NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")
KEY_NAME_BYTES = 255
LISTED_TABLES = 100
ARN = "arn:aws:dynamodb:us-east-1:000000000000:table/"

Params = Mapping[str, Any]
Reply = dict[str, Any]


def create_table(catalog: Catalog, request: Params) -> Reply:
    """``CreateTable``: ready at once; indexes are not known here."""
    name = request.get("TableName")
    if not isinstance(name, str) or not 3 <= len(name) <= 255 or not NAME_CHARACTERS.issuperset(name):
        raise invalid("TableName must have from 3 to 255 characters of a-z, A-Z, 0-9, _, - and .")
    hash_key, range_key = _keys(request)
    if request.get("BillingMode", "PROVISIONED") == "PROVISIONED" and "ProvisionedThroughput" not in request:
        raise invalid("No provisioned throughput specified for the table")
    if name in catalog.tables:
        raise RefusalError(TABLE_EXISTS, f"Table already exists: {name}")
    table = Table(name=name, hash_key=hash_key, range_key=range_key, created_ms=catalog.now_ms())
    catalog.tables[name] = table
    return {"TableDescription": _description(table)}


def delete_table(catalog: Catalog, request: Params) -> Reply:
    """``DeleteTable``: gone at once."""
    table = catalog.table(request.get("TableName"))
    del catalog.tables[table.name]
    return {"TableDescription": {**_description(table), "TableStatus": "DELETING"}}


def describe_table(catalog: Catalog, request: Params) -> Reply:
    """``DescribeTable``, with exact counts."""
    return {"Table": _description(catalog.table(request.get("TableName")))}


def list_tables(catalog: Catalog, request: Params) -> Reply:
    """``ListTables``."""
    limit = params.count(request, "Limit", maximum=LISTED_TABLES) or LISTED_TABLES
    after = request.get("ExclusiveStartTableName", "")
    names = [name for name in sorted(catalog.tables) if name > after]
    reply: Reply = {"TableNames": names[:limit]}
    if len(names) > limit:
        reply["LastEvaluatedTableName"] = names[limit - 1]
    return reply


def describe_time_to_live(catalog: Catalog, request: Params) -> Reply:
    """``DescribeTimeToLive``."""
    attribute = catalog.table(request.get("TableName")).time_to_live
    if attribute is None:
        return {"TimeToLiveDescription": {"TimeToLiveStatus": "DISABLED"}}
    return {"TimeToLiveDescription": {"TimeToLiveStatus": "ENABLED", "AttributeName": attribute}}


def update_time_to_live(catalog: Catalog, request: Params) -> Reply:
    """``UpdateTimeToLive``: in force at once; asking for what is already so is refused."""
    table = catalog.table(request.get("TableName"))
    match request.get("TimeToLiveSpecification"):
        case {"Enabled": bool() as enabled, "AttributeName": str() as attribute} if attribute:
            pass
        case _:
            raise invalid("TimeToLiveSpecification needs Enabled and AttributeName")
    if enabled == (table.time_to_live is not None):
        raise invalid(f"TimeToLive is already {'enabled' if enabled else 'disabled'}")
    if not enabled and attribute != table.time_to_live:
        raise invalid(f"TimeToLive is active on a different AttributeName: current AttributeName is {attribute}")
    table.time_to_live = attribute if enabled else None
    return {"TimeToLiveSpecification": {"Enabled": enabled, "AttributeName": attribute}}


def _keys(request: Params) -> tuple[KeyAttribute, KeyAttribute | None]:
    kinds = {each["AttributeName"]: each["AttributeType"] for each in request.get("AttributeDefinitions") or ()}
    schema = [(each["KeyType"], each["AttributeName"]) for each in request.get("KeySchema") or ()]
    if [kind for kind, _ in schema] not in (["HASH"], ["HASH", "RANGE"]):
        raise invalid("KeySchema must have one HASH key and may have one RANGE key after it")
    names = [name for _, name in schema]
    if len(set(names)) != len(names):
        raise invalid("Both the Hash Key and the Range Key element in the KeySchema have the same name")
    if kinds.keys() != set(names) or not set(kinds.values()) <= {"S", "N", "B"}:
        raise invalid("AttributeDefinitions must define the key attributes, as S, N or B, and nothing else")
    if max(len(name.encode()) for name in names) > KEY_NAME_BYTES:
        raise invalid(f"a key's name has more than {KEY_NAME_BYTES} bytes")
    keys = [
        KeyAttribute(name=name, kind=kinds[name], maximum_bytes=HASH_BYTES if kind == "HASH" else RANGE_BYTES)
        for kind, name in schema
    ]
    return keys[0], keys[1] if len(keys) > 1 else None


def _description(table: Table) -> Reply:
    keys = [(key, kind) for key, kind in ((table.hash_key, "HASH"), (table.range_key, "RANGE")) if key is not None]
    records = [record for partition in table.partitions.values() for record in partition.records.values()]
    return {
        "TableName": table.name,
        "TableArn": ARN + table.name,
        "TableStatus": "ACTIVE",
        "KeySchema": [{"AttributeName": key.name, "KeyType": kind} for key, kind in keys],
        "AttributeDefinitions": [{"AttributeName": key.name, "AttributeType": key.kind} for key, _ in keys],
        "CreationDateTime": to_datetime(table.created_ms),
        "BillingModeSummary": {"BillingMode": "PAY_PER_REQUEST"},
        "ProvisionedThroughput": {"NumberOfDecreasesToday": 0, "ReadCapacityUnits": 0, "WriteCapacityUnits": 0},
        "ItemCount": len(records),
        "TableSizeBytes": sum(record.size for record in records),
    }
