"""What was spent, added up: requests, read units, write units, in all and by operation."""

from __future__ import annotations

import threading
from collections import Counter, deque
from dataclasses import dataclass

from .charges import FREE, Charge

MAX_ENTRIES = 10_000
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
    * ``write_units_by``, ``read_units_by``: the same by operation, such as ``"UpdateItem"``
    * ``calls``: calls made, retries of the SDK not counted; ``by_operation``: the same by operation
    * ``failed_writes``: writes whose condition did not hold; they cost units too
    * ``scans``: Scan requests that were answered
    * ``throttled``: attempts that the service turned away; they cost nothing
    * ``unanswered``: attempts without an answer; they may have cost units that nobody can count
    * ``guessed``: attempts in which a size was not known; their units are the least they can be
    * ``entries``: one for each answered attempt, in order; the last 10,000
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.reset()

    def reset(self) -> None:
        """Count from nothing again; what is known about the sizes of items stays."""
        with self._lock:
            self.entries: deque[Entry] = deque(maxlen=MAX_ENTRIES)
            self.by_operation: Counter[str] = Counter()
            self.unanswered = 0
            self.guessed = 0
            self.throttled = 0
            self._answered: Counter[str] = Counter()
            self._spent: dict[str, Charge] = {}

    @property
    def write_units(self) -> float:
        return sum(self.write_units_by.values())

    @property
    def read_units(self) -> float:
        return sum(self.read_units_by.values())

    @property
    def write_units_by(self) -> dict[str, float]:
        return {operation: spent.write_units for operation, spent in self._sums().items() if spent.write_units}

    @property
    def read_units_by(self) -> dict[str, float]:
        return {operation: spent.read_units for operation, spent in self._sums().items() if spent.read_units}

    @property
    def calls(self) -> int:
        with self._lock:
            return self.by_operation.total()

    @property
    def failed_writes(self) -> int:
        return sum(spent.failed_writes for spent in self._sums().values())

    @property
    def scans(self) -> int:
        with self._lock:
            return self._answered["Scan"]

    def __str__(self) -> str:
        """A line for each entry and the sums, for the message of an assertion."""
        with self._lock:
            lines = list(map(str, self.entries))
        return "\n".join([*lines, f"{self.write_units:g} WU, {self.read_units:g} RU in {self.calls} calls"])

    def _sums(self) -> dict[str, Charge]:
        with self._lock:
            return dict(self._spent)


class Book(Ledger):
    """The side of the ledger that is written to."""

    def called(self, operation: str) -> None:
        """A call is made."""
        with self._lock:
            self.by_operation[operation] += 1

    def answered(self, entry: Entry) -> None:
        """An attempt was answered."""
        with self._lock:
            self.entries.append(entry)
            self._answered[entry.operation] += 1
            self._spent[entry.operation] = self._spent.get(entry.operation, FREE) + entry.charge
            self.guessed += entry.charge.guessed
            self.throttled += entry.error in _THROTTLED

    def went_unanswered(self) -> None:
        """An attempt got no answer."""
        with self._lock:
            self.unanswered += 1
