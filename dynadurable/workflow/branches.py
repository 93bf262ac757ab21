"""Branches of a workflow: each item of a ``map``, each function of a ``parallel``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..errors import BranchesFailedError, ConfigurationError, NonDeterminismError
from ..model.completion import ALL_COMPLETED, Completion
from ..model.history import Past
from ..model.record import BEGAN, DONE, STEP, Identity
from ..model.results import ABANDONED, FAILED, NOT_STARTED, STATES, SUCCEEDED, Outcome, Results
from ..model.retry import Retry
from .halt import Abandoned, Parked, Rewound
from .place import Place
from .steps import StepCall
from .strand import Strand

if TYPE_CHECKING:
    from .core import Core

DEFAULT_CONCURRENCY = 10


@dataclass(frozen=True, kw_only=True, slots=True)
class BranchCall:
    """What a branch does: a single step, or code of its own that is given a context."""

    name: str
    function: Callable[..., Any]
    args: Sequence[Any]
    step: StepCall | None


def branch_call(
    name: str, function: Callable[..., Any], args: Sequence[Any], *, is_code: bool, retry: Retry | None
) -> BranchCall:
    """Check what is to be run beside others. ``is_code``: it is given a context."""
    step = None if is_code else StepCall.of(function, args, {}, name=name, retry=retry)
    return BranchCall(name=name, function=function, args=args, step=step)


def scope_name(name: str, number: int = 1) -> str:
    """A name as a part of a scope."""
    text = name
    for sign in "%/[]#":
        text = text.replace(sign, f"%{ord(sign):02X}")
    return f"{text}#{number}" if number > 1 else text


@dataclass(kw_only=True)
class Branches:
    """The branches of one operation, and what has become of them."""

    core: Core
    past: Past
    calls: Sequence[BranchCall]
    limit: int
    completion: Completion
    name: str
    here: Place
    outcomes: dict[int, Outcome[Any]] = field(default_factory=dict)
    now_ms: int = 0
    is_rewound: bool = False
    """Whether a branch has come to its end because the workflow is being undone."""

    def begin(self) -> None:
        """Note how many there are; halts the attempt if that is not what is recorded."""
        execution = self.core.execution
        if isinstance(self.limit, bool) or not isinstance(self.limit, int) or self.limit < 1:
            raise ConfigurationError(f"max_concurrency must be a whole number from 1, not {self.limit!r}")
        count, progress = len(self.calls), self.past.progress
        if progress is None:
            execution.note(execution.entry(self.past, BEGAN, facts={"count": count}))
        elif progress.facts.get("count") != count:
            found = f"{self.past.identity} of {count} branches"
            expected = f"{self.past.identity} of {progress.facts.get('count')} branches"
            execution.halt(NonDeterminismError(expected=expected, found=found, where=str(self.here)))

    @property
    def decided(self) -> str | None:
        """A letter for each branch's state, where it is recorded which of them count."""
        return None if self.past.end is None else self.past.end.facts.get("states")

    def core_of(self, index: int) -> Core:
        """A new pass over a branch's operations, from its first one on."""
        strand = Strand(self.core.execution, replay_only=self.decided is not None)
        core = self.core.inner(self.past, f"[{self._label(index)}]", strand=strand)
        core.here = self.here
        return core

    def _label(self, index: int) -> str:
        """What the branch is called in the scope of its operations: its own name if it has one, else its number."""
        name = self.calls[index].name
        if name == self.name:
            return str(index)
        same = [one for one in range(index) if self.calls[one].name == name]
        return scope_name(name, len(same) + 1)

    def is_recorded(self, index: int) -> bool:
        """Whether the branch is a single step that has its outcome."""
        call = self.calls[index]
        if call.step is None:
            return False
        scope = self.core_of(index).line.scope
        return self.core.execution.history.past(Identity(scope, STEP, call.step.name, 1)).end is not None

    def ended(self, index: int, core: Core, value: Any, error: BaseException | None) -> Parked | None:
        """Take in how a branch was left; gives what it waits for, if it does. Raises what ends all of them."""
        stop = core.strand.stop if core.strand.was_told else None
        stop = stop or error
        if isinstance(stop, Parked):
            return stop
        if isinstance(stop, Rewound):
            self.is_rewound = True
        elif isinstance(stop, Abandoned):
            self.abandon(index)
        elif stop is not None and not isinstance(stop, Exception):
            raise stop
        elif isinstance(error, Exception):
            self._settle(index, FAILED, error=error)
            self.now_ms = max(self.now_ms, core.line.now_ms)
        else:
            core.end_of_code(self.here)
            self._settle(index, SUCCEEDED, value=value)
            self.now_ms = max(self.now_ms, core.line.now_ms)
        return None

    def abandon(self, index: int) -> None:
        """Nobody waits for that branch any more."""
        self._settle(index, ABANDONED)

    def _settle(self, index: int, state: str, *, value: Any = None, error: Exception | None = None) -> None:
        name = f"{self.calls[index].name}[{index}]"
        self.outcomes[index] = Outcome(index=index, name=name, state=state, value=value, error=error)

    def reason(self) -> str | None:
        """Why it is complete; ``None`` while it is not."""
        if self.decided is not None:
            return None if self.unsettled() else str(self.past.end.facts["reason"]) if self.past.end else None
        states = [outcome.state for outcome in self.outcomes.values()]
        return self.completion.reason(
            total=len(self.calls), succeeded=states.count(SUCCEEDED), failed=states.count(FAILED)
        )

    def unsettled(self) -> list[int]:
        """The branches that are still to be replayed, where it is recorded which of them count."""
        wanted = self.decided or "s" * len(self.calls)
        return [index for index in range(len(self.calls)) if wanted[index] != "-" and index not in self.outcomes]

    def results(self) -> Results[Any]:
        """What became of all branches."""
        for index in range(len(self.calls)):
            if index not in self.outcomes:
                self._settle(index, NOT_STARTED)
        outcomes = [self.outcomes[index] for index in range(len(self.calls))]
        self._check_against_record(outcomes)
        self.core.line.deliver(self.now_ms)
        return Results(self.name, outcomes, reason=self.reason() or ALL_COMPLETED)

    def _check_against_record(self, outcomes: Sequence[Outcome[Any]]) -> None:
        for outcome in outcomes:
            expected = STATES[self.decided[outcome.index]] if self.decided else outcome.state
            if expected != outcome.state:
                where = f"branch {outcome.name}"
                found = f"{where} {outcome.state}"
                error = NonDeterminismError(expected=f"{where} {expected}", found=found, where=str(self.here))
                self.core.execution.halt(error)

    @property
    def is_plain(self) -> bool:
        """Whether what is recorded of the branches tells it all: every one of them has succeeded."""
        return all(outcome.state == SUCCEEDED for outcome in self.outcomes.values())

    async def decide(self, results: Results[Any]) -> None:
        """The plan that records which branches count, before anything is done about it."""
        execution = self.core.execution
        facts = {"states": results.letters(), "reason": results.reason}
        await execution.record(execution.entry(self.past, DONE, at_ms=self.core.line.now_ms, facts=facts))

    def checked(self, results: Results[Any]) -> Results[Any]:
        """The results, if they are what was asked for.

        Raises:
            BranchesFailedError: they are not.
        """
        succeeded, failed = len(results.succeeded), len(results.failed)
        if not self.completion.is_success(total=len(results), succeeded=succeeded, failed=failed):
            first = next(iter(results.errors), None)
            raise BranchesFailedError(self.name, results) from first
        return results
