"""Contending for a named lease: when to look, when to try, and what is held after that."""

from __future__ import annotations

import os
import random
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta

from ..clock import Clock, UniqueIds
from ..drivers.boto3 import Boto3Driver
from ..drivers.loops import LoopDrivers
from ..errors import ConfigurationError
from ..model.instant import clamp_delay
from ..storage import leases
from ..storage.items import Items, Lease
from ..storage.keys import check_name
from .keeper import Keeper
from .tenure import RENEWALS, TOLD_AT, Tenure

MIN_TTL = timedelta(seconds=1)
FIRST_LOOK_SECONDS = 0.05
LOOK_FACTOR = 1.5
MAX_LOOK_SECONDS = 1.0
LOOKS_IN_TTL = 10
MIN_WAIT_SECONDS = 0.01


@dataclass(frozen=True, kw_only=True)
class LeaseParts:
    """What the named leases of one app share."""

    items: Items
    driver: Boto3Driver
    loops: LoopDrivers
    clock: Clock
    ids: UniqueIds
    keeper: Keeper
    name: str | None = None
    dice: Callable[[], float] = field(default=random.random)

    @property
    def owner(self) -> str:
        """Who a lease says that it is held by; for people."""
        return self.name or f"{socket.gethostname()}-{os.getpid()}"


@dataclass(frozen=True, kw_only=True, slots=True)
class LeaseTerms:
    """A lease's name and times, checked. ``renew_every``: by default a third of ``ttl``.

    Raises:
        NameRefusedError: a name that cannot be used.
        ConfigurationError: times that leave no room to try a renewal again before the lease counts as lost.
    """

    name: str
    ttl: timedelta
    renew_every: timedelta | None = None

    def __post_init__(self) -> None:
        check_name("a lease's name", self.name)
        ttl = clamp_delay(self.ttl, "ttl", error=ConfigurationError)
        if ttl < MIN_TTL:
            raise ConfigurationError(f"ttl must be at least {MIN_TTL.total_seconds():g} s, not {self.ttl}")
        if self.renew_every is None:
            return
        renew_every = clamp_delay(self.renew_every, "renew_every", error=ConfigurationError)
        if not renew_every:
            raise ConfigurationError("renew_every must be longer than nothing")
        if 2 * renew_every > TOLD_AT * ttl:
            raise ConfigurationError(
                f"renew_every={self.renew_every} leaves no room to try a renewal again within ttl={self.ttl}: "
                f"it may be {TOLD_AT / 2:.0%} of ttl at most; leave it out for a third"
            )

    @property
    def seconds(self) -> float:
        """The lease's length."""
        return self.ttl.total_seconds()

    @property
    def renew_seconds(self) -> float:
        """The time between two renewals."""
        return self.seconds / RENEWALS if self.renew_every is None else self.renew_every.total_seconds()


class NamedTenure(Tenure):
    """One acquisition of a named lease."""

    def __init__(self, terms: LeaseTerms, *, token: str, fence: int, sent: float) -> None:
        super().__init__(
            f"the lease {terms.name!r}", lease_seconds=terms.seconds, sent=sent, renew_seconds=terms.renew_seconds
        )
        self.name = terms.name
        self.token = token
        self.fence = fence

    async def renewal(self, items: Items, *, lease_until_ms: int) -> bool:
        await leases.renew(items, self.name, token=self.token, lease_until_ms=lease_until_ms)
        return False


class Contest:
    """One contender's tries. The first step tries at once; later ones read, and try again when the lease is free."""

    def __init__(self, parts: LeaseParts, terms: LeaseTerms) -> None:
        self._parts = parts
        self._terms = terms
        self._look_seconds = FIRST_LOOK_SECONDS
        self.seen: Lease | None = None
        """Who holds it, as far as is known."""
        self.token = ""
        """Of the last try: a fresh one for each, so that what came of an earlier one is never taken for it."""

    async def step(self) -> NamedTenure | float:
        """The lease, or the seconds to wait before the next step."""
        parts, terms = self._parts, self._terms
        if self.seen is not None:
            self.seen = await leases.read(parts.items, terms.name, consistent=False)
            if self.seen is not None and not leases.is_free(self.seen, parts.clock.earliest_ms()):
                return self._wait()
        sent = parts.clock.monotonic()
        self.token = parts.ids.make(parts.clock.now_ms())
        taken = await leases.acquire(
            parts.items,
            terms.name,
            token=self.token,
            owner=parts.owner,
            now_ms=parts.clock.earliest_ms(),
            lease_until_ms=parts.clock.latest_ms() + round(terms.seconds * 1000),
        )
        self.seen = taken.lease
        if taken.mine:
            assert taken.lease is not None
            return NamedTenure(terms, token=self.token, fence=int(taken.lease.fence), sent=sent)
        return self._wait()

    def _wait(self) -> float:
        """Until the next look, but not past the instant at which the lease lapses."""
        seconds = self._look_seconds * (0.5 + 0.5 * self._parts.dice())
        longest = min(MAX_LOOK_SECONDS, self._terms.seconds / LOOKS_IN_TTL)
        self._look_seconds = min(longest, self._look_seconds * LOOK_FACTOR)
        if self.seen is not None and self.seen.lease_until_ms is not None:
            left_ms = int(self.seen.lease_until_ms) - self._parts.clock.earliest_ms() + 1
            seconds = min(seconds, left_ms / 1000)
        return max(MIN_WAIT_SECONDS, seconds)
