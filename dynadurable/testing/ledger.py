"""Counts what clients spend: requests, read units, write units, by the sizes of the items they touch.

The stores that tests run on do not all tell what a request would cost, and DynamoDB itself does not for one that it
refuses. The ledger watches a low-level client of boto3 or aioboto3 and counts:

    with ledger(client) as cost:
        app.enqueue(fan_out, molt_id="m1")
    assert cost.write_units == 1
    assert cost.scans == 0
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from dynadurable.testing.charges import Charge, charge
from dynadurable.testing.sizes import CallSizes, KnownSizes

_THROTTLED = frozenset({"ProvisionedThroughputExceededException", "ThrottlingException", "RequestLimitExceeded"})


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One attempt that was answered: what was asked, what it cost, and with which error it ended, if any."""

    operation: str
    charge: Charge
    error: str | None

    def __str__(self) -> str:
        cost = f"{self.charge.write_units:g} WU, {self.charge.read_units:g} RU{' at least' * self.charge.guessed}"
        return f"{self.operation:<20} {cost}{f'  {self.error}' if self.error else ''}"


class Ledger:
    """The running count. Safe to read while other threads spend.

    * ``write_units``, ``read_units``: units of DynamoDB (a kilobyte written, four kilobytes read consistently)
    * ``calls``: calls made, retries of the SDK not counted; ``by_operation``: the same by name
    * ``failed_writes``: writes whose condition did not hold; they cost units too
    * ``scans``: Scan requests that were answered
    * ``throttled``: attempts that the service turned away; they cost nothing
    * ``unanswered``: attempts without an answer; they may have cost units that nobody can count
    * ``guessed``: entries in which a size was not known; their units are the least they can be
    * ``entries``: one for each answered attempt, in order
    """

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.by_operation: Counter[str] = Counter()
        self.unanswered = 0
        self._lock = threading.Lock()

    @property
    def write_units(self) -> float:
        return sum(entry.charge.write_units for entry in self._all())

    @property
    def read_units(self) -> float:
        return sum(entry.charge.read_units for entry in self._all())

    @property
    def calls(self) -> int:
        with self._lock:
            return self.by_operation.total()

    @property
    def failed_writes(self) -> int:
        return sum(entry.charge.failed_writes for entry in self._all())

    @property
    def scans(self) -> int:
        return sum(entry.operation == "Scan" for entry in self._all())

    @property
    def throttled(self) -> int:
        return sum(entry.error in _THROTTLED for entry in self._all())

    @property
    def guessed(self) -> int:
        return sum(entry.charge.guessed for entry in self._all())

    def reset(self) -> None:
        """Count from nothing again; what is known about the sizes of items stays."""
        with self._lock:
            self.entries = []
            self.by_operation = Counter()
            self.unanswered = 0

    def __str__(self) -> str:
        """A line for each entry and the sums, for the message of an assertion."""
        sums = f"{self.write_units:g} WU, {self.read_units:g} RU in {self.calls} calls"
        return "\n".join([*map(str, self._all()), sums])

    def _all(self) -> list[Entry]:
        with self._lock:
            return list(self.entries)


class _Book(Ledger):
    """The side of the ledger that is written to."""

    def called(self, operation: str) -> None:
        with self._lock:
            self.by_operation[operation] += 1

    def answered(self, entry: Entry) -> None:
        with self._lock:
            self.entries.append(entry)

    def went_unanswered(self) -> None:
        with self._lock:
            self.unanswered += 1


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
    book = _Book()
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

    def __init__(self, client: Any, book: _Book, known: KnownSizes) -> None:
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
