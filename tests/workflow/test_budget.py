"""What workflows cost in write units: by item sizes, by what a server reports, and by the memory store's own count."""

from __future__ import annotations

import threading
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from dynadurable import App, Retry
from dynadurable.model.derived import seed
from dynadurable.testing.clock import ManualClock
from dynadurable.testing.ledger import Ledger, ledger
from dynadurable.testing.memory import MemoryClient, MemoryStore
from dynadurable.worker import worker
from dynadurable.workflow.context import WorkflowContext
from tests.integration.stepping import TABLE
from tests.servers import Store
from tests.workflow.conftest import MakeRig
from tests.workflow.rig import Rig

HOUR = timedelta(hours=1)
WRITES = ("put_item", "update_item", "delete_item", "transact_write_items")


@pytest.fixture(autouse=True)
def _nobody_says_that_he_is_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    """How often a worker does depends on how long it takes here, and is no part of what a run costs."""
    monkeypatch.setattr(worker, "REGISTER_DRAIN_SECONDS", 3600.0)


def stepping(app: App, *, size: int = 0) -> Any:
    def pack(number: int) -> Any:
        return (
            b"".join(seed(number, part) for part in range(size // 32))
            if size
            else {"parcel": number, "weight": number * 37 % 1000}
        )

    @app.workflow
    def flow(ctx: WorkflowContext, count: int) -> None:
        for number in range(count):
            ctx.step(pack, number)

    return flow


def rows_of(store: Store, app: App) -> list[dict[str, Any]]:
    pages = store.client.get_paginator("scan").paginate(TableName=app.schema.table)
    return [row for page in pages for row in page["Items"]]


def sealed(rows: list[dict[str, Any]]) -> int:
    """How many pages of the journal were sealed: those of the chain that the run begins."""
    [run] = [row for row in rows if row["sk"]["S"] == "run"]
    pages = {row["sk"]["S"]: row for row in rows}
    count, key = 0, run.get("dd_page")
    while key is not None:
        count, key = count + 1, pages[key["S"]].get("dd_before")
    return count


@pytest.mark.server
@pytest.mark.parametrize("count", [1, 6, 50, 500])
def test_n_small_steps_cost_n_and_five_and_their_pages(ministack: Store, count: int) -> None:
    app = App(ministack.table(), client=ministack.client, clock=ManualClock())
    flow = stepping(app)
    with ledger(ministack.client) as cost:
        app.enqueue(flow, count)
        app.worker(concurrency=1).drain()
    pages = sealed(rows_of(ministack, app))
    assert cost.write_units == count + 5 + 2 * pages, str(cost)  # to put a page, and to have it expire
    assert 2 * pages <= count / 8
    assert_orderly(cost)


@pytest.mark.server
@pytest.mark.parametrize("count", [1, 6, 50])
def test_results_in_items_of_their_own_cost_two_more_each(ministack: Store, count: int) -> None:
    """For each step the result is put, its record written, and at the end the result given its expiry."""
    app = App(ministack.table(), client=ministack.client, clock=ManualClock())
    flow = stepping(app, size=640)
    with ledger(ministack.client) as cost:
        app.enqueue(flow, count)
        app.worker(concurrency=1).drain()
    assert_own_items(cost, rows_of(ministack, app), count)


def test_so_do_five_hundred() -> None:
    """On the memory store: it counts like the servers (``conformance/test_store_capacity.py``), and is quicker."""
    memory = MemoryClient(MemoryStore(locked=True))
    app = App(TABLE, client=memory, clock=ManualClock())
    app.create_table()
    flow = stepping(app, size=640)
    with ledger(memory) as cost:
        app.enqueue(flow, 500)
        app.worker(concurrency=1).drain()
    assert_own_items(cost, memory.store.items(TABLE), 500)


def assert_own_items(cost: Ledger, rows: list[dict[str, Any]], count: int) -> None:
    pages = sealed(rows)
    assert sum(row["sk"]["S"].startswith("page#") for row in rows) == count + pages
    assert cost.write_units == 3 * count + 5 + 2 * pages, str(cost)
    assert 2 * pages <= count / 8
    assert_orderly(cost)


@pytest.mark.server
def test_an_eager_workflow_costs_one_less(ministack: Store) -> None:
    app = App(ministack.table(), client=ministack.client)
    flow = stepping(app)
    ended = threading.Event()
    beside = app.worker(concurrency=1, hook=lambda event, _job, _run: ended.set() if event == "succeeded" else None)
    beside.start()
    with ledger(ministack.client) as cost:
        app.enqueue(flow, 6)
        assert ended.wait(30)
    beside.stop()
    assert cost.write_units == 6 + 4, str(cost)
    assert cost.scans == 0


def assert_orderly(cost: Ledger) -> None:
    assert cost.scans == 0
    assert cost.failed_writes == 0


# --- on the memory store, for what takes many steps or many attempts ------------------------------


def units_of(rig: Rig, name: str, *args: Any) -> float:
    """What a run costs from its start to its end."""
    spent = 0.0
    processes = (rig.outside, rig.process())

    def count(inner: Any, **params: Any) -> Any:
        nonlocal spent
        reply = inner(**params, ReturnConsumedCapacity="TOTAL")
        told = reply["ConsumedCapacity"]
        spent += sum(one["CapacityUnits"] for one in (told if isinstance(told, list) else [told]))
        return reply

    def watch(process: Any) -> None:
        client = process.client.inner
        for write in WRITES:
            setattr(client, write, partial(count, getattr(client, write)))

    for process in processes:
        watch(process)
    rig.start(name, *args)
    rig.finish(processes[1])
    return spent


def define(app: App, rig: Rig) -> None:
    stepping(app)

    def flaky() -> None:
        if rig.note("flaky") < 4:
            raise ValueError("not yet")

    @app.workflow
    def sleeps(ctx: WorkflowContext) -> None:
        ctx.sleep(HOUR)

    @app.workflow
    def retries(ctx: WorkflowContext) -> None:
        ctx.step(flaky, retry=Retry(delay=HOUR))

    @app.workflow(retry=Retry(delay=HOUR))
    def fails(ctx: WorkflowContext) -> None:
        ctx.step(int, name="once")
        if rig.note("failures") < 4:
            raise ValueError("not yet")

    @app.workflow
    def calls(ctx: WorkflowContext) -> None:
        ctx.call(child)

    @app.workflow
    def child(ctx: WorkflowContext) -> int:
        return ctx.step(int, name="once")


def test_two_thousand_small_steps_cost_no_more_each_than_five_hundred(make_rig: MakeRig) -> None:
    few, many = (units_of(make_rig(define), "flow", count) / count for count in (500, 2000))
    assert many <= few <= 1.13


@pytest.mark.parametrize(
    ("name", "units"),
    [
        ("sleeps", 5 + 4),  # the run that waits, its new mark, the old one, and the next claim
        ("retries", 1 + 5 + 3 * 4),
        ("fails", 1 + 5 + 3 * 4),
        ("calls", 2 + 5 + 6 + 1 + 3 + 3 + 1 + 1),
    ],
)
def test_other_budgets(make_rig: MakeRig, name: str, units: int) -> None:
    """A park and what follows it cost four.

    A call: two records, the child with its one step, the news of its end, a park, to be woken, a claim, the expiry.
    """
    assert units_of(make_rig(define), name) == units


def test_a_medium_input_makes_no_step_dearer(make_rig: MakeRig) -> None:
    def with_input(app: App, rig: Rig) -> None:
        @app.workflow
        def flow(ctx: WorkflowContext, text: str) -> None:
            for _ in range(50):
                ctx.step(int, name="nothing")

    texts = [seed(n).hex() for n in range(40)]
    small = units_of(make_rig(with_input), "flow", "")
    for count, units in ((1, 0), (4, 0), (16, 4), (40, 6)):
        spent = units_of(make_rig(with_input), "flow", "".join(texts[:count]))
        assert spent <= small + units, (count, spent, small)  # the page of the input and its expiry, and fuller pages
