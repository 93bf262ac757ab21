"""Removes the conditions of the protocol one at a time, and sees whether the simulation notices.

A mutant is either a clause that is left out of the condition of one kind of request, or a rule of the protocol that is
switched off. ``python -m tests.simulation.run --mutants`` prints the table.
"""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from unittest import mock

from pynamodb.expressions.condition import Condition

from dynadurable.storage import dead, ends, marks, operate, requests, runs, settle
from dynadurable.worker import context, verdict
from tests.simulation import run
from tests.simulation.run import play
from tests.simulation.world import CheckFailedError

SEEDS = 3_000
EQUIVALENT = {
    "marks.claim: attribute_exists (pk)": "counting up what is not there is refused as invalid all the same",
    "marks.request_cancel: attribute_exists (pk)": "the token of the claim that was seen says it too",
    "marks.request_cancel: dd_token = :0": "on a mark that has come free the wish is met by its next claimer",
    "operations.transact_items: attribute_not_exists (pk)": "a mark's key is unique, and the transaction has a token",
    "runs.<listcomp>: attribute_not_exists (pk)": "the release of the old mark, in the same transaction, says it too",
    "runs._join_instead: dd_gen = :0": "a mark's key holds its generation",
    "runs.raise_fence: dd_gen = :0": "the mark that the run names is one of that generation",
    "runs.update_held: dd_gen = :0": "the mark that the run names is one of that generation",
    "context: a body without its lease is told": "the condition on the token refuses its write all the same",
    "verdict: a lost lease ends without a write": "the conditions refuse the write all the same",
    "ends.pay: attribute_not_exists (pk)": "the letter that it would write over is the same letter",
}
"""Clauses that others make superfluous, and why they may survive."""
MODULES = (marks, runs, settle, operate, dead)


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One thing that is left out. ``where`` is the plan, ``what`` the clause or rule."""

    where: str
    what: str
    apply: Callable[[], contextlib.AbstractContextManager[Any]]

    @property
    def name(self) -> str:
        return f"{self.where}: {self.what}"


# --- clauses of conditions ------------------------------------------------------------------------


def clauses(condition: Condition | None) -> list[Condition]:
    """The parts of a condition that are joined by AND, however deep."""
    if condition is None:
        return []
    if condition.operator == "AND":
        return [part for value in condition.values for part in clauses(value)]
    return [condition]


def shown(condition: Condition) -> str:
    """A clause with the names of its attributes, and without its values."""
    names: dict[str, str] = {}
    text: str = condition.serialize(names, {})
    for name, placeholder in sorted(names.items(), key=lambda entry: -len(entry[1])):
        text = text.replace(placeholder, name)
    return text


def _caller() -> str:
    frame = sys._getframe(2)
    while frame.f_code.co_filename.endswith(("mutants.py", "requests.py")):
        frame = frame.f_back  # type: ignore[assignment]
    return f"{frame.f_globals['__name__'].rpartition('.')[2]}.{frame.f_code.co_name}"


@contextlib.contextmanager
def watching(change: Callable[[str, Condition | None], Condition | None]) -> Iterator[None]:
    """Let ``change(plan, condition)`` look at, and change, the condition of every request that is built."""
    put, update, delete = requests.put, requests.update, requests.delete

    def changed_put(item: Any, condition: Condition | None = None) -> Any:
        return put(item, change(_caller(), condition))

    def changed_update(
        model: Any, pk: str, sk: str, actions: Any, condition: Condition, *, returning: str = "NONE"
    ) -> Any:
        found = change(_caller(), condition)
        if found is None:
            call = requests.upsert(model, pk, sk, actions)
            if returning != "NONE":
                call.params["ReturnValues"] = returning
            return call
        return update(model, pk, sk, actions, found, returning=returning)

    def changed_delete(model: Any, pk: str, sk: str, condition: Condition | None = None) -> Any:
        return delete(model, pk, sk, change(_caller(), condition))

    patches = {"put": changed_put, "update": changed_update, "delete": changed_delete}
    with contextlib.ExitStack() as stack:
        for name, function in patches.items():
            stack.enter_context(mock.patch.object(requests, name, function))
        yield


def clause_mutants(seeds: range) -> list[Mutant]:
    """Every clause that the plans put on their requests in these seeds."""
    seen: dict[tuple[str, str], None] = {}

    def note(where: str, condition: Condition | None) -> Condition | None:
        for clause in clauses(condition):
            seen[where, shown(clause)] = None
        return condition

    with watching(note):
        for seed in seeds:
            play(seed)
    return [Mutant(where=where, what=what, apply=Without(where, what)) for where, what in sorted(seen)]


@dataclass(frozen=True)
class Without:
    """Leaves a clause out of the requests of one plan."""

    where: str
    what: str

    def __call__(self) -> contextlib.AbstractContextManager[Any]:
        return watching(self._change)

    def _change(self, where: str, condition: Condition | None) -> Condition | None:
        if where != self.where:
            return condition
        kept: Condition | None = None
        for clause in clauses(condition):
            if shown(clause) != self.what:
                kept = clause if kept is None else kept & clause
        return kept


# --- rules ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Replaced:
    """Replaces a function of the protocol."""

    module: Any
    name: str
    by: Any

    def __call__(self) -> contextlib.AbstractContextManager[Any]:
        return mock.patch.object(self.module, self.name, self.by)


async def _nothing(*_args: Any, **_kwargs: Any) -> None: ...


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


async def _never_mine(*_args: Any, **_kwargs: Any) -> None:
    """An own write is never recognised."""


def rule_mutants() -> list[Mutant]:
    """The rules that are no condition of a request."""
    return [
        Mutant(
            where="runs.move",
            what="the run names its mark before the mark is put",
            apply=Replaced(runs, "move", _stray_first),
        ),
        Mutant(
            where="runs.vouch",
            what="who acknowledges a run makes sure of its mark",
            apply=Replaced(runs, "vouch", _nothing),
        ),
        Mutant(
            where="settle",
            what="a mark without its run is left alone while it is young",
            apply=Replaced(run, "GRACE_MS", -1),
        ),
        Mutant(where="ends.pay", what="what an end owes is done again", apply=Replaced(ends, "pay", _nothing)),
        Mutant(
            where="marks.as_it_stands",
            what="an own write is recognised after a lost reply",
            apply=Replaced(marks, "as_it_stands", _never_mine),
        ),
        Mutant(
            where="context",
            what="a body without its lease is told",
            apply=Replaced(context.ContextBase, "_check_held", lambda _self: None),
        ),
        Mutant(
            where="verdict", what="a lost lease ends without a write", apply=Replaced(verdict, "LOST", "another reason")
        ),
    ]


# --- the table ------------------------------------------------------------------------------------


def caught_by(mutant: Mutant, seeds: range) -> tuple[int, str] | None:
    """The first seed that notices, and what it says."""
    with mutant.apply():
        for seed in seeds:
            try:
                play(seed)
            except CheckFailedError as error:
                return seed, str(error)
            except Exception as error:  # noqa: BLE001 - a mutant may also break in a way nobody foresaw
                return seed, f"{type(error).__name__}: {error}"
    return None


def _judge(job: tuple[int, int]) -> tuple[int, tuple[int, str] | None]:
    logging.disable(logging.CRITICAL)
    index, count = job
    return index, caught_by(all_mutants()[index], range(count))


def all_mutants() -> list[Mutant]:
    return [*clause_mutants(range(60)), *rule_mutants()]


def show(count: int = SEEDS, *, processes: int = 2, write: Callable[[str], object] = print) -> int:
    """Print which seed notices which mutant; the exit code is the number of survivors."""
    mutants = all_mutants()
    survivors = 0
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        for index, caught in pool.imap_unordered(_judge, [(index, count) for index in range(len(mutants))]):
            reason = EQUIVALENT.get(mutants[index].name)
            survivors += caught is None and reason is None
            survived = f"survived: {reason}" if reason else "SURVIVED"
            verdict_text = f"seed {caught[0]}: {caught[1].partition(': ')[2][:90]}" if caught else survived
            write(f"{mutants[index].name}\n    {verdict_text}")
            sys.stdout.flush()
    write(f"{len(mutants)} mutants, {survivors} survivors")
    return survivors
