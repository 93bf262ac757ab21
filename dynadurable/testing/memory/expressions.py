"""All expressions of one request, compiled once for each text and kept."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from dynadurable.testing.memory import condition, projection, update, value
from dynadurable.testing.memory.mutation import Mutation
from dynadurable.testing.memory.parser import Parser
from dynadurable.testing.memory.predicate import Check, Predicate, Values, to_checks, to_predicate
from dynadurable.testing.memory.refusal import RefusalError, invalid
from dynadurable.testing.memory.syntax import (
    Between,
    Both,
    Compare,
    Condition,
    Either,
    Elements,
    Negation,
    Operand,
    Path,
    SizeOf,
    Test,
    Within,
)

CACHED_REQUEST_SHAPES = 4096

SLOTS = (
    "UpdateExpression",
    "ConditionExpression",
    "KeyConditionExpression",
    "FilterExpression",
    "ProjectionExpression",
)

_PLACEHOLDER = re.compile(r"[#:][A-Za-z0-9_]+", re.ASCII)


@dataclass(frozen=True, kw_only=True, slots=True)
class Expressions:
    """What the expressions of a request say; None for those that it does not have.

    ``filtered`` names the attributes that the filter looks at.
    """

    mutation: Mutation | None = None
    condition: Predicate | None = None
    filter: Predicate | None = None
    filtered: frozenset[str] = frozenset()
    key_condition: Condition | None = None
    projection: tuple[Elements, ...] | None = None
    checks: tuple[Check, ...] = ()
    used_values: frozenset[str] = frozenset()

    def to_values(self, params: Mapping[str, Any]) -> Values:
        """The request's values: canonical, each used by an expression, each of a type that its place allows.

        Raises:
            RefusalError: a value is missing, unused, of a wrong type or no value at all.
        """
        raw = params.get("ExpressionAttributeValues")
        if raw is None:
            if self.used_values:
                raise _undefined(self.used_values)
            return _NO_VALUES
        if not raw:
            raise invalid("ExpressionAttributeValues must not be empty")
        if raw.keys() != self.used_values:
            self._refuse_names(raw)
        try:
            values = {ref: value.to_value(content) for ref, content in raw.items()}
        except value.ValueRefusedError as error:
            raise invalid(f"ExpressionAttributeValues contains invalid value: {error}") from None
        for check in self.checks:
            check(values)
        return values

    def _refuse_names(self, raw: Mapping[str, Any]) -> None:
        _placeholders("ExpressionAttributeValues", raw, ":")
        missing = self.used_values.difference(raw)
        if missing:
            raise _undefined(missing)
        unused = sorted(set(raw) - self.used_values)
        raise invalid(f"Value provided in ExpressionAttributeValues unused in expressions: keys: {unused}")


_NO_VALUES: Values = {}


def compiled(params: Mapping[str, Any]) -> Expressions:
    """The compiled expressions of a request.

    Raises:
        RefusalError: one of them breaks a rule.
    """
    names = params.get("ExpressionAttributeNames")
    texts = [params.get(slot) for slot in SLOTS]
    try:
        return _compiled(*texts, None if names is None else tuple(names.items()))
    except TypeError:
        if all(isinstance(text, str) for text in (*filter(None, texts), *(names or {}).values())):
            raise
        raise invalid("Expressions and ExpressionAttributeNames hold text") from None


@dataclass(slots=True)
class _Used:
    """What the expressions of a request refer to, all together."""

    names: set[str] = field(default_factory=set)
    values: set[str] = field(default_factory=set)

    def add(self, parser: Parser) -> None:
        self.names |= parser.used_names
        self.values |= parser.used_values


@lru_cache(maxsize=CACHED_REQUEST_SHAPES)
def _compiled(
    update_text: str | None,
    condition_text: str | None,
    key_condition_text: str | None,
    filter_text: str | None,
    projection_text: str | None,
    alias_pairs: tuple[tuple[str, str], ...] | None,
) -> Expressions:
    names = _to_names(alias_pairs)
    used = _Used()

    def parsed(slot: str, text: str | None, parse: Any) -> Any:
        if text is None:
            return None
        parser = Parser(slot, text, names)
        tree = parse(parser)
        used.add(parser)
        return tree

    change = parsed("UpdateExpression", update_text, update.parse)
    conditions: list[Condition | None] = [
        parsed("ConditionExpression", condition_text, condition.parse),
        parsed("KeyConditionExpression", key_condition_text, condition.parse),
        parsed("FilterExpression", filter_text, condition.parse),
    ]
    paths = parsed("ProjectionExpression", projection_text, projection.parse)
    unused = sorted(set(names) - used.names)
    if unused:
        raise invalid(f"Value provided in ExpressionAttributeNames unused in expressions: keys: {unused}")
    mutation = None if change is None else Mutation(change)
    checks = [check for tree in conditions if tree is not None for check in to_checks(tree)]
    return Expressions(
        mutation=mutation,
        condition=None if conditions[0] is None else to_predicate(conditions[0]),
        key_condition=conditions[1],
        filter=None if conditions[2] is None else to_predicate(conditions[2]),
        filtered=frozenset() if conditions[2] is None else frozenset(_attributes(conditions[2])),
        projection=paths,
        checks=(*(mutation.checks if mutation else ()), *checks),
        used_values=frozenset(used.values),
    )


def _to_names(pairs: tuple[tuple[str, str], ...] | None) -> dict[str, str]:
    if pairs is None:
        return {}
    names = dict(pairs)
    if not names:
        raise invalid("ExpressionAttributeNames must not be empty")
    _placeholders("ExpressionAttributeNames", names, "#")
    try:
        return {alias: value.to_name(name) for alias, name in names.items()}
    except value.ValueRefusedError as error:
        raise invalid(f"ExpressionAttributeNames contains invalid value: {error}") from None


def _placeholders(slot: str, given: Mapping[str, Any], mark: str) -> None:
    for placeholder in given:
        if placeholder[:1] != mark or not _PLACEHOLDER.fullmatch(placeholder):
            raise invalid(f"{slot} contains invalid key: Syntax error; key: {placeholder!r}")


def _undefined(refs: frozenset[str]) -> RefusalError:
    return invalid(f"An expression attribute value used in expression is not defined: {sorted(refs)}")


def _attributes(tree: Condition) -> Iterator[str]:
    """The names of the attributes that a condition looks at."""
    match tree:
        case Both() | Either():
            yield from _attributes(tree.left)
            yield from _attributes(tree.right)
        case Negation():
            yield from _attributes(tree.condition)
        case Compare():
            yield from _named(tree.left, tree.right)
        case Between():
            yield from _named(tree.operand, tree.low, tree.high)
        case Within():
            yield from _named(tree.operand, *tree.choices)
        case Test():
            yield from _named(*tree.arguments)


def _named(*operands: Operand) -> Iterator[str]:
    for operand in operands:
        path = operand.path if isinstance(operand, SizeOf) else operand
        if isinstance(path, Path):
            yield str(path.elements[0])
