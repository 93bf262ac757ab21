"""Writing: a value as data that JSON can hold, with tags for the rest. The tags are read by ``codec_tags``.

Types are matched exactly. A subclass of ``dict`` or ``int`` would come back as its base class, so it is refused rather
than changed; of classes only Enums, dataclasses and named tuples are kept.
"""

from __future__ import annotations

import base64
import dataclasses
import inspect
import json
import math
import uuid
from collections import deque
from collections.abc import Callable, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, Flag
from functools import cached_property
from typing import Any

from dynadurable.model.codec_class import class_label, is_named_tuple, stored_name
from dynadurable.model.codec_place import Place, refuse, render
from dynadurable.model.codec_tags import is_tag
from dynadurable.model.codec_time import moment_to_json

MAX_NESTING_LEVELS = 100  # containers in containers; each takes up to 3 JSON levels, well inside Python's own limit
MAX_PLAIN_INT = 2**1024  # larger ones are written in hexadecimal: Python limits the decimal digits it reads (4,300)

_to_text = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":"))
_to_sorted_text = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":"), sort_keys=True)


def to_text(tree: object, *, canonical: bool = False) -> str:
    """Compact JSON text; canonical text has its keys sorted."""
    return (_to_sorted_text if canonical else _to_text).encode(tree)


def is_plain(value: Any, levels: int = MAX_NESTING_LEVELS) -> bool:
    """Whether JSON alone keeps ``value`` exactly, with nothing to tag or to refuse. The common case, so it is quick."""
    kind = type(value)
    if kind is str or value is None or kind is bool:
        return True
    if kind is int:
        return bool(-MAX_PLAIN_INT < value < MAX_PLAIN_INT)
    if kind is float:
        return math.isfinite(value)
    if (kind is not dict and kind is not list) or levels == 0:
        return False
    # Loops, because a generator would cost twice the time and another frame of the call stack for each level.
    if kind is dict:
        for key in value:
            if type(key) is not str:
                return False
        value = value.values()
    for item in value:  # noqa: SIM110 - see above
        if not is_plain(item, levels - 1):
            return False
    return True


class TreeWriter:
    """Turns one value into a tree of JSON data, and remembers what the caller must know about it.

    ``has_instances``: a dataclass or named tuple is in it, whose class may change what it is given; ``has_nan``: it
    cannot equal its copy; ``loose``: attributes outside the fields, by path, which only the class itself can bring
    back. A canonical tree does not depend on the order of dict keys.
    """

    def __init__(self, *, canonical: bool = False) -> None:
        self.has_instances = False
        self.has_nan = False
        self.loose: dict[str, frozenset[str]] = {}
        self._canonical = canonical
        self._open: set[int] = set()  # ids of the containers around the present place

    def tree(self, value: Any, place: Place | str) -> Any:
        """``value`` as JSON data.

        Raises:
            PayloadRefusedError: a part cannot come back equal and of the same type; names its path.
        """
        kind = type(value)
        if kind is str or value is None or kind is bool:
            return value
        if kind in _SCALARS:
            return self._scalar(value, place)
        if issubclass(kind, Enum):
            return self._member(value, place)
        if id(value) in self._open:
            raise refuse(place, "the value contains itself (a cycle)")
        if len(self._open) >= MAX_NESTING_LEVELS:
            raise refuse(place, f"its nesting goes deeper than {MAX_NESTING_LEVELS} levels")
        self._open.add(id(value))
        tree = self._container(value, place)
        self._open.discard(id(value))
        return tree

    def _scalar(self, value: Any, place: Place | str) -> Any:
        self.has_nan = self.has_nan or _is_nan(value)
        try:
            return _SCALARS[type(value)](value)
        except ValueError as error:
            raise refuse(place, str(error)) from None

    def _container(self, value: Any, place: Place | str) -> Any:
        kind = type(value)
        if kind is dict:
            return self._dict(value, place)
        if kind is list or kind is tuple:
            items = [self.tree(item, Place(place, "item", index)) for index, item in enumerate(value)]
            return items if kind is list else {"$tuple": items}
        if kind is set or kind is frozenset:
            items = [self.tree(item, Place(place, "element", item)) for item in value]
            return {f"${kind.__name__}": sorted(items, key=self._text)}  # sorted: equal sets give equal bytes
        if dataclasses.is_dataclass(kind):
            return self._dataclass(value, place)
        if is_named_tuple(kind):
            return self._fields(value, kind._fields, place)
        raise refuse(place, f"{class_label(kind)} cannot come back as what it is; {_advice(value)}")

    def _dict(self, value: dict[Any, Any], place: Place | str) -> Any:
        if all(type(key) is str for key in value) and not is_tag(value):
            return {key: self.tree(item, Place(place, "item", key)) for key, item in value.items()}
        pairs = [
            (self.tree(key, Place(place, "key", key)), self.tree(item, Place(place, "item", key)))
            for key, item in value.items()
        ]
        if self._canonical:
            pairs.sort(key=lambda pair: self._text(pair[0]))
        return {"$dict": [part for pair in pairs for part in pair]}

    def _member(self, value: Any, place: Place | str) -> Any:
        cls, name = type(value), self._name(type(value), place)
        if isinstance(value, Flag):
            if not _leads_back(value):
                raise refuse(place, f"{class_label(cls)}({value._value_!r}) does not give this member")
            return {"$flag": [name, self.tree(value._value_, place)]}
        if cls.__members__.get(value._name_) is not value:
            raise refuse(place, f"{class_label(cls)} does not list this member by name")
        return {"$enum": [name, value._name_]}

    def _dataclass(self, value: Any, place: Place | str) -> Any:
        cls: Any = type(value)
        if cls.__eq__ is object.__eq__:
            raise refuse(place, f"{class_label(cls)} compares by identity (eq=False), so no copy can be equal")
        for base in _HOLDERS:
            if issubclass(cls, base):
                raise refuse(place, f"{class_label(cls)} holds more than its fields: it is also a {base.__name__}")
        return self._fields(value, [field.name for field in dataclasses.fields(cls)], place)

    def _fields(self, value: Any, names: Sequence[str], place: Place | str) -> Any:
        self.has_instances = True
        tree = {}
        for name in names:
            try:
                item = getattr(value, name)
            except Exception as error:  # a field that is not set, or a property that raises what it likes
                raise refuse(place, f"its field {name!r} cannot be read ({type(error).__name__})") from error
            tree[name] = self.tree(item, Place(place, "field", name))
        loose = _loose_attributes(value, names)
        if loose:
            self.loose[render(place)] = loose
        return {"$instance": [self._name(type(value), place), tree]}

    def _name(self, cls: type, place: Place | str) -> str:
        try:
            return stored_name(cls)
        except ValueError as error:
            raise refuse(place, str(error)) from None

    def _text(self, tree: object) -> str:
        return to_text(tree, canonical=self._canonical)


