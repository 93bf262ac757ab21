"""What a table that belongs to the same CDK app says of its own keys, so that nobody has to say it twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aws_cdk import Stack
from aws_cdk import aws_dynamodb as dynamodb

from dynadurable.errors import TableSchemaError
from dynadurable.storage.schema import TableSchema

_ROLES = {"HASH": "partition key", "RANGE": "sort key"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Blueprint:
    """The key attributes and the TTL attribute of a table, as its template has them."""

    partition_key: str
    sort_key: str
    ttl: str | None


def read_blueprint(table: dynamodb.ITable) -> Blueprint | None:
    """What the template says of the table; ``None`` for an imported one, of which there is no template.

    Raises:
        TableSchemaError: its keys cannot hold dynadurable's items.
    """
    resource = table.node.default_child
    if not isinstance(resource, dynamodb.CfnTable | dynamodb.CfnGlobalTable):
        return None
    stack = Stack.of(resource)
    types = {
        attribute["attributeName"]: attribute["attributeType"]
        for attribute in stack.resolve(resource.attribute_definitions) or []
    }
    keys = _keys(stack.resolve(resource.key_schema) or [], types)
    ttl: Mapping[str, Any] = stack.resolve(resource.time_to_live_specification) or {}
    return Blueprint(
        partition_key=keys["HASH"],
        sort_key=keys["RANGE"],
        ttl=ttl.get("attributeName") if ttl.get("enabled") else None,
    )


def _keys(key_schema: Sequence[Mapping[str, Any]], types: Mapping[str, str]) -> dict[str, str]:
    keys: dict[str, str] = {key["keyType"]: key["attributeName"] for key in key_schema}
    for key_type, role in _ROLES.items():
        name = keys.get(key_type)
        if name is None:
            raise TableSchemaError(f"the table has no {role}; dynadurable needs a partition key and a sort key")
        if types.get(name) != "S":
            raise TableSchemaError(f"the table's {role} {name!r} is not a string; dynadurable needs string keys")
    return keys


def agreed_schema(
    table: dynamodb.ITable, *, partition_key: str | None, sort_key: str | None, ttl: str | None, prefix: str
) -> TableSchema:
    """The names to use with an existing table: what its template says, else what was said, else the usual ones.

    ``ttl=""`` says that it has no TTL attribute.

    Raises:
        TableSchemaError: what was said is not what the template says.
    """
    blueprint = read_blueprint(table)
    if blueprint is None:
        blueprint = Blueprint(
            partition_key=partition_key or "pk",
            sort_key=sort_key or "sk",
            ttl="ttl" if ttl is None else ttl or None,
        )
    said = {"partition_key": partition_key, "sort_key": sort_key, "ttl": ttl}
    for name, value in said.items():
        found = getattr(blueprint, name)
        if value is not None and (value or None) != found:
            raise TableSchemaError(f"{name} was given as {value!r}, but the table has {found!r}; leave {name} out")
    return TableSchema(
        table=table.table_name,
        partition_key=blueprint.partition_key,
        sort_key=blueprint.sort_key,
        ttl=blueprint.ttl,
        prefix=prefix,
    )
