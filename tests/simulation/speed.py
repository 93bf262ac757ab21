"""Makes seeds cheaper without making them weaker: models are made from items by a table that is built once.

For each item that PynamoDB makes or reads it goes through all attributes of the model, of which most are absent. That
was a fifth of the cost of a seed.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any
from unittest import mock

from pynamodb.attributes import AttributeContainer, NumberAttribute, UnicodeAttribute

from dynadurable.storage.items import Item

Reader = Callable[[Any], Any]


@lru_cache(maxsize=256)
def _defaults(model: type[Item]) -> dict[str, Any]:
    return {name: one.default for name, one in model.get_attributes().items() if one.default is not None}


@lru_cache(maxsize=256)
def _readers(model: type[Item]) -> dict[str, tuple[str, str, Reader]]:
    """By an attribute's name in the table: its name in the model, its type, and what reads it."""
    readers: dict[str, tuple[str, str, Reader]] = {}
    for name, attribute in model.get_attributes().items():
        kind = type(attribute)
        read: Reader = attribute.deserialize
        if kind is UnicodeAttribute:
            read = str
        elif kind is NumberAttribute:
            read = _number
        readers[attribute.attr_name or name] = (name, attribute.attr_type, read)
    return readers


def _number(text: str) -> int | float:
    return int(text) if text.lstrip("-").isdigit() else float(text)


def _set_defaults(self: Item, _user_instantiated: bool = True) -> None:
    self.attribute_values.update(_defaults(type(self)))


def _container_deserialize(self: Item, attribute_values: dict[str, dict[str, Any]]) -> None:
    values = self.attribute_values = dict(_defaults(type(self)))
    readers = _readers(type(self))
    for stored, raw in attribute_values.items():
        if stored in readers:
            name, kind, read = readers[stored]
            values[name] = read(raw[kind])


@contextlib.contextmanager
def quick_models() -> Iterator[None]:
    """For the time of a seed. No garbage is collected meanwhile either: a seed makes little."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        with (
            mock.patch.object(Item, "_set_defaults", _set_defaults),
            mock.patch.object(AttributeContainer, "_container_deserialize", _container_deserialize),
        ):
            yield
    finally:
        if was_on:
            gc.enable()
