"""Plans about the table itself: create it for development, check that it fits."""

from __future__ import annotations

import contextlib

from ..errors import (
    PermissionMissingError,
    RequestRefusedError,
    TableMissingError,
    TableSchemaError,
)
from . import requests
from .call import Call, Response
from .items import Items
from .keys import queue_partition

PROBE_SORT_KEY = "!probe"


def create_request(items: Items) -> Call:
    """CreateTable: two string keys, on demand, nothing else."""
    schema = items.schema
    return Call(
        operation="CreateTable",
        params={
            "TableName": schema.table,
            "KeySchema": [
                {"AttributeName": schema.partition_key, "KeyType": "HASH"},
                {"AttributeName": schema.sort_key, "KeyType": "RANGE"},
            ],
            "AttributeDefinitions": [
                {"AttributeName": schema.partition_key, "AttributeType": "S"},
                {"AttributeName": schema.sort_key, "AttributeType": "S"},
            ],
            "BillingMode": "PAY_PER_REQUEST",
        },
    )


async def create(items: Items) -> bool:
    """Ask for the table; false if it exists already (and fits).

    Raises:
        TableSchemaError: it exists with other keys.
    """
    try:
        await create_request(items)
    except RequestRefusedError as error:
        if "ResourceInUse" not in str(error):
            raise
        await check(items)
        return False
    return True


async def is_active(items: Items) -> bool:
    """Whether the table can be used yet."""
    try:
        return bool((await describe(items))["Table"].get("TableStatus") == "ACTIVE")
    except TableMissingError:
        return False


async def switch_ttl_on(items: Items) -> bool:
    """Have DynamoDB delete what has expired; false if it is on already or the store does not offer it."""
    schema = items.schema
    if schema.ttl is None:
        return False
    specification = {"Enabled": True, "AttributeName": schema.ttl}
    try:
        await Call(
            operation="UpdateTimeToLive",
            params={"TableName": schema.table, "TimeToLiveSpecification": specification},
        )
    except RequestRefusedError:  # on already, or an emulator without it: expired items count as absent all the same
        return False
    return True


async def has_native_ttl(items: Items) -> bool:
    """Whether DynamoDB itself deletes what has expired by our attribute. False where that cannot be found out."""
    if items.schema.ttl is None:
        return False
    found = await describe_ttl(items)
    return found is not None and found == items.schema.ttl


async def describe_ttl(items: Items) -> str | None:
    """The attribute that the table's own TTL watches; ``None`` if it is off, or cannot be asked for."""
    try:
        reply = await Call(operation="DescribeTimeToLive", params={"TableName": items.schema.table})
    except (PermissionMissingError, RequestRefusedError):  # or an emulator without it
        return None
    told = reply.get("TimeToLiveDescription", {})
    on = told.get("TimeToLiveStatus") in {"ENABLED", "ENABLING"}
    return str(told.get("AttributeName")) if on else None


async def describe(items: Items) -> Response:
    reply: Response = await Call(operation="DescribeTable", params={"TableName": items.schema.table})
    return reply


async def check(items: Items) -> None:
    """Whether the table is there, has the keys that the app expects, and may be read.

    Raises:
        TableMissingError, TableSchemaError, PermissionMissingError: each names the remedy.
    """
    with contextlib.suppress(PermissionMissingError):  # not needed for the work: the read below shows what is wrong
        check_keys(items, (await describe(items))["Table"])
    try:
        await requests.get(
            items.mark, queue_partition(items.schema, PROBE_SORT_KEY, 0), PROBE_SORT_KEY, consistent=False
        )
    except RequestRefusedError as error:
        raise TableSchemaError(f"{_expected(items)}, but a read by these keys was refused ({error})") from error


def check_keys(items: Items, described: Response) -> None:
    """Whether a table of that description has the keys that the app expects.

    Raises:
        TableSchemaError: it has others.
    """
    schema = items.schema
    types = {entry["AttributeName"]: entry["AttributeType"] for entry in described.get("AttributeDefinitions", ())}
    keys = {entry["KeyType"]: entry["AttributeName"] for entry in described.get("KeySchema", ())}
    found = [(role, keys.get(role), types.get(keys.get(role, ""))) for role in ("HASH", "RANGE")]
    if found != [("HASH", schema.partition_key, "S"), ("RANGE", schema.sort_key, "S")]:
        shown = ", ".join(f"{name} ({kind})" for _, name, kind in found if name)
        raise TableSchemaError(
            f"{_expected(items)}, but it has {shown}; "
            "set partition_key= and sort_key= of App to the table's own names, or use another table"
        )


def _expected(items: Items) -> str:
    schema = items.schema
    return f"table {schema.table!r} should have the string keys {schema.partition_key!r} and {schema.sort_key!r}"
