"""Queues as such: pause, resume, and how much lies in them."""

from __future__ import annotations

from collections.abc import Sequence

from ..clock import to_datetime
from ..errors import InputRefusedError, PayloadTooLargeError
from ..model.queue_info import QueueInfo
from ..operations import Operations
from ..storage import queues, workers
from ..storage.keys import check_name
from .runs import known_queues
from .steppers import AioStepper, Stepper

MAX_REASON_BYTES = 1_000
COUNT_LIMIT = 10_000
"""So many marks and dead letters of each shard are counted; more are "at least"."""


class QueuePlans:
    """What can be done with queues."""

    def __init__(self, operations: Operations) -> None:
        self._operations = operations
        self._items = operations.items

    async def pause(self, queue: str, reason: str | None) -> None:
        if reason is not None:
            _check_reason(reason)
        now_ms = self._operations.clock.now_ms()
        await queues.pause(self._items, check_name("a queue's name", queue), now_ms=now_ms, reason=reason)
        self._operations.wake()

    async def resume(self, queue: str) -> None:
        await queues.resume(self._items, check_name("a queue's name", queue))
        self._operations.wake()

    async def get(self, queue: str) -> QueueInfo:
        now_ms = self._operations.clock.now_ms()
        live = await workers.live(self._items, now_ms=now_ms)
        settings = await queues.settings(self._items, check_name("a queue's name", queue))
        counts = await queues.counts(self._items, queue, now_ms=now_ms, limit=COUNT_LIMIT)
        paused = settings is not None and bool(settings.paused)
        since = None if settings is None or settings.changed_ms is None else int(settings.changed_ms)
        return QueueInfo(
            name=queue,
            paused=paused,
            paused_at=to_datetime(since) if paused and since is not None else None,
            reason=settings.reason if settings is not None and paused else None,
            waiting=counts.waiting,
            in_flight=counts.in_flight,
            delayed=counts.delayed,
            dead=counts.dead,
            oldest_due_at=None if counts.oldest_due_ms is None else to_datetime(counts.oldest_due_ms),
            more=counts.more,
            workers=sum(queue in worker.queues for worker in live),
        )

    async def list(self) -> list[QueueInfo]:
        return [await self.get(name) for name in await known_queues(self._operations)]


def _check_reason(reason: str) -> None:
    try:
        size = len(reason.encode())
    except UnicodeEncodeError:
        raise InputRefusedError("the reason of a pause holds a lone surrogate, which UTF-8 cannot store") from None
    if size > MAX_REASON_BYTES:
        raise PayloadTooLargeError("the reason of a pause", size_bytes=size, limit_bytes=MAX_REASON_BYTES)


class Queues:
    """``app.queues``: pause, resume, and counts."""

    def __init__(self, plans: QueuePlans, run: Stepper) -> None:
        self._plans = plans
        self._run = run

    def pause(self, queue: str, *, reason: str | None = None) -> None:
        """No worker starts anything from this queue any more, within seconds; what runs goes on. One write.

        Enqueueing goes on. ``reason`` (up to 1,000 bytes) is shown to whoever asks why a run is not running.

        >>> app.queues.pause("mail", reason="the provider is down")  # doctest: +SKIP
        """
        self._run(self._plans.pause(queue, reason))

    def resume(self, queue: str) -> None:
        """Workers go on with it, within seconds."""
        self._run(self._plans.resume(queue))

    def get(self, queue: str) -> QueueInfo:
        """How much lies in the queue, and whether it is paused. Reads its own items only, 10,000 of a shard at most."""
        return self._run(self._plans.get(queue))

    def list(self) -> Sequence[QueueInfo]:
        """The same of each queue that this process or a live worker knows."""
        return self._run(self._plans.list())


class AioQueues:
    """``app.aio.queues``: ``Queues`` for event loops."""

    def __init__(self, plans: QueuePlans, run: AioStepper) -> None:
        self._plans = plans
        self._run = run

    async def pause(self, queue: str, *, reason: str | None = None) -> None:
        """No worker starts anything from this queue any more; see ``Queues.pause``."""
        await self._run(self._plans.pause(queue, reason))

    async def resume(self, queue: str) -> None:
        """Workers go on with it; see ``Queues.resume``."""
        await self._run(self._plans.resume(queue))

    async def get(self, queue: str) -> QueueInfo:
        """How much lies in the queue; see ``Queues.get``."""
        return await self._run(self._plans.get(queue))

    async def list(self) -> Sequence[QueueInfo]:
        """The same of each known queue; see ``Queues.list``."""
        return await self._run(self._plans.list())
