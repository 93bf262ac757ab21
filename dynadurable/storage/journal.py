"""Plans about a workflow's journal: read it, add to it, let it expire.

The latest records lie in the run item itself, as its *tail*; what would make that larger than one write unit is sealed
into a page first. So a step costs about one write unit however long the journal gets. Each page names the one before
it, and the run names the last, so the run item does not grow with them; a page that no chain leads to was left by a
writer that lost its lease, and counts for nothing.

Every write is conditional on the run being held (``runs.held_run``), so what a stale worker adds is refused.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pynamodb.expressions.condition import Condition
from pynamodb.expressions.update import Action

from ..errors import ConditionFailedError, PayloadTooLargeError, PayloadUnreadableError
from ..model.record import BEGAN, Record, pack, unpack
from . import formats, requests, runs
from .items import DEAD, Items, Mark, Page, Run
from .keys import INPUT_PAGE, PAGE_PREFIX, page_sort_key
from .size import WRITE_UNIT_BYTES, item_bytes, up_to_unit

MAX_VALUE_BYTES = 390_000
"""What one item can hold beside its keys."""
MAX_TAIL_RECORDS = 100
MIN_ROOM_BYTES = 224
SPARE_BYTES = 112
"""Left free in the run item for what its end or a wait writes."""
PAGE_FRAME_BYTES = 240
LOAD_ITEMS = 500


@dataclass(frozen=True, kw_only=True, slots=True)
class Loaded:
    """A journal as it was read: its records in order, the last of them still in the tail, and the run's input."""

    records: Sequence[Record]
    tail: Sequence[Record]
    input: bytes


def prefix(journal_id: str) -> str:
    """What the sort keys of all items of a journal begin with."""
    return f"{PAGE_PREFIX}{journal_id}#"


def input_key(journal_id: str) -> str:
    """Where the input lies that is too large for the run item."""
    return page_sort_key(journal_id, 0, INPUT_PAGE)


def fits_inline(run: Run) -> bool:
    """Whether the run item of a new workflow leaves enough room for its journal's tail."""
    return item_bytes(run.serialize()) + SPARE_BYTES + MIN_ROOM_BYTES <= WRITE_UNIT_BYTES


def room_of(run: Run) -> int:
    """How many bytes the tail may take, so that a write of the run item costs no unit more."""
    raw = run.serialize()
    raw.pop(run.get_attributes()["tail"].attr_name, None)
    base = item_bytes(raw) + SPARE_BYTES
    room = up_to_unit(base + MIN_ROOM_BYTES) - base
    return min(room, WRITE_UNIT_BYTES - PAGE_FRAME_BYTES)


# --- reading --------------------------------------------------------------------------------------


async def load(items: Items, run: Run) -> Loaded:
    """The whole journal of a run, and its input.

    Raises:
        PayloadUnreadableError: a page is missing or cannot be decoded. Never is a part of a journal left out.
    """
    tail = unpack(run.tail) if run.tail else ()
    if run.input and not run.page and not any(record.page for record in tail):
        return Loaded(records=tail, tail=tail, input=run.input)
    pages = await pages_of(items, run)
    if run.is_live:
        await _keep(items, pages.values())
    records = [record for key in _chain(run, pages) for record in unpack(pages[key].body or b"")]
    filled = [_with_value(record, pages) for record in (*records, *tail)]
    return Loaded(records=filled, tail=tail, input=_input(run, pages))


async def pages_of(items: Items, run: Run) -> dict[str, Page]:
    """Every item of the run's journal, by sort key.

    Raises:
        NewerFormatError: one of them was written by a newer version of the library.
    """
    model = items.page
    key = (model.pk == run.pk) & model.sk.startswith(prefix(run.journal_id))
    found: dict[str, Page] = {}
    start: Mapping[str, Any] | None = None
    while True:
        reply = await requests.query(model, key, limit=LOAD_ITEMS, start=start, consistent=True)
        for raw in reply.get("Items", ()):
            if formats.checked(raw, "a page of the journal"):
                page = model.from_raw_data(raw)
                found[page.sk] = page
        start = reply.get("LastEvaluatedKey")
        if not start:
            return found


def _chain(run: Run, pages: Mapping[str, Page]) -> list[str]:
    """The sort keys of the sealed pages, oldest first."""
    keys: list[str] = []
    key = run.page
    while key:
        if key not in pages or len(keys) > len(pages):
            raise PayloadUnreadableError(f"page {key!r} of the journal is missing", raw=run.tail or b"")
        keys.append(key)
        key = pages[key].before
    return keys[::-1]


def _with_value(record: Record, pages: Mapping[str, Page]) -> Record:
    if not record.page:
        return record
    page = pages.get(record.page)
    if page is None or not page.body:
        raise PayloadUnreadableError(f"the value of {record.identity} is missing ({record.page!r})", raw=b"")
    return replace(record, value=page.body)


def _input(run: Run, pages: Mapping[str, Page]) -> bytes:
    if run.input:
        return run.input
    page = pages.get(input_key(run.journal_id))
    if page is None or not page.body:
        raise PayloadUnreadableError("the input of the run is missing", raw=b"")
    return page.body


async def _keep(items: Items, pages: Any) -> None:
    """Take back the expiry of pages whose run was brought back from the dead."""
    model = items.page
    for page in pages:
        if page.ttl:
            try:
                await requests.update(model, page.pk, page.sk, [model.ttl.remove()], model.pk.exists())
            except ConditionFailedError as error:
                raise PayloadUnreadableError(f"page {page.sk!r} of the journal has expired", raw=b"") from error


