"""Named leases: one holder at a time, and a fence that makes the writes of an earlier holder fail.

What a lease alone gives, and what the fence adds::

    time ------------------------------------------------------------------>
    A  acquires, fence 7     |  A is frozen        |  A wakes up, writes
    ===========[ lease of A  ]  . . . . . . . . .  |    |
    B                           acquires, fence 8  |    |    writes
                                ==================[ lease of B ]=========
    without the fence:                              A's write lands: over B's, or under it
    with condition_check():                         A's write is refused: the lease is at 8

A holder that is alive is told (``lost``, a callback, a cancellation) before anybody else can own the lease. One that is
frozen cannot be told anything, and may wake up in the middle of a write. Only the table can refuse that write, and it
does if the write carries ``condition_check()``.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from types import TracebackType
from typing import Any, Self

from .errors import ConfigurationError, LeaseBusyError, LeaseLostError, StoreError
from .forks import renew_after_fork
from .model.instant import clamp_delay
from .storage import leases
from .storage.call import Pause, Work
from .storage.keys import lease_key
from .worker.contest import Contest, LeaseParts, LeaseTerms, NamedTenure

log = logging.getLogger("dynadurable.lease")

ONE_TRY = timedelta()


@dataclass(frozen=True, kw_only=True, slots=True)
class FenceCondition:
    """For a conditional write of one item of your own that keeps the fence: it was not written under a later one.

    ``expression`` belongs into the ``ConditionExpression``, ``assignment`` behind the ``SET`` of an
    ``UpdateExpression``; ``names`` and ``values`` are what both refer to, typed as boto3's low-level client takes them.
    """

    expression: str
    assignment: str
    names: dict[str, str]
    values: dict[str, dict[str, str]]


class LeaseBase:
    """What ``Lease`` and ``AioLease`` have in common: everything but waiting and requests."""

    def __init__(
        self,
        parts: LeaseParts,
        name: str,
        *,
        ttl: timedelta,
        wait: timedelta | None = ONE_TRY,
        renew_every: timedelta | None = None,
        on_lost: Callable[[Any], None] | None = None,
    ) -> None:
        self._parts = parts
        self._terms = LeaseTerms(name=name, ttl=ttl, renew_every=renew_every)
        self._wait = None if wait is None else clamp_delay(wait, "wait", error=ConfigurationError)
        self._on_lost = on_lost
        self._tenure: NamedTenure | None = None
        self._last: NamedTenure | None = None
        self.name = name
        self.lost = threading.Event()
        """Set when the lease is lost while it is held. Acquired again, it is cleared."""
        renew_after_fork(self)

    def after_fork(self) -> None:
        """A forked child holds nothing: its parent goes on."""
        self._tenure = None

    def __repr__(self) -> str:
        held = f"fence {self._tenure.fence}" if self._tenure is not None else "not held"
        return f"{type(self).__name__}({self.name!r}, {held})"

    # --- ask --------------------------------------------------------------------------------------

    @property
    def fence(self) -> int:
        """Of the last acquisition: grows with each one of this name, over all processes and for ever.

        Raises:
            LeaseLostError: it was never acquired.
        """
        return self._acquired().fence

    def is_valid(self) -> bool:
        """Whether it is held, by the local clock counted from before the request was sent. Asks nobody."""
        return self._tenure is not None and self._tenure.is_valid(self._parts.clock.monotonic())

    @property
    def remaining(self) -> timedelta:
        """How long it stands by the local clock without a further renewal; never negative."""
        if self._tenure is None or not self.is_valid():
            return timedelta()
        return timedelta(seconds=max(0.0, self._tenure.deadline - self._parts.clock.monotonic()))

    def raise_if_lost(self) -> None:
        """End here what must not go on without the lease.

        Raises:
            LeaseLostError: it is not held.
        """
        if not self.is_valid():
            raise LeaseLostError(leases.lost_message(self.name))

    # --- fence ------------------------------------------------------------------------------------

    def condition_check(self) -> dict[str, Any]:
        """An element for your ``transact_write_items``: the transaction fails if the lease has moved on.

        >>> client.transact_write_items(TransactItems=[lease.condition_check(), put_timeline])  # doctest: +SKIP

        Raises:
            LeaseLostError: it was never acquired.
        """
        _, pk, sk, condition = self.condition_check_args()
        names: dict[str, str] = {}
        values: dict[str, Any] = {}
        expression = condition.serialize(names, values)
        schema = self._parts.items.schema
        return {
            "ConditionCheck": {
                "TableName": schema.table,
                "Key": {schema.partition_key: {"S": pk}, schema.sort_key: {"S": sk}},
                "ConditionExpression": expression,
                "ExpressionAttributeNames": {placeholder: name for name, placeholder in names.items()},
                "ExpressionAttributeValues": values,
            }
        }

    def condition_check_args(self) -> tuple[Any, str, str, Any]:
        """The same for PynamoDB.

        >>> transaction.condition_check(*lease.condition_check_args())  # doctest: +SKIP

        Raises:
            LeaseLostError: it was never acquired.
        """
        tenure, items = self._acquired(), self._parts.items
        condition = leases.holds(items, token=tenure.token, fence=tenure.fence)
        return (items.lease, *lease_key(items.schema, self.name), condition)

    def fence_condition(self, attribute: str = "fence") -> FenceCondition:
        """For a write outside a transaction, to an item that keeps the fence in ``attribute``.

        It refuses a holder that was overtaken once the later one has written; ``condition_check`` does so at once.

        >>> guard = lease.fence_condition()  # doctest: +SKIP
        >>> client.update_item(
        ...     TableName="shop",
        ...     Key=timeline_key,
        ...     UpdateExpression=f"SET entries = :entries, {guard.assignment}",
        ...     ConditionExpression=guard.expression,
        ...     ExpressionAttributeNames=guard.names,
        ...     ExpressionAttributeValues={":entries": entries, **guard.values},
        ... )  # doctest: +SKIP

        Raises:
            LeaseLostError: it was never acquired.
        """
        name, value = "#dd_fence", ":dd_fence"
        return FenceCondition(
            expression=f"(attribute_not_exists({name}) OR {name} <= {value})",
            assignment=f"{name} = {value}",
            names={name: attribute},
            values={value: {"N": str(self.fence)}},
        )

    # --- for the shells ---------------------------------------------------------------------------

    async def _acquire(self, wait: timedelta | None) -> NamedTenure:
        """The plan of ``acquire``.

        Raises:
            LeaseBusyError: it was held by others until the end of ``wait``.
        """
        if self._tenure is not None:
            raise ConfigurationError(f"this object holds the lease {self.name!r} already; release it, or make another")
        clock, contest = self._parts.clock, Contest(self._parts, self._terms)
        give_up_at = None if wait is None else clock.monotonic() + wait.total_seconds()
        while not isinstance(step := await self.contend(contest), NamedTenure):
            if give_up_at is not None:
                if clock.monotonic() >= give_up_at:
                    raise self._busy(contest)
                step = min(step, give_up_at - clock.monotonic())
            await Pause(step, clock)
        return step

    async def contend(self, contest: Contest) -> NamedTenure | float:
        """One step of a contest; interrupted, it does not keep what it may have taken."""
        try:
            step = await contest.step()
            await _Here()
        except (Exception, GeneratorExit):
            raise
        except BaseException:  # whether we hold it by now is not known
            await leases.release(self._parts.items, self.name, token=contest.token, fence=0)
            raise
        return step

    def _busy(self, contest: Contest) -> LeaseBusyError:
        owner = contest.seen.owner if contest.seen is not None else None
        return LeaseBusyError(f"the lease {self.name!r} is held by {owner or 'another owner'}; wait longer with wait=")

    def begin(self, tenure: NamedTenure) -> None:
        """Hold what was acquired, and renew it from now on."""
        self.lost.clear()
        self._tenure = self._last = tenure
        tenure.listen(self._told)
        self._parts.keeper.keep(tenure)

    def _end(self) -> NamedTenure | None:
        """Hold it no more: from here on no renewal is sent, and none that is under way counts."""
        tenure, self._tenure = self._tenure, None
        if tenure is not None:
            tenure.close()
            self._parts.keeper.forget(tenure)
        return tenure

    def abandon(self) -> None:
        """Hold it no more without releasing it: it runs out, and nobody else begins before."""
        self._end()

    async def _release(self, tenure: NamedTenure, *, was_valid: bool) -> bool:
        """The plan of ``release``: whether it was ours to the end."""
        try:
            return await leases.release(self._parts.items, self.name, token=tenure.token, fence=tenure.fence)
        except StoreError as error:
            log.warning("the lease %r could not be released, it runs out: %s", self.name, error)
            return was_valid

    def _told(self, _reason: str) -> None:
        """It is lost. Called in a thread that renews."""
        self.lost.set()
        if self._on_lost is not None:
            threading.Thread(target=self._call_back, name=f"dynadurable-lost-{self.name}", daemon=True).start()

    def _call_back(self) -> None:
        assert self._on_lost is not None
        try:
            self._on_lost(self)
        except Exception:
            log.exception("the on_lost callback of the lease %r raised", self.name)

    def _acquired(self) -> NamedTenure:
        if self._last is None:
            raise LeaseLostError(f"the lease {self.name!r} has not been acquired")
        return self._last


class Lease(LeaseBase):
    """Made by ``app.lease(...)``; may be used again after a release, by one holder at a time.

    >>> with app.lease("timeline-refresher", ttl=timedelta(seconds=15)) as lease:  # doctest: +SKIP
    ...     refresh(lease)
    """

    def acquire(self, *, wait: timedelta | None = ONE_TRY) -> Self:
        """Take the lease, and renew it from now on. Waits as long as ``wait`` says; ``None`` is for ever.

        Raises:
            LeaseBusyError: another owner has it.
            StoreUnavailableError: DynamoDB is out of reach.
        """
        self.begin(self._parts.driver.run(self._acquire(wait)))
        return self

    def try_acquire(self) -> bool:
        """The same in one try: whether it was free."""
        try:
            self.acquire()
        except LeaseBusyError:
            return False
        return True

    def release(self) -> bool:
        """Give it up: the name is free at once. False if it had moved on already. May be called twice."""
        was_valid, tenure = self.is_valid(), self._end()
        return tenure is None or self._parts.driver.run(self._release(tenure, was_valid=was_valid))

    def __enter__(self) -> Self:
        """Acquire it, as long as ``wait`` allows."""
        return self.acquire(wait=self._wait)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Release it.

        Raises:
            LeaseLostError: the block ended well, but the lease had moved on before its end.
        """
        if not self.release() and error is None:
            raise LeaseLostError(leases.lost_message(self.name))


class _Here(Work):
    """Does nothing: where a cancellation that came during a request reaches the plan."""

    def perform(self) -> None:
        return

    async def perform_async(self) -> None:
        return
