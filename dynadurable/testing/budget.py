"""The cost budget, measured: each scenario is played, and what it sends is counted and held against what it may cost.

rows = play(in_memory)
assert all(row.holds for row in rows)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from dynadurable.app import App
from dynadurable.ledger.ledger import Ledger
from dynadurable.ledger.sizes import parts_of
from dynadurable.storage.schema import TableSchema
from dynadurable.testing.clock import START, ManualClock
from dynadurable.testing.memory import MemoryClient, MemoryStore

WRITE, READ, REQUESTS = "write units", "read units", "requests"
TABLE = "budget"
BATCH_ITEMS = 25


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of the budget: what a scenario may cost, and what it did."""

    scenario: str
    unit: str
    budget: float
    measured: float
    is_limit: bool = False
    """Whether it may cost less."""
    note: str = ""

    @property
    def holds(self) -> bool:
        """Whether it cost what it may."""
        return self.measured <= self.budget if self.is_limit else self.measured == self.budget

    def to_record(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "scenario": self.scenario,
            "unit": self.unit,
            "budget": self.budget,
            "is_limit": self.is_limit,
            "measured": self.measured,
            "holds": self.holds,
            "note": self.note or None,
        }


MakeApp = Callable[[ManualClock, str], App]
"""Makes an app by that clock, whose keys begin with that prefix: so scenarios share a table."""


@dataclass(kw_only=True)
class Bench:
    """What all scenarios have added up to."""

    rows: list[Row] = field(default_factory=list)
    scans: int = 0
    failed_writes: int = 0
    guessed: int = 0


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One scenario's app, by a clock that stands still until the scenario turns it."""

    bench: Bench
    app: App
    clock: ManualClock

    @contextmanager
    def spending(self, *, contended: bool = False) -> Iterator[Ledger]:
        """Counts what is spent inside. ``contended``: writes that fail there are part of the scenario."""
        with self.app.ledger() as spent:
            yield spent
        self.bench.scans += spent.scans
        self.bench.failed_writes += 0 if contended else spent.failed_writes
        self.bench.guessed += spent.guessed

    def drain(self) -> None:
        """A worker does what is due."""
        self.app.worker(concurrency=1, metrics=False).drain()

    def row(self, scenario: str, budget: float, measured: float, *, unit: str = WRITE, **more: Any) -> None:
        """Note what it came to."""
        self.bench.rows.append(Row(scenario=scenario, unit=unit, budget=budget, measured=measured, **more))


def play(make: MakeApp, *, start: Any = START) -> list[Row]:
    """Play every scenario of the budget; gives a row for each figure. ``start``: what the clocks show at first."""
    from dynadurable.testing.scenarios import SCENARIOS

    bench = Bench()
    for number, scenario in enumerate(SCENARIOS, 1):
        clock = ManualClock(start)
        scenario(Stage(bench=bench, app=make(clock, f"{number}/"), clock=clock))
    for what, found in (
        ("all of these: Scans", bench.scans),
        ("all of these: writes that failed without contention", bench.failed_writes),
        ("all of these: requests of unknown cost", bench.guessed),
    ):
        bench.rows.append(Row(scenario=what, unit=REQUESTS, budget=0, measured=found))
    return bench.rows


def in_memory() -> MakeApp:
    """Apps on a table in memory."""
    client = MemoryClient(MemoryStore(locked=True))
    App(TABLE, client=client).create_table()
    return lambda clock, prefix: App(TABLE, client=client, clock=clock, prefix=prefix)


@contextmanager
def on_table(schema: TableSchema, client: Any, *, prefix: str) -> Iterator[MakeApp]:
    """Apps on a table that is there, under a prefix of their own; at the end what they wrote is deleted."""
    noting = NotingClient(client, (schema.partition_key, schema.sort_key))

    def make(clock: ManualClock, more: str) -> App:
        keys: dict[str, Any] = {"partition_key": schema.partition_key, "sort_key": schema.sort_key, "ttl": schema.ttl}
        return App(schema.table, client=noting, clock=clock, prefix=f"{prefix}{more}", **keys)

    try:
        yield make
    finally:
        deletes = [{"DeleteRequest": {"Key": key}} for key in noting.written()]
        while deletes:
            asked = {schema.table: deletes[:BATCH_ITEMS]}
            left = client.batch_write_item(RequestItems=asked).get("UnprocessedItems", {})
            deletes = [*left.get(schema.table, []), *deletes[BATCH_ITEMS:]]


class NotingClient:
    """Passes everything on to a client, and keeps in mind the keys of what is written. Safe for threads."""

    def __init__(self, client: Any, keys: tuple[str, str]) -> None:
        self._client = client
        self._keys = keys
        self._written: dict[tuple[str, str], None] = {}

    def written(self) -> list[dict[str, Any]]:
        """The keys, each once."""
        return [dict(zip(self._keys, ({"S": part} for part in key), strict=True)) for key in self._written]

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._client, name)
        if not callable(found) or name.startswith("_"):
            return found

        def request(**params: Any) -> Any:
            self._note("".join(part.title() for part in name.split("_")), params)
            return found(**params)

        return request

    def _note(self, operation: str, params: Mapping[str, Any]) -> None:
        for part in parts_of(operation, params):
            if part.kind in ("put", "update"):
                pk, sk = (part.target[name]["S"] for name in self._keys)
                self._written[pk, sk] = None
