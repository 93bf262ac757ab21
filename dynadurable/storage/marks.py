"""Plans about marks: place, poll, claim, renew, checkpoint, hand back, finish.

Each is one request when all goes well. The second request, where there is one, happens only when a reply was lost and
the store did not show the item that stood in the way: then the plan reads back and compares tokens (an own write that
was applied must never be taken for somebody else's).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pynamodb.expressions.condition import Condition
from pynamodb.expressions.update import Action

from ..errors import ConditionFailedError, LeaseLostError
from . import formats, requests
from .call import Call
from .items import Item, Items, Mark, is_ours, is_sound
from .keys import SETTINGS_SORT_KEY, due_bound, parse_mark_sort_key, queue_partition
from .prepared import prepared, put_new

ModelType = TypeVar("ModelType", bound=Item)
MAX_LOOKS = 10


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """What a poll saw of a mark: enough to decide whether to try for it."""

    pk: str
    sk: str
    run_id: str
    due_ms: int
    order: str
    """Of those due at the same instant, what was enqueued first is the least."""
    job: str
    attempt: int
    token: str | None
    lease_until_ms: int | None
    readable: bool
    """False for an item in a format newer than this library's: it is left alone."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Page:
    """One page of a shard, in due order."""

    candidates: Sequence[Candidate]
    paused: bool
    next_start: Mapping[str, Any] | None


async def place(items: Items, mark: Mark) -> None:
    """Put a new mark. Its key is unique, so whatever stands there already is this very mark."""
    try:
        await put_new(items.mark, mark)
    except ConditionFailedError:
        return  # our own write, its reply was lost; it may even have been worked off since


async def poll(
    items: Items, *, queue: str, shard: int, limit: int, until_ms: int | None, start: Mapping[str, Any] | None = None
) -> Page:
    """Read one page of a shard. With ``until_ms`` only what is due by then; without, what comes first."""
    model = items.mark
    pk = queue_partition(items.schema, queue, shard)
    key = model.pk == pk
    if until_ms is not None:
        bound = due_bound(until_ms)
        if start is not None and start[items.schema.sort_key]["S"] >= bound:
            # An earlier page without a bound, or by a clock that was ahead, has ended beyond it, perhaps at an item of
            # the table's owner. DynamoDB refuses to begin there, and nothing that is asked for lies behind it.
            return Page(candidates=(), paused=False, next_start=None)
        key = key & (model.sk < bound)
    reply = await requests.query(model, key, limit=limit, start=start, fields=_poll_fields(items))
    candidates, paused = [], False
    for raw in reply.get("Items", ()):
        sort_key = raw[items.schema.sort_key]["S"]
        if sort_key == SETTINGS_SORT_KEY:
            paused = bool(raw.get(items.queue_settings.paused.attr_name, {}).get("BOOL"))
            continue
        candidate = to_candidate(items, pk, raw)
        if candidate is not None:
            candidates.append(candidate)
    return Page(candidates=candidates, paused=paused, next_start=reply.get("LastEvaluatedKey"))


async def claim(
    items: Items, *, pk: str, sk: str, token: str, now_ms: int, lease_until_ms: int, worker: str, counts: int = 1
) -> Mark | None:
    """Take a mark that nobody holds; ``None`` if somebody does, or it is gone. ``counts``: attempts that this uses.

    ``now_ms`` is a lower bound of the store's time and ``lease_until_ms`` counts from an upper bound, so that two
    leases never overlap in real time, whatever the clocks say within their bounds.
    """
    model = items.mark
    try:
        reply = await _claim(
            model,
            pk=pk,
            sk=sk,
            token=token,
            now_ms=now_ms,
            lease_until_ms=lease_until_ms,
            worker=worker,
            counts=counts,
        )
    except ConditionFailedError as error:
        held = await as_it_stands(model, pk, sk, error)
        return held if held is not None and held.token == token else None
    return model.from_raw_data(reply["Attributes"])


@prepared
def _claim(
    model: type[Mark],
    *,
    pk: str,
    sk: str,
    token: str,
    now_ms: int,
    lease_until_ms: int,
    worker: str,
    counts: int,
) -> Call:
    exists = model.pk.exists() & formats.not_newer(model)  # an update of nothing would plant a ghost
    free = model.lease_until_ms.does_not_exist() | (model.lease_until_ms < now_ms)  # never a holder's, see ``claim``
    actions = [
        model.token.set(token),
        model.fence.set(model.fence + 1),
        model.attempt.set(model.attempt + counts),
        model.lease_until_ms.set(lease_until_ms),
        model.worker.set(worker),
    ]
    return requests.update(model, pk, sk, actions, exists & free, returning="ALL_NEW")


