"""What an examination of a table has found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

OK = "ok"
NOTE = "note"
WARNING = "warning"
PROBLEM = "problem"
LEVELS = (OK, NOTE, WARNING, PROBLEM)


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One thing that was looked at: what is the matter, and what to do about it."""

    check: str
    level: str
    text: str
    remedy: str | None = None
    repaired: bool = False

    def mended(self) -> Self:
        """The same after it was put right."""
        return replace(self, repaired=True)

    def to_record(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "check": self.check,
            "level": self.level,
            "text": self.text,
            "remedy": self.remedy,
            "repaired": self.repaired,
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class Examination:
    """All findings, in the order in which things were looked at."""

    findings: Sequence[Finding]

    @property
    def worst(self) -> str:
        """The level of the worst finding that was not put right.

        >>> Examination(findings=[Finding(check="keys", level=PROBLEM, text="", repaired=True)]).worst
        'ok'
        """
        return max((one.level for one in self.findings if not one.repaired), key=LEVELS.index, default=OK)

    @property
    def healthy(self) -> bool:
        """Whether there is no problem (left)."""
        return self.worst != PROBLEM

    def to_record(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "healthy": self.healthy,
            "worst": self.worst,
            "findings": [finding.to_record() for finding in self.findings],
        }
