"""Casts in bad weather of one kind: what takes so long that others come in between, and what arrives long after."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from dynadurable.model.job import Job
from tests.simulation.actors import Cast
from tests.simulation.workflows import WorkflowCast
from tests.simulation.world import Steps


class CrowdCast(Cast):
    """One job and one key; callers who are frozen between their writes, workers whose requests take long."""

    keyed = 0.9
    keys = ("a",)
    weather = MappingProxyType({"slow": 0.2, "frozen": 0.03, "lost_reply": 0.08})

    def some_job(self) -> Job[Any, Any]:
        return self.kept

    def processes(self) -> list[list[Steps]]:
        dice = self.world.dice
        processes = [self.worker(f"worker-{n}", dice.randint(20, 50)) for n in range(4)]
        processes += [[self.enqueuer(f"caller-{n}")] for n in range(dice.randint(6, 14))]
        processes += [[self.operator(f"operator-{n}")] for n in range(dice.choice((0, 2, 4, 8)))]
        return processes


class FrozenCast(Cast):
    """Processes that are frozen for longer than their leases again and again."""

    keyed = 0.2
    weather = MappingProxyType({"slow": 0.1, "frozen": 0.08, "kill": 0.0})


class LateCast(WorkflowCast):
    """Requests that are given up and arrive all the same, after those that were sent in their place."""

    weather = MappingProxyType({"late": 0.12, "lost_reply": 0.05, "kill": 0.002})
