"""Plans about dead letters: list them page by page, bring a run back, forget one."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pynamodb.expressions.condition import Condition
from pynamodb.expressions.update import Action

from ..errors import ConditionFailedError, ItemUnreadableError, TransactionFailedError
from . import batches, formats, journal, lookup, requests, runs
from .births import place_of
from .call import Several
from .items import DEAD, LIVE, DeadLetter, Items, Run, is_ours
from .keys import (
    INPUT_PAGE,
    MAX_SHARDS,
    PAGE_PREFIX,
    RUN_SORT_KEY,
    dead_partition,
    due_bound,
    first_place,
    mark_sort_key,
    page_sort_key,
    parse_mark_sort_key,
    queue_partition,
    run_partition,
)
from .queues import PARALLEL, raised

PAGE_ITEMS = 100
MAX_DUE_MS = 10**15 - 2

REPLAYED = "replayed"
NOT_DEAD = "not dead"
"""Not any more: it was replayed, or its key was taken by a newer run."""
GONE = "gone"


@dataclass(frozen=True, kw_only=True, slots=True)
class Span:
    """From when to when letters are looked at, in milliseconds since 1970, both inclusive."""

    since_ms: int = 0
    until_ms: int = MAX_DUE_MS


@dataclass(frozen=True, kw_only=True, slots=True)
class Page:
    """Some letters of one shard."""

    letters: Sequence[DeadLetter]
    next_start: Mapping[str, Any] | None


async def page(
    items: Items,
    queue: str,
    shard: int,
    *,
    span: Span,
    now_ms: int,
    start: Mapping[str, Any] | None = None,
    newest_first: bool = False,
) -> Page:
    """One page of a shard, by the time of death; expired letters are left out."""
    model = items.dead_letter
    key = (model.pk == dead_partition(items.schema, queue, shard)) & model.sk.between(
        f"{span.since_ms:015d}", due_bound(span.until_ms)
    )
    reply = await requests.query(model, key, limit=PAGE_ITEMS, start=start, backwards=newest_first)
    letters = formats.models(model, reply.get("Items", ()), f"a dead letter of queue {queue!r}")
    fresh = [one for one in letters if one.ttl is None or int(one.ttl) * 1000 > now_ms]
    return Page(letters=fresh, next_start=reply.get("LastEvaluatedKey"))


async def nonempty_shards(items: Items, queue: str, *, span: Span, now_ms: int) -> list[tuple[int, Page]]:
    """The oldest page of each shard that has letters, whatever number of shards the queue has or once had."""
    plans = [page(items, queue, shard, span=span, now_ms=now_ms) for shard in range(MAX_SHARDS)]
    pages: list[Page] = raised(await Several(plans, limit=PARALLEL))
    return [(shard, found) for shard, found in enumerate(pages) if found.letters or found.next_start]


def run_id_of(letter: DeadLetter) -> str:
    """Whose letter it is."""
    key = parse_mark_sort_key(letter.sk)
    return "" if key is None else key.run_id


async def standing(items: Items, letters: Sequence[DeadLetter]) -> list[DeadLetter]:
    """Those whose runs are still the dead ones that they tell of.

    Only a run with a key can be another one by now: its key was used again. Then its letter is gone, unless that was
    in a transaction of the caller's own, or in another queue. So only letters of such runs cost a look.
    """
    run_ids = {one.sk: run_id_of(one) for one in letters}
    keys = {
        sk: (run_partition(items.schema, run_id), RUN_SORT_KEY)
        for sk, run_id in run_ids.items()
        if first_place(run_id) is None
    }
    model = items.run
    fields = [attribute.attr_name or "" for attribute in (model.version, model.state, model.generation)]
    found = await batches.read(items, model, list(keys.values()), fields=fields)
    return [one for one in letters if one.sk not in keys or _stands(items, one, found.get(keys[one.sk]))]


def _stands(items: Items, letter: DeadLetter, raw: Mapping[str, Any] | None) -> bool:
    if raw is None:
        return False
    try:
        return not is_ours(raw) or is_of(letter, items.run.from_raw_data(dict(raw)))
    except ItemUnreadableError as error:
        formats.warn(error)
        return True


def is_of(letter: DeadLetter, run: Run) -> bool:
    """Whether the letter tells of this run, and not of an earlier life of its key."""
    return bool(run.state == DEAD and run.generation == letter.generation)


# --- bring back -----------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class Revival:
    """With what a dead run begins again. ``input`` and ``digest``: where it was edited."""

    generation: str
    due_ms: int
    input: bytes | None = None
    digest: str | None = None


async def replay(items: Items, run_id: str, generation: str | None, revival: Revival) -> str:
    """Bring a dead run back: the run lives again, its new mark is put, its letter goes, all in one transaction.

    There is no mark left whose claimer could repair half of it, hence the transaction. It is conditional on the run
    being dead, in the very life that was seen, so a second replay finds nothing to do. ``generation`` is the one that
    the letter names, ``None`` for the run as it stands.
    """
    run = await runs.read(items, run_id)
    if run is None:
        return GONE
    if run.state != DEAD or (generation is not None and run.generation != generation):
        return NOT_DEAD
    sort_key = mark_sort_key(revival.due_ms, run_id, place=place_of(revival.generation, int(run.rev) + 1))
    model = items.run
    as_seen = _as_seen(items, run)
    await _move_input(items, run, revival)
    if run.workflow and run.ttl is not None and not run.undone:
        await journal.keep(
            items, run
        )  # before it lives: what a crash leaves without expiry, the cleaner gives it again
    actions = [*_revived(items, sort_key, revival), *_with_journal(items, run)]
    revive = requests.update(model, run.pk, RUN_SORT_KEY, actions, as_seen)
    mark = items.mark(
        pk=queue_partition(items.schema, run.queue, int(run.shard)),
        sk=sort_key,
        job=run.job,
        fence=run.fence,
        fence_placed=run.fence,
        generation=revival.generation,
        placed_ms=run.created_ms,
        cursor=run.cursor,
    )
    calls = [revive, requests.put(mark, items.mark.pk.does_not_exist())]
    if run.dead_letter:
        letter_key = dead_partition(items.schema, run.queue, int(run.shard))
        letter = items.dead_letter
        may_go = letter.pk.does_not_exist() | formats.not_newer(letter)
        calls.append(requests.delete(letter, letter_key, run.dead_letter, may_go))
    try:
        await requests.transact(calls, token=revival.generation)
    except TransactionFailedError as error:
        stands = await runs.read(items, run_id)
        if stands is not None and stands.generation == revival.generation:
            return REPLAYED  # our own write, its reply was lost
        if stands is not None and stands.state == DEAD and stands.generation == run.generation:
            for reason in error.reasons:
                formats.checked(reason.item, f"what belongs to run {run_id}")
            raise
        return GONE if stands is None else NOT_DEAD
    return REPLAYED


def _revived(items: Items, sort_key: str, revival: Revival) -> list[Action]:
    """Original options and recorded progress stay; attempts begin anew; what told of the end goes."""
    model = items.run
    actions: list[Action] = [
        model.state.set(LIVE),
        model.generation.set(revival.generation),
        model.mark.set(sort_key),
        model.attempts.set(0),
        model.snoozes.set(0),
        model.rev.set(model.rev + 1),
    ]
    ended = (model.ended_ms, model.dead_letter, model.fingerprint, model.error, model.cancelled, model.ttl)
    actions += [attribute.remove() for attribute in ended]
    if revival.input is not None:
        actions.append(model.input.set(revival.input))
    if revival.digest is not None:
        actions.append(model.digest.set(revival.digest))
    return actions


def _with_journal(items: Items, run: Run) -> list[Action]:
    """A workflow goes on with its journal; one that has been undone begins a new one, as if nothing had happened."""
    model = items.run
    if not run.workflow:
        return []
    actions = [model.base.remove(), model.waits.remove()]
    if not run.undone:
        return [*actions, model.journal.set(run.journal_id)]
    over = (model.journal, model.tail, model.page, model.culprits, model.has_undo, model.undone)
    return [*actions, *(attribute.remove() for attribute in over)]


async def _move_input(items: Items, run: Run, revival: Revival) -> None:
    """A new journal needs the input where it looks for it."""
    if run.workflow and run.undone and not run.input and revival.input is None:
        key = page_sort_key(revival.generation, 0, INPUT_PAGE)
        await requests.put(items.page(pk=run.pk, sk=key, body=await lookup.input_of(items, run)))


# --- forget ---------------------------------------------------------------------------------------


async def drop_stale(items: Items, letter: DeadLetter) -> None:
    """Delete a letter whose run is not dead any more, or is gone."""
    same = (items.dead_letter.generation == letter.generation) & formats.not_newer(items.dead_letter)
    try:
        await requests.delete(items.dead_letter, letter.pk, letter.sk, items.dead_letter.pk.exists() & same)
    except ConditionFailedError:
        return  # gone already


async def purge(items: Items, letter: DeadLetter) -> bool:
    """Forget a dead run for good: the run, its pages, then its letter. False if the run is not that dead one any more.

    The letter goes last, so that what a crash leaves is found and purged again.
    """
    run_id = run_id_of(letter)
    pk = run_partition(items.schema, run_id)
    run = await runs.read(items, run_id)
    dead = run is None or (run.state == DEAD and run.generation == letter.generation)
    pages = await _pages_of(items, pk) if dead else []
    if dead and run is not None:
        try:
            await requests.delete(items.run, pk, RUN_SORT_KEY, _as_seen(items, run))
        except ConditionFailedError:
            dead = (await runs.read(items, run_id)) is None
    if dead:
        for sort_key in pages:
            with contextlib.suppress(ConditionFailedError):  # what a newer version has put there is its own business
                await requests.delete(items.page, pk, sort_key, formats.not_newer(items.page))
    await drop_stale(items, letter)
    return dead


def _as_seen(items: Items, run: Run) -> Condition:
    """That it is dead, in the very life that was seen: its key may have been taken anew."""
    model = items.run
    as_seen: Condition = (model.state == DEAD) & (model.generation == run.generation) & formats.not_newer(model)
    return as_seen


async def _pages_of(items: Items, pk: str) -> list[str]:
    """The sort keys of a run's pages. They name the life they belong to, so no later life is met by deleting them."""
    model = items.page
    key = (model.pk == pk) & model.sk.startswith(PAGE_PREFIX)
    found: list[str] = []
    start: Mapping[str, Any] | None = None
    while True:
        fields = (items.schema.partition_key, items.schema.sort_key)
        reply = await requests.query(model, key, limit=1000, start=start, fields=fields, consistent=True)
        found += [raw[items.schema.sort_key]["S"] for raw in reply.get("Items", ())]
        start = reply.get("LastEvaluatedKey")
        if start is None:
            return found
