"""Plans that place many new runs with few requests.

BatchWriteItem puts without a condition. So a batch that may have been applied is not sent again: what it put may have
been claimed meanwhile, and a second put would undo the claim. Its items are then put one by one, each only if absent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import ConditionFailedError, StoreUnavailableError
from . import requests
from .births import Newborn
from .items import Item, Items

BATCH_ITEMS = 25


async def place(items: Items, newborns: Sequence[Newborn]) -> list[bool]:
    """Place at most 25 runs without keys: their marks, then the pages and run items of those that have them.

    Gives for each whether it is stored. A mark whose run could not be put is taken for abandoned and goes by itself.
    """
    stored = await _put_all(items, [born.mark for born in newborns])
    await _follow(items, [born.page for born in newborns], stored)
    await _follow(items, [born.run for born in newborns], stored)
    return stored


async def _follow(items: Items, following: Sequence[Item | None], stored: list[bool]) -> None:
    """Put what belongs to those that are stored so far; notes in ``stored`` what could not be put."""
    new = [(place, item) for place, item in enumerate(following) if item is not None and stored[place]]
    if new:
        for (place, _), is_stored in zip(new, await _put_all(items, [item for _, item in new]), strict=True):
            stored[place] = is_stored


async def _put_all(items: Items, new: Sequence[Item]) -> list[bool]:
    try:
        reply = await requests.batch_put(new)
    except StoreUnavailableError:
        return await _put_one_by_one(new)
    left = {_key(items, write["PutRequest"]["Item"]) for write in _unprocessed(reply)}
    return [(item.pk, item.sk) not in left for item in new]


async def _put_one_by_one(new: Sequence[Item]) -> list[bool]:
    """Keys are unique, so what stands there already is what this very batch has put."""
    stored: list[bool] = []
    for item in new:
        try:
            await requests.put(item, type(item).pk.does_not_exist())
        except ConditionFailedError:
            pass
        except StoreUnavailableError:
            return [*stored, *[False] * (len(new) - len(stored))]  # the others would fare no better
        stored.append(True)
    return stored


def _unprocessed(reply: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [write for writes in (reply.get("UnprocessedItems") or {}).values() for write in writes]


def _key(items: Items, raw: Mapping[str, Any]) -> tuple[str, str]:
    return raw[items.schema.partition_key]["S"], raw[items.schema.sort_key]["S"]
