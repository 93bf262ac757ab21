"""A cast that crowds around one key, slowly: what takes long enough for others to come in between."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from dynadurable.model.job import Job
from tests.simulation.actors import Cast
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
