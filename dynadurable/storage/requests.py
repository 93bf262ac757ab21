"""Builds requests: PynamoDB models and expressions go in, ``Call`` objects come out. Nothing is sent here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pynamodb.expressions.condition import Condition
from pynamodb.expressions.update import Action

from .call import Call, Response
from .items import Item

Raw = Mapping[str, Any]
_SEEN_ON_FAILURE = "ALL_OLD"


def put(item: Item, condition: Condition | None = None) -> Call:
    """PutItem; a failed condition brings the item that stood in the way, where the store does that."""
    return Call(operation="PutItem", params=item.get_save_kwargs_from_instance(condition, _on_failure(condition)))


def update(
    model: type[Item], pk: str, sk: str, actions: Sequence[Action], condition: Condition, *, returning: str = "NONE"
) -> Call:
    """UpdateItem. The condition is required: without one it would be an upsert that brings the dead back."""
    params = model(pk, sk).get_update_kwargs_from_instance(list(actions), condition, _SEEN_ON_FAILURE)
    if returning != "NONE":
        params["ReturnValues"] = returning
    return Call(operation="UpdateItem", params=params)


def upsert(model: type[Item], pk: str, sk: str, actions: Sequence[Action]) -> Call:
    """UpdateItem without a condition: for the few items that are meant to appear by being touched."""
    return Call(operation="UpdateItem", params=model(pk, sk).get_update_kwargs_from_instance(list(actions)))


def delete(model: type[Item], pk: str, sk: str, condition: Condition | None = None) -> Call:
    """DeleteItem."""
    params = model(pk, sk).get_delete_kwargs_from_instance(condition, _on_failure(condition))
    return Call(operation="DeleteItem", params=params)


def get(model: type[Item], pk: str, sk: str, *, consistent: bool = True) -> Call:
    """GetItem, strongly consistent unless said otherwise."""
    params = model.get_operation_kwargs_from_class(pk, sk)
    return Call(operation="GetItem", params={"ConsistentRead": consistent, **params})


def query(
    model: type[Item],
    key_condition: Condition,
    *,
    limit: int,
    start: Raw | None = None,
    consistent: bool = False,
    fields: Sequence[str] = (),
    backwards: bool = False,
    count_only: bool = False,
    where: Condition | None = None,
) -> Call:
    """Query: one page of at most ``limit`` items, of which those are shown that meet ``where``.

    ``fields`` are attribute names as stored.
    """
    names: dict[str, str] = {}
    values: dict[str, Any] = {}
    params: dict[str, Any] = {
        "TableName": model.Meta.table_name,  # given by bind()
        "KeyConditionExpression": key_condition.serialize(names, values),
        "Limit": limit,
        "ConsistentRead": consistent,
        "ScanIndexForward": not backwards,
    }
    if where is not None:
        params["FilterExpression"] = where.serialize(names, values)
    if fields:
        params["ProjectionExpression"] = ", ".join(_placeholder(names, field) for field in fields)
    if count_only:
        params["Select"] = "COUNT"
    if start:
        params["ExclusiveStartKey"] = dict(start)
    params["ExpressionAttributeNames"] = {placeholder: name for name, placeholder in names.items()}
    params["ExpressionAttributeValues"] = values
    return Call(operation="Query", params=params)


def scan(
    model: type[Item],
    condition: Condition,
    *,
    segment: int,
    segments: int,
    limit: int,
    start: Raw | None = None,
    fields: Sequence[str] = (),
) -> Call:
    """Scan: one page of at most ``limit`` items of a segment, of which those are shown that meet the condition."""
    names: dict[str, str] = {}
    values: dict[str, Any] = {}
    params: dict[str, Any] = {
        "TableName": model.Meta.table_name,  # given by bind()
        "FilterExpression": condition.serialize(names, values),
        "Segment": segment,
        "TotalSegments": segments,
        "Limit": limit,
    }
    if fields:
        params["ProjectionExpression"] = ", ".join(_placeholder(names, field) for field in fields)
    if start:
        params["ExclusiveStartKey"] = dict(start)
    params["ExpressionAttributeNames"] = {placeholder: name for name, placeholder in names.items()}
    if values:
        params["ExpressionAttributeValues"] = values
    return Call(operation="Scan", params=params)


def counted(call: Call) -> Call:
    """The same request; its reply says what it cost, see ``units_of``."""
    return replace(call, params={**call.params, "ReturnConsumedCapacity": "TOTAL"})


def units_of(reply: Response, *, least: float) -> float:
    """What a ``counted`` request cost in units, or at least that much where the store does not say."""
    told = reply.get("ConsumedCapacity") or []
    tables = told if isinstance(told, list) else [told]
    return max(least, sum(float(table["CapacityUnits"]) for table in tables))


def transact(calls: Sequence[Call], *, token: str) -> Call:
    """All of these writes or none. ``token`` makes a repeat of the same request harmless for ten minutes."""
    return Call(
        operation="TransactWriteItems",
        params={"TransactItems": [transact_element(call) for call in calls], "ClientRequestToken": token[:36]},
    )


def transact_element(call: Call) -> dict[str, Any]:
    """A single write as an element of ``transact_write_items``."""
    verb = {"PutItem": "Put", "UpdateItem": "Update", "DeleteItem": "Delete"}[call.operation]
    return {verb: {name: value for name, value in call.params.items() if name != "ReturnValues"}}


def batch_put(items: Sequence[Item]) -> Call:
    """BatchWriteItem of at most 25 puts; the caller counts. Not repeatable: a put again could undo a claim."""
    table = type(items[0]).Meta.table_name  # given by bind()
    puts = [{"PutRequest": {"Item": item.serialize()}} for item in items]
    return Call(operation="BatchWriteItem", params={"RequestItems": {table: puts}}, repeatable=False)


def batch_get(model: type[Item], keys: Sequence[tuple[str, str]], *, fields: Sequence[str] = ()) -> Call:
    """BatchGetItem of at most 100 items, strongly consistent; the caller counts."""
    schema_keys = [{name: {"S": part} for name, part in zip(_key_names(model), key, strict=True)} for key in keys]
    names: dict[str, str] = {}
    asked: dict[str, Any] = {"Keys": schema_keys, "ConsistentRead": True}
    if fields:
        asked["ProjectionExpression"] = ", ".join(_placeholder(names, field) for field in fields)
        asked["ExpressionAttributeNames"] = {placeholder: name for name, placeholder in names.items()}
    table = model.Meta.table_name  # given by bind()
    return Call(operation="BatchGetItem", params={"RequestItems": {table: asked}})


def _key_names(model: type[Item]) -> tuple[str, str]:
    return model.pk.attr_name or "", model.sk.attr_name or ""


def _on_failure(condition: Condition | None) -> str | None:
    return None if condition is None else _SEEN_ON_FAILURE


def _placeholder(names: dict[str, str], field: str) -> str:
    return names.setdefault(field, f"#{len(names)}")
