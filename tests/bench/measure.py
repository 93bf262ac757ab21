"""What a benchmark needs: CPU time, memory, and a table of results."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(kw_only=True)
class Span:
    """How long something took, and how much CPU all threads of this process used for it."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0

    def per_second(self, count: int) -> float:
        return count / self.seconds

    def cpu_ms(self, count: int) -> float:
        return self.cpu_seconds / count * 1000


@contextmanager
def span() -> Iterator[Span]:
    """Measures its block."""
    taken = Span()
    wall, cpu = time.perf_counter(), _cpu()
    try:
        yield taken
    finally:
        taken.seconds, taken.cpu_seconds = time.perf_counter() - wall, _cpu() - cpu


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def resident_mb() -> float:
    """The memory that this process has in RAM now, in megabytes."""
    if sys.platform == "linux":
        for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@dataclass(kw_only=True)
class Results:
    """Lines of a table: what was measured, the figure, and how it compares."""

    lines: list[tuple[str, str, str]] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)

    def add(self, what: str, figure: str, *, ratio: float | None = None, bound: float | None = None) -> None:
        """``bound``: the ratio should not be above it; said, not asserted."""
        note = ""
        if ratio is not None:
            note = f"{ratio:.2f}x"
            if bound is not None:
                note += f" (bound {bound:.2f}x)"
                if ratio > bound:
                    self.missed.append(what)
        self.lines.append((what, figure, note))

    def show(self, write: Callable[[str], object] = print) -> None:
        width = max(len(what) for what, _, _ in self.lines)
        for what, figure, note in self.lines:
            write(f"{what:<{width}}  {figure:>22}  {note}")
        for what in self.missed:
            write(f"over its bound in this run: {what}")
