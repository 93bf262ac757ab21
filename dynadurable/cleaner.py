"""The cleaner: removes what has expired and what crashes have left. Two shells over ``control/cleaning.py``."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import TYPE_CHECKING

from .control.cleaning import CleanPlans, CleanSettings, Progress
from .model.clean_report import CleanEstimate, CleanReport

if TYPE_CHECKING:
    from .app import App

CLEANER_LEASE = "!cleaner"
"""The named lease under which a pass is made."""
CLEANER_TTL = timedelta(minutes=1)


class Cleaner:
    """Made by ``app.cleaner(...)``. It reads the whole table, and is the only thing in dynadurable that does.

    It deletes: runs, pages, dead letters and records that have expired, where the table's own TTL is off or a week
    late; pages that no run needs any more; marks whose enqueue was never acknowledged; letters of runs that are not
    dead. It never touches a live run, what is in a newer format, or what is not dynadurable's. It may be killed at any
    point, and runs beside workers.
    """

    def __init__(self, app: App, settings: CleanSettings) -> None:
        self._app = app
        self._settings = settings
        self._plans = CleanPlans(app.operations, settings)

    def estimate(self) -> CleanEstimate:
        """What a pass costs. Printed, it is a few plain sentences."""
        return self._app.driver.run(self._plans.estimate())

    def run(self, *, stopping: threading.Event | None = None, progress: Progress | None = None) -> CleanReport:
        """Make a pass over the table, or go on with one that was stopped or killed.

        It works under a lease, so that there is one at a time. It stops early once ``stopping`` is set (in a job:
        ``ctx.stopping``). ``progress(report)`` is called after each page.

        >>> report = app.cleaner(rate=50).run()  # doctest: +SKIP
        >>> report.removed  # doctest: +SKIP
        {'runs': 1200, 'pages': 31}

        Raises:
            LeaseBusyError: another cleaner is at work.
            LeaseLostError: the lease was lost; whoever has it goes on from here.
            PermissionMissingError: it may not scan the table: use the grant for cleaning.
        """
        if self._settings.dry_run:
            return self._app.driver.run(self._plans.run(None, stopping, progress))
        with self._app.lease(CLEANER_LEASE, ttl=CLEANER_TTL) as lease:
            return self._app.driver.run(self._plans.run(lease, stopping, progress))


class AioCleaner:
    """Made by ``app.aio.cleaner(...)``: a ``Cleaner`` for event loops."""

    def __init__(self, app: App, settings: CleanSettings) -> None:
        self._app = app
        self._settings = settings
        self._plans = CleanPlans(app.operations, settings)

    async def estimate(self) -> CleanEstimate:
        """What a pass costs; see ``Cleaner.estimate``."""
        return await self._app.loops.run(self._plans.estimate())

    async def run(self, *, stopping: threading.Event | None = None, progress: Progress | None = None) -> CleanReport:
        """Make a pass over the table; see ``Cleaner.run``. Cancelled, it can be gone on with."""
        if self._settings.dry_run:
            return await self._app.loops.run(self._plans.run(None, stopping, progress))
        async with self._app.aio.lease(CLEANER_LEASE, ttl=CLEANER_TTL) as lease:
            return await self._app.loops.run(self._plans.run(lease, stopping, progress))
