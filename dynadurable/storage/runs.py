"""Plans about run items: the truth about a run that is more than its mark.

Every change of a run is one conditional update; its marks follow by idempotent single writes, in an order in which a
crash between any two of them is repaired by whoever claims the mark next (``settle.py``). Only three things are
transactions: what turns a self-contained mark into a run (a stale worker must not plant a second life), bringing back
the dead (there is no mark left whose claimer could repair), and a start over a dead run (its letter goes with it).

The holder's writes are conditional on three clauses together:

* the *generation*: this life of the run id, not a later one that took over the key
* the *mark* that the run names is the one we hold: a moved run has another holder
* the *fence* is not above ours: a take-over of the same mark raised it

And no write touches a run that a newer version of the library has taken over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pynamodb.expressions.condition import Condition
from pynamodb.expressions.update import Action

from ..errors import ConditionFailedError, ItemUnreadableError, KeyConflictError, LeaseLostError, TransactionFailedError
from . import formats, marks, requests
from .call import Call
from .items import LIVE, Item, Items, Mark, Page, Run
from .keys import RUN_SORT_KEY, dead_partition, queue_partition, run_partition

GRACE_MS = 600_000
"""How long an enqueue may take before its mark counts as abandoned."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Started:
    """Which run an enqueue came to: a new one, or the live one that has the key already."""

    run_id: str
    created: bool


async def read(items: Items, run_id: str) -> Run | None:
    """The run item as it stands (it may have expired: see ``is_expired``).

    Raises:
        NewerFormatError: it was written by a newer version of the library.
        ItemUnreadableError: something else has changed it.
    """
    reply = await requests.get(items.run, run_partition(items.schema, run_id), RUN_SORT_KEY)
    raw = formats.checked(reply.get("Item"), f"run {run_id}")
    if not raw:
        return None
    run = items.run.from_raw_data(dict(raw))
    run.check_whole()
    return run


def is_expired(run: Run, now_ms: int) -> bool:
    """Whether its time is over: then it counts as absent, although TTL may delete it days later."""
    return run.ttl is not None and int(run.ttl) * 1000 <= now_ms


def holds_key(run: Run, now_ms: int) -> bool:
    """Whether the run still keeps its key from being used again."""
    if run.is_live:
        return True
    return run.unique_until_ms is not None and int(run.unique_until_ms) > now_ms and not is_expired(run, now_ms)


# --- start ----------------------------------------------------------------------------------------


async def start(
    items: Items,
    run: Run,
    mark: Mark,
    *,
    run_id: str,
    now_ms: int,
    elapsed_ms: Callable[[], int],
    page: Page | None = None,
    once: bool = False,
) -> Started:
    """Start a run: mark first, then the run, put if absent or over an ended one whose key is free.

    ``elapsed_ms`` tells how long this call has taken so far. ``page`` is put before the run: what that refers to.
    ``once``: never again under this id, also not after the run has ended.

    Raises:
        KeyConflictError: the key belongs to a live run with another payload.
        NewerFormatError: it belongs to a run that a newer version of the library has written.
    """
    seen = await read(items, run_id) if run.key is not None else None
    if seen is not None and (once or holds_key(seen, now_ms)):
        return await _join(items, seen, run, run_id=run_id)
    if seen is not None:
        run.fence = max(int(run.fence), int(seen.fence) + 1)  # the fence of a run id never goes back
        mark.fence_placed = run.fence
        mark.fence = run.fence + (1 if mark.token else 0)  # an eager start has claimed it already
    await marks.place(items, mark)
    if page is not None:
        await requests.put(page)
    try:
        await _put(items, run, seen)
    except ConditionFailedError as error:
        stands = await _in_the_way(items, error, run, mark, run_id=run_id)
        if stands is None or stands.generation != run.generation:
            return await _join_instead(items, stands, run, mark, run_id=run_id)
    if elapsed_ms() > GRACE_MS // 2:
        await vouch_late(items, run, page)
    return Started(run_id=run_id, created=True)


async def _put(items: Items, run: Run, seen: Run | None) -> None:
    """Put the run, over the ended one that was seen. If that one is dead, its letter goes in the same transaction.

    A letter of another queue stays, for who may enqueue here may have no business there; and one that a newer version
    has written. Whoever looks at letters sees that they are of an earlier life (``dead.standing``).

    Raises:
        ConditionFailedError: it is not as it was seen.
    """
    put = requests.put(run, _startable(items, seen))
    if seen is None or seen.dead_letter is None or seen.queue != run.queue:
        await put
        return
    model = items.dead_letter
    may_go = model.pk.does_not_exist() | formats.not_newer(model)
    place = dead_partition(items.schema, seen.queue, int(seen.shard))
    calls = [put, requests.delete(model, place, seen.dead_letter, may_go)]
    try:
        await requests.transact(calls, token=run.generation)
    except TransactionFailedError as error:
        of_run, _ = error.reasons
        if of_run.code == "ConditionalCheckFailed":
            raise ConditionFailedError("PutItem", item=of_run.item, ambiguous=error.ambiguous) from error
        if of_run.code != "None":
            raise
        await put  # it is the letter that stands in the way


