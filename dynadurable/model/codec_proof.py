"""The proof, before a value is written, that its classes give back what they were given.

Dataclasses and named tuples are rebuilt by calling their class, which may do as it likes: change a field in
``__post_init__``, take arguments that are not fields, compare by something that is not stored. So a value with such
parts is rebuilt once. It passes when the copy would be written as the same text, compares equal, and has the same
attributes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from dynadurable.errors import PayloadRefusedError
from dynadurable.model.codec_class import class_label, is_named_tuple
from dynadurable.model.codec_place import Place, refuse
from dynadurable.model.codec_tags import from_tagged_text, reason_of
from dynadurable.model.codec_tree import TreeWriter, to_text


def proven_text(value: Any, place: Place | str) -> str:
    """``value`` as tagged JSON text that is known to give it back.

    Raises:
        PayloadRefusedError: a part cannot come back equal and of the same type; names the innermost such part.
    """
    writer = TreeWriter()
    text = to_text(writer.tree(value, place))
    if not writer.has_instances:
        return text
    problem = _problem(value, place, writer, text)
    # NaN is never equal to its copy, so what has NaN in it is compared part by part.
    if problem or writer.has_nan:
        for part_place, part in _parts(value, place):
            proven_text(part, part_place)
    if problem:
        raise refuse(place, problem)
    return text


def _problem(value: Any, place: Place | str, writer: TreeWriter, text: str) -> str | None:
    label = class_label(type(value))
    try:
        copy = from_tagged_text(text)
        again = TreeWriter()
        changed = to_text(again.tree(copy, place)) != text
        equal = writer.has_nan or bool(value == copy)
    except RecursionError:
        raise
    except PayloadRefusedError as error:
        return f"{label}, rebuilt from its fields, cannot be written again: {error}"
    except Exception as error:  # noqa: BLE001 - classes may raise anything
        return f"{label} cannot be rebuilt from its fields ({reason_of(error)})"
    if changed:
        return f"{label}, rebuilt from its fields, is another value; does its __post_init__ change what it is given?"
    if not equal:
        return f"{label}, rebuilt from its fields, does not compare equal (see its __eq__)"
    for path, names in writer.loose.items():
        lost = sorted(names - again.loose.get(path, frozenset()))
        if lost:
            return f"its attribute {lost[0]!r} is not a field, so it would be lost"
    return None


def _parts(value: Any, place: Place | str) -> Iterator[tuple[Place, Any]]:
    kind = type(value)
    if kind is dict:
        for key, item in value.items():
            yield Place(place, "key", key), key
            yield Place(place, "item", key), item
    elif kind is list or kind is tuple:
        for index, item in enumerate(value):
            yield Place(place, "item", index), item
    elif kind is set or kind is frozenset:
        for item in value:
            yield Place(place, "element", item), item
    elif dataclasses.is_dataclass(kind):
        for field in dataclasses.fields(kind):
            yield Place(place, "field", field.name), getattr(value, field.name)
    elif is_named_tuple(kind):
        for name in kind._fields:
            yield Place(place, "field", name), getattr(value, name)
