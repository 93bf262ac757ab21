"""How a table fits, told from DynamoDB's description of it: keys, time to live, indexes, streams, capacity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import TableSchemaError
from ..model.clean_report import CleanEstimate
from ..model.finding import NOTE, OK, PROBLEM, WARNING, Finding
from .items import Items
from .schema import OWN_TTL_ATTRIBUTE, TableSchema
from .table import check_keys

KEYS, TTL, INDEXES, STREAM, CAPACITY, CLEANING = "keys", "time to live", "indexes", "stream", "capacity", "cleaning"
OWN_PREFIX = "dd_"


def examine(items: Items, described: Mapping[str, Any], *, ttl: str | None, read_rate: float) -> list[Finding]:
    """What is to be said of the table. ``ttl``: the attribute that its own time to live watches, if that is on."""
    schema = items.schema
    return [
        _keys(items, described),
        _ttl(schema, ttl),
        *_indexes(schema, described),
        *_stream(described),
        *_capacity(described),
        _cleaning(described, read_rate),
    ]


def _keys(items: Items, described: Mapping[str, Any]) -> Finding:
    schema = items.schema
    try:
        check_keys(items, dict(described))
    except TableSchemaError as error:
        return Finding(check=KEYS, level=PROBLEM, text=f"{error}.")
    names = f"{schema.partition_key!r} and {schema.sort_key!r}"
    return Finding(check=KEYS, level=OK, text=f"The table has the string keys {names}.")


def _ttl(schema: TableSchema, ttl: str | None) -> Finding:
    if ttl is not None and ttl == schema.ttl_attribute:
        return Finding(check=TTL, level=OK, text=f"DynamoDB deletes what has expired, by the attribute {ttl!r}.")
    clean = "have `dynadurable clean` run once a day"
    if schema.ttl is None:
        text = f"The table's own time to live is not used; expiry is noted in {OWN_TTL_ATTRIBUTE!r}."
        return Finding(check=TTL, level=NOTE, text=text, remedy=f"Readers count what has expired as absent; {clean}.")
    if ttl is not None:
        text = f"The table's time to live watches {ttl!r}, but expiry is noted in {schema.ttl!r}."
        return Finding(
            check=TTL, level=WARNING, text=text, remedy=f"Set ttl={ttl!r} of App; or set ttl=None and {clean}."
        )
    text = f"The table's time to live is off (or may not be asked for), so nothing deletes by {schema.ttl!r}."
    remedy = f"Switch it on for {schema.ttl!r} with UpdateTimeToLive, at no cost; or {clean}."
    return Finding(check=TTL, level=WARNING, text=text, remedy=remedy)


# --- indexes --------------------------------------------------------------------------------------


def _indexes(schema: TableSchema, described: Mapping[str, Any]) -> list[Finding]:
    types = {one["AttributeName"]: one["AttributeType"] for one in described.get("AttributeDefinitions", ())}
    indexes = [*described.get("GlobalSecondaryIndexes", ()), *described.get("LocalSecondaryIndexes", ())]
    return [
        _index(schema, one["IndexName"], [key["AttributeName"] for key in one["KeySchema"]], types) for one in indexes
    ]


def _index(schema: TableSchema, name: str, keys: Sequence[str], types: Mapping[str, str]) -> Finding:
    always = {schema.partition_key, schema.sort_key}
    own = [key for key in keys if key.startswith(OWN_PREFIX)]
    if own:
        text = f"The index {name!r} has {own[0]!r} for a key, a name that belongs to dynadurable."
        return Finding(check=INDEXES, level=PROBLEM, text=text, remedy="Build the index on an attribute of your own.")
    ttl = schema.ttl_attribute
    if ttl in keys and types.get(ttl) != "N":
        text = f"The index {name!r} wants {ttl!r} as {types.get(ttl)}, we write a number: DynamoDB refuses such writes."
        return Finding(check=INDEXES, level=PROBLEM, text=text, remedy="Set ttl= of App to another name, or to None.")
    if set(keys) <= always:
        text = f"All items of dynadurable appear in the index {name!r}: each of its writes costs one more there."
        remedy = "Leave them out of what you read from it by their prefix; or build it on attributes of your own."
        return Finding(check=INDEXES, level=WARNING, text=text, remedy=remedy)
    if set(keys) <= always | {ttl}:
        text = f"Ended runs of dynadurable appear in the index {name!r}, for it has {ttl!r} for a key."
        return Finding(check=INDEXES, level=NOTE, text=text, remedy="Set ttl= of App to another name, or to None.")
    return Finding(check=INDEXES, level=OK, text=f"No item of dynadurable appears in the index {name!r}.")


# --- what it costs --------------------------------------------------------------------------------


def _stream(described: Mapping[str, Any]) -> list[Finding]:
    if not described.get("StreamSpecification", {}).get("StreamEnabled"):
        return []
    text = "The table has a stream: what reads it is told of each write of dynadurable, too."
    remedy = "Filter the event source for records without the attribute 'dd_v', which every item of dynadurable has."
    return [Finding(check=STREAM, level=NOTE, text=text, remedy=remedy)]


def _capacity(described: Mapping[str, Any]) -> list[Finding]:
    if described.get("TableStatus", "ACTIVE") != "ACTIVE":
        status = str(described["TableStatus"]).lower()
        return [
            Finding(check=CAPACITY, level=WARNING, text=f"The table is {status}.", remedy="Wait until it is active.")
        ]
    throughput = described.get("ProvisionedThroughput", {})
    reads, writes = (int(throughput.get(f"{kind}CapacityUnits", 0)) for kind in ("Read", "Write"))
    if not reads and not writes:
        return [Finding(check=CAPACITY, level=OK, text="Capacity is on demand.")]
    text = f"Capacity is provisioned: {reads} read and {writes} write units a second, shared with everything else."
    remedy = f"Keep the cleaner well below that, such as `dynadurable clean --rate {max(1, writes // 4)}`."
    return [Finding(check=CAPACITY, level=NOTE, text=text, remedy=remedy)]


def _cleaning(described: Mapping[str, Any], read_rate: float) -> Finding:
    estimate = CleanEstimate(
        items=int(described.get("ItemCount", 0)),
        size_bytes=int(described.get("TableSizeBytes", 0)),
        read_rate=read_rate,
    )
    return Finding(check=CLEANING, level=OK, text=f"{estimate}")
