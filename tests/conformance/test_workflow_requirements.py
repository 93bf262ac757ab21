"""The table of requirements is complete, and names tests that exist."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.conformance.workflow_requirements import COUNTS, REQUIREMENTS

FOLDER = Path(__file__).parents[1] / "workflow"


def test_every_requirement_has_its_line() -> None:
    expected = [f"{suite}-{number}" for suite, count in COUNTS.items() for number in range(1, count + 1)]
    assert list(REQUIREMENTS) == expected


@pytest.mark.parametrize("where", sorted(set(REQUIREMENTS.values())))
def test_it_is_shown_or_does_not_apply(where: str) -> None:
    if where.startswith("n/a: "):
        assert len(where) > 20
        return
    file, _, name = where.partition("::")
    tree = ast.parse((FOLDER / f"{file}.py").read_text())
    assert name in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
