"""What a schedule does when its mark comes due: a decision, without I/O."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from .slots import due_slots
from .timing import Timing

MAX_SLOTS = 25
"""Of a ``catch_up="all"``, at one tick; the rest follows at once."""
FIRST_LOOK = timedelta(seconds=1)
LONGEST_LOOK = timedelta(minutes=1)
LOOK_SHARE = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class Tick:
    """What to do."""

    run: tuple[datetime, ...]
    """Slots whose runs are to be enqueued, oldest first."""
    last_done: datetime
    """All slots up to here are dealt with: run, queued, or skipped on purpose."""
    queued: datetime | None
    """The slot that waits for the end of the last run."""
    next_due: datetime | None
    """When to look again; ``None`` when the schedule is over."""
    skipped: int
    """Slots that will not run."""


def decide(timing: Timing, *, last_done: datetime, queued: datetime | None, now: datetime, busy: bool) -> Tick:
    """The tick of a schedule. ``busy``: the last run has not ended (asked only where overlaps are not allowed).

    While a slot is queued, its schedule looks whether the last run has ended: first after a second, then whenever a
    quarter more of the wait is over, at least once a minute. Worked: a slot that has waited for 20 s is looked after
    every 5 s.
    """
    due = due_slots(timing, last_done=last_done, now=now, catch_up=timing.catch_up, limit=MAX_SLOTS)
    waiting = (() if queued is None else (queued,)) + due.slots
    if timing.overlap == "allow":
        run, left = waiting, None
    else:
        run = () if busy else waiting[:1]
        rest = waiting[len(run) :]
        left = rest[0] if rest and timing.overlap == "queue" else None
    next_due = due.next_slot
    if left is not None:
        look = now + min(max((now - left) / LOOK_SHARE, FIRST_LOOK), LONGEST_LOOK)
        next_due = look if next_due is None else min(next_due, look)
    return Tick(
        run=run,
        last_done=due.last_done,
        queued=left,
        next_due=next_due,
        skipped=due.skipped + len(waiting) - len(run) - (left is not None),
    )