def startable(items: Items, run: Run, now_ms: int) -> Condition:
    """For a start inside the caller's transaction: nobody has the key, or whoever had it has ended and left it free."""
    model = items.run
    free = model.unique_until_ms.does_not_exist() | (model.unique_until_ms <= now_ms)
    grows = model.fence < run.fence  # a transaction sent late must not take the fence of a key back
    over = (model.state != LIVE) & formats.not_newer(model)
    condition: Condition = model.pk.does_not_exist() | (over & free & grows)
    return condition


def _startable(items: Items, seen: Run | None) -> Condition:
    model = items.run
    if seen is None:
        return model.pk.does_not_exist()
    as_seen = (model.generation == seen.generation) & (model.state == seen.state) & formats.not_newer(model)
    startable: Condition = model.pk.does_not_exist() | as_seen  # the ended run that we saw, not a new life of the key
    return startable


async def _in_the_way(items: Items, error: ConditionFailedError, run: Run, mark: Mark, *, run_id: str) -> Run | None:
    """The run that a start met; it may be our own, put by a try whose reply was lost."""
    try:
        stands = await marks.as_it_stands(items.run, run.pk, run.sk, error)
        return stands or await read(items, run_id)
    except ItemUnreadableError:
        if not error.ambiguous:  # else it may be our own run, which a newer version has gone on with
            await _ignoring_condition(_forgetting(items, mark))
        raise


def _forgetting(items: Items, mark: Mark) -> Call:
    return requests.delete(items.mark, mark.pk, mark.sk, items.mark.generation == mark.generation)


async def _join(items: Items, stands: Run, run: Run, *, run_id: str) -> Started:
    """Answer with the run that has the key, after making sure that its mark is there."""
    if (stands.key, stands.digest) != (run.key, run.digest):  # the id holds the key's hash, not the key
        raise KeyConflictError(run_id, job=run.job, key=run.key or "")
    if stands.is_live:
        await vouch(items, stands)
    return Started(run_id=run_id, created=False)


async def _join_instead(items: Items, stands: Run | None, run: Run, mark: Mark, *, run_id: str) -> Started:
    """Somebody else was quicker; our own mark points to nothing and goes."""
    forget = _forgetting(items, mark)
    try:
        if stands is None:  # it was removed again meanwhile: as good as never acknowledged
            raise LeaseLostError(f"run {run_id} was started and removed by somebody else meanwhile; enqueue it again")
        answer = await _join(items, stands, run, run_id=run_id)
    except (KeyConflictError, LeaseLostError):
        await _ignoring_condition(forget)
        raise
    await _ignoring_condition(forget)
    return answer


async def vouch(items: Items, run: Run) -> None:
    """Make sure that the mark which the run names is there, and void every decision to delete it taken so far."""
    model, mark = items.mark, pointer_to(items, run)
    actions: list[Action] = [
        model.version.set(model.version | mark.version),
        model.job.set(model.job | mark.job),
        model.attempt.set(model.attempt | mark.attempt),
        model.fence.set(model.fence | mark.fence),
        model.fence_placed.set(model.fence_placed | mark.fence_placed),
        model.generation.set(model.generation | mark.generation),
        model.placed_ms.set(model.placed_ms | mark.placed_ms),
        model.vouched.add(1),
    ]
    if mark.cursor is not None:  # else who claims the mark begins at the beginning
        actions.append(model.cursor.set(model.cursor | mark.cursor))
    # What a newer version has put there is there: it needs no word of ours.
    condition = model.pk.does_not_exist() | formats.not_newer(model)
    await _ignoring_condition(requests.update(model, mark.pk, mark.sk, actions, condition))


async def vouch_late(items: Items, run: Run, page: Page | None) -> None:
    """A start took so long that what it put first may have been condemned as abandoned: make sure that it is there."""
    if page is not None:
        await requests.put(page)
    await vouch(items, run)


def pointer_to(items: Items, run: Run) -> Mark:
    """The mark that the run names, as it is when it is put."""
    return items.mark(
        pk=queue_partition(items.schema, run.queue, int(run.shard)),
        sk=run.mark,
        job=run.job,
        attempt=run.attempts,
        fence=run.fence,
        fence_placed=run.fence,
        generation=run.generation,
        placed_ms=run.created_ms,
        cursor=run.cursor,
    )


