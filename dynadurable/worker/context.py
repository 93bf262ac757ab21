"""What a job's body is given: who it is, how far it got, and whether it should end."""

from __future__ import annotations

import logging
import threading
from datetime import datetime, timedelta
from typing import Any

from ..clock import Clock
from ..drivers.boto3 import Boto3Driver
from ..errors import Interrupted, LeaseLostError
from ..model import codec
from ..storage import marks
from .engine import Engine
from .held import LOST, Held

MAX_CURSOR_BYTES = 32_768


class ContextBase:
    """What ``JobContext`` and ``AsyncJobContext`` have in common."""

    def __init__(self, engine: Engine, held: Held, *, job: str, life: str = "") -> None:
        self._engine = engine
        self._held = held
        self._cursor = held.mark.cursor
        self.job = job
        """The job's name."""
        self._life = life
        self.log = logging.LoggerAdapter(logging.getLogger(f"dynadurable.job.{job}"), {"run_id": held.run_id})
        """A logger whose records carry ``run_id``."""

    @property
    def run_id(self) -> str:
        """The run's id: the same over all attempts."""
        return self._held.run_id

    @property
    def attempt(self) -> int:
        """Which start of the body this is, from 1."""
        return int(self._held.mark.attempt)

    @property
    def fence(self) -> int:
        """Grows with every claim of the run: write it beside your data and refuse smaller ones."""
        return int(self._held.mark.fence)

    @property
    def slot(self) -> datetime | None:
        """The slot of the schedule that this run is for, aware, in UTC; when it was triggered by hand, that instant.

        ``None`` for a run that was enqueued otherwise.
        """
        return self._held.slot

    @property
    def stopping(self) -> threading.Event:
        """Set when the worker shuts down, the lease is lost or the run is cancelled."""
        return self._held.stopping

    @property
    def stop_reason(self) -> str | None:
        """``"stopping"``, ``"lease lost"`` or ``"cancelled"`` once ``stopping`` is set."""
        return self._held.reason

    @property
    def cursor(self) -> Any:
        """What the last ``checkpoint`` recorded, in this attempt or an earlier one; ``None`` at the first start."""
        return None if self._cursor is None else codec.decode(self._cursor)

    @property
    def lease_remaining(self) -> timedelta:
        """How long the lease stands by the local clock; never negative."""
        return timedelta(seconds=max(0.0, self._held.deadline - self._engine.clock.monotonic()))

    @property
    def driver(self) -> Boto3Driver:
        """The app's driver, for requests with its retries."""
        return self._engine.driver

    @property
    def clock(self) -> Clock:
        """The app's clock."""
        return self._engine.clock

    @property
    def table(self) -> str:
        """The app's table."""
        return self._engine.items.schema.table

    def raise_if_stopping(self) -> None:
        """End the body here if it should end: the run is handed back, or ends as cancelled.

        Raises:
            Interrupted: not an ``Exception``; let it pass.
        """
        if self._held.stopping.is_set():
            raise Interrupted(self._held.reason or "stopping")

    def idempotency_key(self, *parts: object) -> str:
        """A key for outside APIs: the same for this run and these parts, in every attempt and process.

        >>> payments.charge(order, idempotency_key=ctx.idempotency_key("charge"))  # doctest: +SKIP
        """
        return codec.canonical_digest([self.run_id, self._life, *parts])

    async def _checkpoint(self, cursor: object) -> None:
        """The plan of ``checkpoint``."""
        data = codec.encode(cursor, path="cursor")
        codec.check_size(data, "the cursor", MAX_CURSOR_BYTES)
        self._check_held()
        engine, sent = self._engine, self._engine.clock.monotonic()
        until = engine.lease_until_ms()
        try:
            mark = await marks.checkpoint(
                engine.items, self._held.mark, cursor=data, lease_until_ms=until, before=self._held.cursor
            )
        except LeaseLostError:
            self._held.tell(LOST)
            raise
        self._cursor = data
        self._held.cursor = data
        self._held.extended(sent=sent, cancelled=bool(mark.cancelled))

    def _check_held(self) -> None:
        if not self._held.is_valid(self._engine.clock.monotonic()):
            self._held.tell(LOST)
            raise LeaseLostError(marks.lost_message(self._held.mark))


class JobContext(ContextBase):
    """Given to a ``def`` job as its first argument.

    >>> @app.job  # doctest: +SKIP
    ... def fan_out(ctx: JobContext, molt_id: str) -> None:
    ...     for page in pages_of(molt_id, after=ctx.cursor):
    ...         write(page)
    ...         ctx.checkpoint(page.last)
    """

    def checkpoint(self, cursor: object) -> None:
        """Record how far the body got, and renew the lease, in one write.

        Raises:
            PayloadRefusedError: the cursor cannot be stored.
            LeaseLostError: the run is somebody else's now; nothing was recorded, end the body.
        """
        self._engine.driver.run(self._checkpoint(cursor), give_up_at=self._held.deadline)
