"""Makes the tables of what the simulation notices, and reads them again for the tests."""

from __future__ import annotations

import logging
import multiprocessing
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tests.simulation.mutants import Mutant, caught_by, clause_mutant
from tests.simulation.rules import EQUIVALENT, all_mutants, rule_mutants
from tests.simulation.stories import STORIES

TABLE = Path(__file__).parents[2] / "docs" / "protocol-mutants.md"
HEAD = """\
# What the conditions of the protocol are for

Each row is a clause that was left out of the condition of one kind of request, or a rule that was switched off, and a
seed of the simulation that notices: `python -m tests.simulation.run --seed N --cast C` plays it with everything on.
Made by `python -m tests.simulation.run --mutants`; a test plays every row again.

| left out | cast | seed | what is noticed |
|---|---|---|---|
"""
STORY_HEAD = """
## Missed in a story

Chance comes to these only once in many thousand seeds. `tests/simulation/stories*.py` tell for each the shortest story
in which it is missed; a test tells every story with the clause and without:
"""
REASONS = """
## Not missed

Left out, nothing was lost in any seed, and this is why:
"""
MAX_TEXT = 110


class Row(NamedTuple):
    """A mutant and the seed that notices it."""

    name: str
    cast: str
    seed: int
    why: str

    def caught_again(self) -> tuple[str, int, str] | None:
        """What that very seed notices now."""
        return caught_by(mutant_of(self.name), range(self.seed, self.seed + 1), cast=self.cast)


def rows() -> list[Row]:
    """The table as it was last made."""
    found = []
    for line in TABLE.read_text().splitlines() if TABLE.exists() else ():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if len(cells) == 4 and cells[2].isdigit():
            found.append(Row(cells[0].strip("`"), cells[1], int(cells[2]), cells[3]))
    return found


def mutant_of(name: str) -> Mutant:
    """The mutant of that name."""
    rule = next((one for one in rule_mutants() if one.name == name), None)
    where, what = name.split(": ", 1)
    return rule or clause_mutant(where, what)


def _judge(job: tuple[str, tuple[str, ...], int, Row | None]) -> tuple[str, Row | None]:
    logging.disable(logging.CRITICAL)
    name, casts, count, known = job
    mutant = mutant_of(name)
    if known is not None and known.cast in casts:
        again = known.caught_again()
        if again is not None:
            return name, Row(name, *again)
    if name in STORIES or name in EQUIVALENT:
        return name, None
    mutant = Mutant(where=mutant.where, what=mutant.what, apply=mutant.apply, casts=casts)
    caught = caught_by(mutant, range(count))
    return name, None if caught is None else Row(name, *caught)


def show_mutants(count: int, *, jobs: int, write: Callable[[str], object]) -> int:
    """Make the table anew, with the seeds that are known where they still notice; the number of survivors."""
    known = {row.name: row for row in rows()}
    asked = [(one.name, one.casts, count, known.get(one.name)) for one in all_mutants()]
    caught: list[Row] = []
    survivors: list[str] = []
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        for name, row in pool.imap_unordered(_judge, asked):
            if row is not None:
                caught.append(row)
            elif name not in EQUIVALENT and name not in STORIES:
                survivors.append(name)
            write(f"{name}\n    {_told(name, row)}")
            sys.stdout.flush()
    TABLE.write_text(_text(caught, survivors))
    write(f"{len(asked)} mutants, {len(survivors)} survivors")
    return len(survivors)


def _told(name: str, row: Row | None) -> str:
    if row is not None:
        return f"seed {row.seed} of {row.cast}: {row.why[:MAX_TEXT]}"
    if name in STORIES:
        return f"story: {told_by(name)}"
    return f"survived: {EQUIVALENT[name]}" if name in EQUIVALENT else "SURVIVED"


def told_by(name: str) -> str:
    """The story's name, in words."""
    return STORIES[name].__name__.removeprefix("test_").replace("_", " ")


def _text(caught: list[Row], survivors: list[str]) -> str:
    lines = [f"| `{row.name}` | {row.cast} | {row.seed} | {_cell(row.why)} |" for row in sorted(caught)]
    lines += [f"| `{name}` | - | nothing | NOT NOTICED |" for name in survivors]
    seeds = {row.name for row in caught}
    stories = [f"- `{name}`: {told_by(name)}" for name in sorted(STORIES) if name not in seeds]
    reasons = [f"- `{name}`: {why}" for name, why in sorted(EQUIVALENT.items()) if name not in seeds]
    return HEAD + "\n".join([*lines, STORY_HEAD, *stories, REASONS, *reasons]) + "\n"


def _cell(why: str) -> str:
    return why.replace("|", "/").replace("\n", " ")[:MAX_TEXT]
