"""Plans about what a live workflow is told from outside, and how it waits for that: events, callbacks, its children.

A signal is an item of its own in the run's partition, put if absent: so the first one wins, and the run item does not
grow with them. A run that waits is *parked*: its mark is due later (at most a day, see ``workflow/``), and it says in
``waits`` what for. No wake-up is lost:

* whoever signals puts the signal, *then* reads the run; if that waits for it, its mark is moved to now
* whoever parks has the run say what it waits for, *then* reads the signals; if one is there, it moves the mark to now

Both read strongly consistent, so whoever of the two comes second sees the other. The mark that the waiter held goes
only after its second look; if it dies before, the claimer of that mark finds a run that waits, and wakes it
(``settle.py``). A signaller that dies before its second step was never acknowledged, and signals again: then it also
puts the mark that the run names, in case it had moved it and not put it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from pynamodb.expressions.update import Action

from ..errors import ConditionFailedError
from . import batches, formats, marks, requests, runs
from .births import place_of
from .items import LIVE, Items, Mark, Page, Run
from .journal import prefix
from .keys import RUN_SORT_KEY, escape, mark_sort_key, queue_partition, run_partition

EVENT, CALLBACK, CHILD, BEAT = "e", "b", "c", "h"
OK, BAD = "ok", "failed"

ANYTHING = "*"
MAX_WAITS_BYTES = 300
"""A run that waits for more than fits says that it waits for anything: its item must stay small."""
GATHER_MS = 1_000
"""Such a run is woken so much later, so that what comes in the meantime wakes it only once."""
MAX_LOOKS = 10


@dataclass(frozen=True, kw_only=True, slots=True)
class Signal:
    """What the run was told: a value, or why something failed."""

    value: bytes | None
    outcome: str
    at_ms: int


def topic(kind: str, name: str) -> str:
    """What a run waits for, as it stands in ``waits`` and at the end of the signal's sort key."""
    return f"{kind}#{escape(name)}"


def sort_key(journal_id: str, topic_: str) -> str:
    """Where a signal lies."""
    return prefix(journal_id) + topic_


async def read(items: Items, run: Run, topics: Sequence[str]) -> dict[str, Signal]:
    """Those of these signals that have come."""
    places = {sort_key(run.journal_id, one): one for one in topics}
    got = await batches.read(items, items.page, [(run.pk, key) for key in places])
    return {
        places[key]: _signal(items.page.from_raw_data(dict(raw)))
        for (_, key), raw in got.items()
        if formats.checked(raw, f"signal {places[key]!r}")
    }


def _signal(page: Page) -> Signal:
    return Signal(value=page.body, outcome=page.outcome or OK, at_ms=int(page.at_ms or 0))


# --- telling --------------------------------------------------------------------------------------


async def tell(items: Items, run_id: str, journal_id: str, topic_: str, signal: Signal, *, now_ms: int) -> bool:
    """Put the signal if none was first, and wake the run if it waits for it; whether this signal is what counts.

    The same signal again counts as the same one.
    """
    pk = run_partition(items.schema, run_id)
    page = items.page(
        pk=pk,
        sk=sort_key(journal_id, topic_),
        body=signal.value,
        outcome=signal.outcome,
        at_ms=signal.at_ms,
    )
    counts, again = True, False
    try:
        await requests.put(page, items.page.pk.does_not_exist())
    except ConditionFailedError as error:
        again = True
        stands = await marks.as_it_stands(items.page, page.pk, page.sk, error)
        if stands is None:
            stands = (await _standing(items, page)) or page
        counts = (stands.body, stands.outcome) == (page.body, page.outcome)
    run = await runs.read(items, run_id)
    if run is not None and run.is_live and run.journal_id == journal_id:
        if again:
            await marks.place(items, runs.pointer_to(items, run))
        await wake(items, run, run_id=run_id, topic_=topic_, now_ms=now_ms)
    return counts


async def _standing(items: Items, page: Page) -> Page | None:
    raw = formats.checked((await requests.get(items.page, page.pk, page.sk)).get("Item"), "a signal")
    return items.page.from_raw_data(dict(raw)) if raw else None


