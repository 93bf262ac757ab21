"""Says once a minute that this worker is alive, which queues it serves and which jobs it knows.

For people who ask why a run is not running. Leases are kept alive elsewhere, and nothing is ever decided by this: a
worker that cannot say it works all the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import DynadurableError
from ..log import careful_log
from ..model.excerpt import excerpt
from ..storage import workers
from ..storage.items import WorkerRecord
from .chore import STOP_SECONDS, Chore
from .engine import Engine

log = careful_log("dynadurable.worker")

BEAT_SECONDS = workers.BEAT_MS / 1000
MAX_BUILD_BYTES = 128


class Registrar:
    """The record of one worker, kept on a small thread of its own. ``reports``: it tells of its queues' figures too."""

    def __init__(
        self, engine: Engine, queues: Sequence[str], *, concurrency: int, async_concurrency: int, reports: bool = False
    ) -> None:
        self._engine = engine
        self._queues = queues
        self._slots = {False: concurrency, True: async_concurrency}
        self._reports = reports
        self._record: WorkerRecord | None = None
        self._chore = Chore("registrar", self.beat, every_seconds=BEAT_SECONDS, what="say that it is alive")

    @property
    def sort_key(self) -> str | None:
        """Where the record lies, as soon as there is one."""
        return None if self._record is None else str(self._record.sk)

    def start(self, *, after_seconds: float) -> None:
        """Begin to say so after a while."""
        self._chore.start(after_seconds=after_seconds)

    def stop(self) -> None:
        """The worker stops: take the record back, if there is one. A crash leaves it, and it goes out of date."""
        self._chore.stop()
        record, self._record = self._record, None
        if record is None:
            return
        try:
            give_up_at = self._engine.clock.monotonic() + STOP_SECONDS
            self._engine.driver.run(workers.forget(self._engine.items, record), give_up_at=give_up_at)
        except DynadurableError as error:
            log.info("the record of this worker could not be deleted, it goes out of date: %s", error)

    def beat(self) -> None:
        """Say so now."""
        engine, now_ms = self._engine, self._engine.clock.now_ms()
        first = self._record is None
        started_ms = now_ms if self._record is None else int(self._record.started_ms)
        unique = engine.ids.make(now_ms) if self._record is None else self._record.sk.rpartition("#")[2]
        record = workers.record(
            engine.items,
            name=excerpt(engine.worker_id, MAX_BUILD_BYTES),
            unique=unique,
            queues=self._queues,
            jobs=list(engine.registry.names()),
            concurrency=sum(slots for kind, slots in self._slots.items() if engine.registry.has(is_async=kind)),
            build=None if engine.build is None else excerpt(engine.build, MAX_BUILD_BYTES),
            started_ms=started_ms,
            now_ms=now_ms,
            reports=self._reports,
            schedules=[schedule.digest for schedule in engine.registry.schedules.values()],
        )
        engine.driver.run(workers.beat(record))
        self._record = record
        if first and record.build:
            engine.driver.run(workers.note_build(engine.items, record.build, now_ms=now_ms))
