"""What a worker does with a pointer mark it has just claimed: run it, or repair what a crash left behind.

| the run                                        | so the worker                                              |
|------------------------------------------------|------------------------------------------------------------|
| absent or of another generation, mark is young | hands the mark back and looks again shortly                |
| absent or of another generation, mark is old   | deletes it: its enqueue was never acknowledged             |
| ended                                          | redoes what the end owes, deletes the mark                 |
| names another mark                             | puts that one if absent (and wakes a run that waits),      |
|                                                | deletes this one                                           |
| live and names this mark                       | runs it                                                    |
| the same, and its fence is above the mark's    | hands it back with that fence                              |
| in a format newer than this library's          | hands the mark back, for a minute                          |
"""

from __future__ import annotations

from ..errors import ItemUnreadableError
from . import ends, formats, marks, runs, signals
from .items import Items, Mark, Run
from .keys import run_partition

LOOK_AGAIN_MS = 3_000
LEAVE_MS = 60_000
"""How long what only a newer version can work on is not tried for again."""


async def settle(items: Items, mark: Mark, *, run_id: str, now_ms: int) -> Run | None:
    """The run to execute, or ``None`` where the mark was only to be put right."""
    run_key = run_partition(items.schema, run_id)
    claimed_before = mark.fence > (mark.fence_placed or 0) + 1
    try:
        raised = await runs.raise_fence(items, mark, run_key) if claimed_before else None
        run = raised or await runs.read(items, run_id)
    except ItemUnreadableError as error:
        await _leave(items, mark, error, now_ms=now_ms)
        return None
    if claimed_before and raised is None and run is not None and _is_for(run, mark):
        await marks.hand_back(items, mark)  # it changed under our hands: look again
        return None
    if run is not None and _is_for(run, mark):
        return run
    if run is not None and _names(run, mark):
        # The mark was put again after it was gone, without the fence that its earlier claims had: it gets that back.
        await marks.hand_back(items, mark, fence=int(run.fence))
        return None
    try:
        await _repair(items, mark, run, now_ms=now_ms)
    except ItemUnreadableError as error:
        await _leave(items, mark, error, now_ms=now_ms)
    return None


async def _leave(items: Items, mark: Mark, error: ItemUnreadableError, *, now_ms: int) -> None:
    """Hand the mark back, for a worker that knows the newer format, or for whoever mends what is damaged."""
    formats.warn(error)
    await marks.hand_back(items, mark, not_before_ms=now_ms + LEAVE_MS)


def _names(run: Run, mark: Mark) -> bool:
    return bool(run.generation == mark.generation and run.is_live and run.mark == mark.sk)


def _is_for(run: Run, mark: Mark) -> bool:
    return _names(run, mark) and run.fence <= mark.fence


async def _repair(items: Items, mark: Mark, run: Run | None, *, now_ms: int) -> None:
    if run is None or run.generation != mark.generation:
        if now_ms - int(mark.placed_ms or 0) < runs.GRACE_MS:
            await marks.hand_back(items, mark, not_before_ms=now_ms + LOOK_AGAIN_MS)
            return
    elif not run.is_live:
        await ends.pay(items, run)
    else:  # it names another mark
        await marks.place(items, runs.pointer_to(items, run))
        if run.waits:  # whoever parked it may have died before its second look: let it look again
            await signals.wake(items, run, run_id=ends.run_id_of(run), topic_=None, now_ms=now_ms)
    await marks.drop(items, mark)
