"""``app.dead``: the shells over ``DeadPlans``, one for threads and one for event loops."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, TypedDict, Unpack

from ..errors import InputRefusedError
from ..model.dead_letter import DeadFilter, DeadGroup, DeadLetter
from ..model.replay import ReplayReport
from ..model.run_info import RunInfo
from .dead import DeadPlans, Progress, ReplaySettings
from .steppers import AioStepper, Stepper

DEFAULT_LIMIT = 100


class Where(TypedDict, total=False):
    """Which letters are meant: those that fit all that is given; see ``DeadFilter``."""

    queue: str | None
    job: str | None
    since: datetime | None
    until: datetime | None
    fingerprint: str | None
    build: str | None
    before_build: str | None


class DeadLetters:
    """``app.dead``: runs whose attempts are used up, or whose error was final.

    They are kept until replayed or purged (or for the job's ``keep_failed``). All methods take the same filter:
    ``queue``, ``job``, ``since`` and ``until`` (aware), ``fingerprint`` (its beginning is enough), ``build``, and
    ``before_build``. Without ``queue`` they look at every queue that this process or a live worker knows.
    """

    def __init__(self, plans: DeadPlans, run: Stepper) -> None:
        self._plans = plans
        self._run = run

    def list(self, *, limit: int = DEFAULT_LIMIT, **where: Unpack[Where]) -> Sequence[DeadLetter]:
        """The latest dead letters that fit.

        >>> app.dead.list(job="fan_out", since=yesterday)  # doctest: +SKIP
        """
        return self._run(self._plans.latest(DeadFilter(**where), limit))

    def groups(self, *, progress: Progress | None = None, **where: Unpack[Where]) -> Sequence[DeadGroup]:
        """Those that fit by cause, the largest group first. ``progress`` is told how many were looked at so far."""
        return self._run(self._plans.groups(DeadFilter(**where), progress))

    def count(self, **where: Unpack[Where]) -> int:
        """How many fit."""
        return self._run(self._plans.count(DeadFilter(**where)))

    def get(self, run_id: str) -> RunInfo:
        """All that is known of one: every kept attempt with its traceback and causes, and the arguments.

        Raises:
            RunUnknownError: there is no such run, or it is not dead.
        """
        return self._run(self._plans.get(run_id))

    def replay(
        self,
        run_id: str | None = None,
        *,
        arguments: dict[str, Any] | None = None,
        dry_run: bool = False,
        rate: float | None = None,
        stop_after: int | None = None,
        progress: Progress | None = None,
        everything: bool = False,
        **where: Unpack[Where],
    ) -> ReplayReport:
        """Bring back one run by its id, or all that fit.

        Id, options, input and recorded progress stay, attempts begin anew. A second replay finds nothing to do.

        ``arguments`` replaces the input of one run. ``rate``: so many runs per second. ``stop_after``: stop once so
        many replayed runs in a row have failed again. ``dry_run`` only counts.

        >>> app.dead.replay(fingerprint="3fa9", before_build="v42", rate=10, stop_after=3)  # doctest: +SKIP

        Raises:
            InputRefusedError: neither a run id, a filter nor ``everything=True``; arguments that do not fit the job.
            RunUnknownError: there is no run of that id.
        """
        settings = ReplaySettings(dry_run=dry_run, rate=rate, stop_after=stop_after, arguments=arguments)
        if run_id is not None:
            return self._run(self._plans.replay_one(run_id, settings))
        return self._run(self._plans.replay(_meant(where, everything), settings, progress))

    def purge(
        self,
        run_id: str | None = None,
        *,
        dry_run: bool = False,
        progress: Progress | None = None,
        everything: bool = False,
        **where: Unpack[Where],
    ) -> ReplayReport:
        """Forget one dead run, or all that fit, for good.

        Raises:
            InputRefusedError: neither a run id, a filter nor ``everything=True``.
        """
        return self._run(self._plans.purge(_meant(where, everything, run_id), dry_run, progress))


class AioDeadLetters:
    """``app.aio.dead``: ``DeadLetters`` for event loops."""

    def __init__(self, plans: DeadPlans, run: AioStepper) -> None:
        self._plans = plans
        self._run = run

    async def list(self, *, limit: int = DEFAULT_LIMIT, **where: Unpack[Where]) -> Sequence[DeadLetter]:
        """The latest dead letters that fit; see ``DeadLetters.list``."""
        return await self._run(self._plans.latest(DeadFilter(**where), limit))

    async def groups(self, *, progress: Progress | None = None, **where: Unpack[Where]) -> Sequence[DeadGroup]:
        """Those that fit by cause; see ``DeadLetters.groups``."""
        return await self._run(self._plans.groups(DeadFilter(**where), progress))

    async def count(self, **where: Unpack[Where]) -> int:
        """How many fit."""
        return await self._run(self._plans.count(DeadFilter(**where)))

    async def get(self, run_id: str) -> RunInfo:
        """All that is known of one; see ``DeadLetters.get``."""
        return await self._run(self._plans.get(run_id))

    async def replay(
        self,
        run_id: str | None = None,
        *,
        arguments: dict[str, Any] | None = None,
        dry_run: bool = False,
        rate: float | None = None,
        stop_after: int | None = None,
        progress: Progress | None = None,
        everything: bool = False,
        **where: Unpack[Where],
    ) -> ReplayReport:
        """Bring back one run by its id, or all that fit; see ``DeadLetters.replay``."""
        settings = ReplaySettings(dry_run=dry_run, rate=rate, stop_after=stop_after, arguments=arguments)
        if run_id is not None:
            return await self._run(self._plans.replay_one(run_id, settings))
        return await self._run(self._plans.replay(_meant(where, everything), settings, progress))

    async def purge(
        self,
        run_id: str | None = None,
        *,
        dry_run: bool = False,
        progress: Progress | None = None,
        everything: bool = False,
        **where: Unpack[Where],
    ) -> ReplayReport:
        """Forget one dead run, or all that fit, for good; see ``DeadLetters.purge``."""
        return await self._run(self._plans.purge(_meant(where, everything, run_id), dry_run, progress))


def _meant(where: Where, everything: bool, run_id: str | None = None) -> DeadFilter:
    """The filter; all letters are meant only by saying so."""
    if not everything and run_id is None and not any(value is not None for value in where.values()):
        raise InputRefusedError("name a run id or a filter, or say everything=True")
    return DeadFilter(**where, run_id=run_id)
