"""Enqueueing many runs at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from dynadurable import App, EnqueueIncompleteError, KeyConflictError
from dynadurable.errors import ConfigurationError, InputRefusedError, TableMissingError
from dynadurable.testing.clock import ManualClock
from tests import faults
from tests.faults import FaultPlan
from tests.integration.test_asking import drain

ItemsIn = Callable[[App], list[dict[str, Any]]]


@pytest.fixture
def done() -> list[int]:
    return []


@pytest.fixture
def plain(app: App, done: list[int]) -> Any:
    @app.job
    def plain(number: int) -> None:
        done.append(number)

    return plain


@pytest.fixture
def kept(app: App) -> Any:
    @app.job(keep_result=timedelta(days=1))
    def kept(number: int) -> int:
        return number * 2

    return kept


def puts(plan: FaultPlan) -> list[int]:
    """How many puts each batch carried."""
    return [sum(map(len, call.params["RequestItems"].values())) for call in plan.of("BatchWriteItem")]


def test_many_runs_are_few_requests_and_run_once_each(app: App, moto_client: Any, plain: Any, done: list[int]) -> None:
    with FaultPlan(moto_client) as plan:
        runs = app.enqueue_many(plain.call(number) for number in range(260))
    assert set(plan.operations) == {"BatchWriteItem"}
    assert sorted(puts(plan)) == [10] + [25] * 10
    assert len({run.id for run in runs}) == 260
    drain(app)
    assert sorted(done) == list(range(260))


def test_handles_come_in_the_order_of_the_calls(app: App, plain: Any, kept: Any) -> None:
    calls = [
        kept.using(key=f"k{n}").call(n) if n % 3 == 0 else kept.call(n) if n % 3 == 1 else plain.call(n)
        for n in range(60)
    ]
    runs = app.enqueue_many(calls)
    drain(app)
    assert [run.result() for n, run in enumerate(runs) if n % 3 < 2] == [2 * n for n in range(60) if n % 3 < 2]


def test_keys_mean_in_bulk_what_they_mean_alone(app: App, kept: Any, items_in: ItemsIn) -> None:
    live = app.enqueue(kept.using(key="a"), 1)
    runs = app.enqueue_many(
        [kept.using(key="a").call(1), kept.using(key="b").call(2), kept.using(key="b").call(number=2)]
    )
    assert runs[0] == live
    assert runs[1] == runs[2]
    before = items_in(app)
    with pytest.raises(KeyConflictError):
        app.enqueue_many([kept.call(9), kept.using(key="c").call(1), kept.using(key="c").call(2)])
    assert items_in(app) == before
    with pytest.raises(EnqueueIncompleteError) as raised:
        app.enqueue_many([kept.using(key="d").call(1), kept.using(key="a").call(7)])
    assert raised.value.not_stored == (live.id,)
    assert isinstance(raised.value.errors[live.id], KeyConflictError)
    assert len(raised.value.stored) == 1


def test_one_call_that_cannot_be_accepted_refuses_all_before_anything_is_written(
    app: App, plain: Any, items_in: ItemsIn
) -> None:
    for wrong in (plain.call(object()), plain.call(1, 2), plain.using(key="").call(1)):
        with pytest.raises(InputRefusedError) as raised:
            app.enqueue_many([plain.call(1), wrong])
        assert "call number 1" in "".join(raised.value.__notes__)
    with pytest.raises(ConfigurationError, match=r"made by job\.call"):
        app.enqueue_many([plain])
    assert app.enqueue_many([]) == []
    assert items_in(app) == []


@pytest.mark.parametrize("shape", ["mark", "run"])
def test_what_a_batch_leaves_over_is_sent_again(
    app: App, moto_client: Any, plain: Any, kept: Any, items_in: ItemsIn, shape: str
) -> None:
    """PUB-48: seven left over, then three, then none."""
    job = plain if shape == "mark" else kept
    with FaultPlan(moto_client) as plan:
        for nth, count in ((1, 7), (2, 3)):
            plan.on("BatchWriteItem", faults.leftovers(the_first(count)), nth=nth)
        runs = app.enqueue_many(job.call(number) for number in range(100))
    assert max(puts(plan)) <= 25
    marks = Counter(item["sk"]["S"] for item in items_in(app) if item["pk"]["S"].startswith("queue#"))
    assert len(marks) == len(runs) == 100


def the_first(count: int) -> Callable[[dict[str, Any]], bool]:
    """Picks so many writes."""
    left = iter([True] * count)
    return lambda _write: next(left, False)


def test_what_is_always_left_over_is_an_error_that_lists_it(
    app: App, moto_client: Any, plain: Any, done: list[int]
) -> None:
    """PUB-48: nothing is dropped in silence."""
    first: list[str] = []

    def always_the_same(write: dict[str, Any]) -> bool:
        key = write["PutRequest"]["Item"]["sk"]["S"]
        first.append(key)
        return bool(key == first[0])

    with FaultPlan(moto_client) as plan:
        plan.on("BatchWriteItem", faults.leftovers(always_the_same))
        with pytest.raises(EnqueueIncompleteError, match="1 of 100 runs were not stored") as raised:
            app.enqueue_many(plain.call(number) for number in range(100))
    (lost,) = raised.value.not_stored
    assert lost in first[0]
    assert len(raised.value.stored) == 99
    assert lost not in raised.value.stored
    drain(app)
    assert len(done) == 99


@pytest.mark.parametrize("loss", [faults.lost_request, faults.lost_reply])
def test_a_batch_without_an_answer_is_not_sent_again_as_it_is(
    app: App, moto_client: Any, plain: Any, done: list[int], loss: Callable[[], faults.Fault]
) -> None:
    """What it may have put may have been claimed since: each item is put only if it is not there."""
    with FaultPlan(moto_client) as plan:
        plan.on("BatchWriteItem", loss(), nth=1)
        app.enqueue_many(plain.call(number) for number in range(30))
    assert len(plan.of("BatchWriteItem")) == 2
    conditions = [call.params.get("ConditionExpression") for call in plan.of("PutItem")]
    assert len(conditions) in (5, 25)
    assert all(condition is not None and "attribute_not_exists" in condition for condition in conditions)
    drain(app)
    assert sorted(done) == list(range(30))


def test_a_throttled_batch_is_tried_again(app: App, moto_client: Any, plain: Any, done: list[int]) -> None:
    with FaultPlan(moto_client) as plan:
        plan.on("BatchWriteItem", faults.throttled(), nth=(1, 2, 3))
        app.enqueue_many(plain.call(number) for number in range(30))
    assert plan.of("PutItem") == []
    drain(app)
    assert sorted(done) == list(range(30))


def test_a_missing_table_is_told_as_such(make_app: Callable[..., App], moto_client: Any) -> None:
    app = App("nowhere", client=moto_client)

    @app.job
    def plain() -> None: ...

    with pytest.raises(TableMissingError):
        app.enqueue_many([plain.call()])


def test_many_that_are_due_later_wait(app: App, clock: ManualClock, plain: Any, done: list[int]) -> None:
    app.enqueue_many(plain.using(delay=timedelta(hours=1)).call(number) for number in range(3))
    drain(app)
    assert done == []
    clock.advance(timedelta(hours=1))
    drain(app)
    assert sorted(done) == [0, 1, 2]
