"""Which of a schedule's slots are due, and what becomes of those that nobody was there for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import Literal, Protocol, get_args

from ..errors import ConfigurationError
from .instant import check_aware, shown

CatchUp = Literal["latest", "all", "none"]
"""``"latest"``: of the missed slots only the last one runs. ``"all"``: each of them. ``"none"``: none of them."""

GRACE = timedelta(minutes=5)
"""A slot counts as missed when nobody looked for so long after it: polling late by seconds misses nothing."""
MAX_SLOTS = 100
MAX_SKIPPED_COUNTED = 1_000


class Rule(Protocol):
    """What a schedule goes by: ``Cron`` or ``Every``."""

    def next_after(self, instant: datetime) -> datetime | None:
        """The first slot after an instant, or ``None`` if there is none."""

    def latest_at_or_before(self, instant: datetime) -> datetime | None:
        """The last slot that does not lie after an instant, or ``None`` if there is none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Due:
    """What to do now, and when to look again."""

    slots: tuple[datetime, ...]
    """To be run, oldest first."""
    last_done: datetime
    """Once they are enqueued, everything up to here is done: run, or skipped on purpose."""
    next_slot: datetime | None
    """When to look again. In the past while ``"all"`` has more than it may give at once; ``None`` when it is over."""
    skipped: int
    """Missed slots that will not run; the count ends at ``MAX_SKIPPED_COUNTED``."""


def due_slots(
    rule: Rule,
    *,
    last_done: datetime,
    now: datetime,
    catch_up: CatchUp = "latest",
    limit: int = MAX_SLOTS,
    grace: timedelta = GRACE,
) -> Due:
    """The slots after ``last_done`` that are due now.

    ``last_done`` is the last slot that was dealt with, or when the schedule was made. ``limit`` bounds what ``"all"``
    gives at once; the rest comes at the next call. With ``"none"`` a slot runs while it is no older than ``grace``.
    A clock that went back finds nothing due, and no slot twice.

    Raises:
        ConfigurationError: ``catch_up`` is none of the three.
        InputRefusedError: a naive datetime.
    """
    check_catch_up(catch_up)
    check_aware(last_done, "last_done")
    assert limit >= 1
    newest = rule.latest_at_or_before(check_aware(now, "now"))
    if newest is None or newest <= last_done:
        return Due(slots=(), last_done=last_done, next_slot=rule.next_after(max(now, last_done)), skipped=0)
    if catch_up == "all":
        slots = tuple(islice(slots_between(rule, last_done, now), limit))
        return Due(slots=slots, last_done=slots[-1], next_slot=rule.next_after(slots[-1]), skipped=0)
    runs = catch_up == "latest" or newest >= now - grace
    missed = sum(1 for _ in islice(slots_between(rule, last_done, newest), MAX_SKIPPED_COUNTED))
    return Due(
        slots=(newest,) if runs else (),
        last_done=newest,
        next_slot=rule.next_after(now),
        skipped=missed - 1 if runs and missed < MAX_SKIPPED_COUNTED else missed,
    )


def slots_between(rule: Rule, after: datetime, until: datetime) -> Iterator[datetime]:
    """Every slot after the one and not after the other instant, in order."""
    slot = rule.next_after(after)
    while slot is not None and slot <= until:
        yield slot
        slot = rule.next_after(slot)


def check_catch_up(catch_up: str) -> CatchUp:
    """The policy itself, if it is one.

    Raises:
        ConfigurationError: it is none of the three.
    """
    for known in get_args(CatchUp):
        if catch_up == known:
            policy: CatchUp = known
            return policy
    raise ConfigurationError(f"catch_up must be 'latest', 'all' or 'none', not {shown(catch_up)}")
