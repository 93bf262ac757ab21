"""The leases of ``async def`` bodies: kept while the loop is blocked, and what a body is told when one is lost."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta

import pytest

from dynadurable import AsyncJobContext, LeaseLostError
from tests.faults import Hold
from tests.integration.world import NOW, Log, World, in_background, our_threads, started
from tests.patience import until


def test_a_body_that_blocks_the_loop_keeps_its_lease(world: World, log: Log) -> None:
    """PUB-13: renewal is elsewhere. A second worker looks for work all the time, and finds none."""

    def renewals() -> int:
        return sum(1 for call in world.plan.of("UpdateItem") if call.params["UpdateExpression"].count("=") == 1)

    @world.app.job
    async def blocks() -> None:
        log("started")
        while renewals() < 4:
            time.sleep(0.01)  # noqa: ASYNC251 - that is the point

    world.app.enqueue(blocks)
    workers = [started(world.app, lease=timedelta(seconds=1)) for _ in range(2)]
    until(lambda: not world.rows(), "the end of the body")
    for worker in workers:
        worker.stop()
    assert log.lines == ["started"]
    assert renewals() >= 4


def test_a_body_whose_lease_is_lost_is_cancelled_at_once(world: World, log: Log) -> None:
    @world.app.job
    async def stays(ctx: AsyncJobContext) -> None:
        log(("started", ctx.attempt))
        if ctx.attempt > 1:
            return
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            log(("told", ctx.stop_reason))
            with pytest.raises(LeaseLostError):
                await ctx.checkpoint("too late")
            raise

    world.app.enqueue(stays)
    worker = started(world.app, lease=timedelta(seconds=1))
    log.wait(("started", 1))
    steal(world)
    log.wait(("told", "lease lost"))
    log.wait(("started", 2))
    until(lambda: not world.rows(), "the second attempt")
    worker.stop()
    assert worker.engine.counts["lost"] == 1


def steal(world: World) -> None:
    """Somebody else holds the mark now, on a lease that is over soon."""
    [row] = [row for row in world.rows() if row["pk"]["S"].startswith("queue#")]
    world.store.client.update_item(
        TableName=world.app.schema.table,
        Key={"pk": row["pk"], "sk": row["sk"]},
        UpdateExpression="SET dd_token = :token",
        ExpressionAttributeValues={":token": {"S": "somebody else"}},
    )


def test_a_run_that_is_cancelled_has_its_body_cancelled(world: World, log: Log) -> None:
    @world.app.job
    async def stays(ctx: AsyncJobContext) -> None:
        log("started")
        try:
            await asyncio.sleep(3600)
        finally:
            log(ctx.stop_reason)

    run = world.app.enqueue(stays)
    worker = started(world.app, lease=timedelta(seconds=1))
    log.wait("started")
    assert run.cancel() == "cancelling"
    log.wait("cancelled")
    until(lambda: run.status() == "cancelled", "the end")
    worker.stop()
    assert log.lines == ["started", "cancelled"]


def test_a_renewal_under_way_does_not_bring_a_lease_back(world: World, log: Log) -> None:
    """PUB-18: the run is handed back meanwhile; the late renewal changes nothing, and no further one is sent."""
    hold = Hold()

    @world.app.job
    async def stays() -> None:
        log("started")
        await asyncio.sleep(3600)

    world.app.enqueue(stays)
    worker = started(world.app, lease=timedelta(seconds=1), grace=NOW)
    log.wait("started")
    world.plan.on("UpdateItem", hold, times=1)
    hold.wait_until_reached()
    stopping = in_background(worker.stop)
    until(lambda: world.mark() == (None, 0), "the hand-back")
    hold.release()
    stopping.join()
    sent = len(world.plan.calls)
    assert world.mark() == (None, 0)
    assert our_threads() == []
    assert len(world.plan.calls) <= sent + 1
    assert started(world.app, grace=NOW).stop().exit_code == 0
