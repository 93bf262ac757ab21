"""Plain Python items as DynamoDB's typed ones."""

from __future__ import annotations

from typing import Any

from boto3.dynamodb.types import TypeSerializer

from ..errors import InputRefusedError

_TYPES = frozenset({"S", "N", "B", "SS", "NS", "BS", "M", "L", "NULL", "BOOL"})
_serializer = TypeSerializer()


def to_typed(item: dict[str, Any]) -> dict[str, Any]:
    """The item as boto3's low-level client takes it; one that is typed already is left as it is.

    An item always has a key, and a key is never a map: so an item whose every value is a one-entry map is a typed one.

    >>> to_typed({"pk": "a", "n": 1})
    {'pk': {'S': 'a'}, 'n': {'N': '1'}}
    >>> to_typed({"pk": {"S": "a"}})
    {'pk': {'S': 'a'}}

    Raises:
        InputRefusedError: a value that DynamoDB has no type for, such as a float.
    """
    if all(isinstance(value, dict) and len(value) == 1 and value.keys() <= _TYPES for value in item.values()):
        return item
    typed = {}
    for name, value in item.items():
        try:
            typed[name] = _serializer.serialize(value)
        except TypeError as error:
            raise InputRefusedError(f"attribute {name!r} of an item: {error}") from None
    return typed
