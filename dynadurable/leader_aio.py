"""Leader election on an event loop; what a leader is, is told in ``leader.py``."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from datetime import timedelta
from types import TracebackType
from typing import Any, Self

from .errors import ConfigurationError, DynadurableError, Interrupted
from .leader import (
    DEFAULT_GRACE,
    DEFAULT_TTL,
    EXIT_ABANDONED,
    EXIT_OK,
    LOOK_SECONDS,
    RETRY_SECONDS,
    LeaderBase,
    TermBase,
)
from .lease_aio import AioLease
from .model.duty import Duty, delay_seconds
from .worker.contest import Contest, LeaseParts, NamedTenure
from .worker.signals import Flag, stop_on_signals

log = logging.getLogger("dynadurable.leader")


class AioTerm(TermBase):
    """One term of leadership; given to duties that take a parameter. When it is over they are cancelled."""

    async def wait(self, seconds: float) -> None:
        """Wait; not beyond the end of the term, as the duty is cancelled then."""
        await self._clock.sleep_async(seconds)


class AioLeader(LeaderBase):
    """Made by ``app.aio.leader(...)``. Each duty is a task, and is cancelled when the term is over. Used once.

    >>> async with app.aio.leader("housekeeping", [refresh]):  # doctest: +SKIP
    ...     await serve_the_web()
    """

    def __init__(
        self,
        parts: LeaseParts,
        name: str,
        duties: Sequence[Callable[..., Any]] = (),
        *,
        ttl: timedelta = DEFAULT_TTL,
        on_error: Callable[[str, BaseException], None] | None = None,
    ) -> None:
        super().__init__(parts, name, duties, ttl=ttl, is_async=True, on_error=on_error)
        self._task: asyncio.Task[None] | None = None
        self._stopping = False
        self._left: list[str] = []
        self._grace_seconds = DEFAULT_GRACE.total_seconds()

    async def start(self) -> None:
        """Stand for election in the background; see ``Leader.start``."""
        if self._task is not None or self._stopping:
            raise ConfigurationError("a leader is used once: ask the app for another with app.aio.leader()")
        if not self._duties:
            raise ConfigurationError(f"leader {self.name!r} has nothing to do: give it duties")
        self._task = asyncio.create_task(self._stand(), name=f"dynadurable leader {self.name}")

    async def stop(self, *, grace: timedelta = DEFAULT_GRACE) -> Sequence[str]:
        """Stand no more, cancel the duties, let another process lead at once; see ``Leader.stop``."""
        self._grace_seconds = grace.total_seconds()
        if self._task is not None and not self._stopping:
            self._task.cancel()
        self._stopping = True
        cancellation: asyncio.CancelledError | None = None
        while self._task is not None and not self._task.done():
            try:
                await asyncio.wait([self._task])
            except asyncio.CancelledError as error:  # the duties are being cancelled anyway: see it through
                cancellation = error
        if cancellation is not None:
            raise cancellation
        return list(self._left)

    async def run(self, *, grace: timedelta = DEFAULT_GRACE) -> int:
        """Stand for election until SIGTERM or SIGINT, then stop; see ``Leader.run``."""
        told = Flag()
        with stop_on_signals(told, Flag()):
            await self.start()
            assert self._task is not None
            try:
                while not told.is_set() and not self._task.done():
                    await asyncio.wait([self._task], timeout=LOOK_SECONDS)
            finally:
                left = await self.stop(grace=grace)
        return EXIT_ABANDONED if left else EXIT_OK

    async def __aenter__(self) -> Self:
        """Stand for election inside the block."""
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop."""
        await self.stop()

    # --- the task that stands ---------------------------------------------------------------------

    async def _stand(self) -> None:
        driver = await self._parts.loops.get()
        contest = Contest(self._parts, self._terms)
        while True:
            lease = AioLease(self._parts, self.name, ttl=self._terms.ttl)
            try:
                step = await driver.see_through(lease.contend(contest))
            except DynadurableError as error:
                log.warning("standing for leader %r failed, trying again: %s", self.name, error)
                step = RETRY_SECONDS
            except Exception:  # a defect must not end the candidacy silently
                log.exception("standing for leader %r failed, trying again", self.name)
                step = RETRY_SECONDS
            if isinstance(step, NamedTenure):
                lease.begin(step)
                await self._serve(lease)
                contest = Contest(self._parts, self._terms)
            else:
                await self._parts.clock.sleep_async(step)

    async def _serve(self, lease: AioLease) -> None:
        """One term, from its first duty to the end of the last. A cancellation is the leader's stop."""
        self._term = term = AioTerm(lease, self._parts.clock)
        log.info("this process leads %r, fence %d", self.name, lease.fence)
        tasks = [asyncio.create_task(self._perform(duty, term), name=duty.name) for duty in self._duties]
        try:
            await lease.wait_lost()
        finally:
            term.stopping.set()
            self._left = await self._end(tasks)
            if self._left:
                log.error("duties of leader %r would not end: %s; the lease runs out", self.name, self._left)
                lease.abandon()
            else:
                await lease.release()
            self._term = None
            log.info("this process leads %r no more", self.name)

    async def _end(self, tasks: Sequence[asyncio.Task[None]]) -> list[str]:
        """Cancel them until they have ended. Not within the grace of a stop: their names."""
        left = set(tasks)
        waited = 0.0
        while left and (not self._stopping or waited < max(self._grace_seconds, LOOK_SECONDS)):
            for task in left:
                task.cancel()
            _, left = await asyncio.wait(left, timeout=LOOK_SECONDS)
            waited += LOOK_SECONDS
        return [task.get_name() for task in left]

    async def _perform(self, duty: Duty, term: AioTerm) -> None:
        failures, clock = 0, self._parts.clock
        while not term.stopping.is_set():
            began = clock.monotonic()
            try:
                await duty.function(*([term] if duty.takes_term else []))
            except (asyncio.CancelledError, Interrupted) as error:
                if term.stopping.is_set() or isinstance(error, Interrupted):
                    return
                failures, seconds = delay_seconds(failures, lasted_seconds=clock.monotonic() - began)
                self._failed(duty, error, seconds)  # something inside it was cancelled, and not by us
            except Exception as error:  # noqa: BLE001 - whatever it is, the others go on and this one begins again
                failures, seconds = delay_seconds(failures, lasted_seconds=clock.monotonic() - began)
                self._failed(duty, error, seconds)
            else:
                if duty.every is None:
                    return
                failures, seconds = 0, duty.every.total_seconds() - (clock.monotonic() - began)
            await clock.sleep_async(max(0.0, seconds))
