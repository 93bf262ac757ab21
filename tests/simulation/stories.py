"""For clauses that chance misses only once in many thousand seeds: the shortest story in which each is missed.

In each a plan is stopped before its write, something happens, and the write must be refused.
"""

from __future__ import annotations

from tests.simulation import stories_of_jobs, stories_of_runs
from tests.simulation.told import STORIES

__all__ = ["STORIES", "stories_of_jobs", "stories_of_runs"]
