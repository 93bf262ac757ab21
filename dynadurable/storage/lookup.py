"""Plans that find a run by its id: one or two reads by key, never a search."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from . import formats, requests
from .items import Items, Mark, Page, Run, is_ours
from .keys import INPUT_PAGE, RUN_SORT_KEY, first_place, mark_sort_key, page_sort_key, queue_partition, run_partition

MAX_ID_BYTES = 1_024
"""No run id is longer; what is cannot be one, and DynamoDB need not be asked."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """What the table holds of a run. Neither a mark nor a run: it is unknown, or has ended and was not kept."""

    run_id: str
    mark: Mark | None = None
    run: Run | None = None
    unreadable: bool = False
    """Written by a newer version of this library, which alone can tell what it means."""

    @property
    def place(self) -> tuple[str, int] | None:
        """Queue and shard, as far as they are known."""
        if self.run is not None:
            return self.run.queue, int(self.run.shard)
        first = first_place(self.run_id)
        return None if first is None else (first.queue, first.shard)


async def find(items: Items, run_id: str) -> Found:
    """What there is of this run.

    A self-contained mark lies where the id says; once it is promoted, in one transaction, there is a run item. So
    whoever looks for the mark first and then for the run misses neither.
    """
    if not is_possible(run_id):
        return Found(run_id=run_id)
    place = first_place(run_id)
    if place is not None:
        key = queue_partition(items.schema, place.queue, place.shard)
        raw = await _read(items.mark, key, mark_sort_key(place.due_ms, run_id))
        if raw is not None:
            return _of_mark(items, run_id, raw)
    raw = await _read(items.run, run_partition(items.schema, run_id), RUN_SORT_KEY)
    if raw is None or not is_ours(raw):
        return Found(run_id=run_id, unreadable=raw is not None)
    run = items.run.from_raw_data(dict(raw))
    run.check_whole()
    return Found(run_id=run_id, run=run, mark=await mark_of(items, run) if run.is_live else None)


def is_possible(run_id: object) -> bool:
    """Whether it could be a run id at all."""
    try:
        return isinstance(run_id, str) and 0 < len(run_id.encode()) <= MAX_ID_BYTES
    except UnicodeEncodeError:
        return False


async def mark_of(items: Items, run: Run) -> Mark | None:
    """The mark that a run names, if it is there."""
    raw = await _read(items.mark, queue_partition(items.schema, run.queue, int(run.shard)), run.mark)
    return items.mark.from_raw_data(dict(raw)) if raw is not None and is_ours(raw) else None


async def result_of(items: Items, run: Run, run_id: str) -> bytes | None:
    """The result that a run kept, from its own item or from its page; ``None`` if none was kept or the page is gone."""
    if not run.result_page:
        return run.result
    return await _body(items, run_partition(items.schema, run_id), run.result_page)


async def input_of(items: Items, run: Run) -> bytes | None:
    """The input of a run, from its own item or from its page; ``None`` if the page is gone."""
    if run.input:
        return run.input
    return await _body(items, run.pk, page_sort_key(run.journal_id, 0, INPUT_PAGE))


async def _body(items: Items, pk: str, sk: str) -> bytes | None:
    """What a page holds.

    Raises:
        NewerFormatError: a newer version of the library has written it.
    """
    raw = formats.checked(await _read(items.page, pk, sk), f"page {sk!r}")
    if raw is None:
        return None
    page: Page = items.page.from_raw_data(dict(raw))
    return page.body


def _of_mark(items: Items, run_id: str, raw: Mapping[str, Any]) -> Found:
    if not is_ours(raw):
        return Found(run_id=run_id, unreadable=True)
    mark = items.mark.from_raw_data(dict(raw))
    mark.check_whole()
    return Found(run_id=run_id, mark=mark)


async def _read(model: type[Any], pk: str, sk: str) -> Mapping[str, Any] | None:
    raw: Mapping[str, Any] | None = (await requests.get(model, pk, sk)).get("Item")
    return raw
