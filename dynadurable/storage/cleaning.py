"""Plans of the cleaner: read a page of the table, see what is to be done, do it item by item.

The only Scan of the library is here. What is to be done is decided in ``leftovers.py``; here each write is made
conditional on the item being as it was seen, so that a run which lives, or lives again, is never touched.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pynamodb.attributes import Attribute
from pynamodb.expressions.condition import Condition

from ..errors import ConditionFailedError, ItemUnreadableError
from . import batches, ends, formats, journal, requests, runs
from .call import Call
from .items import Cleaning, Items, Mark, Page, Run, damaged, is_ours
from .keys import RUN_SORT_KEY, escape, queue_partition, run_partition, workers_partition
from .leftovers import LEAVE, PAY, REMOVE, RESTORE, RUNS, STAMP, Subject, Terms, decide, needs_run, subject

CLEANING_SORT_KEY = "cleaner"


@dataclass(frozen=True, kw_only=True, slots=True)
class Look:
    """One page of a segment."""

    raws: Sequence[Mapping[str, Any]]
    """What carries our prefix and a format number."""
    scanned: int
    """How many items were read for that."""
    read_units: float
    next_start: Mapping[str, Any] | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Task:
    """Something to be done about one item."""

    verdict: str
    seen: Subject
    run: Run | None = None
    """The run that it belongs to, as it was read for the decision; only some of its attributes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Tasks:
    """What a page gives to do."""

    tasks: Sequence[Task]
    ours: int
    newer: int
    damaged: Sequence[ItemUnreadableError]
    read_units: float


@dataclass(frozen=True, slots=True)
class Done:
    """Whether it was done; if not, the item is not any more as it was seen. And what that cost in write units."""

    done: bool
    write_units: float = 0.0


# --- looking --------------------------------------------------------------------------------------


async def look(items: Items, *, segment: int, segments: int, start: Mapping[str, Any] | None, limit: int) -> Look:
    """Read one page of a segment of the table; of what is ours only those attributes that decide."""
    model = items.run
    condition: Condition = model.version.exists()
    prefix = escape(items.schema.prefix)
    if prefix:
        condition = model.pk.startswith(prefix) & condition
    call = requests.scan(
        model, condition, segment=segment, segments=segments, limit=limit, start=start, fields=_fields(items)
    )
    reply = await requests.counted(call)
    return Look(
        raws=reply.get("Items", ()),
        scanned=int(reply.get("ScannedCount", 0)),
        read_units=requests.units_of(reply, least=0.5),
        next_start=reply.get("LastEvaluatedKey"),
    )


async def tasks(items: Items, raws: Sequence[Mapping[str, Any]], terms: Terms) -> Tasks:
    """What is to be done about these; reads the runs that must be known for that."""
    subjects, unreadable = _subjects(items, raws)
    asked = {seen.run_id for seen in subjects if seen.run_id is not None and needs_run(seen, terms)}
    found = await _runs(items, sorted(asked))
    told = []
    for seen in subjects:
        raw = found.get(seen.run_id or "")
        try:
            run = _as_run(items, raw)
        except ItemUnreadableError:
            continue  # its own version, or whoever mends it, looks after its parts
        verdict = decide(seen, run, terms)
        if verdict != LEAVE:
            told.append(Task(verdict=verdict, seen=seen, run=run))
    newer = sum(formats.is_newer(raw) for raw in raws)
    return Tasks(tasks=told, ours=len(subjects), newer=newer, damaged=unreadable, read_units=float(len(asked)))


def _subjects(items: Items, raws: Sequence[Mapping[str, Any]]) -> tuple[list[Subject], list[ItemUnreadableError]]:
    found, unreadable = [], []
    for raw in raws:
        try:
            seen = subject(items, raw) if is_ours(raw) else None
        except ItemUnreadableError as error:
            unreadable.append(error)
            continue
        if seen is not None:
            found.append(seen)
    return found, unreadable


def _as_run(items: Items, raw: Mapping[str, Any] | None) -> Run | None:
    ours = formats.checked(raw, "the run")
    seen = None if ours is None else subject(items, ours)
    return None if seen is None else seen.item


async def _runs(items: Items, run_ids: Sequence[str]) -> dict[str, Mapping[str, Any]]:
    keys = {(run_partition(items.schema, run_id), RUN_SORT_KEY): run_id for run_id in run_ids}
    found = await batches.read(items, items.run, list(keys), fields=_fields(items)[2:])
    return {keys[key]: raw for key, raw in found.items()}


def _fields(items: Items) -> list[str]:
    """The attributes that decide, key attributes first."""
    run, mark = items.run, items.mark
    attributes: list[Attribute[Any]] = [run.pk, run.sk, run.version, run.ttl, run.generation, run.state, run.journal]
    attributes += [run.mark, run.queue, run.shard, run.parent, run.created_ms, run.ended_ms, run.history_seconds]
    attributes += [mark.fence, mark.token, mark.lease_until_ms, mark.vouched, items.worker.seen_ms]
    return [attribute.attr_name or "" for attribute in attributes]


# --- doing ----------------------------------------------------------------------------------------


