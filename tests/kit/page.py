"""docs/testing.md, for the tests of what it shows."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "testing.md"


def blocks(kind: str) -> list[str]:
    """The fenced blocks of that language, in order."""
    text = PAGE.read_text(encoding="utf-8")
    return [body for language, body in re.findall(r"```(\w*)\n(.*?)```", text, re.DOTALL) if language == kind]


def assert_shown(report: str, shown: str) -> None:
    """Each line that the page shows is one of the report; ``...`` stands for the others."""
    lines = {line.strip() for line in report.splitlines()}
    assert [line for line in shown.splitlines() if line.strip() not in (*lines, "...")] == []
