"""What became of the branches of ``ctx.map`` and ``ctx.parallel``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast, overload

from ..errors import BranchesFailedError
from .completion import ALL_COMPLETED

Value_co = TypeVar("Value_co", covariant=True)

SUCCEEDED, FAILED, ABANDONED, NOT_STARTED = "succeeded", "failed", "abandoned", "not started"
LETTERS = {SUCCEEDED: "s", FAILED: "f", ABANDONED: "a", NOT_STARTED: "-"}
STATES = {letter: state for state, letter in LETTERS.items()}


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome(Generic[Value_co]):
    """One branch. ``state``: "succeeded", "failed", "abandoned" (begun, then not needed any more), "not started"."""

    index: int
    name: str
    state: str
    value: Value_co | None = None
    error: Exception | None = None


class Results(Sequence[Value_co]):
    """The values in the order of the branches, whatever order they ended in, and all failures.

    It is a sequence of values: to take the value of a branch that has none raises that branch's error.

    >>> results = Results("pack", [Outcome(index=0, name="pack[0]", state="succeeded", value="box")])
    >>> list(results), results.reason, results.has_failures
    (['box'], 'all completed', False)
    """

    def __init__(self, name: str, outcomes: Sequence[Outcome[Value_co]], *, reason: str = ALL_COMPLETED) -> None:
        self.name = name
        self.outcomes = tuple(outcomes)
        self.reason = reason
        """"all completed", "enough succeeded" or "too many failed"."""

    def __len__(self) -> int:
        return len(self.outcomes)

    @overload
    def __getitem__(self, index: int) -> Value_co: ...
    @overload
    def __getitem__(self, index: slice) -> list[Value_co]: ...
    def __getitem__(self, index: int | slice) -> Value_co | list[Value_co]:
        if isinstance(index, slice):
            return [self._value(outcome) for outcome in self.outcomes[index]]
        return self._value(self.outcomes[index])

    def __iter__(self) -> Iterator[Value_co]:
        return map(self._value, self.outcomes)

    def __str__(self) -> str:
        counts = {state: sum(one.state == state for one in self.outcomes) for state in LETTERS}
        text = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
        first = next((one.error for one in self.outcomes if one.error is not None), None)
        return f"{self.reason}: {text or 'no branches'}" + (f"; first: {first}" if first else "")

    def __repr__(self) -> str:
        return f"Results({self.name!r}, {self})"

    @property
    def succeeded(self) -> list[Outcome[Value_co]]:
        """The branches that returned."""
        return [outcome for outcome in self.outcomes if outcome.state == SUCCEEDED]

    @property
    def failed(self) -> list[Outcome[Value_co]]:
        """The branches that raised."""
        return [outcome for outcome in self.outcomes if outcome.state == FAILED]

    @property
    def errors(self) -> list[Exception]:
        """What they raised, in order."""
        return [outcome.error for outcome in self.failed if outcome.error is not None]

    @property
    def values(self) -> list[Value_co]:
        """The values of the branches that succeeded, in order."""
        return [cast("Value_co", outcome.value) for outcome in self.succeeded]

    @property
    def has_failures(self) -> bool:
        """Whether any branch failed."""
        return bool(self.failed)

    def raise_if_failed(self) -> None:
        """Raise ``BranchesFailedError`` if any branch failed."""
        if self.has_failures:
            raise BranchesFailedError(self.name, self)

    def letters(self) -> str:
        """A letter for each branch's state, as it is recorded."""
        return "".join(LETTERS[outcome.state] for outcome in self.outcomes)

    def _value(self, outcome: Outcome[Any]) -> Value_co:
        if outcome.state == SUCCEEDED:
            return cast("Value_co", outcome.value)
        raise outcome.error if outcome.error is not None else BranchesFailedError(outcome.name, self)