async def carry_out(items: Items, task: Task, *, dry_run: bool) -> Done:
    """Do it, if everything still is as it was seen; in a dry run only say whether it would be done."""
    seen = task.seen
    if task.verdict == RESTORE:
        return await _restored(items, seen, dry_run=dry_run)
    if seen.kind == RUNS and seen.item.parent and await _has_mark(items, seen.item):
        return Done(False)  # its parent may not have been told yet: whoever claims that mark sees to it
    if dry_run:
        return Done(True)
    if task.verdict == STAMP:
        assert task.run is not None
        return await _stamped(items, seen.item, task.run)
    if task.verdict == PAY and not await _paid(items, seen):
        return Done(False)
    assert task.verdict in {REMOVE, PAY}
    return await _deleted(seen)


async def _deleted(seen: Subject) -> Done:
    item = seen.item
    model = type(item)
    condition = _as_seen(seen) & formats.not_newer(model)
    return await _sent(requests.delete(model, item.pk, item.sk, condition))


def _as_seen(seen: Subject) -> Condition:
    """That the item is as it was when it was decided to delete it.

    A run that was brought back is live and has no expiry; one of a key that was taken anew, or a letter of a later
    death, has another generation. A mark that was claimed has a token or a higher fence, one that was renewed another
    lease, one that was vouched for a higher count. A worker that was only asleep was seen again. A page that is needed
    again has lost its expiry.
    """
    names = {
        "runs": ("state", "generation", "ttl"),
        "marks": ("generation", "fence", "token", "lease_until_ms", "vouched"),
        "dead letters": ("generation", "ttl"),
        "workers": ("seen_ms",),
    }
    model = type(seen.item)
    condition: Condition = model.pk.exists()
    for name in names.get(seen.kind, ("ttl",)):
        attribute, value = getattr(model, name), getattr(seen.item, name)
        condition = condition & (attribute.does_not_exist() if value is None else attribute == value)
    return condition


async def _stamped(items: Items, page: Page, run: Run) -> Done:
    """Give a page the expiry that the end of its run should have given it."""
    model = items.page
    condition = model.pk.exists() & model.ttl.does_not_exist() & formats.not_newer(model)
    return await _sent(requests.update(model, page.pk, page.sk, [model.ttl.set(journal.pages_ttl(run))], condition))


async def _restored(items: Items, seen: Subject, *, dry_run: bool) -> Done:
    """Put the mark of a live run back, if it is gone: then nobody would ever work on that run again."""
    assert seen.run_id is not None
    run = await runs.read(items, seen.run_id)
    if run is None or not run.is_live or run.mark != seen.item.mark or await _has_mark(items, run):
        return Done(False)
    if not dry_run:
        await runs.vouch(items, run)
    return Done(True, 0.0 if dry_run else 1.0)


async def _paid(items: Items, seen: Subject) -> bool:
    """Do what the end of the run still owes, before its mark goes; false if it is not that ended run any more."""
    mark: Mark = seen.item
    assert seen.run_id is not None
    run = await runs.read(items, seen.run_id)
    if run is None or run.is_live or run.generation != mark.generation:
        return False
    await ends.pay(items, run)
    return True


async def _has_mark(items: Items, run: Run) -> bool:
    key = queue_partition(items.schema, run.queue, int(run.shard))
    return (await requests.get(items.mark, key, run.mark)).get("Item") is not None


async def _sent(call: Call) -> Done:
    """Send a write that says what it costs. Of a failed condition the item need not be shown: it may be large."""
    params = {name: value for name, value in call.params.items() if name != "ReturnValuesOnConditionCheckFailure"}
    try:
        reply = await requests.counted(Call(operation=call.operation, params=params))
    except ConditionFailedError as error:
        return Done(error.ambiguous, 1.0)  # of two tries the first may have done it
    return Done(True, requests.units_of(reply, least=1.0))


# --- remembering ----------------------------------------------------------------------------------

Place = Mapping[str, Any] | None
"""Where a segment is to be gone on with; ``None`` from its beginning."""


async def read_cleaning(items: Items) -> Cleaning | None:
    """What the cleaner has noted last.

    Raises:
        NewerFormatError: a newer version of the library has.
    """
    reply = await requests.get(items.cleaning, workers_partition(items.schema), CLEANING_SORT_KEY)
    raw = formats.checked(reply.get("Item"), "what the cleaner has noted")
    return items.cleaning.from_raw_data(dict(raw)) if raw else None


async def save_cleaning(
    items: Items, *, began_ms: int, places: Sequence[Place | bool], report: str, ended_ms: int | None = None
) -> float:
    """Note how far each segment has come: its place, or true for its end. Gives the write units that cost.

    Raises:
        ConditionFailedError: an item lies there that is not ours to write over.
    """
    model = items.cleaning
    noted = items.cleaning(
        pk=workers_partition(items.schema),
        sk=CLEANING_SORT_KEY,
        began_ms=began_ms,
        ended_ms=ended_ms,
        places=None if ended_ms is not None else json.dumps(list(places)),
        report=report,
    )
    ours = model.pk.does_not_exist() | formats.not_newer(model)
    return requests.units_of(await requests.counted(requests.put(noted, ours)), least=1.0)


def places_of(noted: Cleaning | None) -> list[Place | bool]:
    """The places of a pass that was begun and not ended; none if there is no such pass.

    Raises:
        ItemUnreadableError: they are not as a cleaner has noted them.
    """
    if noted is None or not noted.places:
        return []
    try:
        found = json.loads(noted.places)
    except ValueError:
        found = None
    if not isinstance(found, list) or not all(
        place is None or place is True or isinstance(place, dict) for place in found
    ):
        what = f"the item {noted.pk!r}, {noted.sk!r}"
        raise damaged(what, f"{noted.places[:80]!r} is no list of places")
    return found
