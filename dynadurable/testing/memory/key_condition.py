"""Key conditions: the partition and the range of sort keys that a Query reads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from dynadurable.testing.memory.refusal import RefusalError, invalid
from dynadurable.testing.memory.syntax import Between, Both, Compare, Condition, Literal, Operand, Path, Test

_MIRRORED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True, kw_only=True, slots=True)
class KeyRange:
    """What a Query reads: ``operator`` is ``""`` for a whole partition; the names of values stand for the values."""

    hash_ref: str
    operator: str = ""
    range_refs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Part:
    """One condition on one attribute."""

    name: str
    operator: str
    refs: tuple[str, ...]


@lru_cache(maxsize=1024)
def to_key_range(condition: Condition, hash_name: str, range_name: str | None) -> KeyRange:
    """The range that a parsed key condition means for a table with these keys.

    Raises:
        RefusalError: not an equality on the partition key with at most one condition on the sort key.
    """
    parts: dict[str, _Part] = {}
    for part in _parts(condition):
        if part.name in parts:
            raise invalid("KeyConditionExpressions must only contain one condition per key")
        parts[part.name] = part
    hash_part = parts.pop(hash_name, None)
    if hash_part is None:
        raise invalid(f"Query condition missed key schema element: {hash_name}")
    if hash_part.operator != "=":
        raise invalid("Query key condition not supported")
    range_part = parts.pop(range_name, None) if range_name is not None else None
    if parts:
        raise invalid(f"Query condition missed key schema element: {range_name}")
    if range_part is None:
        return KeyRange(hash_ref=hash_part.refs[0])
    return KeyRange(hash_ref=hash_part.refs[0], operator=range_part.operator, range_refs=range_part.refs)


def _parts(condition: Condition) -> Iterator[_Part]:
    match condition:
        case Both(left, right):
            yield from _parts(left)
            yield from _parts(right)
        case Compare(operator, Path() as path, Literal(ref)) if operator in _MIRRORED:
            yield _Part(_name(path), operator, (ref,))
        case Compare(operator, Literal(ref), Path() as path) if operator in _MIRRORED:
            yield _Part(_name(path), _MIRRORED[operator], (ref,))
        case Between(Path() as path, Literal(low), Literal(high)):
            yield _Part(_name(path), "BETWEEN", (low, high))
        case Test("begins_with", (Path() as path, Literal(prefix))):
            yield _Part(_name(path), "begins_with", (prefix,))
        case _:
            raise _not_supported()


def _name(path: Operand) -> str:
    assert isinstance(path, Path)
    name, *nested = path.elements
    if nested:
        raise invalid("KeyConditionExpressions cannot have conditions on nested attributes")
    return str(name)


def _not_supported() -> RefusalError:
    return invalid("Invalid operator used in KeyConditionExpression")
