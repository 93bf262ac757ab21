"""What a person is shown: tables, times, and text made safe for a terminal."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..model.moments import relative

WIDE = 240  # columns where the output is no terminal: then nothing is cut
WHOLE = frozenset({"run", "cause"})
"""Columns that are never wrapped."""
_KEPT = "\n\t"


def plain(text: str) -> str:
    r"""The text without what a terminal would obey: control characters and lone surrogates are spelled out.

    >>> plain("red \x1b[31m alert")
    'red \\x1b[31m alert'
    """
    shown = "".join(one if one in _KEPT or one.isprintable() else one.encode("unicode_escape").decode() for one in text)
    return shown.encode("utf-8", "backslashreplace").decode()


def console() -> Console:
    """Standard output."""
    return Console(highlight=False, markup=False, emoji=False, width=None if sys.stdout.isatty() else WIDE)


def say(text: str) -> None:
    """A line for people."""
    console().print(Text(plain(text)))


def show_json(value: Any) -> None:
    """A document for machines. In ASCII, so that every pipe can carry it."""
    print(json.dumps(value, indent=2))


def show_table(columns: Sequence[str], rows: Sequence[Sequence[str | None]], *, right: Sequence[str] = ()) -> None:
    """Rows for people. What is long is wrapped, not cut; ids stay whole, so that they can be copied."""
    table = Table(box=SIMPLE, pad_edge=False, show_edge=False, header_style="bold")
    for name in columns:
        table.add_column(name, overflow="fold", justify="right" if name in right else "left", no_wrap=name in WHOLE)
    for row in rows:
        table.add_row(*(Text(plain(cell or "")) for cell in row))
    console().print(table)


def show_facts(facts: Mapping[str, str | None]) -> None:
    """Names and values, one to a line; what has no value is left out."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts.items():
        if value:
            table.add_row(name, Text(plain(value)))
    console().print(table)


def when(instant: datetime | None, now: datetime) -> str | None:
    """An instant in a table: how far away it is."""
    return None if instant is None else relative(instant, now)


def exactly(instant: datetime | None, now: datetime) -> str | None:
    """An instant where there is room: itself, and how far away it is."""
    return None if instant is None else f"{instant:%Y-%m-%d %H:%M:%S} UTC ({relative(instant, now)})"
