"""Defects that others had (``PUB`` numbers): each is found again when what protects from it is switched off."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from dynadurable.drivers import outcomes
from dynadurable.lease import LeaseBase
from dynadurable.storage import marks, runs, schedules
from dynadurable.worker.contest import NamedTenure
from dynadurable.worker.poller import Poller
from tests.simulation.mutants import Mutant, Surroundings, Without, caught_by
from tests.simulation.rules import Replaced, never_mine, settled

_poll, _sort_out, _begin = marks.poll, Poller._sort_out, LeaseBase.begin
FAR_MS = 10**9


async def _ends_at_an_empty_page(*args: Any, **kwargs: Any) -> marks.Page:
    page = await _poll(*args, **kwargs)
    return page if page.candidates else replace(page, next_start=None)


def _whatever_is_not_due(self: Poller, seen: Any, found: Any, now: float, now_ms: int, free_before_ms: int) -> bool:
    return _sort_out(self, seen, found, now, now_ms + FAR_MS, free_before_ms)


def _renews_the_first_time(self: LeaseBase, tenure: NamedTenure) -> None:
    is_first = self._last is None
    _begin(self, tenure)
    if not is_first:
        self._parts.keeper.forget(tenure)


@dataclass(frozen=True, kw_only=True)
class Case:
    """A defect: what is switched off, and a seed of a cast that finds it then."""

    what: str
    protection: str
    off: Callable[[], Surroundings]
    cast: str
    seed: int

    def found(self, seeds: range) -> tuple[int, str] | None:
        """The first of these seeds that finds it, and how it says so."""
        mutant = Mutant(where="cases", what=self.protection, apply=self.off)
        caught = caught_by(mutant, seeds, cast=self.cast)
        return None if caught is None else (caught[1], caught[2])


CASES = {
    "PUB-07": Case(
        what="a rescue from a stale look writes over a run that has ended",
        protection="a holder's write is conditional on the run being live",
        off=Without("runs.update_held", "dd_state = :value"),
        cast="jobs",
        seed=4,
    ),
    "PUB-12": Case(
        what="what is due far ahead is taken now",
        protection="what is not due is not tried for",
        off=Replaced(Poller, "_sort_out", _whatever_is_not_due),
        cast="jobs",
        seed=72,
    ),
    "PUB-14": Case(
        what="an owner that was frozen writes over the new one",
        protection="a checkpoint is conditional on the token of the claim",
        off=Without("marks._checkpoint", "dd_token = :value"),
        cast="frozen",
        seed=3,
    ),
    "PUB-18": Case(
        what="a renewal under way brings a released lease back",
        protection="a renewal is conditional on the token of the acquisition",
        off=Without("leases.renew", "dd_token = :value"),
        cast="leases",
        seed=1,
    ),
    "PUB-20": Case(
        what="a lease that is taken again is not renewed",
        protection="each acquisition is kept by itself",
        off=Replaced(LeaseBase, "begin", _renews_the_first_time),
        cast="leases",
        seed=31,
    ),
    "PUB-40": Case(
        what="a slot is marked as done and its run never made",
        protection="what a schedule owes is written with its advance, and done again by whoever finds its mark",
        off=Replaced(schedules, "is_settled", settled),
        cast="schedules",
        seed=6,
    ),
    "PUB-46": Case(
        what="an own write is taken for somebody else's",
        protection="after a lost reply the token tells whose write it was",
        off=Replaced(marks, "as_it_stands", never_mine),
        cast="jobs",
        seed=3,
    ),
    "PUB-47": Case(
        what="a transaction that met another one is not tried again",
        protection="such a cancellation is told from a failed condition by its reasons",
        off=Replaced(outcomes, "CONTENDED", frozenset()),
        cast="jobs",
        seed=59,
    ),
    "PUB-49": Case(
        what="a page with nothing in it is taken for the end",
        protection="only a missing continuation key is the end",
        off=Replaced(marks, "poll", _ends_at_an_empty_page),
        cast="jobs",
        seed=9,
    ),
    "PUB-56": Case(
        what="a unique key never comes free",
        protection="a run that has ended holds its key no longer than it was asked to",
        off=Replaced(runs, "holds_key", lambda *_: True),
        cast="jobs",
        seed=14,
    ),
}


def show_cases(count: int, *, write: Callable[[str], object] = print) -> int:
    """Print which seed finds each; the number of those that none finds."""
    missed = 0
    for name, case in CASES.items():
        found = case.found(range(case.seed, case.seed + 1)) or case.found(range(count))
        missed += found is None
        told = "NOT FOUND" if found is None else f"seed {found[0]} of {case.cast}: {found[1][:110]}"
        write(f"{name} {case.what}\n    without: {case.protection}\n    {told}")
    return missed
