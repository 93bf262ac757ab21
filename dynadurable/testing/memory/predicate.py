"""Conditions made into functions: one call decides whether an item meets the condition.

A comparison with something absent is false (``<>`` is true), one between different types too. Values given with the
request are checked before any item is looked at, as DynamoDB does.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from dynadurable.testing.memory import document, value
from dynadurable.testing.memory.refusal import invalid
from dynadurable.testing.memory.syntax import (
    Between,
    Both,
    Compare,
    Condition,
    Either,
    Literal,
    Negation,
    Operand,
    Path,
    SizeOf,
    Test,
    Within,
)
from dynadurable.testing.memory.value import ORDERED, TYPES, Item, Value

Values = Mapping[str, Value]
Predicate = Callable[[Item, Values], bool]
Source = Callable[[Item, Values], Value | None]
Check = Callable[[Values], None]

_ORDERINGS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def to_predicate(condition: Condition) -> Predicate:
    """The function that decides whether an item meets the condition."""
    match condition:
        case Both():
            left, right = to_predicate(condition.left), to_predicate(condition.right)
            return lambda item, values: left(item, values) and right(item, values)
        case Either():
            left, right = to_predicate(condition.left), to_predicate(condition.right)
            return lambda item, values: left(item, values) or right(item, values)
        case Negation():
            inner = to_predicate(condition.condition)
            return lambda item, values: not inner(item, values)
        case Compare():
            return _compare(condition)
        case Between():
            return _between(condition)
        case Within():
            return _within(condition)
        case Test():
            return _test(condition)


def to_checks(condition: Condition) -> Iterator[Check]:
    """The checks on the values that come with a request."""
    match condition:
        case Both() | Either():
            yield from to_checks(condition.left)
            yield from to_checks(condition.right)
        case Negation():
            yield from to_checks(condition.condition)
        case Compare() if condition.operator in _ORDERINGS:
            yield from _types(condition.operator, ORDERED, condition.left, condition.right)
        case Between():
            yield from _types("BETWEEN", ORDERED, condition.operand, condition.low, condition.high)
            if isinstance(condition.low, Literal) and isinstance(condition.high, Literal):
                yield _bounds(condition.low.ref, condition.high.ref)
        case Test("begins_with"):
            yield from _types("begins_with", frozenset({"S", "B"}), *condition.arguments)
        case Test("attribute_type", (_, Literal(ref))):
            yield _type_name(ref)
        case _:
            pass


# --- operands -------------------------------------------------------------------------------------


def _source(operand: Operand) -> Source:
    match operand:
        case Literal(ref):
            return lambda _item, values: values[ref]
        case Path((str(name),)):
            return lambda item, _values: item.get(name)
        case Path(elements):
            return lambda item, _values: document.find(item, elements)
        case SizeOf(path):
            elements = path.elements
            return lambda item, _values: _size(document.find(item, elements))


def _size(found: Value | None) -> Value | None:
    if found is None:
        return None
    ((kind, content),) = found.items()
    if kind in ("N", "BOOL", "NULL"):
        return None
    if kind == "S" and not content.isascii():
        return {"N": str(len(content.encode("utf-16-le")) // 2)}  # DynamoDB counts UTF-16 units
    return {"N": str(len(content))}


def _ordered(holds: Callable[[Any, Any], bool], left: Value | None, right: Value | None) -> bool:
    if left is None or right is None:
        return False
    ((left_kind, left_content),) = left.items()
    ((right_kind, right_content),) = right.items()
    if left_kind != right_kind or left_kind not in ORDERED:
        return False
    if left_kind == "N":
        return holds(value.to_order(left), value.to_order(right))
    return holds(left_content, right_content)


# --- conditions -----------------------------------------------------------------------------------


def _compare(condition: Compare) -> Predicate:
    left, right = _source(condition.left), _source(condition.right)
    if condition.operator == "=":
        return lambda item, values: (found := left(item, values)) is not None and found == right(item, values)
    if condition.operator == "<>":
        return lambda item, values: (found := left(item, values)) is None or found != right(item, values)
    holds = _ORDERINGS[condition.operator]
    return lambda item, values: _ordered(holds, left(item, values), right(item, values))


def _between(condition: Between) -> Predicate:
    operand, low, high = _source(condition.operand), _source(condition.low), _source(condition.high)

    def between(item: Item, values: Values) -> bool:
        found = operand(item, values)
        return _ordered(operator.ge, found, low(item, values)) and _ordered(operator.le, found, high(item, values))

    return between


def _within(condition: Within) -> Predicate:
    operand, choices = _source(condition.operand), [_source(choice) for choice in condition.choices]

    def within(item: Item, values: Values) -> bool:
        found = operand(item, values)
        return found is not None and any(found == choice(item, values) for choice in choices)

    return within


def _test(condition: Test) -> Predicate:
    first = _source(condition.arguments[0])
    if condition.function == "attribute_exists":
        return lambda item, values: first(item, values) is not None
    if condition.function == "attribute_not_exists":
        return lambda item, values: first(item, values) is None
    second = _source(condition.arguments[1])
    holds = _PAIRS[condition.function]

    def test(item: Item, values: Values) -> bool:
        left, right = first(item, values), second(item, values)
        return left is not None and right is not None and holds(left, right)

    return test


def _is_type(found: Value, wanted: Value) -> bool:
    return bool(wanted["S"] in found)


def _begins_with(found: Value, prefix: Value) -> bool:
    ((kind, content),) = found.items()
    return kind in ("S", "B") and kind in prefix and content.startswith(prefix[kind])


def _contains(found: Value, sought: Value) -> bool:
    ((kind, content),) = found.items()
    if kind == "L":
        return sought in content
    if kind in ("S", "B"):
        return kind in sought and sought[kind] in content
    return kind in value.SETS and kind[0] in sought and sought[kind[0]] in content


_PAIRS: dict[str, Callable[[Value, Value], bool]] = {
    "attribute_type": _is_type,
    "begins_with": _begins_with,
    "contains": _contains,
}


# --- checks of the values that come with a request --------------------------------------------------


def _types(name: str, allowed: frozenset[str], *operands: Operand) -> Iterator[Check]:
    refs = tuple(operand.ref for operand in operands if isinstance(operand, Literal))
    if not refs:
        return

    def check(values: Values) -> None:
        for ref in refs:
            if values[ref].keys().isdisjoint(allowed):
                raise invalid(f"Incorrect operand type for {name}; operand type: {value.to_kind(values[ref])}")

    yield check


def _bounds(low: str, high: str) -> Check:
    def check(values: Values) -> None:
        if values[low].keys() != values[high].keys():
            raise invalid("The BETWEEN operator requires same data type for lower and upper bounds")
        if not _ordered(operator.le, values[low], values[high]):
            raise invalid("The BETWEEN operator requires upper bound to be greater than or equal to lower bound")

    return check


def _type_name(ref: str) -> Check:
    def check(values: Values) -> None:
        if values[ref].get("S") not in TYPES:
            raise invalid(f"Invalid type name for attribute_type: {values[ref]}")

    return check
