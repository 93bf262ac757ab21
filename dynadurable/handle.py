"""A run in the caller's hands: which one it is, and what can be asked of it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from .model.explanation import Explanation
from .model.run_info import RunInfo

if TYPE_CHECKING:
    from .app import App

Returned = TypeVar("Returned")


class RunHandle(Generic[Returned]):
    """What ``app.enqueue`` and ``app.run`` give. ``id`` is the run's id, for another process to ask by."""

    def __init__(self, app: App, run_id: str) -> None:
        self._app = app
        self.id = run_id

    def __repr__(self) -> str:
        return f"RunHandle({self.id!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RunHandle) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    # --- ask --------------------------------------------------------------------------------------

    def status(self) -> str:
        """``"pending"``, ``"running"``, ``"succeeded"``, ``"dead"`` or ``"cancelled"``.

        Raises:
            RunUnknownError: there is no such run, or it has ended and nothing was to be kept of it (a plain job that
                succeeds leaves nothing behind).
            RunExpiredError: it has ended, and the time to keep it is over.
        """
        return self._app.driver.run(self._app.run_plans.status(self.id))

    def info(self) -> RunInfo:
        """All that the table tells of it: attempts, due time, worker, failures, arguments. Raises as ``status``."""
        return self._app.driver.run(self._app.run_plans.info(self.id))

    def result(self, *, timeout: timedelta | None = None) -> Returned:
        """What the job returned, if it keeps its result; waits for the end for so long (default: not at all).

        >>> app.enqueue(render, page=7).result(timeout=timedelta(seconds=30))  # doctest: +SKIP

        Raises:
            RunNotFinishedError: it has not ended within that time.
            RunDeadError: it failed for good; carries the last ``failure`` and all kept ``attempts``.
            RunCancelledError: it was cancelled.
            RunExpiredError: the time to keep the result is over.
            RunUnknownError: there is no such run, or its job keeps no result.
        """
        value: Returned = self._app.driver.run(self._app.run_plans.result(self.id, timeout))
        return value

    def wait(self, *, timeout: timedelta | None = None) -> str:
        """The state it has ended in; waits for that for so long (default: not at all).

        Raises:
            RunNotFinishedError: it has not ended within that time.
            RunUnknownError, RunExpiredError: as for ``status``.
        """
        return self._app.driver.run(self._app.run_plans.wait(self.id, timeout))

    def explain(self) -> Explanation:
        """Why it is not running, and what to do about it; printed, it is a few plain sentences. Always has an answer.

        >>> print(run.explain())  # doctest: +SKIP
        Queue 'mail' is paused since 2027-01-15 11:58:00 UTC (2 min ago): the provider is down. Resume it with ...
        """
        return self._app.driver.run(self._app.run_plans.explain(self.id))

    # --- change -----------------------------------------------------------------------------------

    def cancel(self) -> str:
        """Let it not happen; gives the state that it has come to.

        A pending run is gone at once: ``"cancelled"``. The worker of a running one is told within a third of its lease,
        and the run ends when its body does: ``"cancelling"``. One that has ended stays as it is: ``"succeeded"``,
        ``"dead"`` or ``"cancelled"``.

        Raises:
            RunUnknownError, RunExpiredError: as for ``status``.
        """
        return self._app.driver.run(self._app.run_plans.cancel(self.id))

    def run_now(self) -> None:
        """Let it come due now: a delayed run, or one that waits for its next attempt.

        Raises:
            LeaseBusyError: a worker is at it.
            RunDeadError: it is dead: ``app.dead.replay(run.id)`` brings it back.
            RunCancelledError, RunUnknownError, RunExpiredError: there is nothing left to run.
        """
        self._app.driver.run(self._app.run_plans.run_now(self.id))

    def delay_until(self, at: datetime) -> None:
        """Let it not start before that instant, which is aware.

        Raises:
            InputRefusedError: not an aware datetime; else as ``run_now``.
        """
        self._app.driver.run(self._app.run_plans.delay_until(self.id, at))

    def send_event(self, name: str, value: Any = None) -> bool:
        """Tell the workflow of an event, which it gets by ``ctx.wait_event(name)``, be that before or after this.

        The first value counts; whether that is this one. False also if the run has ended. To send the same value again
        is safe, and right where it is not known whether it arrived.

        Raises:
            RunUnknownError: there is no such run, or it is no workflow.
            InputRefusedError: the value cannot be stored.
        """
        return self._app.driver.run(self._app.signal_plans.send_event(self.id, name, value))


class AioRunHandle(Generic[Returned]):
    """What ``app.aio.enqueue`` and ``app.aio.run`` give: a ``RunHandle`` for event loops."""

    def __init__(self, app: App, run_id: str) -> None:
        self._app = app
        self.id = run_id

    def __repr__(self) -> str:
        return f"AioRunHandle({self.id!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AioRunHandle) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    async def status(self) -> str:
        """The state it is in; see ``RunHandle.status``."""
        return await self._app.loops.run(self._app.run_plans.status(self.id))

    async def info(self) -> RunInfo:
        """All that the table tells of it; see ``RunHandle.info``."""
        return await self._app.loops.run(self._app.run_plans.info(self.id))

    async def result(self, *, timeout: timedelta | None = None) -> Returned:  # noqa: ASYNC109 - as in RunHandle
        """What the job returned; see ``RunHandle.result``."""
        value: Returned = await self._app.loops.run(self._app.run_plans.result(self.id, timeout))
        return value

    async def wait(self, *, timeout: timedelta | None = None) -> str:  # noqa: ASYNC109 - as in RunHandle
        """The state it has ended in; see ``RunHandle.wait``."""
        return await self._app.loops.run(self._app.run_plans.wait(self.id, timeout))

    async def explain(self) -> Explanation:
        """Why it is not running; see ``RunHandle.explain``."""
        return await self._app.loops.run(self._app.run_plans.explain(self.id))

    async def cancel(self) -> str:
        """Let it not happen; see ``RunHandle.cancel``."""
        return await self._app.loops.run(self._app.run_plans.cancel(self.id))

    async def run_now(self) -> None:
        """Let it come due now; see ``RunHandle.run_now``."""
        await self._app.loops.run(self._app.run_plans.run_now(self.id))

    async def delay_until(self, at: datetime) -> None:
        """Let it not start before that instant; see ``RunHandle.delay_until``."""
        await self._app.loops.run(self._app.run_plans.delay_until(self.id, at))

    async def send_event(self, name: str, value: Any = None) -> bool:
        """Tell the workflow of an event; see ``RunHandle.send_event``."""
        return await self._app.loops.run(self._app.signal_plans.send_event(self.id, name, value))


class TransactModels(list[tuple[Any, Any]]):
    """Pairs of a PynamoDB model and its condition, and the id of the run that they are."""

    def __init__(self, run_id: str, pairs: list[tuple[Any, Any]]) -> None:
        super().__init__(pairs)
        self.run_id = run_id


class TransactItems(list[dict[str, Any]]):
    """Elements for ``transact_write_items``, and the id of the run that they are."""

    def __init__(self, run_id: str, elements: list[dict[str, Any]]) -> None:
        super().__init__(elements)
        self.run_id = run_id
