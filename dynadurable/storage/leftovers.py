"""What is to be done with an item that the cleaner meets: decided from the item and the run that it belongs to.

| the item                                  | the run it belongs to                | so the cleaner              |
|-------------------------------------------|--------------------------------------|-----------------------------|
| an ended run, expired                     | itself                               | deletes it, once its mark   |
|                                           |                                      | is gone if it has a parent  |
| a live run, due for an hour               | itself                               | puts its mark back if that  |
|                                           |                                      | is gone                     |
| a page                                    | live, and it is of that life         | leaves it                   |
| a page without expiry                     | ended an hour ago, of that life      | gives it the run's expiry   |
| a page, expired or of an expired run      | ended, of that life                  | deletes it                  |
| a page, expired or older than a day       | absent, or in another life           | deletes it                  |
| a pointer mark, free, past the grace time | absent, or in another life           | deletes it                  |
| a pointer mark, free, past the grace time | ended                                | pays the end, deletes it    |
| a dead letter, expired                    |                                      | deletes it                  |
| a dead letter, past the grace time        | absent, not dead, or in another life | deletes it                  |
| a worker's record, an hour out of date    |                                      | deletes it                  |
| a build or anything else that has expired |                                      | deletes it                  |
| everything else: self-contained marks,    |                                      | leaves it                   |
| settings, leases, schedules               |                                      |                             |

Nothing here is trusted by itself: each write is conditional on the item being as it was seen (``cleaning.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..clock import UniqueIds
from . import runs
from .items import DEAD, DeadLetter, Item, Items, Mark, Page, Run, WorkerRecord, damaged, described
from .keys import (
    PAGE_PREFIX,
    RUN_SORT_KEY,
    SETTINGS_SORT_KEY,
    journal_of_page,
    parse_mark_sort_key,
    parse_partition,
)
from .workers import BUILD_PREFIX, WORKER_PREFIX

RUNS, PAGES, MARKS, LETTERS = "runs", "pages", "marks", "dead letters"
WORKERS, BUILDS, OTHERS = "workers", "builds", "others"
KINDS = (RUNS, PAGES, MARKS, LETTERS, WORKERS, BUILDS, OTHERS)

DECISIVE = {
    RUNS: ("state", "generation", "mark", "queue", "shard", "created_ms"),
    LETTERS: ("generation",),
    WORKERS: ("seen_ms",),
}
"""What an item of that kind always has, and is judged by."""

LEAVE, REMOVE, STAMP, PAY, RESTORE = "leave", "remove", "stamp", "pay", "restore"

MARGIN_MS = 60_000
"""How long something must have expired before it is deleted: who reads it in that very moment is not disturbed."""
NATIVE_PATIENCE_MS = 7 * 86_400_000
"""How long the table's own TTL, which costs nothing, is left to do that."""
STRAY_MS = 86_400_000
"""How old a page without a run must be: its run is put right after it."""
SETTLED_MS = 3_600_000
"""How long whoever should have done something has had time for it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Terms:
    """``now_ms`` is a lower bound of the store's time. ``native``: the table's own TTL is on, for our attribute."""

    now_ms: int
    native: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Subject:
    """An item of ours, with those of its attributes that decide."""

    kind: str
    item: Any
    run_id: str | None = None
    """Of the run that it belongs to; a run belongs to itself."""


def subject(items: Items, raw: Mapping[str, Any]) -> Subject | None:
    """The item as the cleaner sees it; ``None`` for what it has no business with. ``raw`` is in our own format.

    Raises:
        ItemUnreadableError: what decides about it is missing, or of another type than ours.
    """
    schema = items.schema
    place = parse_partition(schema, raw[schema.partition_key]["S"])
    if place is None:
        return None
    kind, name = place
    sort_key = raw[schema.sort_key]["S"]
    if kind == "run" and sort_key == RUN_SORT_KEY:
        return _made(RUNS, items.run, raw, name)
    if kind == "run" and sort_key.startswith(PAGE_PREFIX):
        return _made(PAGES, items.page, raw, name)
    if kind == "queue":
        key = parse_mark_sort_key(sort_key)
        return None if key is None or sort_key == SETTINGS_SORT_KEY else _made(MARKS, items.mark, raw, key.run_id)
    if kind == "dead":
        key = parse_mark_sort_key(sort_key)
        return None if key is None else _made(LETTERS, items.dead_letter, raw, key.run_id)
    if kind == "workers" and sort_key.startswith(WORKER_PREFIX):
        return _made(WORKERS, items.worker, raw)
    if kind == "workers" and sort_key.startswith(BUILD_PREFIX):
        return _made(BUILDS, items.build, raw)
    return None if kind == "lease" or schema.ttl_attribute not in raw else _made(OTHERS, items.page, raw)


def _made(kind: str, model: type[Item], raw: Mapping[str, Any], run_id: str | None = None) -> Subject:
    item = model.from_raw_data(dict(raw))
    lacking = [name for name in DECISIVE.get(kind, ()) if getattr(item, name) is None]
    if lacking:
        raise damaged(described(model, raw), f"it lacks its {lacking[0]}")
    return Subject(kind=kind, item=item, run_id=run_id)


# --- deciding -------------------------------------------------------------------------------------


def needs_run(seen: Subject, terms: Terms) -> bool:
    """Whether the run that it belongs to must be read before anything can be decided."""
    match seen.kind:
        case "pages":
            return seen.item.ttl is None or is_over(seen.item.ttl, terms)
        case "marks":
            return _is_abandoned(seen.item, terms)
        case "dead letters":
            return not is_over(seen.item.ttl, terms) and _died_ms(seen.item) < terms.now_ms - runs.GRACE_MS
    return False


def decide(seen: Subject, run: Run | None, terms: Terms) -> str:
    """What is to be done with it. ``run``: as it stands, where that is needed."""
    match seen.kind:
        case "runs":
            return _of_run(seen.item, terms)
        case "pages":
            return _of_page(seen.item, run, terms)
        case "marks":
            return _of_mark(seen.item, run, terms)
        case "dead letters":
            return _of_letter(seen.item, run, terms)
        case "workers":
            return _of_worker(seen.item, terms)
    return REMOVE if is_over(seen.item.ttl, terms) else LEAVE


def is_over(ttl: Any, terms: Terms) -> bool:
    """Whether it has expired, long enough ago."""
    patience_ms = NATIVE_PATIENCE_MS if terms.native else MARGIN_MS
    return ttl is not None and int(ttl) * 1000 + patience_ms <= terms.now_ms


def _of_run(run: Run, terms: Terms) -> str:
    if not run.is_live:
        return REMOVE if is_over(run.ttl, terms) else LEAVE
    key = parse_mark_sort_key(run.mark)
    is_late = key is not None and key.due_ms < terms.now_ms - SETTLED_MS
    return RESTORE if is_late and int(run.created_ms) < terms.now_ms - SETTLED_MS else LEAVE


def _of_page(page: Page, run: Run | None, terms: Terms) -> str:
    if not needs_run(Subject(kind=PAGES, item=page), terms):
        return LEAVE
    journal_id, has_expired = journal_of_page(page.sk), is_over(page.ttl, terms)
    if run is None or journal_id not in {run.journal_id, run.generation}:
        return REMOVE if has_expired or _was_put_long_ago(page, journal_id, terms) else LEAVE
    if run.is_live:
        return LEAVE
    if is_over(run.ttl, terms):
        return REMOVE
    if has_expired:  # of a dead run nothing goes before the run itself: it may be brought back
        return LEAVE if run.state == DEAD else REMOVE
    has_settled = int(run.ended_ms or 0) < terms.now_ms - SETTLED_MS
    return STAMP if run.ttl is not None and has_settled else LEAVE


def _was_put_long_ago(page: Page, journal_id: str, terms: Terms) -> bool:
    """A signal says when it was put; of any other page it is known when the life began that it belongs to."""
    put_ms = int(page.at_ms or UniqueIds.made_ms(journal_id) or terms.now_ms)
    return put_ms < terms.now_ms - STRAY_MS


def _is_abandoned(mark: Mark, terms: Terms) -> bool:
    """A pointer mark that is past the grace time, and that nobody holds."""
    is_held = mark.lease_until_ms is not None and int(mark.lease_until_ms) >= terms.now_ms
    is_old = terms.now_ms - int(mark.placed_ms or terms.now_ms) >= runs.GRACE_MS
    return mark.is_pointer and is_old and not is_held


def _of_mark(mark: Mark, run: Run | None, terms: Terms) -> str:
    if not _is_abandoned(mark, terms):
        return LEAVE
    if run is None or run.generation != mark.generation:
        return REMOVE
    return LEAVE if run.is_live else PAY


def _died_ms(letter: DeadLetter) -> int:
    key = parse_mark_sort_key(letter.sk)
    return 0 if key is None else key.due_ms


def _of_letter(letter: DeadLetter, run: Run | None, terms: Terms) -> str:
    if is_over(letter.ttl, terms):
        return REMOVE
    if not needs_run(Subject(kind=LETTERS, item=letter), terms):
        return LEAVE
    is_dead = run is not None and run.state == DEAD and run.generation == letter.generation
    return LEAVE if is_dead else REMOVE


def _of_worker(worker: WorkerRecord, terms: Terms) -> str:
    """It comes back by itself with the worker's next beat, should that be alive."""
    return REMOVE if int(worker.seen_ms or 0) < terms.now_ms - SETTLED_MS else LEAVE
