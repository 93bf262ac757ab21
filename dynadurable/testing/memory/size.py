"""How many bytes an item in canonical form takes.

The rules are DynamoDB's: names and texts in UTF-8 bytes, binaries as they are, numbers by pairs of digits, 3 bytes
for a list or map and 1 more for each of its members.
"""

from __future__ import annotations

from dynadurable.testing.memory import number
from dynadurable.testing.memory.value import Item, Value

ITEM_BYTES = 400 * 1024


def of_item(item: Item) -> int:
    """The bytes of an item.

    >>> of_item({"pk": {"S": "é"}, "n": {"N": "12"}})
    7
    """
    return sum([of_attribute(name, value) for name, value in item.items()])


def of_attribute(name: str, value: Value) -> int:
    """The bytes of one attribute: its name and its value."""
    return _of_text(name) + of_value(value)


def of_value(value: Value) -> int:
    """The bytes of a canonical value."""
    ((kind, content),) = value.items()
    if kind == "S":
        return _of_text(content)
    if kind == "N":
        return number.to_size(content)
    if kind == "B":
        return len(content)
    if kind == "M":
        return 3 + sum([1 + of_attribute(name, member) for name, member in content.items()])
    if kind == "L":
        return 3 + sum([1 + of_value(member) for member in content])
    if kind in ("BOOL", "NULL"):
        return 1
    return sum([of_value({kind[0]: member}) for member in content])


def _of_text(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())
