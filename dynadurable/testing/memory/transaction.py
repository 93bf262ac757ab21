"""Transactions: all elements or none."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dynadurable.errors import CancellationReason
from dynadurable.storage.size import read_units, write_units
from dynadurable.testing.memory import capacity, params, size
from dynadurable.testing.memory.catalog import Catalog, Replay
from dynadurable.testing.memory.expressions import compiled
from dynadurable.testing.memory.read import shown, size_of
from dynadurable.testing.memory.refusal import (
    TOKEN_REUSED,
    TRANSACTION_CANCELED,
    KeyMismatchError,
    RefusalError,
    invalid,
)
from dynadurable.testing.memory.table import Key, Record
from dynadurable.testing.memory.write import (
    Write,
    larger,
    shown_on_failure,
    to_check,
    to_delete,
    to_put,
    to_update,
)

ELEMENTS = 100
TOKEN_CHARACTERS = 36
PAYLOAD_BYTES = 4 * 1024 * 1024

Params = Mapping[str, Any]
Reply = dict[str, Any]

_INNOCENT = CancellationReason(code="None")
_TO_WRITE: dict[str, Callable[[Catalog, Params], Write]] = {
    "Put": to_put,
    "Update": to_update,
    "Delete": to_delete,
    "ConditionCheck": to_check,
}


def transact_write_items(catalog: Catalog, request: Params) -> Reply:
    """``TransactWriteItems``."""
    elements = _elements(request, tuple(_TO_WRITE))
    writes, mistaken = _writes(catalog, elements)
    replay = _replay(catalog, request)
    if replay is not None:
        return _replayed(request, replay)
    if mistaken:
        raise _cancelled(mistaken, len(elements))
    _one_each([(write.table.name, write.key) for write in writes])
    olds = [write.table.get(write.key) for write in writes]
    news = _outcomes(elements, writes, olds)
    for write, new in zip(writes, news, strict=True):
        write.store(new)
    sizes = [(write.table.name, larger(old, new)) for write, old, new in zip(writes, olds, news, strict=True)]
    _remember(catalog, request, sizes)
    if not capacity.wanted(request):
        return {}
    charges = [(table, 2 * write_units(charged)) for table, charged in sizes]
    return {"ConsumedCapacity": capacity.of_transaction(request, charges, "Write")}


def transact_get_items(catalog: Catalog, request: Params) -> Reply:
    """``TransactGetItems``."""
    keys: list[tuple[str, Key]] = []
    responses: list[Reply] = []
    charges: list[tuple[str, float]] = []
    elements = _elements(request, ("Get",))
    for place, (_, get) in enumerate(elements):
        table = catalog.table(get.get("TableName"))
        expressions = compiled(get)
        try:
            key, _ = table.to_key(get.get("Key"))
        except KeyMismatchError as error:
            raise _cancelled({place: _mistake(error)}, len(elements)) from None
        keys.append((table.name, key))
        record = table.get(key)
        item = None if record is None else shown(record, expressions)
        responses.append({"Item": item} if item else {})  # unlike GetItem, without an item that has nothing to show
        charges.append((table.name, 2 * read_units(size_of(record), consistent=True)))
    _one_each(keys)
    reply: Reply = {"Responses": responses}
    if capacity.wanted(request):
        reply["ConsumedCapacity"] = capacity.of_transaction(request, charges, "Read")
    return reply


# --- from a request to its writes -----------------------------------------------------------------


def _elements(request: Params, kinds: Sequence[str]) -> list[tuple[str, Params]]:
    elements = request.get("TransactItems")
    if not isinstance(elements, list | tuple) or not 1 <= len(elements) <= ELEMENTS:
        raise invalid(f"Value at 'transactItems' failed to satisfy constraint: from 1 to {ELEMENTS} elements")
    pairs: list[tuple[str, Params]] = []
    for element in elements:
        if not isinstance(element, Mapping) or len(element) != 1 or next(iter(element)) not in kinds:
            raise invalid(f"TransactItems can only contain one of {', '.join(kinds)} in each element")
        kind, content = next(iter(element.items()))
        params.check(kind, content)
        pairs.append((kind, content))
    return pairs


def _writes(catalog: Catalog, elements: list[tuple[str, Params]]) -> tuple[list[Write], dict[int, CancellationReason]]:
    """The writes of all elements, and the first wrong key, which is its element's own reason.

    Raises:
        RefusalError: any other mistake makes the whole request invalid.
    """
    writes: list[Write] = []
    mistaken: dict[int, CancellationReason] = {}
    for place, (kind, element) in enumerate(elements):
        if kind == "Update" and "UpdateExpression" not in element:
            raise invalid("UpdateExpression must be given in an Update")
        try:
            writes.append(_TO_WRITE[kind](catalog, element))
        except KeyMismatchError as error:
            mistaken = mistaken or {place: _mistake(error)}
    if sum(map(_payload, writes)) > PAYLOAD_BYTES:
        raise invalid("Collective size of items and expressions in the transaction exceeds 4MB")
    return writes, mistaken


def _payload(write: Write) -> int:
    whole = size.of_item(write.keys) if write.whole is None else write.whole.size
    return whole + sum([size.of_value(given) for given in write.values.values()])


def _one_each(keys: list[tuple[str, Key]]) -> None:
    if len(set(keys)) != len(keys):
        raise invalid("Transaction request cannot include multiple operations on one item")


def _outcomes(
    elements: list[tuple[str, Params]], writes: list[Write], olds: list[Record | None]
) -> list[Record | None]:
    """What there will be; every element is looked at, so that the reasons are complete."""
    reasons: dict[int, CancellationReason] = {}
    news: list[Record | None] = []
    for place, (write, old) in enumerate(zip(writes, olds, strict=True)):
        if not write.holds(old):
            item = shown_on_failure(old, elements[place][1])
            reasons[place] = CancellationReason(
                code="ConditionalCheckFailed", message="The conditional request failed", item=item
            )
            continue
        try:
            news.append(write.outcome(old))
        except RefusalError as error:
            reasons[place] = _mistake(error)
    if reasons:
        raise _cancelled(reasons, len(writes))
    return news


def _mistake(error: RefusalError) -> CancellationReason:
    return CancellationReason(code="ValidationError", message=error.message)


def _cancelled(reasons: Mapping[int, CancellationReason], number: int) -> RefusalError:
    every = [reasons.get(place, _INNOCENT) for place in range(number)]
    codes = ", ".join(reason.code for reason in every)
    return RefusalError(
        TRANSACTION_CANCELED,
        f"Transaction cancelled, please refer cancellation reasons for specific reasons [{codes}]",
        reasons=every,
    )


# --- tokens ---------------------------------------------------------------------------------------


def _replay(catalog: Catalog, request: Params) -> Replay | None:
    token = request.get("ClientRequestToken")
    if token is None:
        return None
    if not isinstance(token, str) or not 1 <= len(token) <= TOKEN_CHARACTERS:
        raise invalid(f"ClientRequestToken must have from 1 to {TOKEN_CHARACTERS} characters")
    replay = catalog.replay(token)
    if replay is not None and replay.fingerprint != _frozen(request):
        raise RefusalError(TOKEN_REUSED, "Request token already in use for another request with a different payload")
    return replay


def _remember(catalog: Catalog, request: Params, sizes: list[tuple[str, int]]) -> None:
    if "ClientRequestToken" in request:
        replay = Replay(fingerprint=_frozen(request), done_ms=catalog.now_ms(), sizes=tuple(sizes))
        catalog.replays[request["ClientRequestToken"]] = replay


def _replayed(request: Params, replay: Replay) -> Reply:
    if not capacity.wanted(request):
        return {}
    charges = [(table, 2 * read_units(charged, consistent=True)) for table, charged in replay.sizes]
    return {"ConsumedCapacity": capacity.of_transaction(request, charges, "Read")}


def _frozen(given: Any) -> Any:
    """The same for requests that ask for the same; shares nothing changeable with the request."""
    if isinstance(given, Mapping):
        reported = ("ClientRequestToken", "ReturnConsumedCapacity", "ReturnItemCollectionMetrics")
        return tuple((name, _frozen(given[name])) for name in sorted(given) if name not in reported)
    if isinstance(given, list | tuple):
        return tuple(_frozen(member) for member in given)
    return bytes(given) if isinstance(given, bytearray) else given
