"""Replaying dead letters: what came of it, and when to stop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

SUCCEEDED = "succeeded"
FAILED = "failed"
UNKNOWN = "unknown"
"""Not told yet: it waits or runs."""
NEITHER = "neither"
"""Cancelled, or somebody else's now."""

MAX_LISTED = 1_000


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplayReport:
    """What a replay (or a purge) has done."""

    matched: int = 0
    """Letters that fit."""
    done: int = 0
    """Runs that were brought back (or purged). In a dry run: that would be."""
    skipped: int = 0
    """Letters whose runs were not dead any more, or gone: such letters are removed. Or in a newer format: left."""
    failed_again: int = 0
    """Brought back runs that were seen to fail again."""
    stopped: str | None = None
    """Why it ended early."""
    run_ids: Sequence[str] = ()
    """The first 1,000 of those done."""
    dry_run: bool = False

    def to_record(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "matched": self.matched,
            "done": self.done,
            "skipped": self.skipped,
            "failed_again": self.failed_again,
            "stopped": self.stopped,
            "run_ids": list(self.run_ids),
            "dry_run": self.dry_run,
        }


@dataclass(kw_only=True, slots=True)
class Tally:
    """Counts while it goes on."""

    dry_run: bool = False
    matched: int = 0
    done: int = 0
    skipped: int = 0
    failed_again: int = 0
    stopped: str | None = None
    run_ids: list[str] = field(default_factory=list)

    def add(self, run_id: str, *, done: bool) -> None:
        self.matched += 1
        if not done:
            self.skipped += 1
            return
        self.done += 1
        if len(self.run_ids) < MAX_LISTED:
            self.run_ids.append(run_id)

    def report(self) -> ReplayReport:
        return ReplayReport(
            matched=self.matched,
            done=self.done,
            skipped=self.skipped,
            failed_again=self.failed_again,
            stopped=self.stopped,
            run_ids=tuple(self.run_ids),
            dry_run=self.dry_run,
        )


class Watch:
    """Stops a replay after ``stop_after`` new failures in a row, in the order in which they are learnt of.

    Never more than ``stop_after`` runs are out without their outcome being known: with a cause that is not gone, so
    many bodies fail again, and not ten thousand.
    """

    def __init__(self, stop_after: int) -> None:
        self.stop_after = stop_after
        self.outstanding: dict[str, str] = {}
        self.failed_again = 0
        self._in_a_row = 0

    def sent(self, run_id: str, generation: str) -> None:
        """That run was brought back, as this life of it."""
        self.outstanding[run_id] = generation

    def learnt(self, run_id: str, outcome: str) -> None:
        """What has become of it."""
        if outcome == UNKNOWN:
            return
        del self.outstanding[run_id]
        if outcome == FAILED:
            self.failed_again += 1
            self._in_a_row += 1
        elif outcome == SUCCEEDED:
            self._in_a_row = 0

    @property
    def is_full(self) -> bool:
        """Whether an outcome must be waited for."""
        return len(self.outstanding) >= self.stop_after

    @property
    def has_seen_enough(self) -> bool:
        return self._in_a_row >= self.stop_after