async def renew(items: Items, mark: Mark, *, lease_until_ms: int) -> Mark:
    """Extend the lease; the reply carries whether the run was cancelled meanwhile.

    Raises:
        LeaseLostError: somebody else holds the mark, or it is gone.
    """
    try:
        reply = await _renewal(items.mark, **_claim_of(mark), lease_until_ms=lease_until_ms)
    except ConditionFailedError as error:
        return await _still_held(items, mark, error)
    return items.mark.from_raw_data(reply["Attributes"])


async def checkpoint(
    items: Items, mark: Mark, *, cursor: bytes, lease_until_ms: int, before: bytes | None = None
) -> Mark:
    """Record how far the body got, and extend the lease with the same write.

    ``before`` is the cursor that this one takes the place of, as far as is known: a copy of the request that comes late
    must not take back what was recorded after it.

    Raises:
        LeaseLostError: as for ``renew``; nothing was recorded.
    """
    for _ in range(MAX_LOOKS):
        request = _checkpoint(
            items.mark, **_claim_of(mark), before=before, cursor=cursor, lease_until_ms=lease_until_ms
        )
        try:
            reply = await request
        except ConditionFailedError as error:
            stands = await _still_held(items, mark, error)
            if error.ambiguous and stands.cursor == cursor:
                return stands
            before = stands.cursor
        else:
            return items.mark.from_raw_data(reply["Attributes"])
    raise LeaseLostError(lost_message(mark))


async def hand_back(
    items: Items, mark: Mark, *, refund: int = 1, not_before_ms: int | None = None, fence: int | None = None
) -> None:
    """Give the mark up, claimable at once (or from ``not_before_ms``), without using an attempt.

    ``fence``: what the next claim counts on from, where that is more than the mark says.

    A mark that has moved on is somebody else's: then there is nothing to give back, and nothing is raised.
    """
    model = items.mark
    actions: list[Action] = [model.token.remove(), model.worker.remove(), model.attempt.set(model.attempt - refund)]
    if not_before_ms is None:
        actions.append(model.lease_until_ms.remove())
    else:
        actions.append(model.lease_until_ms.set(not_before_ms))
    if fence is not None:
        actions.append(model.fence.set(fence))
    try:
        await requests.update(model, mark.pk, mark.sk, actions, held_by(items, mark))
    except ConditionFailedError:
        return


async def finish(items: Items, mark: Mark) -> None:
    """Delete a self-contained mark: its run has succeeded.

    Raises:
        LeaseLostError: it was taken over or deleted by somebody else; the run is not ours to end.
    """
    try:
        await _finish(items.mark, **_claim_of(mark))
    except ConditionFailedError as error:
        if not error.ambiguous or await as_it_stands(items.mark, mark.pk, mark.sk, error) is not None:
            raise LeaseLostError(lost_message(mark)) from error


async def drop(items: Items, mark: Mark) -> None:
    """Delete a pointer mark that has done its duty.

    ``vouched`` must be as it was at the claim: whoever acknowledged the run in between voids the decision to delete.
    """
    unvouched = items.mark.vouched.does_not_exist() if mark.vouched is None else items.mark.vouched == mark.vouched
    try:
        await requests.delete(items.mark, mark.pk, mark.sk, held_by(items, mark) & unvouched)
    except ConditionFailedError:
        return  # it moved on, or was vouched for: its next claimer repairs


async def request_cancel(items: Items, mark: Mark) -> bool:
    """Ask whoever holds the mark to end its run as cancelled; false if it is not as it was seen: look again."""
    model = items.mark
    as_seen = model.token.does_not_exist() if mark.token is None else model.token == mark.token
    try:
        await requests.update(model, mark.pk, mark.sk, [model.cancelled.set(True)], model.pk.exists() & as_seen)
    except ConditionFailedError:
        return False
    return True


async def read(items: Items, pk: str, sk: str) -> Mark | None:
    """The mark as it stands, strongly consistent."""
    reply = await requests.get(items.mark, pk, sk)
    raw = reply.get("Item")
    return items.mark.from_raw_data(raw) if raw and is_ours(raw) else None


def held_by(items: Items, mark: Mark) -> Condition:
    """The clause under every write of a holder: the token is the one of this very claim."""
    return items.mark.token == mark.token


