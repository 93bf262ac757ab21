"""What came of crashing everywhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from dynadurable.testing.crash.client import Write

SAME = "same end"
NOT_ACCEPTED = "not accepted, nothing happened"
DIFFERENT = "DIFFERENT END"


@dataclass(frozen=True, kw_only=True)
class Ending:
    """How a scenario ended: what is in the table, which bodies were called, which side effects were noted."""

    own_items: tuple[str, ...]
    runs: tuple[str, ...]
    pending: int
    bodies: Counter[str]
    effects: Counter[str]

    def same_table(self, other: Ending) -> bool:
        """Whether the tables are alike; ids and times of runs do not count."""
        return (self.own_items, self.runs, self.pending) == (other.own_items, other.runs, other.pending)


@dataclass(frozen=True, kw_only=True)
class Crash:
    """One crash: where, how, and what it made different."""

    write: Write
    loss: str
    outcome: str
    difference: str = ""
    repeated: tuple[str, ...] = ()
    """Bodies that were called more often than in the undisturbed run, such as ``step charge``."""
    effects: tuple[str, ...] = ()
    """Side effects that were seen more often than in the undisturbed run."""
    error: str = ""

    def __str__(self) -> str:
        parts = [f"{self.write}, {self.loss}: {self.outcome}"]
        if self.repeated:
            parts.append(f"called again: {', '.join(self.repeated)}")
        if self.effects:
            parts.append(f"SEEN TWICE: {', '.join(self.effects)}")
        details = [*self.difference.splitlines(), self.error] if self.error else self.difference.splitlines()
        return "\n      ".join(["; ".join(parts), *details])


@dataclass(kw_only=True)
class CrashReport:
    """All crashes of a scenario. ``str(report)`` is for people."""

    undisturbed: Ending
    writes: list[Write]
    crashes: list[Crash] = field(default_factory=list)

    def __iter__(self) -> Iterator[Crash]:
        return iter(self.crashes)

    def __len__(self) -> int:
        return len(self.crashes)

    @property
    def different(self) -> list[Crash]:
        """Crashes after which the table, or what the runs came to, was another one."""
        return [crash for crash in self.crashes if crash.outcome == DIFFERENT or crash.error]

    @property
    def seen_twice(self) -> list[Crash]:
        """Crashes that made a noted side effect happen again."""
        return [crash for crash in self.crashes if crash.effects]

    @property
    def most_repeats(self) -> int:
        """The largest number of bodies that one crash made run again."""
        return max((len(crash.repeated) for crash in self.crashes), default=0)

    def assert_same_end(self) -> None:
        """Fails if any crash led to another end."""
        if self.different:
            raise AssertionError(f"{len(self.different)} crashes led to another end:\n{_lines(self.different)}")

    def assert_no_effect_twice(self) -> None:
        """Fails if any crash made a noted side effect happen twice."""
        if self.seen_twice:
            raise AssertionError(
                f"{len(self.seen_twice)} of {len(self.crashes)} crashes made a side effect happen twice:\n"
                f"{_lines(self.seen_twice)}"
            )

    def __str__(self) -> str:
        bad = [*self.different, *(crash for crash in self.seen_twice if crash not in self.different)]
        again = [crash for crash in self.crashes if crash.repeated and crash not in bad]
        text = [
            f"{len(self.writes)} writes, {len(self.crashes)} crashes",
            f"{len(self.different)} with another end",
            f"{len(self.seen_twice)} with a side effect seen twice",
            f"{len(again)} with a body called again",
        ]
        text += [_lines(bad)] if bad else []
        text += [_lines(again)] if again else []
        return "\n".join(text)


def compare(undisturbed: Ending, ending: Ending, *, in_caller: bool) -> dict[str, Any]:
    """What a crash made different; the fields of ``Crash`` from ``outcome`` on."""
    outcome, difference = SAME, ""
    if not ending.same_table(undisturbed):
        empty = not ending.own_items and not ending.runs and not ending.pending and not ending.bodies
        outcome = NOT_ACCEPTED if in_caller and empty else DIFFERENT
        difference = "" if outcome == NOT_ACCEPTED else _difference(undisturbed, ending)
    return {
        "outcome": outcome,
        "difference": difference,
        "repeated": tuple(sorted(ending.bodies - undisturbed.bodies)),
        "effects": tuple(sorted(ending.effects - undisturbed.effects)),
    }


def _difference(undisturbed: Ending, ending: Ending) -> str:
    lines = []
    for what, before, after in (
        ("items of yours", undisturbed.own_items, ending.own_items),
        ("runs", undisturbed.runs, ending.runs),
    ):
        missing, extra = Counter(before) - Counter(after), Counter(after) - Counter(before)
        lines += [f"missing from {what}: {one}" for one in missing]
        lines += [f"not expected in {what}: {one}" for one in extra]
    if ending.pending != undisturbed.pending:
        lines.append(f"{ending.pending} runs are pending instead of {undisturbed.pending}")
    return "\n".join(lines)


def _lines(crashes: list[Crash]) -> str:
    return "\n".join(f"  {crash}" for crash in crashes)
