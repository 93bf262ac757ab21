"""What may be written for a recipient: a PynamoDB model, or a dict with or without DynamoDB's types."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..drivers.typed import to_typed
from ..errors import InputRefusedError, RequestRefusedError, StoreUnavailableError
from ..storage.call import Call, Response

BATCH_ITEMS = 25


@dataclass(frozen=True, slots=True)
class Put:
    """An item and the table it goes to."""

    table: str
    item: dict[str, Any]


def to_put(item: Any, *, table: str | None, default_table: str) -> Put:
    """Where an item goes: to ``table`` if that is given, else to its model's own, else to ``default_table``.

    Raises:
        InputRefusedError: not an item.
    """
    if hasattr(item, "serialize") and hasattr(item, "attribute_values"):
        own = getattr(getattr(item, "Meta", None), "table_name", None)
        return Put(table or own or default_table, item.serialize())
    if not isinstance(item, dict) or not item:
        raise InputRefusedError(f"a fan-out writes items: a PynamoDB model or a dict, not {item!r:.80}")
    return Put(table or default_table, to_typed(item))


def batches(puts: Sequence[Put]) -> Iterator[Call]:
    """BatchWriteItem requests of at most 25 puts each, without exact repeats: DynamoDB refuses a batch with any."""
    kept: list[Put] = []
    for put in puts:
        if put not in kept:
            kept.append(put)
        if len(kept) == BATCH_ITEMS:
            yield _batch(kept)
            kept = []
    if kept:
        yield _batch(kept)


async def write_batch(call: Call) -> None:
    """The plan that writes every item of a batch, whatever DynamoDB leaves over, as long as it takes some.

    Raises:
        StoreUnavailableError: it takes none any more, after every retry of the driver.
        RequestRefusedError: an item that DynamoDB does not accept.
    """
    while True:
        try:
            reply = await call
        except RequestRefusedError as error:
            if "duplicates" not in str(error) or _size(call) == 1:
                raise
            for half in _halves(call):  # two items with one key: one after the other, so that the later one stays
                await write_batch(half)
            return
        left = _left_over(reply)
        if left is None:
            return
        if _size(left) >= _size(call):
            raise StoreUnavailableError("BatchWriteItem", f"{_size(left)} items were left over after every retry")
        call = left


def _batch(puts: Iterable[Put]) -> Call:
    requests: dict[str, list[dict[str, Any]]] = {}
    for put in puts:
        requests.setdefault(put.table, []).append({"PutRequest": {"Item": put.item}})
    return Call(operation="BatchWriteItem", params={"RequestItems": requests})


def _left_over(reply: Response) -> Call | None:
    left = {table: writes for table, writes in (reply.get("UnprocessedItems") or {}).items() if writes}
    return Call(operation="BatchWriteItem", params={"RequestItems": left}) if left else None


def _size(call: Call) -> int:
    return sum(map(len, call.params["RequestItems"].values()))


def _halves(call: Call) -> Iterator[Call]:
    """Two smaller batches, in order."""
    writes = [(table, write) for table, writes in call.params["RequestItems"].items() for write in writes]
    middle = len(writes) // 2
    for part in (writes[:middle], writes[middle:]):
        yield _batch(Put(table, write["PutRequest"]["Item"]) for table, write in part)
