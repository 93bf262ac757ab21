"""Throttling, lost requests and lost replies at every single write of a job's life."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from dynadurable import App, JobContext, LeaseLostError, Retry
from dynadurable.errors import (
    PermissionMissingError,
    StoreUnavailableError,
    TableMissingError,
    TableSchemaError,
)
from dynadurable.testing.clock import ManualClock
from tests import faults
from tests.faults import FaultPlan
from tests.servers import Store

ItemsIn = Callable[[App], list[dict[str, Any]]]
LOSSES = {
    "lost request": faults.lost_request,
    "lost reply": faults.lost_reply,
    "throttled": faults.throttled,
    "internal error": faults.internal_error,
    "unreachable": faults.unreachable,
}
WRITES = ("PutItem", "UpdateItem", "DeleteItem", "TransactWriteItems")


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("nth", range(1, 5))
def test_a_job_with_a_checkpoint_survives_one_fault_at_any_write(
    app: App, moto_client: Any, items_in: ItemsIn, loss: str, nth: int
) -> None:
    """PUB-46: an own write whose reply was lost is not taken for somebody else's; the body runs once."""
    starts: list[int] = []

    @app.job
    def work(ctx: JobContext) -> None:
        starts.append(ctx.attempt)
        ctx.checkpoint("half")

    written = iter(range(1, 1000))
    with FaultPlan(moto_client) as plan:
        plan.on(None, LOSSES[loss](), when=lambda call: call.operation in WRITES and next(written) == nth)
        app.enqueue(work)
        assert app.worker(concurrency=1).drain() is None
    assert starts == [1]
    assert items_in(app) == []


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("nth", range(1, 13))
def test_a_job_that_fails_once_and_then_dies_survives_one_fault_at_any_write(
    app: App, clock: ManualClock, moto_client: Any, items_in: ItemsIn, loss: str, nth: int
) -> None:
    starts: list[int] = []

    @app.job(retry=Retry(max_attempts=3, delay=timedelta(seconds=5), jitter=0.0, backoff=1.0))
    def work(ctx: JobContext) -> None:
        starts.append(ctx.attempt)
        raise ValueError("no")

    written = iter(range(1, 1000))
    with FaultPlan(moto_client) as plan:
        plan.on(None, LOSSES[loss](), when=lambda call: call.operation in WRITES and next(written) == nth)
        app.enqueue(work)
        for _ in range(4):
            app.worker(concurrency=1).drain()
            clock.advance(timedelta(seconds=6))
    assert starts == [1, 2, 3]
    run, letter = sorted(items_in(app), key=lambda item: item["sk"]["S"], reverse=True)
    assert run["dd_state"]["S"] == "dead"
    assert letter["pk"]["S"].startswith("dead#")
    assert run["dd_attempts"]["N"] == "3"


def test_a_worker_that_lost_its_lease_tells_the_body_and_writes_nothing_more(
    make_app: Callable[..., App], clock: ManualClock, items_in: ItemsIn
) -> None:
    """PUB-14: the owner freezes past its lease, another takes over, the owner comes back."""
    slow, quick = make_app(), make_app()
    frozen, taken = threading.Event(), threading.Event()
    seen: dict[str, Any] = {}

    def body(ctx: JobContext) -> None:
        if threading.current_thread().name.startswith("dynadurable-slow"):
            frozen.set()
            assert taken.wait(30)
            seen["valid"] = ctx.lease_remaining > timedelta(0)
            try:
                ctx.checkpoint(1)
            except LeaseLostError as error:
                seen["error"] = error
            return
        seen["fence"] = ctx.fence
        ctx.checkpoint(2)
        raise KeyboardInterrupt  # leaves it pending, with its cursor

    for app in (slow, quick):
        app.job(name="work", retry=Retry(max_attempts=5))(body)
    slow.enqueue(slow.registry.get("work"))  # type: ignore[arg-type]
    owner = slow.worker(name="slow", concurrency=1, lease=timedelta(seconds=30))
    thread = threading.Thread(target=owner.drain)
    thread.start()
    assert frozen.wait(30)
    clock.advance(timedelta(seconds=35))
    with pytest.raises(KeyboardInterrupt):
        quick.worker(name="quick", concurrency=1).drain()
    before = items_in(quick)
    owner.engine.stopping.set()  # it shall not begin again what the other has handed back
    taken.set()
    thread.join(30)
    assert isinstance(seen["error"], LeaseLostError)
    assert not seen["valid"]
    assert seen["fence"] == 2
    assert items_in(quick) == before
    assert before[0]["dd_cursor"]["B"] == b"1j2"
    assert owner.engine.counts["lost"] == 1


def test_the_local_deadline_counts_from_before_the_claim_was_sent(
    app: App, clock: ManualClock, moto_client: Any
) -> None:
    """PUB-21."""
    left: list[timedelta] = []

    @app.job
    def work(ctx: JobContext) -> None:
        left.append(ctx.lease_remaining)

    app.enqueue(work)
    original = moto_client._endpoint._do_get_response

    def slow(request: Any, operation: Any, *rest: Any) -> Any:
        reply = original(request, operation, *rest)
        if operation.name == "UpdateItem":
            clock.advance(timedelta(seconds=4))
        return reply

    moto_client._endpoint._do_get_response = slow
    app.worker(concurrency=1, lease=timedelta(seconds=10)).drain()
    assert left == [timedelta(seconds=6)]


