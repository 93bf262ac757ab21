"""All tables of a store, and the transactions that it remembers by their tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from dynadurable.testing.memory.refusal import TABLE_MISSING, RefusalError, invalid
from dynadurable.testing.memory.table import Table, TableSnapshot

TOKEN_LIFE_MS = 10 * 60 * 1000


class ServerClock(Protocol):
    """The time as the store has it."""

    def now_ms(self) -> int:
        """Milliseconds since 1970-01-01T00:00Z."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Replay:
    """A transaction that was done: a repeated one with its token is answered, not done again.

    ``sizes`` lists the table and the bytes of each item, for the read units that the answer costs.
    """

    fingerprint: Any
    done_ms: int
    sizes: tuple[tuple[str, int], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Snapshot:
    """A store at one moment; give it to ``MemoryStore.restore``, of any store and as often as wanted."""

    tables: tuple[TableSnapshot, ...]
    replays: Mapping[str, Replay]


class Catalog:
    """What the operations work on."""

    def __init__(self, clock: ServerClock | None) -> None:
        self.tables: dict[str, Table] = {}
        self.replays: dict[str, Replay] = {}
        self.clock = clock

    def now_ms(self) -> int:
        """The clock's time; without a clock it is always 1970."""
        return 0 if self.clock is None else self.clock.now_ms()

    def table(self, name: Any) -> Table:
        """The table of that name.

        Raises:
            RefusalError: there is none, or no name was given.
        """
        if not isinstance(name, str) or not name:
            raise invalid("The parameter 'TableName' is required but was not present in the request")
        table = self.tables.get(name)
        if table is None:
            raise RefusalError(TABLE_MISSING, f"Requested resource not found: Table: {name} not found")
        return table

    def replay(self, token: str) -> Replay | None:
        """The transaction done with this token within the last ten minutes."""
        replay = self.replays.get(token)
        return None if replay is None or self.now_ms() - replay.done_ms >= TOKEN_LIFE_MS else replay

    def snapshot(self) -> Snapshot:
        """Everything as it is now."""
        tables = tuple(self.tables[name].snapshot() for name in sorted(self.tables))
        return Snapshot(tables=tables, replays=dict(self.replays))

    def restore(self, snapshot: Snapshot) -> None:
        """Everything as it was then."""
        self.tables = {table.name: Table.from_snapshot(table) for table in snapshot.tables}
        self.replays = dict(snapshot.replays)
