"""The watch sees what is sent, in whose name, and what of it no grant allows."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import timedelta

import pytest

from dynadurable import App, JobContext, fan_out, iterable_pages
from dynadurable.storage.permissions import ALLOWANCES, Allowance, Kind, Role
from dynadurable.testing.memory import MemoryClient, MemoryStore
from tests.watch import Sent, Watch


@pytest.fixture
def app() -> App:
    app = App("shop", client=MemoryClient(MemoryStore()), prefix="jobs/")
    app.create_table()
    return app


def narrow(patch: pytest.MonkeyPatch, role: Role, items: Mapping[Kind, Sequence[str]]) -> None:
    """As if the role's grant had only that."""
    patch.setitem(ALLOWANCES, role, Allowance(table=["DescribeTable"], items=items))


def taken(watch: Watch) -> list[str]:
    refused, watch.refused = watch.refused, []
    return refused


def test_a_request_that_the_senders_grant_does_not_allow_is_noticed(
    app: App, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    @app.job
    def work() -> None: ...

    narrow(monkeypatch, Role.ENQUEUE, {Kind.RUN: ["PutItem"]})
    app.enqueue(work)
    (refused,) = taken(watch)
    assert "enqueue may not PutItem queue" in refused
    assert "Operations.enqueue" in refused


def test_workers_are_seen_in_all_their_threads_and_their_bodies_in_their_own_name(
    app: App, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    @app.job
    def more() -> None: ...

    @app.job
    def work(ctx: JobContext) -> None:
        ctx.checkpoint(1)
        app.enqueue(more.using(delay=timedelta(hours=1)))

    app.enqueue(work)
    narrow(monkeypatch, Role.WORK, {Kind.QUEUE: ["Query", "GetItem", "DeleteItem"]})
    app.worker(concurrency=1).drain()
    refused = taken(watch)
    assert all("work may not UpdateItem queue" in line for line in refused)
    assert any("context.py:" in line for line in refused), "the checkpoint, in the thread of the body"
    assert any("attempt.py:" in line for line in refused), "the claim"


def test_plans_side_by_side_belong_to_the_one_that_began_them(
    app: App, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    @app.job
    def work() -> None: ...

    app.enqueue(work)
    narrow(monkeypatch, Role.OBSERVE, {Kind.QUEUE: ["GetItem"], Kind.WORKERS: ["Query"]})
    app.queues.get("default")
    refused = taken(watch)
    assert len(refused) == 64
    assert all("QueuePlans.get" in line for line in refused)


def test_event_loops_are_seen_too(app: App, watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    @app.job
    def work() -> None: ...

    narrow(monkeypatch, Role.ENQUEUE, {})
    narrow(monkeypatch, Role.OBSERVE, {})

    async def main() -> None:
        await app.aio.enqueue(work)
        await app.aio.queues.get("default")

    asyncio.run(main())
    refused = taken(watch)
    assert any("Operations.enqueue" in line for line in refused)
    assert len([line for line in refused if "QueuePlans.get" in line]) >= 64


def test_items_of_the_users_own_need_grants_of_the_users_own(app: App, watch: Watch) -> None:
    @app.job
    def deliver(ctx: JobContext) -> None:
        source = iterable_pages(lambda after: range((after or 0) + 1, 10), cursor_of=lambda number: number)
        fan_out(ctx, source, lambda number: {"pk": f"feed#{number}", "sk": "post"})

    app.enqueue(deliver)
    with watch.acting_out() as sent:
        app.worker(concurrency=1).drain()
    assert Sent("DeleteItem", Kind.QUEUE) in sent
    assert taken(watch) == []
