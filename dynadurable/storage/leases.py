"""Plans about named leases: acquire, renew, release, show, break, list.

The item is made by the first ``acquire`` of the name and never deleted, so that its fence only grows. The partitions
hold nothing but leases, so a list of them is a Query of each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pynamodb.expressions.condition import Condition
from pynamodb.expressions.update import Action

from ..errors import ConditionFailedError, LeaseLostError
from . import formats, marks, requests
from .call import Several
from .items import Items, Lease
from .keys import LEASE_SHARDS, lease_key, lease_partition

PARALLEL = 8
PAGE_ITEMS = 500


@dataclass(frozen=True, kw_only=True, slots=True)
class Taken:
    """What came of an ``acquire``: the lease as it stands, and whether it is ours."""

    lease: Lease | None
    """``None`` if it changed while it was looked at."""
    mine: bool


async def acquire(items: Items, name: str, *, token: str, owner: str, now_ms: int, lease_until_ms: int) -> Taken:
    """Take the lease if nobody holds it. One request; a second one where the store does not show who holds it.

    ``now_ms`` is a lower bound of the store's time and ``lease_until_ms`` counts from an upper bound, so that two
    leases never overlap in real time. A token is used for one acquisition, however often that is tried.
    """
    model = items.lease
    pk, sk = lease_key(items.schema, name)
    new = model.pk.does_not_exist()
    free = model.lease_until_ms.does_not_exist() | (model.lease_until_ms < now_ms)  # never a holder's, see above
    readable = formats.not_newer(model)
    actions: list[Action] = [
        model.version.set(model.version | model().version),
        model.token.set(token),
        model.fence.set((model.fence | 0) + 1),
        model.lease_until_ms.set(lease_until_ms),
        model.owner.set(owner),
        model.since_ms.set(now_ms),
    ]
    try:
        reply = await requests.update(model, pk, sk, actions, new | (free & readable), returning="ALL_NEW")
    except ConditionFailedError as error:
        stands = await marks.as_it_stands(model, pk, sk, error) or await read(items, name)
        return Taken(lease=stands, mine=stands is not None and stands.token == token)
    return Taken(lease=model.from_raw_data(reply["Attributes"]), mine=True)


async def renew(items: Items, name: str, *, token: str, lease_until_ms: int) -> None:
    """Extend the lease.

    Raises:
        LeaseLostError: somebody else has taken it, or it was released or broken.
    """
    model = items.lease
    pk, sk = lease_key(items.schema, name)
    longer = model.lease_until_ms <= lease_until_ms  # a copy that comes late must not shorten the lease
    held = (model.token == token) & longer
    try:
        await requests.update(model, pk, sk, [model.lease_until_ms.set(lease_until_ms)], held)
    except ConditionFailedError as error:
        stands = await marks.as_it_stands(model, pk, sk, error) or await read(items, name)
        if stands is None or stands.token != token:
            raise LeaseLostError(lost_message(name)) from error


async def release(items: Items, name: str, *, token: str, fence: int) -> bool:
    """Give the lease up, if it is still ours; the name is free at once. False if it has moved on: nothing was changed.

    A renewal that is under way meanwhile finds another token or none, and cannot bring the lease back.
    """
    model = items.lease
    pk, sk = lease_key(items.schema, name)
    try:
        await requests.update(model, pk, sk, _freed(items), model.token == token)
    except ConditionFailedError as error:
        stands = await marks.as_it_stands(model, pk, sk, error)
        return error.ambiguous and stands is not None and not stands.token and int(stands.fence) == fence
    return True


async def break_lease(items: Items, name: str, *, seen: Lease) -> bool:
    """Take the lease from whoever was seen to hold it; false if somebody else holds it by now.

    The holder learns of it at its next renewal; from now on its conditions on the lease fail.
    """
    model = items.lease
    pk, sk = lease_key(items.schema, name)
    try:
        await requests.update(model, pk, sk, _freed(items), model.token == seen.token)
    except ConditionFailedError as error:
        stands = await marks.as_it_stands(model, pk, sk, error)
        return error.ambiguous and stands is not None and not stands.token
    return True


async def read(items: Items, name: str, *, consistent: bool = True) -> Lease | None:
    """The lease as it stands.

    Raises:
        NewerFormatError: a newer version of this library has written it.
    """
    pk, sk = lease_key(items.schema, name)
    reply = await requests.get(items.lease, pk, sk, consistent=consistent)
    raw = formats.checked(reply.get("Item"), f"the lease {name!r}")
    return items.lease.from_raw_data(dict(raw)) if raw else None


async def list_leases(items: Items, *, limit: int) -> list[Lease]:
    """All leases that were ever taken, by name; at most ``limit``."""
    plans = [_of_shard(items, shard, limit) for shard in range(LEASE_SHARDS)]
    found: list[Lease] = []
    for outcome in await Several(plans, limit=PARALLEL):
        if isinstance(outcome, Exception):
            raise outcome
        found += outcome
    return sorted(found, key=lambda lease: lease.sk)[:limit]


def holds(items: Items, *, token: str, fence: int) -> Condition:
    """For a user's own transaction: the lease has not moved on."""
    held: Condition = (items.lease.token == token) & (items.lease.fence == fence)
    return held


def is_free(lease: Lease, now_ms: int) -> bool:
    """Whether it can be taken, as far as is known; ``now_ms`` is a lower bound of the store's time."""
    return lease.lease_until_ms is None or int(lease.lease_until_ms) < now_ms


def lost_message(name: str) -> str:
    return f"the lease {name!r} has moved on; whoever holds it now goes on"


def _freed(items: Items) -> list[Action]:
    """The owner stays, so that it can be told who was the last."""
    return [items.lease.token.remove(), items.lease.lease_until_ms.remove()]


async def _of_shard(items: Items, shard: int, limit: int) -> Sequence[Lease]:
    model = items.lease
    found: list[Lease] = []
    start: Mapping[str, Any] | None = None
    while True:
        key = model.pk == lease_partition(items.schema, shard)
        reply = await requests.query(model, key, limit=min(PAGE_ITEMS, limit - len(found)), start=start)
        found += formats.models(model, reply.get("Items", ()), "some leases")
        start = reply.get("LastEvaluatedKey")
        if start is None or len(found) >= limit:
            return found
