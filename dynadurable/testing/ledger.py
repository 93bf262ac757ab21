"""Counts what clients spend: requests, read units, write units, by the sizes of the items they touch.

The stores that tests run on do not all tell what a request would cost, and DynamoDB itself does not for one that it
refuses. The ledger watches a low-level client of boto3 or aioboto3 and counts:

    with ledger(client) as cost:
        app.enqueue(fan_out, molt_id="m1")
    assert cost.write_units == 1
    assert cost.scans == 0
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from dynadurable.ledger.charges import charge
from dynadurable.ledger.ledger import Book, Entry, Ledger
from dynadurable.ledger.sizes import CallSizes, KnownSizes

__all__ = ["Entry", "Ledger", "ledger"]


@contextmanager
def ledger(*clients: Any, reader: Any = None) -> Iterator[Ledger]:
    """Count what these clients spend while inside.

    Sizes come from the requests and their answers, and from what the same clients wrote and read before; where none of
    them knows, from the ``ConsumedCapacity`` of the answer; else the least possible is counted, and counted as
    ``guessed``.

    ``reader`` is a boto3 low-level client of its own on the same tables. With it nothing is guessed: each touched item
    is looked up before and after (uncounted, and right only while nobody else writes it in between).
    """
    if any(client is reader for client in clients):
        raise ValueError("the reader's own requests would be counted: give the ledger a second client to read with")
    book = Book()
    known = KnownSizes(reader)
    watches = [_Watch(client, book, known) for client in clients]
    for watch in watches:
        watch.begin()
    try:
        yield book
    finally:
        for watch in watches:
            watch.end()


class _Watch:
    """The hooks in one client."""

    def __init__(self, client: Any, book: Book, known: KnownSizes) -> None:
        self._events = client.meta.events
        self._book = book
        self._known = known
        self._mark = f"dynadurable.ledger.{id(self)}"

    def begin(self) -> None:
        for name, handler in self._handlers():
            self._events.register_last(name, handler, unique_id=f"{self._mark}.{name}")

    def end(self) -> None:
        for name, handler in self._handlers():
            self._events.unregister(name, handler, unique_id=f"{self._mark}.{name}")

    def _handlers(self) -> list[tuple[str, Callable[..., None]]]:
        return [
            ("before-parameter-build.dynamodb.*", self._on_params),
            ("response-received.dynamodb.*", self._on_attempt),
        ]

    def _on_params(self, params: dict[str, Any], model: Any, context: dict[str, Any], **_: Any) -> None:
        call = context[self._mark] = CallSizes(operation=model.name, params=params, known=self._known)
        self._book.called(model.name)
        call.prepare()

    def _on_attempt(self, context: dict[str, Any], parsed_response: Any = None, **_: Any) -> None:
        call: CallSizes | None = context.get(self._mark)
        if call is None:  # it began before the ledger did
            return
        if parsed_response is None:
            self._book.went_unanswered()
            self._known.forget(call.operation, call.params)
        else:
            cost = charge(call.operation, call.params, parsed_response, call)
            error = parsed_response.get("Error", {}).get("Code")
            self._book.answered(Entry(operation=call.operation, charge=cost, error=error))
            self._known.learn(call.operation, call.params, parsed_response)
        if parsed_response is None or "Error" in parsed_response:
            call.prepare()  # the SDK may try again, and then this is what it finds