async def keep(items: Items, run: Run) -> None:
    """Take back the expiry of the pages of a dead run that is about to be brought back.

    Its next worker does so too, but that may come when DynamoDB has deleted them.
    """
    with contextlib.suppress(PayloadUnreadableError):  # one has gone already: that worker will say so
        await _keep(items, (await pages_of(items, run)).values())


# --- writing --------------------------------------------------------------------------------------


@dataclass(kw_only=True)
class Writer:
    """Adds to the journal of a run that is held. Its plans must not run side by side."""

    items: Items
    mark: Mark
    run: Run
    tail: list[Record] = field(default_factory=list)
    _sealed: int = 0

    def __post_init__(self) -> None:
        self.room = room_of(self.run)

    async def append(self, records: Sequence[Record], *, changes: Sequence[Action] = ()) -> Run:
        """Record these, in one conditional write of the run item; gives the run as it then stands.

        Raises:
            LeaseLostError: the run has another holder; nothing was recorded.
            PayloadTooLargeError: a value does not fit an item; nothing was recorded.
        """
        tail, page, actions = await self.prepared(records)
        self.run = await runs.update_held(
            self.items,
            self.mark,
            self.run.pk,
            [*actions, self.items.run.fence.set(self.mark.fence), *changes],
            applied=lambda stands: stands.tail == pack(tail) and stands.page == page,
            only_if=self.as_read(),  # a copy of an earlier write that comes late would take back what came after it
        )
        self.tail = tail
        return self.run

    async def prepared(self, records: Sequence[Record]) -> tuple[list[Record], str | None, list[Action]]:
        """Seals what has to be sealed; gives the new tail, the last page, and what is to be set on the run."""
        model = self.items.run
        stored = [await self._stored(record) for record in records]
        tail, page = merged(self.tail, stored), self.run.page
        packed = pack(tail)
        if self.tail and (len(packed) > self.room or len(tail) > MAX_TAIL_RECORDS):
            page = await self._seal()
            tail = stored
            packed = pack(tail)
        actions: list[Action] = [model.tail.set(packed)] if tail else []
        if page != self.run.page:
            actions.append(model.page.set(page))
        return tail, page, actions

    def written(self, tail: list[Record], page: str | None) -> None:
        """What was ``prepared`` has been written, by somebody else's request."""
        self.run.tail, self.run.page, self.tail = pack(tail), page, tail

    def as_read(self) -> Condition:
        """A clause: nothing was recorded since."""
        model = self.items.run
        tail = model.tail.does_not_exist() if self.run.tail is None else model.tail == self.run.tail
        page = model.page.does_not_exist() if self.run.page is None else model.page == self.run.page
        condition: Condition = tail & page
        return condition

    async def _stored(self, record: Record) -> Record:
        """The record as it goes into the tail: a large value is put into an item of its own first."""
        value = record.value
        if record.page:
            return replace(record, value=None)  # it lies there already
        if value is None or len(value) <= self.room // 2:
            return record
        if len(value) > MAX_VALUE_BYTES:
            what = f"the value of {record.identity}"
            raise PayloadTooLargeError(what, size_bytes=len(value), limit_bytes=MAX_VALUE_BYTES)
        key = self._next_key()
        await self._put(self.items.page(pk=self.run.pk, sk=key, body=value))
        return replace(record, value=None, page=key)

    async def _seal(self) -> str:
        key = self._next_key()
        await self._put(self.items.page(pk=self.run.pk, sk=key, body=pack(self.tail), before=self.run.page))
        return key

    def _next_key(self) -> str:
        self._sealed += 1
        return page_sort_key(self.run.journal_id, int(self.mark.fence), str(self._sealed))

    async def _put(self, page: Page) -> None:
        try:
            await requests.put(page, self.items.page.pk.does_not_exist())
        except ConditionFailedError:
            return  # our own write, its reply was lost: nobody else writes under this fence


def merged(tail: Sequence[Record], records: Sequence[Record]) -> list[Record]:
    """The tail with the new records. Progress takes the place of older progress of the same operation."""
    result = list(tail)
    for record in records:
        places = [i for i, one in enumerate(result) if one.identity == record.identity and one.phase == BEGAN]
        if record.phase == BEGAN and places:
            result[places[-1]] = record
        else:
            result.append(record)
    return result


# --- the end --------------------------------------------------------------------------------------


def pages_ttl(run: Run) -> int:
    """When the pages of an ended run may go: of a dead one not before itself, for it may be brought back."""
    if run.state == DEAD or run.history_seconds is None:
        return int(run.ttl)
    return int(run.ended_ms or 0) // 1000 + int(run.history_seconds)


def without_history(items: Items, run: Run) -> list[Action]:
    """What a run that keeps no history forgets when it ends, other than dead."""
    model = items.run
    none_is_kept = run.history_seconds is not None and int(run.history_seconds) == 0
    return [model.tail.remove(), model.page.remove()] if none_is_kept else []


async def expire(items: Items, run: Run) -> None:
    """Give every item of an ended run's journal its expiry. Harmless when done again."""
    model, ttl = items.page, pages_ttl(run)
    for page in (await pages_of(items, run)).values():
        if not page.ttl:
            try:
                await requests.update(model, page.pk, page.sk, [model.ttl.set(ttl)], model.pk.exists())
            except ConditionFailedError:
                continue  # it has gone
