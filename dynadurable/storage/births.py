"""Makes the items of a new run: its mark, and its run item where there is something to remember beyond the mark."""

from __future__ import annotations

from dataclasses import dataclass

from . import journal
from .items import Items, Mark, Page, Run
from .keys import (
    RUN_SORT_KEY,
    first_place,
    keyed_run_id,
    mark_sort_key,
    queue_partition,
    run_partition,
    unkeyed_run_id,
)

ENDED_SECONDS = 86_400
"""How long a run item that keeps no result stays after its end, so that its end can be told for a while."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Birth:
    """What a new run is to be."""

    job: str
    queue: str
    shard: int
    due_ms: int
    now_ms: int
    unique: str
    fence: int = 0
    """For a keyed run: grows over all lives of the key, also those that nobody looked at; see ``first_fence``."""
    input: bytes
    digest: str | None = None
    key: str | None = None
    unique_until_ms: int | None = None
    keep_seconds: int | None = None
    history_seconds: int | None = None
    build: str | None = None
    workflow: bool = False
    slot_ms: int | None = None
    parent: str | None = None
    parent_journal: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Newborn:
    """The items to put, in this order: mark, page, run.

    ``run`` is there only where the mark alone is not enough; ``page`` only for the large input of a workflow.
    """

    run_id: str
    mark: Mark
    run: Run | None
    page: Page | None = None


def first_fence(now_ms: int, count: int) -> int:
    """Where the fence of a keyed run begins: by time, then by the enqueuer's count, with room for a thousand claims.

    So it is above every fence of an earlier life of the key, even where a clock stands still, as clocks of tests do.

    >>> first_fence(1_800_014_400_000, 7)
    1800014400000007000
    """
    return (now_ms * 1_000 + min(count, 999)) * 1_000


def newborn(items: Items, birth: Birth, *, needs_run: bool) -> Newborn:
    """Make the items; nothing is written."""
    if birth.key is None:
        run_id = unkeyed_run_id(birth.queue, birth.shard, birth.due_ms, birth.unique)
    else:
        run_id = keyed_run_id(birth.job, birth.key)
    if not needs_run:
        return Newborn(run_id=run_id, mark=_self_contained(items, birth, run_id), run=None)
    run = _run(items, birth, run_id)
    page = _input_page(items, birth, run) if birth.workflow and not journal.fits_inline(run) else None
    return Newborn(run_id=run_id, mark=_pointer(items, birth, run), run=run, page=page)


def _input_page(items: Items, birth: Birth, run: Run) -> Page:
    """Takes the input out of the run item: each step of the workflow is billed by the whole of that."""
    run.input = None
    return items.page(pk=run.pk, sk=journal.input_key(run.journal_id), body=birth.input)


def place_of(generation: str, rev: int) -> str:
    """Tells a run's marks apart, also those of another life or with the same due time."""
    return f"{generation}.{rev}"


def _self_contained(items: Items, birth: Birth, run_id: str) -> Mark:
    return items.mark(
        pk=queue_partition(items.schema, birth.queue, birth.shard),
        sk=mark_sort_key(birth.due_ms, run_id),
        job=birth.job,
        input=birth.input,
        placed_ms=birth.now_ms,
    )


def _pointer(items: Items, birth: Birth, run: Run) -> Mark:
    return items.mark(
        pk=queue_partition(items.schema, birth.queue, birth.shard),
        sk=run.mark,
        job=birth.job,
        generation=run.generation,
        fence=run.fence,
        fence_placed=run.fence,
        placed_ms=birth.now_ms,
    )


def _run(items: Items, birth: Birth, run_id: str) -> Run:
    generation = birth.unique
    return items.run(
        pk=run_partition(items.schema, run_id),
        sk=RUN_SORT_KEY,
        job=birth.job,
        queue=birth.queue,
        shard=birth.shard,
        input=birth.input,
        digest=birth.digest,
        key=birth.key,
        generation=generation,
        fence=birth.fence,
        mark=mark_sort_key(birth.due_ms, run_id, place=place_of(generation, 0)),
        unique_until_ms=birth.unique_until_ms,
        keep_seconds=birth.keep_seconds,
        history_seconds=birth.history_seconds if birth.workflow else None,
        created_ms=birth.now_ms,
        slot_ms=birth.slot_ms,
        build=birth.build,
        workflow=True if birth.workflow else None,
        due_ms=birth.due_ms if birth.workflow and birth.due_ms > birth.now_ms else None,
        parent=birth.parent,
        parent_journal=birth.parent_journal,
    )


def promoted(items: Items, mark: Mark, run_id: str, generation: str, due_ms: int, state: str) -> Run:
    """A run item with the content of a self-contained mark, naming its next mark."""
    place = first_place(run_id)
    assert place is not None, f"a self-contained mark's run id tells its place, {run_id!r} does not"
    run: Run = items.run(
        pk=run_partition(items.schema, run_id),
        sk=RUN_SORT_KEY,
        job=mark.job,
        queue=place.queue,
        shard=place.shard,
        state=state,
        input=mark.input,
        generation=generation,
        fence=int(mark.fence),
        mark=mark_sort_key(due_ms, run_id, place=place_of(generation, 0)),
        attempts=int(mark.attempt),
        cursor=mark.cursor,
        created_ms=int(mark.placed_ms or place.due_ms),
    )
    return run


def ttl_seconds(now_ms: int, run: Run) -> int:
    """When an ended run may go, in whole epoch seconds: not before its key comes free, nor before its history."""
    kept = ENDED_SECONDS if run.keep_seconds is None else int(run.keep_seconds)
    until_ms = int(run.unique_until_ms or 0)
    return max(now_ms // 1000 + max(kept, int(run.history_seconds or 0)), -(-until_ms // 1000))
