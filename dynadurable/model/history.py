"""What a workflow's journal says about its operations, and whether today's code asks for the same ones.

An operation is known by scope, kind, name and occurrence (``Identity``). A *line* is the order in which one scope's
code comes to its operations: the workflow itself, or one branch of a ``map``. On replay each operation that is reached
must be the one that was recorded at this place of its line; anything else is a ``NonDeterminismError``, before any body
runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from ..errors import NonDeterminismError
from .record import AGAIN, REWIND, Identity, Record

CONTROL = "!"
"""The scope of records that belong to no operation."""
UNDO_SCOPE = "undo"
"""The scope of compensations."""
REWIND_IDENTITY = Identity(CONTROL, REWIND, REWIND, 1)


@dataclass(slots=True, eq=False)
class Past:
    """What is recorded of one operation so far. ``progress``: the latest record that is no end."""

    identity: Identity
    progress: Record | None = None
    end: Record | None = None
    where: object = None
    """The place of the call that came to it in this process."""
    is_listed: bool = False
    """Whether it has its place in the order of its scope."""
    life: int = 0
    """How often what was recorded of it was made void."""


@dataclass(slots=True)
class History:
    """All records of a run in order, and the operations they belong to."""

    records: list[Record] = field(default_factory=list)
    _pasts: dict[Identity, Past] = field(default_factory=dict)
    _lines: dict[str, list[Past]] = field(default_factory=dict)

    @classmethod
    def of(cls, records: Iterable[Record]) -> History:
        history = cls()
        for record in records:
            history.add(record)
        return history

    def add(self, record: Record) -> None:
        """Take in the next record."""
        self.records.append(record)
        if record.identity.kind == AGAIN:
            self._void(record)
            return
        past = self.past(record.identity)
        if not past.is_listed:
            past.is_listed = True
            self.line(record.identity.scope).append(past)
        if record.is_end:
            past.end = record
        else:
            past.progress = record

    def _void(self, record: Record) -> None:
        """The failures that a dead run died of count no more: it was brought back to try these again."""
        for parts in record.facts["void"]:
            past = self.past(Identity(*parts))
            past.progress, past.end = None, None
            past.life += 1

    def counts(self, record: Record) -> bool:
        """Whether the record is the one that stands for its operation, and was not made void."""
        past = self.past(record.identity)
        return record is past.end or record is past.progress

    def past(self, identity: Identity) -> Past:
        """What is recorded of that operation; the same object every time."""
        return self._pasts.setdefault(identity, Past(identity))

    def begun(self) -> list[Past]:
        """The operations that are recorded as begun and have no outcome, those of compensations left out."""
        pasts = (past for scope, line in self._lines.items() if scope not in (CONTROL, UNDO_SCOPE) for past in line)
        return [past for past in pasts if past.progress is not None and past.end is None]

    def line(self, scope: str) -> list[Past]:
        """The operations of a scope in the order of their first records. It grows with them."""
        return self._lines.setdefault(scope, [])


class Line:
    """One pass of a scope's code over its operations, from the first one on."""

    def __init__(self, history: History, scope: str, *, now_ms: int, is_ordered: bool = True) -> None:
        self.scope = scope
        self.is_ordered = is_ordered
        """Whether its code comes to one operation after the other; else whoever gives it the outcomes sees to that."""
        self.now_ms = now_ms
        """The time that the code in this scope sees: of the last thing that it was given."""
        self._history = history
        self._recorded = history.line(scope)
        self._position = 0
        self._numbers: Counter[tuple[str, str]] = Counter()

    def reach(self, kind: str, name: str, where: object) -> Past:
        """The code has come to an operation.

        Raises:
            NonDeterminismError: another one was recorded at this place.
        """
        identity = self.identify(kind, name)
        if self.is_ordered and self._position < len(self._recorded):
            expected = self._recorded[self._position]
            if expected.identity != identity:
                raise NonDeterminismError(expected=str(expected.identity), found=str(identity), where=str(where))
        self._position += 1
        past = self._history.past(identity)
        past.where = where
        return past

    def identify(self, kind: str, name: str) -> Identity:
        """The identity of the next operation of that kind and name."""
        self._numbers[kind, name] += 1
        return Identity(self.scope, kind, name, self._numbers[kind, name])

    def count(self, kind: str, name: str) -> int:
        """How many of these there were before: for values that are derived and not recorded."""
        self._numbers[kind, name] += 1
        return self._numbers[kind, name]

    def deliver(self, at_ms: int) -> None:
        """The code is given something that was recorded then: its time moves on."""
        self.now_ms = max(self.now_ms, at_ms)

    @property
    def is_replaying(self) -> bool:
        """Whether there are recorded operations that the code has not come to yet."""
        return self._position < len(self._recorded)

    def end(self, where: object) -> None:
        """The code has come to its end.

        Raises:
            NonDeterminismError: there are recorded operations that it has not come to.
        """
        if self.is_ordered and self.is_replaying:
            expected = self._recorded[self._position]
            raise NonDeterminismError(expected=str(expected.identity), found="the end", where=str(where))