_SCALARS: dict[type, Callable[[Any], Any]] = {
    int: lambda value: value if -MAX_PLAIN_INT < value < MAX_PLAIN_INT else {"$int": f"{value:x}"},
    float: lambda value: value if math.isfinite(value) else {"$float": repr(value)},
    Decimal: lambda value: {"$decimal": str(value)},
    bytes: lambda value: {"$bytes": base64.b64encode(value).decode()},
    bytearray: lambda value: {"$bytearray": base64.b64encode(value).decode()},
    uuid.UUID: lambda value: {"$uuid": str(value)},
    datetime: lambda value: {"$datetime": moment_to_json(value)},
    date: lambda value: {"$date": value.isoformat()},
    time: lambda value: {"$time": moment_to_json(value)},
    timedelta: lambda value: {"$timedelta": [value.days, value.seconds, value.microseconds]},
}

_BASES: tuple[type, ...] = (str, *_SCALARS, dict, list, tuple, set, frozenset)

# What a dataclass may not be beside its fields, because calling the class with the fields would lose it.
_HOLDERS: tuple[type, ...] = (*_BASES, complex, deque, BaseException)


def _is_nan(value: object) -> bool:
    if isinstance(value, float):
        return math.isnan(value)
    return isinstance(value, Decimal) and value.is_nan()


def _leads_back(flag: Flag) -> bool:
    try:
        return type(flag)(flag._value_) is flag
    except ValueError:
        return False


def _loose_attributes(value: object, fields: Sequence[str]) -> frozenset[str]:
    """Names that ``value`` holds outside its fields, but for what Python keeps there itself and cached properties."""
    names = getattr(value, "__dict__", {}).keys() - set(fields)
    return frozenset(
        name
        for name in names
        if not name.startswith("__")
        and not isinstance(inspect.getattr_static(type(value), name, None), cached_property)
    )


def _advice(value: object) -> str:
    """What to pass instead of a value whose type is not kept."""
    kind = type(value)
    if kind.__module__.partition(".")[0] == "numpy":
        return "pass value.item() or value.tolist()"
    for base in _BASES:
        if issubclass(kind, base):
            return f"pass a plain {base.__name__}"
    if isinstance(value, type) or callable(value):
        return "pass a name that the job looks up"
    return "pass plain data, a dataclass, an Enum or a NamedTuple"
