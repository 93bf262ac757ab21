"""An app on a table in memory, in which everything lies that the library writes: for commands to be tried on."""

from __future__ import annotations

from tests.clean.site import Site
from tests.clean.test_formats import RECORDED, load, restored

RUNS: list[str] = sorted(load(RECORDED[-1])["runs"].values())


def fresh() -> Site:
    """A table as it was recorded."""
    site, _ = restored(load(RECORDED[-1]))
    return site


app = fresh().app
