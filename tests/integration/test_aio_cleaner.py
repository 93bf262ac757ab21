"""``app.aio.cleaner``: the same pass on an event loop, over aioboto3 and over boto3 on threads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any

import pytest

from dynadurable import App, Fail, LeaseBusyError, LeaseLostError
from dynadurable.cleaner import CLEANER_LEASE
from dynadurable.model.clean_report import CleanReport
from tests.faults import Hold
from tests.integration.world import World, our_threads
from tests.patience import until

MINUTE = timedelta(minutes=1)


def littered(world: World, count: int = 6) -> list[dict[str, Any]]:
    """Runs that have expired, a dead letter that has, and one that stays; gives what must be left of it all."""
    app = world.app

    @app.job(keep_result=timedelta(days=1))
    def kept(number: int) -> int:
        return number

    @app.job(keep_failed=timedelta(days=1))
    def bad() -> None:
        raise Fail("no")

    for number in range(count):
        app.enqueue(kept, number)
    app.enqueue(bad)
    app.worker(concurrency=1).drain()
    app.enqueue(kept.using(key="k", delay=timedelta(days=9)), 1)
    left = [row for row in world.rows() if row.get("dd_key") or row["pk"]["S"].startswith("queue#")]
    world.clock.advance(timedelta(days=2))  # type: ignore[attr-defined]
    return left


def without_leases(world: World) -> list[dict[str, Any]]:
    return [row for row in world.rows() if not row["pk"]["S"].startswith("lease#")]


def by_key(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (row["pk"]["S"], row["sk"]["S"]))


def play(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(main())
    until(lambda: our_threads() == [], "the threads that renew have ended")


def test_a_pass_on_a_loop_says_what_it_costs_and_removes_the_same(still_world: World) -> None:
    left, app = littered(still_world), still_world.app
    seen: list[CleanReport] = []

    async def main() -> None:
        before = by_key(without_leases(still_world))
        assert (await app.aio.cleaner().estimate()).read_units >= 1
        would = await app.aio.cleaner(dry_run=True).run()
        assert by_key(without_leases(still_world)) == before
        report = await app.aio.cleaner(rate=10_000.0).run(progress=seen.append)
        assert would.removed == report.removed == {"runs": 7, "dead letters": 1}
        assert (report.finished, seen[-1].removed) == (True, report.removed)
        await app.aio.close()

    play(main)
    assert by_key(without_leases(still_world)) == by_key(left)


def test_one_on_a_loop_and_one_on_a_thread_keep_out_of_each_others_way(still_world: World) -> None:
    littered(still_world)
    app = still_world.app

    async def main() -> None:
        with app.lease(CLEANER_LEASE, ttl=MINUTE), pytest.raises(LeaseBusyError):
            await app.aio.cleaner().run()
        async with app.aio.lease(CLEANER_LEASE, ttl=MINUTE):
            with pytest.raises(LeaseBusyError):
                await asyncio.to_thread(app.cleaner().run)
        assert (await app.aio.cleaner(rate=10_000.0).run()).removed_total == 8
        await app.aio.close()

    play(main)


def test_a_cancelled_pass_can_be_gone_on_with(still_world: World) -> None:
    """It is cancelled while a delete is under way; the lease is free again at once."""
    left, app = littered(still_world), still_world.app
    hold = Hold()
    still_world.plan.on("DeleteItem", hold, attempts=1)

    async def main() -> None:
        task = asyncio.create_task(app.aio.cleaner(rate=10_000.0).run())
        await asyncio.to_thread(hold.wait_until_reached)
        task.cancel()
        hold.release()
        with pytest.raises(asyncio.CancelledError):
            await task
        report = await app.aio.cleaner(rate=10_000.0).run()
        assert report.finished
        await app.aio.close()

    play(main)
    assert by_key(without_leases(still_world)) == by_key(left)


def test_a_pass_whose_lease_was_broken_stops(still_world: World) -> None:
    littered(still_world)
    app: App = still_world.app

    async def main() -> None:
        def taken(report: CleanReport) -> None:
            app.leases.break_(CLEANER_LEASE)

        with pytest.raises(LeaseLostError):
            await app.aio.cleaner(rate=10_000.0).run(progress=taken)
        await app.aio.close()

    play(main)
