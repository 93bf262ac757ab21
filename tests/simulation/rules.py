"""Rules of the protocol that are no condition of a request, each switched off; and clauses that may be left out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from unittest import mock

from dynadurable.storage import ends, marks, runs, schedules, settle, signals
from dynadurable.storage.items import Items, Mark, Run
from dynadurable.worker import context, verdict
from tests.simulation.mutants import Mutant, Surroundings, clause_mutants

JOBS = ("crowd", "jobs", "workflows", "cleaning")
FLOWS = ("workflows",)


@dataclass(frozen=True)
class Replaced:
    """Replaces a function of the protocol."""

    module: Any
    name: str
    by: Any

    def __call__(self) -> Surroundings:
        return mock.patch.object(self.module, self.name, self.by)


async def nothing(*_args: Any, **_kwargs: Any) -> None: ...


async def _stray_first(items: Any, mark: Any, run_key: str, changes: Any, *, due_sort_key: str) -> Any:
    """The new mark is put before the run names it."""
    stands = await runs.read(items, run_key.partition("#")[2])
    assert stands is not None
    stands.mark = due_sort_key
    await marks.place(items, runs.pointer_to(items, stands))
    model = items.run
    actions = [*changes, model.mark.set(due_sort_key), model.fence.set(mark.fence), model.rev.set(model.rev + 1)]
    run = await runs.update_held(items, mark, run_key, actions, applied=lambda now: now.mark == due_sort_key)
    await marks.drop(items, mark)
    return run


async def never_mine(*_args: Any, **_kwargs: Any) -> None:
    """An own write is never recognised."""


_read_signals = signals.read


async def _no_second_look(items: Items, run: Run, topics: Any) -> Any:
    """Whoever parks does not look whether what it waits for has come meanwhile."""
    return {} if set(topics) == set(run.waits or ()) else await _read_signals(items, run, topics)


_repair = settle._repair


async def _at_once(items: Items, mark: Mark, run: Run | None, *, now_ms: int) -> None:
    """A mark whose run is not there is deleted however young it is."""
    if run is None or run.generation != mark.generation:
        await marks.drop(items, mark)
    else:
        await _repair(items, mark, run, now_ms=now_ms)


_pointer_to = runs.pointer_to


def _without_cursor(items: Items, run: Run) -> Mark:
    mark = _pointer_to(items, run)
    mark.cursor = None
    return mark


def rule_mutants() -> list[Mutant]:
    """The rules that are no condition of a request."""

    def rule(where: str, what: str, apply: Replaced, casts: tuple[str, ...] = JOBS) -> Mutant:
        return Mutant(where=where, what=what, apply=apply, casts=casts)

    return [
        rule("runs.move", "the run names its mark before the mark is put", Replaced(runs, "move", _stray_first)),
        rule("runs.vouch", "who acknowledges a run makes sure of its mark", Replaced(runs, "vouch", nothing)),
        rule("runs.pointer_to", "a mark is put with the checkpoint", Replaced(runs, "pointer_to", _without_cursor)),
        rule("settle", "a mark without its run is left alone while it is young", Replaced(settle, "_repair", _at_once)),
        rule("ends.pay", "what an end owes is done again", Replaced(ends, "pay", nothing), ("workflows", "jobs")),
        rule(
            "marks.as_it_stands",
            "an own write is recognised after a lost reply",
            Replaced(marks, "as_it_stands", never_mine),
        ),
        rule(
            "context",
            "a body without its lease is told",
            Replaced(context.ContextBase, "_check_held", lambda _self: None),
        ),
        rule("verdict", "a lost lease ends without a write", Replaced(verdict, "LOST", "another reason")),
        rule("signals.park", "who parks looks a second time", Replaced(signals, "read", _no_second_look), FLOWS),
        rule("signals.wake", "who tells a run wakes it", Replaced(signals, "wake", nothing), FLOWS),
        rule(
            "schedules.is_settled",
            "what a schedule owes is done again",
            Replaced(schedules, "is_settled", settled),
            ("schedules",),
        ),
    ]


async def settled(*_args: Any) -> bool:
    return True


EQUIVALENT = {
    "marks._claim: attribute_exists (pk)": "counting up what is not there is refused as invalid all the same",
    "marks.request_cancel: attribute_exists (pk)": "the token of the claim that was seen says it too",
    "signals._forget: attribute_exists (pk)": "to delete what is not there is to do nothing",
    "dead.drop_stale: attribute_exists (pk)": "to delete what is not there is to do nothing",
    "runs.raise_fence: dd_gen = :value": "a mark's sort key holds its generation, and the run names that mark",
    "runs.update_held: dd_gen = :value": "a mark's sort key holds its generation, and the run names that mark",
    "commit._write: dd_gen = :value": "a mark's sort key holds its generation, and the run names that mark",
    "signals._moved: dd_gen = :value": "a mark's sort key holds its generation, and the run names that mark",
    "runs._forgetting: dd_gen = :value": "it is the key that tells whose mark it is: that holds the generation too",
    "commit._write: dd_mark = :value": (
        "who moves or ends a run that somebody holds has claimed its mark before, with a higher fence, which "
        "the run has from then on; and the holder's own park or end ends the attempt"
    ),
    "commit._write: dd_state = :value": "as for the mark: who ends the run of another has a higher fence",
    "dead.replay: attribute_not_exists (pk)": (
        "the new mark's key holds a generation that was made for this replay, and the clauses on the run are "
        "in the same transaction"
    ),
    "journal._put: attribute_not_exists (pk)": (
        "a page's key holds the writer's fence and a number: only a copy of the same write meets it, with the same page"
    ),
    "ends.pay: attribute_not_exists (pk)": "the letter that it would write over is the same letter",
    "operate._ask_to_cancel: dd_gen = :value": (
        "a wish that comes to a later life of the key finds the mark changed, and the look that follows asks "
        "that later life for the same: to be cancelled is asked of the key"
    ),
    "context: a body without its lease is told": "the condition on the token refuses its write all the same",
    "verdict: a lost lease ends without a write": "the conditions refuse the write all the same",
    "commit._write: attribute_not_exists (dd_tail)": (
        "a second commit of the same fence carries the same token, which DynamoDB remembers for ten minutes; "
        "the clause is for a reply that is lost for longer than that"
    ),
    "commit._write: dd_tail = :value": "as for the first commit: for ten minutes the token says it too",
    "commit._write: attribute_not_exists (dd_page)": "as for the tail, which changes whenever a page is sealed",
    "runs.update_held: attribute_not_exists (dd_page)": (
        "the tail, which is compared too, changes whenever a page is sealed, and never becomes what it was before"
    ),
    "runs.update_held: dd_page = :value": (
        "the tail, which is compared too, changes whenever a page is sealed, and never becomes what it was before"
    ),
    "commit._write: dd_page = :value": "as for the tail, which changes whenever a page is sealed",
}
"""What neither a seed nor a story misses, and why it may be so. It stays: it says what is meant, and costs nothing."""


def all_mutants() -> list[Mutant]:
    return [*clause_mutants(), *rule_mutants()]
