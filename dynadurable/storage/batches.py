"""Reading many items by key, with few requests, strongly consistent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from . import requests
from .items import Item, Items

Key = tuple[str, str]
BATCH_KEYS = 100


async def read(
    items: Items, model: type[Item], keys: Sequence[Key], *, fields: Sequence[str] = ()
) -> dict[Key, Mapping[str, Any]]:
    """Those of these items that are there, as stored; with ``fields`` only these attributes of them, and their keys."""
    schema = items.schema
    shown = (schema.partition_key, schema.sort_key, *fields) if fields else ()
    found: dict[Key, Mapping[str, Any]] = {}
    asked = list(dict.fromkeys(keys))
    for at in range(0, len(asked), BATCH_KEYS):
        for raw in await _portion(items, model, asked[at : at + BATCH_KEYS], shown):
            found[raw[schema.partition_key]["S"], raw[schema.sort_key]["S"]] = raw
    return found


async def _portion(
    items: Items, model: type[Item], keys: Sequence[Key], fields: Sequence[str]
) -> list[Mapping[str, Any]]:
    """At most 100. What a batch leaves over is read one by one: such requests are tried again when throttled."""
    got: list[Mapping[str, Any]] = []
    if len(keys) > 1:
        reply = await requests.batch_get(model, keys, fields=fields)
        got = [raw for found in reply.get("Responses", {}).values() for raw in found]
        left = (reply.get("UnprocessedKeys") or {}).values()
        schema = items.schema
        keys = [(raw[schema.partition_key]["S"], raw[schema.sort_key]["S"]) for one in left for raw in one["Keys"]]
    for pk, sk in keys:
        raw = (await requests.get(model, pk, sk)).get("Item")
        got += [raw] if raw else []
    return got
