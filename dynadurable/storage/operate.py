"""Plans with which an operator changes a run: cancel it, start it now, put it off.

An operator takes the run's mark as a worker would, by a claim of its own, and changes the run as its holder. So no
worker runs it meanwhile, and what a crash leaves half done is repaired by whoever claims the mark next. What a worker
holds is not taken from it: a cancellation is noted on the mark, where the next renewal sees it, and on the run, in case
the mark moves before that.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from pynamodb.expressions.update import Action

from ..clock import Clock, UniqueIds
from ..errors import ConditionFailedError, LeaseBusyError, LeaseLostError
from . import ends, formats, journal, lookup, marks, requests, runs, settle
from .births import place_of, promoted, ttl_seconds
from .call import Pause
from .items import CANCELLED, LIVE, Items, Mark, Run
from .keys import RUN_SORT_KEY, mark_sort_key, parse_mark_sort_key, run_partition
from .lookup import Found

OPERATOR = "operator"
"""What a mark names as its worker while it is being changed."""
LEASE_MS = 5_000
"""Short: it is never renewed, and whoever comes next waits for it. Writes are conditional on the claim all the same."""
MAX_LOOKS = 30
LOOK_AGAIN_SECONDS = 0.25

ENDED = "ended"
ASKED = "asked"
DONE = "done"


@dataclass(frozen=True, kw_only=True, slots=True)
class Operated:
    """What came of it: ``DONE``, ``ASKED`` (its worker is told), or ``ENDED``: there was nothing to change."""

    outcome: str
    found: Found


Change = Callable[[Items, Mark, "Run | None"], Awaitable[None]]


def is_held(mark: Mark, now_ms: int) -> bool:
    """Whether somebody's lease on it stands."""
    return mark.lease_until_ms is not None and int(mark.lease_until_ms) >= now_ms


async def cancel(items: Items, run_id: str, *, clock: Clock, ids: UniqueIds) -> Operated:
    """End a pending run as cancelled; ask the worker of a running one to end it.

    Raises:
        LeaseBusyError: the run changes hands faster than it can be looked at; try again.
    """
    for _ in range(MAX_LOOKS):
        found = await lookup.find(items, run_id)
        if _nothing_to_change(found):
            await _finish_the_end(items, found, clock=clock, ids=ids)
            return Operated(outcome=ENDED, found=found)
        if found.mark is not None and is_held(found.mark, clock.earliest_ms()):
            if found.mark.worker == OPERATOR:
                await Pause(LOOK_AGAIN_SECONDS, clock)
            elif await _ask_to_cancel(items, found):
                return Operated(outcome=ASKED, found=found)
        else:
            cancelling = _Cancelling(run_id, clock, ids)
            if await _take(items, found, cancelling, clock=clock, ids=ids):
                return Operated(outcome=cancelling.outcome, found=found)
    raise _busy(run_id)


async def reschedule(items: Items, run_id: str, *, due_ms: int | None, clock: Clock, ids: UniqueIds) -> Operated:
    """Have a pending run come due at that instant, or now.

    Raises:
        LeaseBusyError: a worker is at it.
    """
    for _ in range(MAX_LOOKS):
        found = await lookup.find(items, run_id)
        if _nothing_to_change(found):
            return Operated(outcome=ENDED, found=found)
        if found.mark is not None:
            if is_held(found.mark, clock.earliest_ms()):
                if found.mark.worker == OPERATOR:
                    await Pause(LOOK_AGAIN_SECONDS, clock)
                    continue
                raise LeaseBusyError(f"run {run_id} is held by {found.mark.worker or 'nobody yet'}; cancel it, or wait")
            if due_ms is None and _due_ms(found.mark) <= clock.now_ms():
                return Operated(outcome=DONE, found=found)
        if await _take(items, found, _Moving(run_id, due_ms, clock, ids), clock=clock, ids=ids):
            return Operated(outcome=DONE, found=found)
    raise _busy(run_id)


# --- by a claim of our own ------------------------------------------------------------------------


async def _take(items: Items, found: Found, change: Change, *, clock: Clock, ids: UniqueIds) -> bool:
    """Claim the mark and change the run; false if it changed under our hands: look again."""
    if found.mark is None:
        assert found.run is not None
        await runs.vouch(items, found.run)  # a crash between two writes left the run without the mark it names
        return False
    mark = await marks.claim(
        items,
        pk=found.mark.pk,
        sk=found.mark.sk,
        token=ids.make(clock.now_ms()),
        now_ms=clock.earliest_ms(),
        lease_until_ms=clock.latest_ms() + LEASE_MS,
        worker=OPERATOR,
        counts=0,
    )
    if mark is None:
        return False
    run = None
    if mark.is_pointer:
        run = await settle.settle(items, mark, run_id=found.run_id, now_ms=clock.earliest_ms())
        if run is None:
            return False
    try:
        await change(items, mark, run)
    except LeaseLostError:
        return False
    return True