def waits_for(run: Run, topic_: str | None) -> bool:
    """Whether the run is parked for that (``None``: for anything at all)."""
    waits: Collection[str] = run.waits or ()
    return bool(waits) and (topic_ is None or topic_ in waits or ANYTHING in waits)


async def wake(items: Items, run: Run, *, run_id: str, topic_: str | None, now_ms: int) -> None:
    """Have a parked run come due now, if it still waits for that."""
    stands: Run | None = run
    for _ in range(MAX_LOOKS):
        if stands is None or not stands.is_live or not waits_for(stands, topic_):
            return
        moved = await _moved(items, stands, run_id=run_id, now_ms=now_ms)
        if moved is not None:
            await marks.place(items, runs.pointer_to(items, moved))
            await _forget(items, stands)
            return
        stands = await runs.read(items, run_id)


async def _moved(items: Items, run: Run, *, run_id: str, now_ms: int) -> Run | None:
    """The run with its new mark; ``None`` if it is not as it was seen."""
    model = items.run
    due_ms = now_ms + (GATHER_MS if ANYTHING in (run.waits or ()) else 0)
    key = mark_sort_key(due_ms, run_id, place=place_of(run.generation, int(run.rev) + 1))
    parked = (model.state == LIVE) & (model.mark == run.mark) & model.waits.exists()  # else somebody is at work on it
    as_seen = (model.generation == run.generation) & parked & formats.not_newer(model)
    actions: list[Action] = [model.mark.set(key), model.waits.remove(), model.rev.set(model.rev + 1)]
    try:
        reply = await requests.update(model, run.pk, RUN_SORT_KEY, actions, as_seen, returning="ALL_NEW")
    except ConditionFailedError as error:
        stands = await marks.as_it_stands(model, run.pk, RUN_SORT_KEY, error)
        return stands if stands is not None and stands.mark == key else None  # our own write, its reply was lost
    return model.from_raw_data(reply["Attributes"])


async def _forget(items: Items, run: Run) -> None:
    """Delete the mark that a parked run had, unless somebody has claimed it: that one repairs and deletes."""
    model = items.mark
    unclaimed = model.pk.exists() & model.token.does_not_exist() & formats.not_newer(model)
    try:
        await requests.delete(model, queue_partition(items.schema, run.queue, int(run.shard)), run.mark, unclaimed)
    except ConditionFailedError:
        return


# --- waiting --------------------------------------------------------------------------------------


async def park(
    items: Items,
    mark: Mark,
    run: Run,
    changes: Sequence[Action],
    *,
    run_id: str,
    due_ms: int,
    topics: Sequence[str],
    now_ms: int,
    even_if_cancelled: bool = False,
) -> Run:
    """Give the run a mark that is due then, or at the first of these signals; the mark that we hold goes.

    Raises:
        LeaseLostError: the run has another holder, or was cancelled meanwhile; nothing was changed.
    """
    model = items.run
    key = mark_sort_key(due_ms, run_id, place=place_of(run.generation, int(run.rev) + 1))
    waits = model.waits.set(_waits(topics)) if topics else model.waits.remove()
    actions = [
        *changes,
        model.mark.set(key),
        waits,
        model.attempts.set(0),
        model.base.remove(),
        model.fence.set(mark.fence),
        model.rev.set(model.rev + 1),
    ]
    parked = await runs.update_held(
        items,
        mark,
        run.pk,
        actions,
        applied=lambda stands: stands.mark == key,
        # A wish to cancel would lie unseen until the new mark comes due.
        only_if=None if even_if_cancelled else model.cancelled.does_not_exist(),
    )
    if topics and await read(items, parked, topics):
        await wake(items, parked, run_id=run_id, topic_=None, now_ms=now_ms)
    else:
        await marks.place(items, runs.pointer_to(items, parked))
    await marks.drop(items, mark)
    return parked


def _waits(topics: Sequence[str]) -> set[str]:
    size = sum(len(one.encode("utf-8", "surrogatepass")) for one in topics)
    return set(topics) if size <= MAX_WAITS_BYTES else {ANYTHING}
