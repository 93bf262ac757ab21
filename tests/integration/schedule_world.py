"""A table, a clock that the test moves, and processes with schedules on them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from dynadurable import App, JobContext
from dynadurable.testing.clock import ManualClock
from dynadurable.testing.memory import MemoryClient, MemoryStore

BEFORE_NOON = datetime(2027, 1, 15, 11, 59, 30, tzinfo=UTC)
NOON = datetime(2027, 1, 15, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)


@dataclass
class World:
    """A table, a clock, and processes on them."""

    clock: ManualClock = field(default_factory=lambda: ManualClock(BEFORE_NOON))
    client: MemoryClient = field(default_factory=lambda: MemoryClient(MemoryStore(locked=True)))
    ran: list[datetime | None] = field(default_factory=list)

    def process(self, client: Any = None, *, skew: timedelta = timedelta(), **options: Any) -> App:
        clock = ManualClock(skew=skew, also=self.clock)
        return App("table", client=client or self.client, clock=clock, **options)

    def scheduled(self, cron: str = "*/5 * * * *", client: Any = None, **options: Any) -> App:
        """A process whose code has one schedule, which notes its slots."""
        app = self.process(client)

        @app.schedule(cron, **options)
        def refresh(ctx: JobContext) -> None:
            self.ran.append(ctx.slot)

        return app

    def items(self, prefix: str) -> list[dict[str, Any]]:
        found = self.client.scan(TableName="table")["Items"]
        return [item for item in found if item["pk"]["S"].startswith(prefix)]

    def slots(self) -> list[datetime]:
        """Of the runs in the table, live and ended."""
        runs = [item for item in self.items("run#") if "dd_slot" in item]
        return sorted(datetime.fromtimestamp(int(item["dd_slot"]["N"]) / 1000, UTC) for item in runs)

    def marks(self, job: str) -> list[dict[str, Any]]:
        return [item for item in self.items("queue#") if item["dd_job"]["S"] == job]


def app_next(app: App) -> datetime | None:
    (told,) = app.schedules.list()
    return told.next_slot