async def _finish_the_end(items: Items, found: Found, *, clock: Clock, ids: UniqueIds) -> None:
    """Of an ended run whose mark a crash has left: do what its end owes, and delete the mark, before that comes due."""
    mark = None if found.run is None else await lookup.mark_of(items, found.run)
    if mark is not None and not is_held(mark, clock.earliest_ms()):
        left = replace(found, mark=mark)
        await _take(items, left, _Cancelling(found.run_id, clock, ids), clock=clock, ids=ids)


class _Cancelling:
    """Ends the run as cancelled; a workflow with compensations comes due now, for a worker to run these first."""

    def __init__(self, run_id: str, clock: Clock, ids: UniqueIds) -> None:
        self.run_id, self.clock, self.ids = run_id, clock, ids
        self.outcome = DONE

    async def __call__(self, items: Items, mark: Mark, run: Run | None) -> None:
        now_ms = self.clock.now_ms()
        if run is None:
            ended = promoted(items, mark, self.run_id, self.ids.make(now_ms), now_ms, CANCELLED)
            ended.ended_ms, ended.ttl = now_ms, ttl_seconds(now_ms, ended)
            release = marks.held_by(items, mark)
            await runs.convert(items, mark, ended, [], release=release, token=ended.generation)
            return
        model = items.run
        if run.has_undo:
            self.outcome = ASKED
            await self._undo_first(items, mark, run)
            return
        changes = [
            model.ended_ms.set(now_ms),
            model.ttl.set(ttl_seconds(now_ms, run)),
            *journal.without_history(items, run),
        ]
        await ends.end(items, mark, run_partition(items.schema, self.run_id), changes, state=CANCELLED)

    async def _undo_first(self, items: Items, mark: Mark, run: Run) -> None:
        if run.cancelled:  # somebody has asked before
            await marks.hand_back(items, mark, refund=0)
            return
        sort_key = mark_sort_key(self.clock.now_ms(), self.run_id, place=place_of(run.generation, int(run.rev) + 1))
        changes = [items.run.cancelled.set(True)]
        await runs.move(items, mark, run_partition(items.schema, self.run_id), changes, due_sort_key=sort_key)


class _Moving:
    """Gives the run a mark that is due at another time."""

    def __init__(self, run_id: str, due_ms: int | None, clock: Clock, ids: UniqueIds) -> None:
        self.run_id, self.due_ms, self.clock, self.ids = run_id, due_ms, clock, ids

    async def __call__(self, items: Items, mark: Mark, run: Run | None) -> None:
        if mark.cancelled or (run is not None and run.cancelled):  # that wish came first
            await _Cancelling(self.run_id, self.clock, self.ids)(items, mark, run)
            return
        now_ms = self.clock.now_ms()
        due_ms = now_ms if self.due_ms is None else self.due_ms
        if run is None:
            moved = promoted(items, mark, self.run_id, self.ids.make(now_ms), due_ms, LIVE)
            release = marks.held_by(items, mark)
            pointer = runs.pointer_to(items, moved)
            await runs.convert(items, mark, moved, [pointer], release=release, token=moved.generation)
            return
        sort_key = mark_sort_key(due_ms, self.run_id, place=place_of(run.generation, int(run.rev) + 1))
        changes: list[Action] = [items.run.attempts.set(int(mark.attempt))]  # what a worker that died has left there
        if mark.cursor is not None:
            changes.append(items.run.cursor.set(mark.cursor))
        await runs.move(items, mark, run_partition(items.schema, self.run_id), changes, due_sort_key=sort_key)


# --- without one ----------------------------------------------------------------------------------


async def _ask_to_cancel(items: Items, found: Found) -> bool:
    """Note the wish on the run and on the held mark; false if either is not as it was seen."""
    assert found.mark is not None
    if found.run is not None:
        model = items.run
        as_seen = (model.generation == found.run.generation) & (model.state == LIVE) & formats.not_newer(model)
        actions = [model.cancelled.set(True), model.rev.set(model.rev + 1)]
        key = run_partition(items.schema, found.run_id)
        try:
            await requests.update(model, key, RUN_SORT_KEY, actions, as_seen)
        except ConditionFailedError:
            return False
    return await marks.request_cancel(items, found.mark)


def _nothing_to_change(found: Found) -> bool:
    return found.mark is None and (found.run is None or not found.run.is_live)


def _due_ms(mark: Mark) -> int:
    key = parse_mark_sort_key(mark.sk)
    assert key is not None
    return key.due_ms


def _busy(run_id: str) -> LeaseBusyError:
    return LeaseBusyError(f"run {run_id} changes hands faster than it can be looked at; try again")