# --- by the holder --------------------------------------------------------------------------------


def held_run(items: Items, mark: Mark) -> Condition:
    """The clauses under every write of a run's holder; see the top of this file."""
    model = items.run
    life = (model.generation == mark.generation) & (model.state == LIVE) & formats.not_newer(model)
    held: Condition = life & (model.mark == mark.sk) & (model.fence <= mark.fence)
    return held


def is_held(run: Run, mark: Mark) -> bool:
    """The same clauses for a run that was read."""
    alive = run.generation == mark.generation and run.is_live
    return alive and run.mark == mark.sk and run.fence <= mark.fence


async def move(items: Items, mark: Mark, run_key: str, changes: Sequence[Action], *, due_sort_key: str) -> Run:
    """Give the run another mark: the run names it, then it is put, then the old one goes.

    The new mark is never put before the run names it: a quick worker would delete it as a stray.

    Raises:
        LeaseLostError: the run has another holder, or was cancelled meanwhile; nothing was changed.
    """
    model = items.run
    actions = [*changes, model.mark.set(due_sort_key), model.fence.set(mark.fence), model.rev.set(model.rev + 1)]
    only_if = model.cancelled.does_not_exist()  # else the wish would lie unseen until the new mark comes due
    run = await update_held(
        items, mark, run_key, actions, applied=lambda stands: stands.mark == due_sort_key, only_if=only_if
    )
    await marks.place(items, pointer_to(items, run))
    await marks.drop(items, mark)
    return run


async def update_held(
    items: Items,
    mark: Mark,
    run_key: str,
    actions: Sequence[Action],
    *,
    applied: Callable[[Run], bool],
    only_if: Condition | None = None,
) -> Run:
    """A holder's conditional update; ``applied`` recognises this very change where a reply was lost."""
    model = items.run
    held = held_run(items, mark)
    condition = held if only_if is None else held & only_if
    try:
        reply = await requests.update(model, run_key, RUN_SORT_KEY, actions, condition, returning="ALL_NEW")
    except ConditionFailedError as error:
        stands = await marks.as_it_stands(model, run_key, RUN_SORT_KEY, error)
        mine = stands is not None and stands.generation == mark.generation and stands.fence == mark.fence
        if error.ambiguous and stands is not None and mine and applied(stands):
            return stands
        raise LeaseLostError(marks.lost_message(mark)) from error
    return model.from_raw_data(reply["Attributes"])


async def raise_fence(items: Items, mark: Mark, run_key: str) -> Run | None:
    """Read the run by raising its fence, so that no older holder's write can land any more.

    ``None`` where the run is not live, is gone or names another mark: read it then.

    Raises:
        ItemUnreadableError: something else than dynadurable changed it.
    """
    model = items.run
    actions = [model.fence.set(mark.fence), model.rev.set(model.rev + 1)]
    try:
        reply = await requests.update(model, run_key, RUN_SORT_KEY, actions, held_run(items, mark), returning="ALL_NEW")
    except ConditionFailedError:
        return None
    raised: Run = model.from_raw_data(reply["Attributes"])
    raised.check_whole()
    return raised


# --- from a self-contained mark to a run ----------------------------------------------------------


async def convert(
    items: Items, mark: Mark, run: Run, others: Sequence[Item], *, release: Condition, token: str
) -> None:
    """Turn a self-contained mark into a run item (and ``others``: its new mark, its dead letter), in one transaction.

    ``release`` is the condition on the old mark: held by us, or held by nobody.

    Raises:
        LeaseLostError: the old mark does not meet ``release`` any more; nothing was changed.
    """
    puts = [requests.put(item, type(item).pk.does_not_exist()) for item in (run, *others)]
    calls = [*puts, requests.delete(items.mark, mark.pk, mark.sk, release)]
    try:
        await requests.transact(calls, token=token)
    except TransactionFailedError as error:
        reply = await requests.get(items.run, run.pk, run.sk)
        stands = items.run.from_raw_data(reply["Item"]) if reply.get("Item") else None
        if stands is not None and stands.generation == run.generation:
            return  # it was our own write, its reply lost
        if stands is not None:  # the run had been turned already: this mark is the echo of an enqueue sent twice
            await _ignoring_condition(requests.delete(items.mark, mark.pk, mark.sk, release))
        raise LeaseLostError(marks.lost_message(mark)) from error


async def _ignoring_condition(call: Call) -> None:
    try:
        await call
    except ConditionFailedError:
        return
