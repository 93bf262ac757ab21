"""What went through the door, added up: deliveries, what became of the mark, and what each cost in write units.

The rule for write units is DynamoDB's: one for each started kilobyte of the larger of the item before and after the
write, twice that in a transaction; a write whose condition fails costs the same. Sizes are those of the items as the
requests and replies that passed the door show them.
"""

from __future__ import annotations

import re
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..clock import Clock
from ..ledger.charges import size_of
from ..ledger.sizes import Part, parts_of
from ..model import codec
from ..storage.items import Items
from ..storage.size import write_units
from .door import Passage

CONDITION_FAILED = "ConditionalCheckFailedException"
POSTED = "post"
CLAIMED = "claim"
CHECKPOINTED = "checkpoint"
RENEWED = "renewal"
HANDED_BACK = "hand-back"
FINISHED = "finish"
REFUSED = "refused"
OTHER = "other"


@dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """A worker has taken the mark."""

    worker: str
    attempt: int
    at: float
    """Monotonic seconds."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Spent:
    """Writes of one kind and their units."""

    writes: int
    units: float


class Tally:
    """Counts passages through a door. Safe for threads.

    ``ours`` are the partition keys of marks, ``entries`` those of what is delivered.
    """

    def __init__(self, items: Items, clock: Clock, *, ours: str, entries: str) -> None:
        self._mark = items.mark
        self._schema = items.schema
        self._clock = clock
        self._ours, self._entries = ours, entries
        self._lock = threading.Lock()
        self._deliveries: Counter[tuple[str, str]] = Counter()
        self._total = 0
        self._sizes: dict[tuple[str, str], int] = {}
        self._writes: Counter[str] = Counter()
        self._units: defaultdict[str, float] = defaultdict(float)
        self.claims: list[Claim] = []
        self.recorded = 0
        """Recipients that the last checkpoint covers."""

    # --- reading ----------------------------------------------------------------------------------

    @property
    def delivered(self) -> int:
        """Different entries that were written."""
        return len(self._deliveries)

    @property
    def deliveries(self) -> int:
        """Writes of entries, repeated ones included."""
        return self._total

    @property
    def repeated(self) -> int:
        """Writes of entries beyond the first of each."""
        return self.deliveries - self.delivered

    def spent(self) -> Mapping[str, Spent]:
        """What the mark cost, by what was done to it."""
        with self._lock:
            return {kind: Spent(writes=number, units=self._units[kind]) for kind, number in self._writes.items()}

    # --- counting ---------------------------------------------------------------------------------

    def observe(self, passage: Passage) -> None:
        """Count a passage."""
        if passage.error is not None and passage.error != CONDITION_FAILED:
            return
        with self._lock:
            for part in parts_of(passage.operation, passage.params):
                self._count(passage, part)

    def _count(self, passage: Passage, part: Part) -> None:
        key = (part.target[self._schema.partition_key]["S"], part.target[self._schema.sort_key]["S"])
        if key[0].startswith(self._ours) and part.kind != "get":
            self._count_mark(passage, part, key)
        elif key[0].startswith(self._entries) and part.kind == "put" and not _is_left_over(passage, part):
            self._deliveries[key] += 1
            self._total += 1

    def _count_mark(self, passage: Passage, part: Part, key: tuple[str, str]) -> None:
        before = self._sizes.get(key, 0)
        after = size_of(passage.reply.get("Attributes") or part.params.get("Item"))
        kind = REFUSED if passage.error else self._kind(passage, part)
        self._writes[kind] += 1
        self._units[kind] += write_units(max(before, after)) * (2 if passage.operation == "TransactWriteItems" else 1)
        if not passage.error:
            self._sizes[key] = 0 if part.kind == "delete" else after or before

    def _kind(self, passage: Passage, part: Part) -> str:
        if part.kind in ("put", "delete"):
            return POSTED if part.kind == "put" else FINISHED
        changed = set(_names(part.params))
        if self._mark.fence.attr_name in changed:
            claimed = self._mark.from_raw_data(passage.reply["Attributes"])
            now = self._clock.monotonic()
            self.claims.append(Claim(worker=str(claimed.worker), attempt=int(claimed.attempt), at=now))
            return CLAIMED
        if self._mark.token.attr_name in changed:
            return HANDED_BACK
        if self._mark.cursor.attr_name in changed:
            cursor = codec.decode(self._mark.from_raw_data(passage.reply["Attributes"]).cursor)
            self.recorded = recipients_of(cursor)
            return CHECKPOINTED
        return RENEWED if self._mark.lease_until_ms.attr_name in changed else OTHER


def recipients_of(cursor: Any) -> int:
    """How many recipients the cursor of a fan-out covers.

    >>> recipients_of({"fan_out": {"": {"written": 300, "after": {"sk": {"S": "krab-00299"}}}}})
    300
    """
    return sum(state["written"] for state in cursor["fan_out"].values())


def _names(params: Mapping[str, Any]) -> Iterator[str]:
    """The attributes that an update sets or removes, and other words of its expression."""
    names = params.get("ExpressionAttributeNames", {})
    for word in re.findall(r"#?\w+", params.get("UpdateExpression", "")):
        yield names.get(word, word)


def _is_left_over(passage: Passage, part: Part) -> bool:
    left = (passage.reply.get("UnprocessedItems") or {}).get(part.table, [])
    return {"PutRequest": part.params} in left
