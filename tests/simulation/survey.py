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

TABLE = Path(__file__).parents[2] / "docs" / "protocol-mutants.md"
HEAD = """\
# What the conditions of the protocol are for

Each row is a clause that was left out of the condition of one kind of request, or a rule that was switched off, and a
seed of the simulation that notices: `python -m tests.simulation.run --seed N --cast C` plays it with everything on.
Made by `python -m tests.simulation.run --mutants`; a test plays every row again.

| left out | cast | seed | what is noticed |
|---|---|---|---|
"""
REASONS = """
## Clauses that others make superfluous

They cost nothing and say what is meant. Left out, nothing is lost:

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
    mutant = Mutant(where=mutant.where, what=mutant.what, apply=mutant.apply, casts=casts)
    caught = caught_by(mutant, range(1 if name in EQUIVALENT else count))
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
            elif name not in EQUIVALENT:
                survivors.append(name)
            write(f"{name}\n    {_told(name, row)}")
            sys.stdout.flush()
    TABLE.write_text(_text(caught, survivors))
    write(f"{len(asked)} mutants, {len(survivors)} survivors")
    return len(survivors)


def _told(name: str, row: Row | None) -> str:
    if row is not None:
        return f"seed {row.seed} of {row.cast}: {row.why[:MAX_TEXT]}"
    return f"survived: {EQUIVALENT[name]}" if name in EQUIVALENT else "SURVIVED"


def _text(caught: list[Row], survivors: list[str]) -> str:
    lines = [f"| `{row.name}` | {row.cast} | {row.seed} | {_cell(row.why)} |" for row in sorted(caught)]
    lines += [f"| `{name}` | - | nothing | NOT NOTICED |" for name in survivors]
    reasons = [f"- `{name}`: {why}" for name, why in sorted(EQUIVALENT.items())]
    return HEAD + "\n".join(lines) + "\n" + REASONS + "\n".join(reasons) + "\n"


def _cell(why: str) -> str:
    return why.replace("|", "/").replace("\n", " ")[:MAX_TEXT]