def lost_message(mark: Mark) -> str:
    key = parse_mark_sort_key(mark.sk)
    return f"the lease on run {key.run_id if key else mark.sk} has moved on; this worker writes nothing more for it"


async def as_it_stands(model: type[ModelType], pk: str, sk: str, error: ConditionFailedError) -> ModelType | None:
    """The item that a failed condition met: from the error's hint, or read back where an own write may be behind it.

    ``None`` if that is not known, or it is in a newer format.
    """
    raw = error.item
    if raw is None and error.ambiguous:
        raw = (await requests.get(model, pk, sk)).get("Item")
    return model.from_raw_data(dict(raw)) if raw and is_ours(raw) else None


def to_candidate(items: Items, pk: str, raw: Mapping[str, Any]) -> Candidate | None:
    """A polled item as a candidate; ``None`` for what is not a mark of ours.

    Read without making a model of it: a poll sees many marks for each one that is claimed.
    """
    sort_key = raw[items.schema.sort_key]["S"]
    key = parse_mark_sort_key(sort_key)
    if key is None or "dd_v" not in raw:
        return None
    readable = is_ours(raw) and _is_sound(raw)
    told = raw if readable else {}  # of a newer format only the key is known to mean what it says
    lease = told.get("dd_lease")
    return Candidate(
        pk=pk,
        sk=sort_key,
        run_id=key.run_id,
        due_ms=key.due_ms,
        order=key.order,
        job=told["dd_job"]["S"] if "dd_job" in told else "",
        attempt=int(told["dd_attempt"]["N"]) if "dd_attempt" in told else 0,
        token=told["dd_token"]["S"] if "dd_token" in told else None,
        lease_until_ms=int(lease["N"]) if lease is not None else None,
        readable=readable,
    )


LATEST_MS = 253_402_300_799_999
"""The end of the calendar."""
_POLLED_TYPES = {"dd_job": "S", "dd_attempt": "N", "dd_token": "S", "dd_lease": "N"}


def _is_sound(raw: Mapping[str, Any]) -> bool:
    """Whether the attributes of a polled mark have their types.

    An item that somebody put there by hand must not end the poll, and with it the whole queue.
    """
    sound = all(kind in raw[name] and is_sound(raw[name]) for name, kind in _POLLED_TYPES.items() if name in raw)
    return sound and int(raw.get("dd_lease", {}).get("N", "0")) <= LATEST_MS


async def _still_held(items: Items, mark: Mark, error: ConditionFailedError) -> Mark:
    """The mark as it stands, where the claim is still ours: then another write of ours has come first.

    Raises:
        LeaseLostError: it is not.
    """
    stands = await as_it_stands(items.mark, mark.pk, mark.sk, error) or await read(items, mark.pk, mark.sk)
    if stands is None or stands.token != mark.token:
        raise LeaseLostError(lost_message(mark)) from error
    return stands


def _claim_of(mark: Mark) -> dict[str, str]:
    """Which claim it is that a holder's request belongs to."""
    return {"pk": mark.pk, "sk": mark.sk, "token": mark.token or ""}


@prepared
def _renewal(model: type[Mark], *, pk: str, sk: str, token: str, lease_until_ms: int) -> Call:
    actions = [model.lease_until_ms.set(lease_until_ms)]
    longer = model.lease_until_ms <= lease_until_ms  # a copy that comes late must not shorten the lease
    return requests.update(model, pk, sk, actions, (model.token == token) & longer, returning="ALL_NEW")


@prepared
def _checkpoint(
    model: type[Mark], *, pk: str, sk: str, token: str, before: bytes | None, cursor: bytes, lease_until_ms: int
) -> Call:
    actions = [model.cursor.set(cursor), model.lease_until_ms.set(lease_until_ms)]
    as_left = model.cursor.does_not_exist() if before is None else model.cursor == before
    return requests.update(model, pk, sk, actions, (model.token == token) & as_left, returning="ALL_NEW")


@prepared
def _finish(model: type[Mark], *, pk: str, sk: str, token: str) -> Call:
    return requests.delete(model, pk, sk, model.token == token)


def _poll_fields(items: Items) -> tuple[str, ...]:
    model = items.mark
    attributes = (model.sk, model.version, model.job, model.attempt, model.token, model.lease_until_ms)
    paused = items.queue_settings.paused.attr_name
    return (*(attribute.attr_name or "" for attribute in attributes), paused or "")
