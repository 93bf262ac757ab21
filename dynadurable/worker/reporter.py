"""Prints the figures of a worker's queues once a minute, as log lines that CloudWatch turns into metrics.

Of the workers that serve a queue and report at all, the first two in the order of their records do so: two, so that
nothing is missed while the record of one that has crashed goes out of date. What a report costs is bounded; see
``storage/figures.py``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from ..model.metrics import QueueFigures, emf_line
from ..model.queue import Queue
from ..storage import figures, workers
from ..storage.items import WorkerRecord
from .chore import STOP_SECONDS, Chore
from .engine import Engine
from .poller import Poller
from .registrar import Registrar

EVERY_SECONDS = 60.0
REPORTERS = 2


def to_stdout(line: str) -> None:
    """One write, so that lines of several threads are not mixed."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


class Reporter:
    """The figures of one worker's queues, reported on a small thread of its own. Without ``write`` it does nothing."""

    def __init__(
        self,
        engine: Engine,
        queues: Sequence[Queue],
        poller: Poller,
        registrar: Registrar,
        *,
        write: Callable[[str], None] | None,
    ) -> None:
        self._engine = engine
        self._queues = queues
        self._poller = poller
        self._registrar = registrar
        self._write = write
        self._dead_shards: dict[str, Sequence[int]] = {}
        what = "report the figures of its queues"
        self._chore = Chore("reporter", self.report, every_seconds=EVERY_SECONDS, what=what)
        self._at_end = Chore("last-report", self._report_at_end, every_seconds=EVERY_SECONDS, what=what)

    def start(self, *, after_seconds: float) -> None:
        """Begin to report after a while."""
        if self._write is not None:
            self._chore.start(after_seconds=after_seconds)

    def stop(self) -> None:
        """Report no more."""
        self._chore.stop()

    def report(self) -> None:
        """Report the queues whose turn it is ours to report."""
        self._report(self._is_ours, give_up_at=None)

    def report_at_end(self) -> None:
        """Report all queues: for a drain, after which nobody may be there. Raises nothing."""
        if self._write is not None:
            self._at_end.do()

    # --- inside -----------------------------------------------------------------------------------

    def _report_at_end(self) -> None:
        give_up_at = self._engine.clock.monotonic() + STOP_SECONDS
        self._report(lambda _serving: True, give_up_at=give_up_at)

    def _is_ours(self, serving: Sequence[WorkerRecord]) -> bool:
        """Whether we are among the first, or not known to others yet."""
        ours = self._registrar.sort_key
        reporting = sorted(str(worker.sk) for worker in serving if worker.reports)
        return ours not in reporting or reporting.index(ours) < REPORTERS

    def _report(self, is_ours: Callable[[Sequence[WorkerRecord]], bool], *, give_up_at: float | None) -> None:
        run, items, now_ms = self._engine.driver.run, self._engine.items, self._engine.clock.now_ms()
        live = run(workers.live(items, now_ms=now_ms), give_up_at=give_up_at)
        for queue in self._queues:
            serving = [worker for worker in live if queue.name in worker.queues]
            if not is_ours(serving):
                continue
            dead_shards = self._known_dead_shards(queue, now_ms, give_up_at)
            shards = self._poller.shards_of(queue.name)
            plan = figures.read(items, queue.name, shards=shards, dead_shards=dead_shards, now_ms=now_ms)
            self._tell(queue, run(plan, give_up_at=give_up_at), now_ms, workers=len(serving))

    def _known_dead_shards(self, queue: Queue, now_ms: int, give_up_at: float | None) -> Sequence[int]:
        if queue.name not in self._dead_shards:
            plan = figures.shards_with_dead(self._engine.items, queue.name, now_ms=now_ms)
            found = self._engine.driver.run(plan, give_up_at=give_up_at)
            self._dead_shards[queue.name] = sorted({*range(queue.shards), *found})
        return self._dead_shards[queue.name]

    def _tell(self, queue: Queue, found: figures.Figures, now_ms: int, *, workers: int) -> None:
        schema = self._engine.items.schema
        waited_ms = 0 if found.oldest_due_ms is None else max(0, now_ms - found.oldest_due_ms)
        told = QueueFigures(
            backlog=found.backlog,
            oldest_due_seconds=waited_ms / 1000,
            dead_letters=found.dead,
            workers=max(1, workers),  # this one is here, whether or not others know of it yet
        )
        assert self._write is not None
        self._write(emf_line(told, table=schema.table, queue=queue.name, now_ms=now_ms, prefix=schema.prefix))