def test_a_lease_is_compared_in_the_unit_it_is_stored_in(make_app: Callable[..., App], clock: ManualClock) -> None:
    """PUB-15: a lease of 1.5 s holds at +1.4 s and is free at +1.6 s."""
    app = make_app()
    claims: list[float] = []

    @app.job
    def work() -> None:
        raise SystemExit(3)

    app.enqueue(work)
    (candidate,) = [found for shard in range(4) for found in app.driver.run(_poll(app, shard)).candidates]
    start = clock.monotonic()
    for wait in (0.0, 1.4, 0.2):
        clock.advance(timedelta(seconds=wait))
        if app.driver.run(_claim(app, candidate, clock, lease_ms=1500)) is not None:
            claims.append(round(clock.monotonic() - start, 3))
    assert claims == [0.0, 1.6]


@pytest.mark.parametrize("deleted", [True, False])
def test_a_deleted_mark_is_not_brought_back(app: App, moto_client: Any, items_in: ItemsIn, deleted: bool) -> None:
    """PUB-51: neither by a renewal, nor by a checkpoint, nor by the finish."""
    seen: list[type] = []

    @app.job
    def work(ctx: JobContext) -> None:
        if deleted:
            (mark,) = items_in(app)
            moto_client.delete_item(TableName=app.schema.table, Key={"pk": mark["pk"], "sk": mark["sk"]})
        try:
            ctx.checkpoint(1)
        except LeaseLostError as error:
            seen.append(type(error))

    app.enqueue(work)
    worker = app.worker(concurrency=1)
    worker.drain()
    assert items_in(app) == []
    assert seen == ([LeaseLostError] if deleted else [])
    assert worker.engine.counts["lost" if deleted else "succeeded"] == 1


def test_an_out_of_reach_store_is_an_error_that_says_so(app: App, moto_client: Any) -> None:
    @app.job
    def work() -> None: ...

    with FaultPlan(moto_client) as plan:
        plan.on("PutItem", faults.throttled(), attempts=None)
        with pytest.raises(StoreUnavailableError, match="PutItem"):
            app.enqueue(work)
        assert len(plan.of("PutItem")) == 10


def test_a_missing_table_is_one_clear_error_at_start(make_app: Callable[..., App], moto_client: Any) -> None:
    lost = App("not-there", client=moto_client)

    @lost.job
    def work() -> None: ...

    for start in (lambda: lost.worker().drain(), lambda: lost.worker().start(), lambda: lost.enqueue(work)):
        with pytest.raises(TableMissingError, match=r"'not-there' does not exist.*create_table"):
            start()


def test_wrong_keys_are_one_clear_error_at_start(moto_store: Store) -> None:
    app = App(moto_store.table(pk="PK", sk="SK"), client=moto_store.client)

    @app.job
    def work() -> None: ...

    with pytest.raises(TableSchemaError, match=r"it has PK \(S\), SK \(S\).*partition_key="):
        app.worker().drain()


@pytest.mark.parametrize("operation", ["Query", "UpdateItem", "GetItem"])
def test_a_missing_permission_is_one_clear_error_at_start(app: App, moto_client: Any, operation: str) -> None:
    @app.job
    def work() -> None: ...

    app.enqueue(work)
    with FaultPlan(moto_client) as plan:
        plan.on(operation, faults.refused("AccessDeniedException", "not authorized"))
        with pytest.raises(PermissionMissingError, match=f"allow dynamodb:{operation}"):
            app.worker().drain()


def test_a_system_exit_out_of_a_body_leaves_the_run_pending_and_the_worker(app: App, items_in: ItemsIn) -> None:
    """PUB-05, G12: handed back, and the exception leaves the worker."""

    @app.job
    def leave() -> None:
        raise SystemExit(3)

    app.enqueue(leave)
    with pytest.raises(SystemExit) as left:
        app.worker(concurrency=1).drain()
    assert left.value.code == 3
    (mark,) = items_in(app)
    assert "dd_token" not in mark
    assert "dd_lease" not in mark


def test_a_store_that_does_not_show_what_stood_in_the_way_is_read_back(roto: Store) -> None:
    """``ReturnValuesOnConditionCheckFailure`` is a hint that not every store gives."""
    app = App(roto.table(), client=roto.client)
    starts: list[int] = []

    @app.job
    def work(ctx: JobContext) -> None:
        starts.append(ctx.attempt)

    with FaultPlan(roto.client) as plan:
        for operation in ("PutItem", "UpdateItem", "DeleteItem"):
            plan.on(operation, faults.lost_reply(), nth=1)
        app.enqueue(work)
        app.worker(concurrency=1).drain()
    assert starts == [1]
    assert roto.client.scan(TableName=app.schema.table)["Items"] == []


def _poll(app: App, shard: int) -> Any:
    from dynadurable.storage import marks

    return marks.poll(app.items, queue="default", shard=shard, limit=4, until_ms=None)


def _claim(app: App, candidate: Any, clock: ManualClock, *, lease_ms: int) -> Any:
    from dynadurable.storage import marks

    return marks.claim(
        app.items,
        pk=candidate.pk,
        sk=candidate.sk,
        token=f"token-{clock.now_ms()}",
        now_ms=clock.earliest_ms(),
        lease_until_ms=clock.latest_ms() + lease_ms,
        worker="w",
    )
