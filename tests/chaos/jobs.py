"""The jobs of a round: one of every kind there is. Each notes its start, its steps and its end.

What a run is to give follows from its number alone, so whoever enqueued it knows what must be in the table at last.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from dynadurable import (
    App,
    AsyncJobContext,
    AsyncWorkflowContext,
    Fail,
    JobContext,
    Queue,
    Retry,
    Snooze,
    WorkflowContext,
    fan_out,
    query_pages,
)
from dynadurable.errors import LeaseBusyError, LeaseLostError
from tests.chaos.log import Log

QUEUE, SHARDS = "chaos", 2
LEASE = timedelta(seconds=2)
GUARD_TTL = timedelta(seconds=2)
GRACE_MS = 6_000
"""How old a mark without its run must be before it is taken for abandoned: shorter than in earnest."""
FOLLOWERS, PAGE = 120, 40
TICK = timedelta(seconds=2)
TOUGH = Retry(max_attempts=1_000, delay=timedelta(milliseconds=50))
WEAK = Retry(max_attempts=3, delay=timedelta(milliseconds=50))
KEPT = timedelta(days=1)
SUMMAND = 7
PACKED = 3
GUARDED = "guarded"


@dataclass(frozen=True, kw_only=True)
class Site:
    """Where a round plays."""

    table: str
    endpoint: str
    folder: str
    until: str
    """The schedule's last instant, ISO format."""
    without: str = ""
    """A clause of the protocol that the workers leave out, as ``tests/simulation/mutants.py`` names it."""

    def to_text(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> Site:
        return cls(**json.loads(text))

    def app(self, **options: Any) -> App:
        return App(
            self.table,
            endpoint_url=self.endpoint,
            region="us-east-1",
            queues=[Queue(name=QUEUE, shards=SHARDS)],
            build="chaos",
            **options,
        )

    def log(self) -> Log:
        return Log(Path(self.folder) / "log")

    def sign_of_life(self, pid: int) -> Path:
        """Once this file is there, that worker works."""
        return Path(self.folder) / f"up-{pid}"

    def cure(self, number: int) -> Path:
        """Once this file is there, the poison of that number is none."""
        return Path(self.folder) / f"cured-{number}"


def sure_result(number: int) -> int:
    """What a keyed run gives."""
    return number * SUMMAND


def order_result(number: int) -> list[Any]:
    """What a workflow gives, if its event tells ``number``."""
    return [number, [number * part for part in range(PACKED)], number, sure_result(number), number + 1]


def define(app: App, site: Site) -> dict[str, Any]:
    """Give the app its jobs, by name."""
    log = site.log()
    _define_plain(app, site, log)
    _define_async(app, log)
    _define_workflows(app, log)
    _define_guard(app, log)
    return {job.name: job for job in app.registry.jobs()}


def _note(log: Log, event: str, ctx: Any, **facts: Any) -> None:
    log.note(event, job=ctx.job, run=ctx.run_id, attempt=ctx.attempt, fence=ctx.fence, **facts)


def _define_plain(app: App, site: Site, log: Log) -> None:
    @app.job(queue=QUEUE, retry=TOUGH)
    def plain(ctx: JobContext, number: int) -> None:
        _note(log, "start", ctx, number=number)
        ctx.stopping.wait(0.01)
        _note(log, "end", ctx, number=number)

    @app.job(queue=QUEUE, retry=TOUGH)
    def counting(ctx: JobContext, number: int, count: int) -> None:
        _note(log, "start", ctx, number=number, cursor=ctx.cursor)
        for step in range((ctx.cursor or 0) + 1, count + 1):
            ctx.raise_if_stopping()
            ctx.stopping.wait(0.2)
            ctx.checkpoint(step)
            _note(log, "step", ctx, step=step)
        _note(log, "end", ctx, number=number)

    @app.job(queue=QUEUE, retry=TOUGH)
    def deliver(ctx: JobContext, number: int) -> None:
        _note(log, "start", ctx, number=number)
        followers = query_pages(
            TableName=site.table,
            KeyConditionExpression="pk = :author",
            ExpressionAttributeValues={":author": {"S": "followers"}},
            page_items=PAGE,
        )
        fan_out(ctx, followers, lambda item: {"pk": f"feed@{item['sk']['S']}", "sk": f"post@{number:06d}"})
        _note(log, "end", ctx, number=number)

    @app.job(queue=QUEUE, retry=TOUGH, keep_result=KEPT)
    def sure(ctx: JobContext, number: int) -> int:
        _note(log, "start", ctx, number=number)
        ctx.stopping.wait(0.05)
        _note(log, "end", ctx, number=number)
        return sure_result(number)

    @app.job(queue=QUEUE, retry=TOUGH)
    def flaky(ctx: JobContext, number: int) -> None:
        _note(log, "start", ctx, number=number)
        if ctx.attempt <= 2:
            raise ValueError(f"number {number} not yet")
        _note(log, "end", ctx, number=number)

    @app.job(queue=QUEUE, retry=TOUGH)
    def poison(ctx: JobContext, number: int) -> None:
        _note(log, "start", ctx, number=number)
        if not site.cure(number).exists():
            raise Fail(f"number {number} is poison")
        _note(log, "end", ctx, number=number)

    @app.job(queue=QUEUE, retry=WEAK)
    def weak(ctx: JobContext, number: int) -> None:
        _note(log, "start", ctx, number=number)
        raise ValueError(f"number {number} never")

    @app.schedule(every=TICK, catch_up="all", end=datetime.fromisoformat(site.until), queue=QUEUE, retry=TOUGH)
    def tick(ctx: JobContext) -> None:
        assert ctx.slot is not None
        _note(log, "tick", ctx, slot=ctx.slot.isoformat())


def _define_async(app: App, log: Log) -> None:
    @app.job(queue=QUEUE, retry=TOUGH)
    async def counting_async(ctx: AsyncJobContext, number: int, count: int) -> None:
        import asyncio

        _note(log, "start", ctx, number=number, cursor=ctx.cursor)
        for step in range((ctx.cursor or 0) + 1, count + 1):
            await asyncio.sleep(0.2)
            await ctx.checkpoint(step)
            _note(log, "step", ctx, step=step)
        _note(log, "end", ctx, number=number)


def _define_workflows(app: App, log: Log) -> None:
    def noted(ctx: Any, name: str, value: Any) -> Any:
        _note(log, "body", ctx, name=name)
        return value

    @app.job(name="pick", queue=QUEUE, retry=TOUGH, keep_result=KEPT)
    def pick(ctx: JobContext, number: int) -> int:
        _note(log, "start", ctx, number=number)
        return sure_result(number)

    @app.workflow(queue=QUEUE, retry=TOUGH, keep_result=KEPT)
    def order(ctx: WorkflowContext, number: int) -> list[Any]:
        charged = ctx.step(lambda: noted(ctx, "charge", number), name="charge")
        ctx.sleep(timedelta(seconds=0.5))
        packed = ctx.map(lambda part: noted(ctx, f"pack {part}", number * part), range(PACKED), name="pack")
        told = ctx.wait_event("go")
        picked = ctx.call(pick, number)
        shipped = ctx.step(lambda: noted(ctx, "ship", number + 1), name="ship")
        return [charged, list(packed), told, picked, shipped]

    @app.workflow(queue=QUEUE, retry=TOUGH, keep_result=KEPT)
    async def order_async(ctx: AsyncWorkflowContext, number: int) -> list[Any]:
        charged = await ctx.step(lambda: noted(ctx, "charge", number), name="charge")
        await ctx.sleep(timedelta(seconds=0.5))
        packed = await ctx.map(lambda part: noted(ctx, f"pack {part}", number * part), range(PACKED), name="pack")
        told = await ctx.wait_event("go")
        picked = await ctx.call(pick, number)
        shipped = await ctx.step(lambda: noted(ctx, "ship", number + 1), name="ship")
        return [charged, list(packed), told, picked, shipped]


def _define_guard(app: App, log: Log) -> None:
    @app.job(queue=QUEUE, retry=TOUGH)
    def guard(ctx: JobContext, number: int) -> None:
        """Writes under a named lease; each write lands only while the lease is held."""
        _note(log, "start", ctx, number=number)
        try:
            with app.lease("guard", ttl=GUARD_TTL) as lease:
                for _ in range(5):
                    write = {
                        "TableName": app.schema.table,
                        "Key": {"pk": {"S": GUARDED}, "sk": {"S": GUARDED}},
                        "UpdateExpression": "SET fence = :fence, writer = :writer ADD writes :one",
                        "ExpressionAttributeValues": {
                            ":fence": {"N": str(lease.fence)},
                            ":writer": {"S": f"{ctx.run_id} {ctx.fence}"},
                            ":one": {"N": "1"},
                        },
                    }
                    client = app._clients.get()
                    client.transact_write_items(TransactItems=[lease.condition_check(), {"Update": write}])
                    log.note("wrote", fence=lease.fence, run=ctx.run_id)
                    ctx.raise_if_stopping()
                    ctx.stopping.wait(0.1)
        except LeaseBusyError:
            raise Snooze(timedelta(seconds=0.5)) from None
        except (LeaseLostError, ClientError, BotoCoreError) as error:
            log.note("without", run=ctx.run_id, error=repr(error)[:200])
            raise
        _note(log, "end", ctx, number=number)
