"""A table for tests of the cleaner: in memory, with a clock that only the test moves and a view on what is stored."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from dynadurable import App, JobContext, Queue
from dynadurable.model.clean_report import CleanReport
from dynadurable.storage import marks
from dynadurable.storage.items import bind
from dynadurable.storage.schema import TableSchema
from dynadurable.storage.table import create_request
from dynadurable.testing.clock import ManualClock
from dynadurable.testing.memory import MemoryClient, MemoryStore
from dynadurable.worker.attempt import Attempts
from dynadurable.workflow.body import WorkflowRunner
from dynadurable.workflow.kind_threads import ThreadKind

TABLE = "shop"
NO_TTL = TableSchema(table=TABLE, ttl=None)
Raw = dict[str, Any]


@dataclass(kw_only=True)
class Site:
    """One table. ``app`` is on it; ``work`` does what is due, in this thread."""

    schema: TableSchema = NO_TTL
    store: MemoryStore = field(default_factory=lambda: MemoryStore(locked=True))
    clock: ManualClock = field(default_factory=ManualClock)
    queues: tuple[str, ...] = ("default",)
    options: dict[str, Any] = field(default_factory=dict)
    """Of the app."""

    def __post_init__(self) -> None:
        self.client: Any = MemoryClient(self.store)
        self.items = bind(self.schema)
        if self.schema.table not in self.client.list_tables()["TableNames"]:
            self.client.create_table(**create_request(self.items).params)
        self.app = self.make_app()

    def make_app(self, client: Any = None, **options: Any) -> App:
        schema = self.schema
        return App(
            schema.table,
            client=client or self.client,
            partition_key=schema.partition_key,
            sort_key=schema.sort_key,
            ttl=schema.ttl,
            prefix=schema.prefix,
            clock=self.clock,
            queues=[Queue(name=name, shards=1) for name in self.queues],
            **{**self.options, **options},
        )

    def work(self, app: App | None = None) -> None:
        """Work off what is due, until there is nothing that could be claimed."""
        app = app or self.app
        engine = app.worker(concurrency=1, queues=list(self.queues)).engine
        attempts = Attempts(engine, JobContext, WorkflowRunner(ThreadKind()))
        for _ in range(50):
            due = [one for queue in self.queues for one in self._due(app, queue)]
            if not due:
                break
            for one in due:
                app.driver.run(attempts.of(one))
        engine.keeper.stop()

    def _due(self, app: App, queue: str) -> list[marks.Candidate]:
        now_ms = self.clock.now_ms()
        plan = marks.poll(app.items, queue=queue, shard=0, limit=100, until_ms=now_ms)
        seen = app.driver.run(plan).candidates
        return [
            one
            for one in seen
            if one.readable
            and app.registry.get(one.job) is not None
            and (one.lease_until_ms is None or one.lease_until_ms < now_ms)
        ]

    def clean(self, **options: Any) -> CleanReport:
        return self.app.cleaner(**options).run()

    def advance(self, **by: float) -> None:
        self.clock.advance(timedelta(**by))

    # --- what is stored ---------------------------------------------------------------------------

    def rows(self, kind: str | None = None) -> list[Raw]:
        """What is stored, of one kind of partition or all; without what the cleaner notes for itself."""
        pk, sk = self.schema.partition_key, self.schema.sort_key
        found = [row for row in self.store.items(self.schema.table) if row[sk]["S"] not in {"cleaner", "!cleaner"}]
        return [row for row in found if kind is None or row[pk]["S"].startswith(f"{self.schema.prefix}{kind}#")]

    def keys(self, kind: str | None = None) -> list[tuple[str, str]]:
        pk, sk = self.schema.partition_key, self.schema.sort_key
        return [(row[pk]["S"], row[sk]["S"]) for row in self.rows(kind)]

    def put(self, item: Any) -> None:
        """Store an item as a model has it."""
        self.client.put_item(TableName=self.schema.table, Item=item.serialize())

    def edit(self, change: Callable[[Raw], Raw | None], *, kind: str, sort_key: str | None = None) -> None:
        """Change or (``None``) delete stored items behind the library's back."""
        pk, sk = self.schema.partition_key, self.schema.sort_key
        for row in self.rows(kind):
            if sort_key is not None and row[sk]["S"] != sort_key:
                continue
            changed = change(dict(row))
            self.client.delete_item(TableName=self.schema.table, Key={pk: row[pk], sk: row[sk]})
            if changed is not None:
                self.client.put_item(TableName=self.schema.table, Item=changed)
