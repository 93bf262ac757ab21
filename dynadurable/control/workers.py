"""Live workers, as they say of themselves once a minute."""

from __future__ import annotations

from collections.abc import Sequence

from ..model.worker_info import WorkerInfo
from ..operations import Operations
from ..storage import workers
from .steppers import AioStepper, Stepper
from .telling import to_worker_info


class WorkerPlans:
    """What can be asked of workers."""

    def __init__(self, operations: Operations) -> None:
        self._operations = operations

    async def list(self) -> list[WorkerInfo]:
        operations = self._operations
        live = await workers.live(operations.items, now_ms=operations.clock.now_ms())
        return sorted(map(to_worker_info, live), key=lambda worker: (worker.name, worker.started_at))


class Workers:
    """``app.workers``: who is at work."""

    def __init__(self, plans: WorkerPlans, run: Stepper) -> None:
        self._plans = plans
        self._run = run

    def list(self) -> Sequence[WorkerInfo]:
        """The workers that were seen within the last three minutes. A hint for people: nothing depends on it.

        >>> [worker.name for worker in app.workers.list()]  # doctest: +SKIP
        """
        return self._run(self._plans.list())


class AioWorkers:
    """``app.aio.workers``: ``Workers`` for event loops."""

    def __init__(self, plans: WorkerPlans, run: AioStepper) -> None:
        self._plans = plans
        self._run = run

    async def list(self) -> Sequence[WorkerInfo]:
        """The workers that were seen within the last three minutes; see ``Workers.list``."""
        return await self._run(self._plans.list())
