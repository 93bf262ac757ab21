"""Counts what a driver sends, for every ledger that is open; costs one look at an empty tuple while none is."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ..forks import renew_after_fork
from ..storage.call import Call, Response
from ..storage.schema import TableSchema
from .charges import TELLING, charge
from .ledger import Book, Entry, Ledger
from .sizes import CallSizes, KnownSizes


class Meter:
    """The ledgers that are open on one app. Thread-safe; a forked child begins with none.

    ``schema``: the table whose keys are known beforehand.
    """

    def __init__(self, schema: TableSchema | None = None) -> None:
        self._schema = schema
        self._open: tuple[Open, ...] = ()  # replaced as a whole, so that it is read without a lock
        self._lock = threading.Lock()
        renew_after_fork(self)

    def after_fork(self) -> None:
        """What a child spends is its own: nobody here would read it."""
        self._lock, self._open = threading.Lock(), ()

    @contextmanager
    def ledger(self) -> Iterator[Ledger]:
        """Counts every request that is sent while inside."""
        opened = Open(self._schema)
        with self._lock:
            self._open = (*self._open, opened)
        try:
            yield opened.book
        finally:
            with self._lock:
                self._open = tuple(one for one in self._open if one is not opened)

    def begin(self, call: Call) -> Metered | None:
        """A request is about to be sent; ``None`` if nobody counts."""
        return Metered(call, self._open) if self._open else None


class Open:
    """One open ledger, and what it knows about the sizes of items."""

    def __init__(self, schema: TableSchema | None) -> None:
        self.book = Book()
        self.known = KnownSizes(None)
        if schema is not None:
            self.known.learn_keys(schema.table, (schema.partition_key, schema.sort_key))


class Metered:
    """A request that is counted. ``params``: to be sent instead of the call's, so that the answer tells its units."""

    def __init__(self, call: Call, ledgers: tuple[Open, ...]) -> None:
        self._operation = call.operation
        asks = {"ReturnConsumedCapacity": "TOTAL"} if call.operation in TELLING else {}
        self.params: Mapping[str, Any] = {**call.params, **asks}
        self._calls = [
            (one, CallSizes(operation=call.operation, params=call.params, known=one.known)) for one in ledgers
        ]
        for one, sizes in self._calls:
            one.book.called(call.operation)
            sizes.prepare()

    def answered(self, reply: Response) -> None:
        """It was answered."""
        self._answered(reply)

    def failed(self, error: BaseException) -> None:
        """It was answered with an error, or not at all."""
        response = getattr(error, "response", None)
        if isinstance(response, Mapping) and "Error" in response:
            self._answered(response)
            return
        for one, sizes in self._calls:
            one.book.went_unanswered()
            one.known.forget(self._operation, sizes.params)

    def _answered(self, reply: Mapping[str, Any]) -> None:
        error = reply.get("Error", {}).get("Code")
        for one, sizes in self._calls:
            cost = charge(self._operation, sizes.params, reply, sizes, with_indexes=True)
            one.book.answered(Entry(operation=self._operation, charge=cost, error=error))
            one.known.learn(self._operation, sizes.params, reply)
