"""What IAM would say: a small evaluator for the statements that grants consist of.

It knows what they use (``Allow``, exact actions and resources, ``ForAllValues:StringLike`` on leading keys, ``Null``,
``StringEquals``) and refuses to judge anything else, so that no statement passes unread.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

LEADING_KEYS = "dynamodb:LeadingKeys"


@dataclass(frozen=True, kw_only=True)
class Request:
    """One request as IAM sees it: an element of a transaction is a request of its own."""

    action: str
    resource: str
    leading_keys: Sequence[str] = ()


def allowed(statements: Iterable[Mapping[str, Any]], request: Request) -> bool:
    return any(matches(statement, request) for statement in statements)


def matches(statement: Mapping[str, Any], request: Request) -> bool:
    assert set(statement) <= {"Effect", "Action", "Resource", "Condition"}, f"not understood: {statement}"
    assert statement["Effect"] == "Allow"
    return (
        request.action in as_list(statement["Action"])
        and request.resource in as_list(statement["Resource"])
        and all(_holds(operator, tests, request) for operator, tests in statement.get("Condition", {}).items())
    )


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _holds(operator: str, tests: Mapping[str, Any], request: Request) -> bool:
    assert set(tests) == {LEADING_KEYS}, f"not understood: {tests}"
    if operator == "Null":
        assert tests[LEADING_KEYS] == "false"
        return bool(request.leading_keys)
    assert operator == "ForAllValues:StringLike", f"not understood: {operator}"
    patterns = [string_like(pattern) for pattern in as_list(tests[LEADING_KEYS])]
    return all(any(pattern.fullmatch(key) for pattern in patterns) for key in request.leading_keys)


def string_like(pattern: str) -> re.Pattern[str]:
    """IAM's wildcards; ``${*}``, ``${?}`` and ``${$}`` stand for the characters themselves."""
    parts = re.split(r"(\$\{[*?$]\}|\*|\?)", pattern)
    wild = {"*": ".*", "?": "."}
    return re.compile(
        "".join(wild.get(part) or re.escape(part[2] if part.startswith("${") else part) for part in parts), re.DOTALL
    )
