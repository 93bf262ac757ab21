"""What the demo shows: rich on a terminal, plain lines elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from rich import box
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn
from rich.table import Table
from rich.text import Text

PLAIN_STEPS = 5
"""How often a bar says how far it is where it cannot be drawn."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """An item as it lies in the table: its keys, and what it says, in words."""

    pk: str
    sk: str
    says: Sequence[tuple[str, str]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """A line of the summary; ``good`` is ``None`` for what is only told."""

    what: str
    found: str
    good: bool | None = None


class Screen:
    """Prints the story as it goes on."""

    def __init__(self, console: Console) -> None:
        self._console = console
        fancy = console.encoding.lower().startswith("utf")
        self._tick, self._cross, self._dot = ("✔", "✘", "·") if fancy else ("ok", "NO", "-")

    def title(self, text: str, about: str) -> None:
        """What this is."""
        self._console.print()
        self._console.print(Text(text, style="bold"))
        self._console.print(Text(about, style="dim"))

    def step(self, number: int, text: str) -> None:
        """A new part of the story."""
        self._console.print()
        self._console.print(Text.assemble((f" {number} ", "reverse"), " ", (text, "bold")))

    def say(self, text: str, *, style: str = "") -> None:
        """A line, set in."""
        self._console.print(_set_in(Text(text, style=style)))

    def note(self, text: str) -> None:
        """Small print."""
        self._console.print()
        self.say(text, style="dim")

    def table_holds(self, rows: Sequence[Row]) -> None:
        """Items, as they lie in the table."""
        for row in rows:
            grid = Table.grid(padding=(0, 2))
            grid.add_column(style="dim", no_wrap=True)
            grid.add_column(overflow="fold")
            grid.add_row("pk", Text(row.pk, style="cyan"))
            grid.add_row("sk", Text(row.sk, style="cyan"))
            for name, value in row.says:
                grid.add_row(name, Text(value))
            self._console.print(_set_in(Panel(grid, box=box.ROUNDED, border_style="dim", expand=False)))

    def summary(self, lines: Sequence[Line]) -> None:
        """What was found out."""
        grid = Table.grid(padding=(0, 2))
        for no_wrap in (True, True, False):
            grid.add_column(no_wrap=no_wrap)
        for line in lines:
            sign = Text(self._dot, style="dim") if line.good is None else self._sign(good=line.good)
            grid.add_row(sign, line.what, Text(line.found, style="" if line.good is None else "bold"))
        self._console.print(_set_in(grid))

    def verdict(self, text: str, *, good: bool) -> None:
        """The last word."""
        self._console.print()
        self._console.print(Text(text, style="bold green" if good else "bold red"))

    @contextmanager
    def bar(self, text: str, total: int) -> Iterator[Bar]:
        """Shows how far something is. Lines that are said meanwhile stand above it."""
        if not self._console.is_terminal:
            yield _PlainBar(self, text, total)
            return
        columns = (
            TextColumn("    {task.description}"),
            BarColumn(bar_width=40),
            TextColumn("{task.completed:,.0f}/{task.total:,.0f}"),
            TaskProgressColumn(),
        )
        with Progress(*columns, console=self._console) as progress:
            yield _LiveBar(progress, progress.add_task(text, total=total))

    def _sign(self, *, good: bool) -> Text:
        return Text(self._tick, style="bold green") if good else Text(self._cross, style="bold red")


def _set_in(what: RenderableType) -> Padding:
    return Padding(what, (0, 0, 0, 4), expand=False)


class Bar:
    """How far something is."""

    done = 0

    def to(self, done: int) -> None:
        """So much is done now."""
        self.done = done

    def further(self, number: int) -> None:
        """So much more is done."""
        self.to(self.done + number)

    def about(self, text: str) -> None:
        """What is going on now."""


class _LiveBar(Bar):
    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress = progress
        self._task = task

    def to(self, done: int) -> None:
        super().to(done)
        self._progress.update(self._task, completed=done)

    def about(self, text: str) -> None:
        self._progress.update(self._task, description=text)


class _PlainBar(Bar):
    def __init__(self, screen: Screen, text: str, total: int) -> None:
        self._screen = screen
        self._text = text
        self._total = total
        self._said = 0

    def to(self, done: int) -> None:
        super().to(done)
        step = done * PLAIN_STEPS // max(1, self._total)
        if step > self._said:
            self._said = step
            self._screen.say(f"{self._text}: {done:,} of {self._total:,}", style="dim")

    def about(self, text: str) -> None:
        self._text = text
