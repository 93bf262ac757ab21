"""One table: its keys, and its items by partition and in the order of their sort keys.

Items are never changed in place, so a snapshot shares them. It shares partitions too: a partition made before the last
snapshot is copied before its next write.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from dynadurable.testing.memory import size, value
from dynadurable.testing.memory.refusal import KeyMismatchError, invalid
from dynadurable.testing.memory.value import Item, Value

HASH_BYTES = 2048
RANGE_BYTES = 1024

Part = Any  # str, bytes or Decimal, the same for all keys of one attribute
Key = tuple[Part, Part]  # of a table without sort keys the second is ""


class Record:
    """An item and its size in bytes."""

    __slots__ = ("item", "size")

    def __init__(self, item: Item, size: int) -> None:
        self.item = item
        self.size = size


class Partition:
    """The items with one partition key; ``order`` holds their sort keys, sorted."""

    __slots__ = ("epoch", "order", "records")

    def __init__(self, epoch: int, records: dict[Part, Record], order: list[Part]) -> None:
        self.epoch = epoch
        self.records = records
        self.order = order


@dataclass(frozen=True, kw_only=True, slots=True)
class KeyAttribute:
    """The name, the type (``S``, ``N`` or ``B``) and the longest value of a key attribute."""

    name: str
    kind: str
    maximum_bytes: int

    def to_part(self, raw: Any) -> tuple[Part, Value]:
        """What the items are kept by, and the canonical value.

        Raises:
            KeyMismatchError: absent or of another type.
            RefusalError: empty, too long, or no value.
        """
        if not isinstance(raw, dict) or len(raw) != 1 or self.kind not in raw:
            raise KeyMismatchError("The provided key element does not match the schema")
        try:
            canonical = value.to_value(raw)
        except value.ValueRefusedError as error:
            raise invalid(f"One or more parameter values were invalid: {error}") from None
        content = canonical[self.kind]
        if self.kind == "N":
            return Decimal(content), canonical
        if not content:
            raise invalid(f"One or more parameter values are not valid: the key {self.name} is empty")
        if len(content) > self.maximum_bytes // 4 and size.of_value(canonical) > self.maximum_bytes:
            raise invalid(f"The key {self.name} has exceeded the size limit of {self.maximum_bytes} bytes")
        return content, canonical


class Table:
    """One table. ``epoch`` grows with each snapshot; ``time_to_live`` names the attribute that is enabled for it."""

    def __init__(
        self, *, name: str, hash_key: KeyAttribute, range_key: KeyAttribute | None, created_ms: int = 0
    ) -> None:
        self.name = name
        self.created_ms = created_ms
        self.time_to_live: str | None = None
        self.hash_key = hash_key
        self.range_key = range_key
        self.key_names = frozenset({hash_key.name} if range_key is None else {hash_key.name, range_key.name})
        self.epoch = 0
        self.partitions: dict[Part, Partition] = {}

    def to_key(self, raw: Any) -> tuple[Key, Item]:
        """The key that a request names exactly, and its attributes; raises as ``KeyAttribute.to_part`` does."""
        if not isinstance(raw, dict) or raw.keys() != self.key_names:
            raise KeyMismatchError("The provided key element does not match the schema")
        return self._key_in(raw)

    def key_in(self, item: Item) -> tuple[Key, Item]:
        """The key of an item, and its attributes; raises as ``KeyAttribute.to_part`` does."""
        if not self.key_names <= item.keys():
            missing = sorted(self.key_names - item.keys())
            raise invalid(f"One or more parameter values were invalid: Missing the key {missing[0]} in the item")
        return self._key_in(item)

    def _key_in(self, item: Item) -> tuple[Key, Item]:
        hash_key, range_key = self.hash_key, self.range_key
        hash_part, hash_value = hash_key.to_part(item[hash_key.name])
        if range_key is None:
            return (hash_part, ""), {hash_key.name: hash_value}
        range_part, range_value = range_key.to_part(item[range_key.name])
        return (hash_part, range_part), {hash_key.name: hash_value, range_key.name: range_value}

    def key_item(self, item: Item) -> Item:
        """The key attributes of a stored item."""
        return {name: item[name] for name in sorted(self.key_names)}

    def get(self, key: Key) -> Record | None:
        """The record at a key, or None."""
        partition = self.partitions.get(key[0])
        return None if partition is None else partition.records.get(key[1])

    def put(self, key: Key, record: Record) -> None:
        """Store a record, over what was there."""
        hash_part, range_part = key
        partition = self.partitions.get(hash_part)
        if partition is None:
            self.partitions[hash_part] = Partition(self.epoch, {range_part: record}, [range_part])
            return
        if partition.epoch != self.epoch:
            partition = self._unshared(hash_part, partition)
        if range_part not in partition.records:
            insort(partition.order, range_part)
        partition.records[range_part] = record

    def delete(self, key: Key) -> None:
        """Remove what is at a key, if anything is."""
        hash_part, range_part = key
        partition = self.partitions.get(hash_part)
        if partition is None or range_part not in partition.records:
            return
        if len(partition.records) == 1:
            del self.partitions[hash_part]
            return
        if partition.epoch != self.epoch:
            partition = self._unshared(hash_part, partition)
        del partition.records[range_part]
        del partition.order[bisect_left(partition.order, range_part)]

    def records(self) -> Iterator[Record]:
        """Every record, by partition key and then by sort key."""
        for hash_part in sorted(self.partitions):
            partition = self.partitions[hash_part]
            for range_part in partition.order:
                yield partition.records[range_part]

    def snapshot(self) -> TableSnapshot:
        """The table as it is now; writes after this copy what they touch."""
        self.epoch += 1
        return TableSnapshot(
            name=self.name,
            hash_key=self.hash_key,
            range_key=self.range_key,
            created_ms=self.created_ms,
            time_to_live=self.time_to_live,
            epoch=self.epoch,
            partitions=dict(self.partitions),
        )

    @classmethod
    def from_snapshot(cls, snapshot: TableSnapshot) -> Table:
        """A table of its own with what the snapshot holds."""
        table = cls(
            name=snapshot.name,
            hash_key=snapshot.hash_key,
            range_key=snapshot.range_key,
            created_ms=snapshot.created_ms,
        )
        table.time_to_live = snapshot.time_to_live
        table.epoch = snapshot.epoch
        table.partitions = dict(snapshot.partitions)
        return table

    def _unshared(self, hash_part: Part, partition: Partition) -> Partition:
        copy = Partition(self.epoch, dict(partition.records), list(partition.order))
        self.partitions[hash_part] = copy
        return copy


@dataclass(frozen=True, kw_only=True, slots=True)
class TableSnapshot:
    """A table at one moment. Every partition in it is older than ``epoch``, so nobody writes to it again."""

    name: str
    hash_key: KeyAttribute
    range_key: KeyAttribute | None
    created_ms: int
    time_to_live: str | None
    epoch: int
    partitions: dict[Part, Partition]
