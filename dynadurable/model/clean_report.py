"""What the cleaner has done, and what a pass costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

READ_UNIT_BYTES = 4_096


@dataclass(frozen=True, kw_only=True, slots=True)
class CleanEstimate:
    """What a pass over the table costs, by what DynamoDB says of the table; it counts anew every six hours."""

    items: int
    size_bytes: int
    read_rate: float
    resumes: bool = False
    """Whether the next pass goes on where an earlier one has stopped."""

    @property
    def read_units(self) -> int:
        """Half a unit for 4 KB, eventually consistent.

        >>> CleanEstimate(items=1_000, size_bytes=819_200, read_rate=50.0).read_units
        100
        """
        return max(1, -(-self.size_bytes // (2 * READ_UNIT_BYTES)))

    @property
    def seconds(self) -> float:
        """How long reading alone takes."""
        return self.read_units / self.read_rate

    def __str__(self) -> str:
        minutes = self.seconds / 60
        lasts = f"{self.seconds:.0f} s" if minutes < 2 else f"{minutes:.0f} min"
        return (
            f"A pass reads the whole table: {self.items:,} items, {self.size_bytes / 1e6:,.1f} MB, about "
            f"{self.read_units:,} read units in at least {lasts}. It reads a unit more for each dead letter that "
            "stays, each page that has expired or lacks an expiry, and each pending run that is more than its mark; it "
            "writes a unit for each KB that it deletes."
        )

    def to_record(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "items": self.items,
            "size_bytes": self.size_bytes,
            "read_units": self.read_units,
            "seconds": round(self.seconds, 1),
            "resumes": self.resumes,
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class CleanReport:
    """What a pass has done so far, or in all. In a dry run: what it would have done."""

    scanned: int = 0
    """Items of the table that were read, everybody's."""
    ours: int = 0
    newer: int = 0
    """Written by a newer version of dynadurable, and left alone."""
    damaged: int = 0
    """Bear our format number but cannot be read; left alone, and named in the log."""
    removed: Mapping[str, int] = field(default_factory=dict)
    """By kind: runs, pages, marks, dead letters, workers, builds, others."""
    stamped: int = 0
    """Pages of ended runs that were given the expiry they lacked."""
    restored: int = 0
    """Live runs whose mark was gone; it was put back."""
    left: int = 0
    """Items that had changed by the time they were to be dealt with."""
    read_units: float = 0.0
    write_units: float = 0.0
    seconds: float = 0.0
    finished: bool = False
    """Whether it came to the end of the table; if not, the next pass goes on from here."""
    resumed: bool = False
    dry_run: bool = False

    @property
    def removed_total(self) -> int:
        """Of all kinds."""
        return sum(self.removed.values())

    def to_record(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "scanned": self.scanned,
            "ours": self.ours,
            "newer": self.newer,
            "damaged": self.damaged,
            "removed": dict(self.removed),
            "removed_total": self.removed_total,
            "stamped": self.stamped,
            "restored": self.restored,
            "left": self.left,
            "read_units": self.read_units,
            "write_units": self.write_units,
            "seconds": round(self.seconds, 3),
            "finished": self.finished,
            "resumed": self.resumed,
            "dry_run": self.dry_run,
        }
