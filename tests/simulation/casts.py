"""Which cast plays a seed."""

from __future__ import annotations

from tests.simulation.actors import Cast
from tests.simulation.cleaning import CleaningCast
from tests.simulation.crowd import CrowdCast, FrozenCast, LateCast
from tests.simulation.leases import LeaseCast
from tests.simulation.newer import NewerCast, NewerLeaseCast
from tests.simulation.schedules import ScheduleCast
from tests.simulation.workflows import WorkflowCast

CASTS: dict[str, type[Cast]] = {
    "jobs": Cast,
    "workflows": WorkflowCast,
    "cleaning": CleaningCast,
    "schedules": ScheduleCast,
    "leases": LeaseCast,
    "crowd": CrowdCast,
    "frozen": FrozenCast,
    "late": LateCast,
    "newer": NewerCast,
    "newer leases": NewerLeaseCast,
}
_MOST = ("jobs", "workflows", "cleaning", "crowd", "late", "schedules", "frozen", "workflows", "leases", "crowd")
TURNS = (*_MOST, *_MOST[:-2], "newer", "newer leases")


def name_of(seed: int) -> str:
    """The cast whose turn it is."""
    return TURNS[seed % len(TURNS)]


def cast_of(seed: int) -> type[Cast]:
    """The same as a class."""
    return CASTS[name_of(seed)]
