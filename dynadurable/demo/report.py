"""What the demo found out, for the summary and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..fan_out import MAX_OPEN_PAGES
from ..fan_out.sources import PAGE_ITEMS
from .check import Delivered
from .tally import Spent

REPEATED_AT_MOST = MAX_OPEN_PAGES * PAGE_ITEMS
"""Writes that one kill may repeat: those of the pages beyond the last checkpoint."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Kill:
    """A worker was killed, and another one took over."""

    pid: int
    recorded: int
    """Followers that the checkpoint in the table covered."""
    take_over_seconds: float
    """From the kill to the moment when the claim of the next worker had reached the store."""
    repeated: int
    """Writes after the take-over of entries that were there already."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """The whole story in numbers."""

    store: str
    krabs: int
    followings: int
    delivered: Delivered
    writes: int
    """Trench entries written, as counted at the door of the store, repeated ones included."""
    kills: Sequence[Kill]
    spent: Mapping[str, Spent]
    lease_seconds: float
    seconds: float

    @property
    def repeated(self) -> int:
        """Writes of entries that were there already."""
        return sum(kill.repeated for kill in self.kills)

    @property
    def mark_units(self) -> float:
        """Write units that the mark cost, from the post to its end."""
        return sum(one.units for one in self.spent.values())

    @property
    def entry_units(self) -> float:
        """Write units of the trench entries: one each, for none is larger than a kilobyte."""
        return float(self.writes)

    @property
    def within_bound(self) -> bool:
        """Whether no kill made more writes be repeated than is promised."""
        return all(kill.repeated <= REPEATED_AT_MOST for kill in self.kills)

    @property
    def complete(self) -> bool:
        """Whether everything that is promised was found in the table."""
        return self.delivered.complete and self.within_bound

    @property
    def exit_code(self) -> int:
        return 0 if self.complete else 1

    def to_json(self) -> dict[str, Any]:
        """For ``--json``; lists of names are cut after ten."""
        delivered = self.delivered
        return {
            "complete": self.complete,
            "store": self.store,
            "krabs": self.krabs,
            "followings": self.followings,
            "followers": delivered.followers,
            "have_it_once": delivered.once,
            "missing": delivered.missing[:10],
            "twice": delivered.twice[:10],
            "strangers": delivered.strangers[:10],
            "marks_left": delivered.marks_left,
            "writes": self.writes,
            "repeated": self.repeated,
            "repeated_at_most_per_kill": REPEATED_AT_MOST,
            "kills": [
                {
                    "recorded": kill.recorded,
                    "take_over_seconds": round(kill.take_over_seconds, 3),
                    "repeated": kill.repeated,
                }
                for kill in self.kills
            ],
            "lease_seconds": self.lease_seconds,
            "mark_write_units": self.mark_units,
            "mark_writes": {kind: {"writes": one.writes, "units": one.units} for kind, one in self.spent.items()},
            "seconds": round(self.seconds, 1),
        }
