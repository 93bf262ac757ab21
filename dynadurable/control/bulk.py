"""Enqueueing many runs at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..errors import (
    ConfigurationError,
    DynadurableError,
    EnqueueIncompleteError,
    InputRefusedError,
    KeyConflictError,
)
from ..model.job import JobCall
from ..operations import Operations
from ..storage import bulk, runs
from ..storage.births import Birth, Newborn
from ..storage.call import Several

PARALLEL = 8

New = tuple[Birth, Newborn]


class BulkPlans:
    """The plan behind ``App.enqueue_many``."""

    def __init__(self, operations: Operations) -> None:
        self._operations = operations
        self._items = operations.items
        self._clock = operations.clock

    async def enqueue(self, calls: Iterable[JobCall[Any]]) -> list[str]:
        """Accept all of these runs; their ids, in order."""
        new = self._born(calls)
        first_of: dict[str, New] = {}
        for birth, born in new:
            known = first_of.setdefault(born.run_id, (birth, born))
            if known[0].digest != birth.digest:
                raise KeyConflictError(born.run_id, job=birth.job, key=birth.key or "")
        keyed = [one for one in first_of.values() if one[0].key is not None]
        plain = [one for one in first_of.values() if one[0].key is None]
        batches = [plain[at : at + bulk.BATCH_ITEMS] for at in range(0, len(plain), bulk.BATCH_ITEMS)]
        plans = [*map(self._place_batch, batches), *map(self._start_keyed, keyed)]
        settled = await Several(plans, limit=PARALLEL) if plans else []
        outcome = _Outcome()
        for group, result in zip([*batches, *([one] for one in keyed)], settled, strict=True):
            outcome.add([born.run_id for _, born in group], result)
        if any(birth.due_ms <= birth.now_ms for birth, _ in new):
            self._operations.wake()
        run_ids = [born.run_id for _, born in new]
        outcome.check(run_ids)
        return run_ids

    def _born(self, calls: Iterable[JobCall[Any]]) -> list[New]:
        """The items of all calls; nothing is written."""
        new: list[New] = []
        for place, call in enumerate(calls):
            if not isinstance(call, JobCall):
                raise ConfigurationError(f"enqueue_many takes calls made by job.call(...); number {place} is {call!r}")
            try:
                new.append(self._operations.born(call.job, call.args, call.kwargs))
            except InputRefusedError as error:
                error.add_note(f"This was call number {place}, from 0, of enqueue_many. Nothing was written.")
                raise
        return new

    async def _place_batch(self, batch: Sequence[New]) -> list[bool]:
        sent = self._clock.monotonic()
        stored = await bulk.place(self._items, [born for _, born in batch])
        if self._elapsed_ms(sent) > runs.GRACE_MS // 2:  # their marks may have been condemned as abandoned meanwhile
            for (_, born), is_stored in zip(batch, stored, strict=True):
                if is_stored and born.run is not None:
                    await runs.vouch_late(self._items, born.run, born.page)
        return stored

    async def _start_keyed(self, one: New) -> list[bool]:
        birth, born = one
        assert born.run is not None
        sent = self._clock.monotonic()
        await runs.start(
            self._items,
            born.run,
            born.mark,
            run_id=born.run_id,
            now_ms=birth.now_ms,
            elapsed_ms=lambda: self._elapsed_ms(sent),
            page=born.page,
        )
        return [True]

    def _elapsed_ms(self, sent: float) -> int:
        return round((self._clock.monotonic() - sent) * 1000)


@dataclass(kw_only=True, slots=True)
class _Outcome:
    """What became of each run."""

    stored: set[str] = field(default_factory=set)
    errors: dict[str, DynadurableError] = field(default_factory=dict)

    def add(self, run_ids: Sequence[str], result: Any) -> None:
        if isinstance(result, DynadurableError):
            self.errors.update(dict.fromkeys(run_ids, result))
        elif isinstance(result, Exception):
            raise result  # a defect
        else:
            self.stored.update(run_id for run_id, is_stored in zip(run_ids, result, strict=True) if is_stored)

    def check(self, run_ids: Sequence[str]) -> None:
        not_stored = [run_id for run_id in dict.fromkeys(run_ids) if run_id not in self.stored]
        if not not_stored:
            return
        first = next(iter(self.errors.values()), None)
        if isinstance(first, ConfigurationError) and not self.stored:
            raise first  # the table is missing or may not be written: there is no more to tell
        stored = [run_id for run_id in dict.fromkeys(run_ids) if run_id in self.stored]
        raise EnqueueIncompleteError(stored=stored, not_stored=not_stored, errors=self.errors) from first
