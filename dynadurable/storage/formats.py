"""Items of a newer format, or damaged ones: recognised, left alone, and said so.

Rule for every future version: whoever writes any part of a run in a newer format raises the format number of the run
item too. So an older library that looks at the run knows that it must not touch its parts.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from pynamodb.expressions.condition import Condition

from ..errors import ItemUnreadableError, NewerFormatError
from .items import FORMAT_VERSION, Item, is_ours

log = logging.getLogger("dynadurable.storage")

Raw = Mapping[str, Any]
ItemType = TypeVar("ItemType", bound=Item)
MAX_WARNINGS = 1_000
_warned: set[str] = set()


def version_of(raw: Raw) -> int:
    """The format number that the item carries; 0 for what is not ours."""
    number = raw.get("dd_v", {}).get("N", "")
    return int(number) if number.isdigit() else 0


def is_newer(raw: Raw) -> bool:
    """Whether a newer version of this library wrote it."""
    return version_of(raw) > FORMAT_VERSION


def checked(raw: Raw | None, what: str) -> Raw | None:
    """The item, if it is there and ours.

    Raises:
        NewerFormatError: it was written by a newer version.
    """
    if raw and is_newer(raw):
        raise NewerFormatError(what, version=version_of(raw))
    return raw if raw and is_ours(raw) else None


def readable(raws: Iterable[Raw], what: str) -> list[Raw]:
    """Those that this version may look into. If there are newer ones among them, a warning says so, once."""
    kept = []
    for raw in raws:
        if is_ours(raw):
            kept.append(raw)
        elif is_newer(raw):
            warn(NewerFormatError(what, version=version_of(raw)))
    return kept


def models(model: type[ItemType], raws: Iterable[Raw], what: str, *, whole: bool = True) -> list[ItemType]:
    """Those that this version can read. If there are others among them, a warning says so, once.

    ``whole``: they were read with all their attributes.
    """
    found = []
    for raw in readable(raws, what):
        try:
            item = model.from_raw_data(dict(raw))
            if whole:
                item.check_whole()
            found.append(item)
        except ItemUnreadableError as error:
            warn(error)
    return found


def warn(error: ItemUnreadableError) -> None:
    """Say once that something was left alone."""
    if error.what not in _warned and len(_warned) < MAX_WARNINGS:
        _warned.add(error.what)
        log.warning("%s", error)


def not_newer(model: type[Item]) -> Condition:
    """A clause: the item was not written by a newer version. It closes the gap between a look and a write."""
    condition: Condition = model.version <= FORMAT_VERSION
    return condition
