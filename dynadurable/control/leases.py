"""Named leases from outside: list them, show one, break one."""

from __future__ import annotations

from collections.abc import Sequence

from ..clock import to_datetime
from ..errors import LeaseBusyError, LeaseLostError
from ..model.lease_info import FREE, HELD, LAPSED, LeaseInfo
from ..operations import Operations
from ..storage import leases
from ..storage.items import Lease
from ..storage.keys import check_name
from .steppers import AioStepper, Stepper

DEFAULT_LIMIT = 1_000


class LeasePlans:
    """What can be asked of leases and done to them by those who do not hold them."""

    def __init__(self, operations: Operations) -> None:
        self._items = operations.items
        self._clock = operations.clock

    async def list(self, limit: int) -> list[LeaseInfo]:
        return [self._told(lease) for lease in await leases.list_leases(self._items, limit=limit)]

    async def get(self, name: str) -> LeaseInfo | None:
        lease = await leases.read(self._items, check_name("a lease's name", name))
        return None if lease is None else self._told(lease)

    async def break_(self, name: str, fence: int | None) -> LeaseInfo:
        lease = await leases.read(self._items, check_name("a lease's name", name))
        if lease is None:
            raise LeaseLostError(f"there is no lease {name!r}: it was never acquired")
        told = self._told(lease)
        if fence is not None and fence != told.fence:
            raise LeaseBusyError(f"the lease {name!r} is at fence {told.fence} by now, not at {fence}; look again")
        if lease.token and not await leases.break_lease(self._items, name, seen=lease):
            raise LeaseBusyError(f"the lease {name!r} changed hands while it was being broken; look again")
        return told

    def _told(self, lease: Lease) -> LeaseInfo:
        state = FREE
        if lease.lease_until_ms is not None:
            state = LAPSED if leases.is_free(lease, self._clock.now_ms()) else HELD
        return LeaseInfo(
            name=lease.sk,
            state=state,
            fence=int(lease.fence),
            owner=lease.owner,
            since=None if lease.since_ms is None else to_datetime(int(lease.since_ms)),
            until=None if lease.lease_until_ms is None else to_datetime(int(lease.lease_until_ms)),
        )


class Leases:
    """``app.leases``: look at leases, and take one from its holder."""

    def __init__(self, plans: LeasePlans, run: Stepper) -> None:
        self._plans = plans
        self._run = run

    def list(self, *, limit: int = DEFAULT_LIMIT) -> Sequence[LeaseInfo]:
        """Every lease that was ever acquired, by name, free ones too; at most ``limit``.

        >>> [lease.name for lease in app.leases.list() if lease.state == "held"]  # doctest: +SKIP
        """
        return self._run(self._plans.list(limit))

    def get(self, name: str) -> LeaseInfo | None:
        """The lease as it stands; ``None`` if it was never acquired."""
        return self._run(self._plans.get(name))

    def break_(self, name: str, *, fence: int | None = None) -> LeaseInfo:
        """Take the lease from its holder: the name is free at once. Gives the lease as it was.

        The holder learns of it at its next renewal; what it writes with ``condition_check()`` fails from now on, what
        it writes without does not. ``fence``: break it only if it is still at that fence.

        Raises:
            LeaseLostError: it was never acquired.
            LeaseBusyError: it changed hands meanwhile; nothing was changed.
        """
        return self._run(self._plans.break_(name, fence))


class AioLeases:
    """``app.aio.leases``: ``Leases`` for event loops."""

    def __init__(self, plans: LeasePlans, run: AioStepper) -> None:
        self._plans = plans
        self._run = run

    async def list(self, *, limit: int = DEFAULT_LIMIT) -> Sequence[LeaseInfo]:
        """Every lease that was ever acquired, by name; see ``Leases.list``."""
        return await self._run(self._plans.list(limit))

    async def get(self, name: str) -> LeaseInfo | None:
        """The lease as it stands; see ``Leases.get``."""
        return await self._run(self._plans.get(name))

    async def break_(self, name: str, *, fence: int | None = None) -> LeaseInfo:
        """Take the lease from its holder; see ``Leases.break_``."""
        return await self._run(self._plans.break_(name, fence))
