"""Removes the conditions of the protocol one at a time, and sees whether the simulation notices.

A mutant is either a clause that is left out of the condition of one kind of request, or a rule of the protocol that is
switched off. ``python -m tests.simulation.run --mutants`` makes the table, ``docs/protocol-mutants.md``.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from unittest import mock

from pynamodb.expressions.condition import Condition

from dynadurable.storage import prepared, requests
from tests.simulation.casts import CASTS
from tests.simulation.play import play
from tests.simulation.world import CheckFailedError

OUR_OWN = ("mutants.py", "requests.py", "prepared.py")
"""Files that are passed over when it is asked which plan makes a request."""
ELSEWHERE = "cleaning."
"""What a cleaner deletes, and on which conditions, is shown one by one in ``tests/clean/test_cleaner.py``."""
SCANNED = range(1_000_000, 1_000_040)
"""Seeds in which it is looked which clauses there are."""

Change = Callable[[str, Condition | None], Condition | None]
Surroundings = contextlib.AbstractContextManager[Any]


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One thing that is left out. ``where`` is the plan, ``what`` the clause or rule."""

    where: str
    what: str
    apply: Callable[[], Surroundings]
    casts: tuple[str, ...] = tuple(CASTS)
    """Who comes to it."""

    @property
    def name(self) -> str:
        return f"{self.where}: {self.what}"


# --- clauses of conditions ------------------------------------------------------------------------


def clauses(condition: Condition | None) -> list[Condition]:
    """The parts of a condition that narrow it: those joined by AND, also where that is one side of an OR."""
    if condition is None:
        return []
    if condition.operator == "AND":
        return [part for value in condition.values for part in clauses(value)]
    if condition.operator == "OR":
        inner = [value for value in condition.values if value.operator in ("AND", "OR")]
        return [condition, *(part for value in inner for part in clauses(value))]
    return [condition]


def without(condition: Condition | None, what: str) -> Condition | None:
    """The condition without the clause that is shown so; ``None`` if nothing of it is left."""
    if condition is None or shown(condition) == what:
        return None
    if condition.operator == "AND":
        kept = [part for value in condition.values if (part := without(value, what)) is not None]
        return None if not kept else kept[0] if len(kept) == 1 else kept[0] & kept[1]
    if condition.operator == "OR":
        sides = [without(value, what) if value.operator in ("AND", "OR") else value for value in condition.values]
        return None if sides[0] is None or sides[1] is None else sides[0] | sides[1]
    return condition


def shown(condition: Condition) -> str:
    """A clause with the names of its attributes, and without its values."""
    names: dict[str, str] = {}
    values: dict[str, Any] = {}
    text: str = condition.serialize(names, values)
    for name, placeholder in sorted(names.items(), key=lambda entry: -len(entry[1])):
        text = text.replace(placeholder, name)
    for placeholder in sorted(values, key=len, reverse=True):
        text = text.replace(placeholder, ":value")
    return text


def _caller() -> str:
    frame = sys._getframe(2)
    while frame.f_code.co_filename.endswith(OUR_OWN):
        assert frame.f_back is not None
        frame = frame.f_back
    return f"{frame.f_globals['__name__'].rpartition('.')[2]}.{frame.f_code.co_name}"


@contextlib.contextmanager
def watching(change: Change) -> Iterator[None]:
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
        stack.enter_context(mock.patch.object(prepared, "_template", _Anew))
        for name, function in patches.items():
            stack.enter_context(mock.patch.object(requests, name, function))
        yield


@dataclass(frozen=True)
class _Anew:
    """Builds a request each time, instead of once: what is left out of it is not missed."""

    build: Callable[..., Any]
    model: Any
    values: Any

    def fill(self, values: Any) -> Any:
        return self.build(self.model, **values)


@dataclass(frozen=True)
class Without:
    """Leaves a clause out of the requests of one plan."""

    where: str
    what: str

    def __call__(self) -> Surroundings:
        return watching(self._change)

    def _change(self, where: str, condition: Condition | None) -> Condition | None:
        return without(condition, self.what) if where == self.where else condition


def clause_mutant(where: str, what: str, casts: tuple[str, ...] = tuple(CASTS)) -> Mutant:
    return Mutant(where=where, what=what, apply=Without(where, what), casts=casts)


def clause_mutants() -> list[Mutant]:
    """Every clause that the plans put on their requests in some seeds of each cast."""
    seen: dict[tuple[str, str], dict[str, None]] = {}
    for cast, kind in CASTS.items():

        def note(where: str, condition: Condition | None, cast: str = cast) -> Condition | None:
            for clause in clauses(condition):
                seen.setdefault((where, shown(clause)), {})[cast] = None
            return condition

        with watching(note):
            for seed in SCANNED:
                play(seed, kind)
    found = [clause_mutant(where, what, tuple(casts)) for (where, what), casts in sorted(seen.items())]
    return [one for one in found if not one.where.startswith(ELSEWHERE)]


def caught_by(mutant: Mutant, seeds: range, *, cast: str | None = None) -> tuple[str, int, str] | None:
    """The first seed that notices, of which cast, and what it says."""
    with mutant.apply():
        for seed in seeds:
            for name in (cast,) if cast is not None else mutant.casts:
                why = failure_of(seed, name)
                if why is not None:
                    return name, seed, why
    return None


def failure_of(seed: int, cast: str) -> str | None:
    """What goes wrong in that seed, if anything does."""
    try:
        play(seed, CASTS[cast])
    except CheckFailedError as error:
        return str(error).partition(": ")[2]
    except Exception as error:  # noqa: BLE001 - a mutant may also break in a way nobody foresaw
        return f"{type(error).__name__}: {error}"
    return None
