"""Says once a minute that this worker is alive, which queues it serves and which jobs it knows.

For people who ask why a run is not running. Leases are kept alive elsewhere, and nothing is ever decided by this: a
worker that cannot say it works all the same.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence

from ..errors import DynadurableError
from ..model.excerpt import excerpt
from ..storage import workers
from ..storage.items import WorkerRecord
from .engine import Engine

log = logging.getLogger("dynadurable.worker")

BEAT_SECONDS = workers.BEAT_MS / 1000
STOP_SECONDS = 3.0
MAX_BUILD_BYTES = 128


class Registrar:
    """The record of one worker, kept on a small thread of its own."""

    def __init__(self, engine: Engine, queues: Sequence[str], *, concurrency: int, async_concurrency: int) -> None:
        self._engine = engine
        self._queues = queues
        self._slots = {False: concurrency, True: async_concurrency}
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._record: WorkerRecord | None = None
        self._warned = False

    def start(self, *, after_seconds: float) -> None:
        """Begin to say so after a while."""
        loop = threading.Thread(target=self._loop, args=(after_seconds,), name="dynadurable-registrar", daemon=True)
        self._thread = loop
        self._thread.start()

    def stop(self) -> None:
        """The worker stops: take the record back, if there is one. A crash leaves it, and it goes out of date."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(timeout=STOP_SECONDS)
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
        )
        engine.driver.run(workers.beat(record))
        self._record = record
        if first and record.build:
            engine.driver.run(workers.note_build(engine.items, record.build, now_ms=now_ms))

    def _loop(self, wait: float) -> None:
        while not self._stopping.wait(wait):
            wait = BEAT_SECONDS
            try:
                self.beat()
            except DynadurableError as error:
                self._complain(error)
            except Exception:
                log.exception("saying that this worker is alive met a defect, trying again")

    def _complain(self, error: DynadurableError) -> None:
        if not self._warned:
            log.warning("this worker cannot say that it is alive, and works all the same: %s", error)
        self._warned = True
