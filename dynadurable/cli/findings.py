"""Findings as people are shown them."""

from __future__ import annotations

from ..model.finding import Examination
from .text import show_table


def show_findings(examination: Examination) -> None:
    """A row for each: what was looked at, how it is, and what to do about it."""
    rows = []
    for finding in examination.findings:
        level = f"{finding.level}, repaired" if finding.repaired else finding.level
        remedy = None if finding.repaired else finding.remedy
        rows.append((finding.check, level, " ".join(part for part in (finding.text, remedy) if part)))
    show_table(("check", "state", "finding"), rows)
