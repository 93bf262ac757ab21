"""Asking for runs and changing them: the plans, each thing once, and the two shells over them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from ..clock import to_datetime
from ..errors import (
    ConfigurationError,
    InputRefusedError,
    ItemUnreadableError,
    NewerFormatError,
    PayloadUnreadableError,
    RunCancelledError,
    RunDeadError,
    RunExpiredError,
    RunNotFinishedError,
    RunUnknownError,
)
from ..model import codec, instant
from ..model.explanation import Explanation, Facts, explain
from ..model.run_info import CANCELLED, DEAD, PENDING, RUNNING, SUCCEEDED, RunInfo
from ..operations import Operations
from ..storage import dead, lookup, operate, queues, runs, workers
from ..storage.call import Pause
from ..storage.keys import check_name, first_place
from ..storage.lookup import Found
from .steppers import AioStepper, Stepper
from .telling import to_listed_run, to_run_info, to_worker_info

CANCELLING = "cancelling"
FIRST_LOOK_SECONDS = 0.05
LOOK_FACTOR = 1.5
MAX_LOOK_SECONDS = 2.0
AHEAD_LIMIT = 1_000
LISTED_MARKS = 1_000  # of each shard, that a list looks at
DEFAULT_LIMIT = 100


class RunPlans:
    """What can be asked of a run and done to it."""

    def __init__(self, operations: Operations) -> None:
        self._operations = operations
        self._items = operations.items
        self._clock = operations.clock

    # --- ask --------------------------------------------------------------------------------------

    async def info(self, run_id: str) -> RunInfo:
        """The run as it stands.

        Raises:
            RunUnknownError, RunExpiredError: there is nothing to tell.
        """
        found = await lookup.find(self._items, run_id)
        self._check_known(found)
        told = to_run_info(found, self._clock.now_ms())
        assert told is not None
        if told.payload is None and found.run is not None:
            told = replace(told, payload=await lookup.input_of(self._items, found.run))
        return told

    async def status(self, run_id: str) -> str:
        return (await self.info(run_id)).state

    async def wait(self, run_id: str, patience: timedelta | None) -> str:
        """The state that the run ended in. A self-contained run that was seen and is gone has succeeded."""
        found, was_live = await self._end_of(run_id, patience)
        return SUCCEEDED if found.run is None and was_live else str(self._ended(found).state)

    async def result(self, run_id: str, patience: timedelta | None) -> Any:
        """What the run returned."""
        found, was_live = await self._end_of(run_id, patience)
        if found.run is None and was_live:
            raise RunUnknownError(run_id, "it has succeeded; its job keeps no result: give it keep_result=")
        run = self._ended(found)
        if run.state == CANCELLED:
            raise RunCancelledError(run_id, "it was cancelled")
        if run.state == DEAD:
            raise self._dead(run_id, found)
        data = await lookup.result_of(self._items, run, run_id)
        if data is None and run.result_page:
            raise RunExpiredError(run_id, "its result was kept, and the time to keep it is over")
        if data is None:
            raise RunUnknownError(run_id, "it has succeeded; its job keeps no result: give it keep_result=")
        return codec.decode(data)

    async def _end_of(self, run_id: str, patience: timedelta | None) -> tuple[Found, bool]:
        """Wait for the end of a run; whether it was seen alive before."""
        clock, delay, was_live = self._clock, FIRST_LOOK_SECONDS, False
        seconds = 0.0 if patience is None else instant.clamp_delay(patience, "timeout").total_seconds()
        give_up_at = clock.monotonic() + seconds
        while True:
            found = await lookup.find(self._items, run_id)
            if found.mark is None and (found.run is None or not found.run.is_live):
                return found, was_live
            was_live = True
            left = give_up_at - clock.monotonic()
            if left <= 0:
                told = to_run_info(found, clock.now_ms())
                state = PENDING if told is None else told.state
                raise RunNotFinishedError(run_id, f"it is still {state}; ask again, or ask explain() why")
            await Pause(min(delay, left), clock)
            delay = min(MAX_LOOK_SECONDS, delay * LOOK_FACTOR)

    def _ended(self, found: Found) -> Any:
        self._check_known(found)
        return found.run

    def _check_known(self, found: Found) -> None:
        if found.unreadable:
            raise RunUnknownError(found.run_id, "it was written by a newer version of dynadurable")
        if found.run is not None and runs.is_expired(found.run, self._clock.now_ms()):
            ended = f"it ended as {found.run.state}, and the time to keep it was over"
            raise RunExpiredError(
                found.run_id, f"{ended} {to_datetime(int(found.run.ttl) * 1000):%Y-%m-%d %H:%M:%S} UTC"
            )
        if found.run is None and found.mark is None:
            raise RunUnknownError(found.run_id, "there is no such run, or it has ended and kept nothing")

    def _dead(self, run_id: str, found: Found) -> RunDeadError:
        told = to_run_info(found, self._clock.now_ms())
        assert told is not None
        last = told.failures[-1] if told.failures else None
        count = f"{told.attempts} attempt{'' if told.attempts == 1 else 's'}"
        error = RunDeadError(run_id, f"it died after {count}: {told.error}", failure=last, attempts=told.failures)
        if last is not None and last.traceback:
            error.add_note(f"The last failure was:\n{last.traceback}")
        return error

    async def explain(self, run_id: str) -> Explanation:
        """Why the run is not running. Never raises for a run that is unknown or damaged: that is an explanation too."""
        try:
            return await self._explain(run_id)
        except (ItemUnreadableError, PayloadUnreadableError) as error:
            damage = "" if isinstance(error, NewerFormatError) else str(error)
            now = to_datetime(self._clock.now_ms())
            return explain(Facts(run_id=run_id, now=now, run=None, unreadable=True, damage=damage))

    async def _explain(self, run_id: str) -> Explanation:
        found = await lookup.find(self._items, run_id)
        now_ms = self._clock.now_ms()
        told = to_run_info(found, now_ms)
        facts: dict[str, Any] = {"run_id": run_id, "now": to_datetime(now_ms), "run": told}
        if told is None:
            shaped = lookup.is_possible(run_id) and (first_place(run_id) is not None or "@" in run_id)
            return explain(Facts(**facts, is_run_id=shaped, unreadable=found.unreadable))
        job = self._operations.registry.get(told.job)
        facts["max_attempts"] = None if job is None else job.retry.max_attempts
        if told.has_ended:
            expired = found.run is not None and runs.is_expired(found.run, now_ms)
            return explain(Facts(**facts, expired=expired))
        settings = await queues.settings(self._items, told.queue)
        if settings is not None and settings.paused:
            since = None if settings.changed_ms is None else to_datetime(int(settings.changed_ms))
            facts.update(paused=True, paused_at=since, pause_reason=settings.reason)
        live = await workers.live(self._items, now_ms=now_ms)
        facts["workers"] = [to_worker_info(worker) for worker in live]
        if found.mark is None:
            facts["mark_missing"] = True
        elif told.state == PENDING:
            facts["ahead"] = await queues.ahead(self._items, pk=found.mark.pk, sk=found.mark.sk, limit=AHEAD_LIMIT)
        return explain(Facts(**facts, ahead_limit=AHEAD_LIMIT))

    # --- change -----------------------------------------------------------------------------------

    async def cancel(self, run_id: str) -> str:
        """End it or ask for its end; gives the state that it has come to."""
        done = await operate.cancel(self._items, run_id, clock=self._clock, ids=self._operations.ids)
        if done.outcome == operate.ASKED:
            return CANCELLING
        if done.outcome == operate.DONE:
            return CANCELLED
        return str(self._ended(done.found).state)

    async def run_now(self, run_id: str) -> None:
        await self._reschedule(run_id, None)
        self._operations.wake()

    async def delay_until(self, run_id: str, at: datetime) -> None:
        await self._reschedule(run_id, instant.due_ms(self._clock.now_ms(), at=at))

    async def _reschedule(self, run_id: str, due_ms: int | None) -> None:
        done = await operate.reschedule(self._items, run_id, due_ms=due_ms, clock=self._clock, ids=self._operations.ids)
        if done.outcome != operate.ENDED:
            return
        run = self._ended(done.found)
        if run.state == DEAD:
            raise self._dead(run_id, done.found)
        if run.state == CANCELLED:
            raise RunCancelledError(run_id, "it was cancelled")
        raise RunUnknownError(run_id, "it has succeeded; there is nothing left to run")

    async def retry(self, run_id: str) -> str:
        """A dead run is replayed, a waiting one comes due now; gives which: ``"replayed"`` or ``"due"``."""
        found = await lookup.find(self._items, run_id)
        if found.run is None or found.run.state != DEAD:
            await self.run_now(run_id)
            return "due"
        self._check_known(found)
        now_ms = self._clock.now_ms()
        revival = dead.Revival(generation=self._operations.ids.make(now_ms), due_ms=now_ms)
        await dead.replay(self._items, run_id, None, revival)
        self._operations.wake()
        return "replayed"

    # --- list -------------------------------------------------------------------------------------

    async def list(self, *, queue: str | None, state: str | None, job: str | None, limit: int) -> list[RunInfo]:
        """Pending and running ones, in due order."""
        if state not in (None, PENDING, RUNNING):
            raise InputRefusedError(f"runs are listed while they are pending or running, not {state!r}; see app.dead")
        now_ms = self._clock.now_ms()
        names = await chosen_queues(self._operations, queue)
        found: list[RunInfo] = []
        for name in names:
            for candidate in await queues.pending(self._items, name, limit=max(limit, LISTED_MARKS)):
                told = to_listed_run(candidate, name, now_ms)
                if (state is None or told.state == state) and (job is None or told.job == job):
                    found.append(told)
        return sorted(found, key=_by_due)[:limit]


async def known_queues(operations: Operations) -> list[str]:
    """The queues that this process or any live worker knows. There is no other register of them."""
    live = await workers.live(operations.items, now_ms=operations.clock.now_ms())
    return sorted({*operations.known_queues(), *(str(queue) for worker in live for queue in worker.queues)})


async def chosen_queues(operations: Operations, queue: str | None) -> list[str]:
    """The queue that was named, or all that are known.

    Raises:
        ConfigurationError: none was named and none is known: an empty answer would say too much.
    """
    names = [check_name("a queue's name", queue)] if queue is not None else await known_queues(operations)
    if not names:
        raise ConfigurationError("no queue is known: no job is defined here and no live worker was seen; name a queue")
    return names


def _by_due(told: RunInfo) -> tuple[float, str]:
    return (0.0 if told.due_at is None else told.due_at.timestamp(), told.run_id)


class Runs:
    """``app.runs``: lists of what is pending and running."""

    def __init__(self, plans: RunPlans, run: Stepper) -> None:
        self._plans = plans
        self._run = run

    def list(
        self, *, queue: str | None = None, state: str | None = None, job: str | None = None, limit: int = DEFAULT_LIMIT
    ) -> Sequence[RunInfo]:
        """Pending and running runs in due order, read from the queues themselves, never by a scan.

        Without ``queue`` those of every queue that this process or a live worker knows. ``state``: ``"pending"`` or
        ``"running"``. Ended runs lie in no queue: ask for them by id, for dead ones ``app.dead.list()``.

        >>> app.runs.list(queue="trench", limit=10)  # doctest: +SKIP

        Raises:
            InputRefusedError: another state.
        """
        return self._run(self._plans.list(queue=queue, state=state, job=job, limit=limit))


class AioRuns:
    """``app.aio.runs``: ``Runs`` for event loops."""

    def __init__(self, plans: RunPlans, run: AioStepper) -> None:
        self._plans = plans
        self._run = run

    async def list(
        self, *, queue: str | None = None, state: str | None = None, job: str | None = None, limit: int = DEFAULT_LIMIT
    ) -> Sequence[RunInfo]:
        """Pending and running runs in due order; see ``Runs.list``."""
        return await self._run(self._plans.list(queue=queue, state=state, job=job, limit=limit))
