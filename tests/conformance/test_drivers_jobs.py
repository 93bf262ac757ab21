"""Every behaviour of the storage, on every driver."""

from __future__ import annotations

import inspect
from datetime import timedelta
from typing import Any

import pytest

from dynadurable import App, Fail, KeyConflictError, LeaseLostError, Retry, Snooze
from dynadurable.errors import TableMissingError, TableSchemaError, TransactionFailedError
from dynadurable.model import codec
from dynadurable.storage import marks, queues, runs, settle, table, workers
from dynadurable.storage.call import Pause, Several
from tests.conformance.driven import Driven

SOON = Retry(max_attempts=2, delay=timedelta(seconds=10), jitter=0.0)
RETRY_SECONDS = timedelta(seconds=11)


def nothing() -> None:
    """A body."""


# --- plain jobs -----------------------------------------------------------------------------------


def test_a_job_runs_once_and_leaves_nothing(driven: Driven) -> None:
    seen: list[int] = []
    job = driven.job(seen.append)
    driven.enqueue(job, 7)
    assert driven.work() == ["succeeded"]
    assert seen == [7]
    assert driven.rows() == []


def test_a_mark_is_claimed_by_one(driven: Driven) -> None:
    driven.enqueue(driven.job(nothing))
    [candidate] = driven.candidates()
    mark = driven.try_claim(candidate, "first")
    assert mark is not None
    assert (mark.token, int(mark.fence), int(mark.attempt), mark.worker) == ("first", 1, 1, "worker")
    assert driven.try_claim(candidate, "second") is None
    assert driven.candidates() == []


def test_a_lapsed_lease_is_taken_over_and_the_first_holder_writes_nothing_more(driven: Driven) -> None:
    """PUB-14."""
    driven.enqueue(driven.job(nothing))
    first = driven.claim("first")
    driven.clock.advance(timedelta(seconds=31))
    second = driven.claim("second")
    assert int(second.fence) == 2
    for stale in (
        marks.checkpoint(driven.items, first, cursor=codec.encode(1), lease_until_ms=driven.lease_until()),
        marks.renew(driven.items, first, lease_until_ms=driven.lease_until()),
        marks.finish(driven.items, first),
    ):
        with pytest.raises(LeaseLostError):
            driven.step(stale)
    driven.step(marks.hand_back(driven.items, first))
    now = driven.step(marks.read(driven.items, second.pk, second.sk))
    assert (now.token, now.cursor) == ("second", None)


def test_a_checkpoint_is_there_for_the_next_attempt(driven: Driven) -> None:
    """A plain function checkpoints at once, an ``async def`` awaits it."""
    cursors: list[Any] = []

    def body(ctx: Any) -> Any:
        cursors.append(ctx.cursor)
        if len(cursors) == 1:
            return _checkpoint_and_fail(ctx) if driven.is_async else _fail_after(ctx.checkpoint("half"))
        return None

    driven.enqueue(driven.job(body, retry=SOON))
    assert driven.work() == ["retrying"]
    driven.clock.advance(RETRY_SECONDS)
    assert driven.work() == ["succeeded"]
    assert cursors == [None, "half"]


def _fail_after(_: None) -> None:
    raise ValueError("half-way")


async def _checkpoint_and_fail(ctx: Any) -> None:
    await ctx.checkpoint("half")
    raise ValueError("half-way")


def test_a_renewal_extends_the_lease_and_brings_the_wish_to_cancel(driven: Driven) -> None:
    run_id = driven.enqueue(driven.job(nothing))
    mark = driven.claim()
    driven.clock.advance(timedelta(seconds=20))
    renewed = driven.step(marks.renew(driven.items, mark, lease_until_ms=driven.lease_until()))
    assert int(renewed.lease_until_ms) == driven.lease_until()
    assert not renewed.cancelled
    driven.step(driven.app.run_plans.cancel(run_id))
    assert driven.step(marks.renew(driven.items, mark, lease_until_ms=driven.lease_until())).cancelled


def test_a_hand_back_refunds_the_attempt_and_frees_the_mark(driven: Driven) -> None:
    driven.enqueue(driven.job(nothing))
    driven.step(marks.hand_back(driven.items, driven.claim()))
    [candidate] = driven.candidates()
    assert (candidate.attempt, candidate.token) == (0, None)


def test_a_snooze_uses_no_attempt(driven: Driven) -> None:
    attempts: list[int] = []

    def body(ctx: Any) -> None:
        attempts.append(ctx.attempt)
        if len(attempts) == 1:
            raise Snooze(timedelta(seconds=10))

    driven.enqueue(driven.job(body))
    assert driven.work() == ["snoozed"]
    driven.clock.advance(RETRY_SECONDS)
    assert driven.work() == ["succeeded"]
    assert attempts == [1, 1]


def test_a_failing_job_becomes_a_dead_letter_and_comes_back(driven: Driven) -> None:
    healthy: list[bool] = []

    def body(number: int) -> None:
        if not healthy:
            raise Fail("no")

    run_id = driven.enqueue(driven.job(body), 7)
    assert driven.work() == ["dead"]
    assert driven.step(driven.app.run_plans.status(run_id)) == "dead"
    assert sorted(row["pk"]["S"].partition("#")[0] for row in driven.rows()) == ["dead", "run"]
    healthy.append(True)
    assert driven.dead.replay(run_id).done == 1
    assert driven.work() == ["succeeded"]


def test_a_job_whose_every_attempt_fails_is_dead(driven: Driven) -> None:
    def body() -> None:
        raise ValueError("no")

    run_id = driven.enqueue(driven.job(body, retry=SOON))
    assert driven.work() == ["retrying"]
    assert driven.work() == []
    driven.clock.advance(RETRY_SECONDS)
    assert driven.work() == ["dead"]
    told = driven.step(driven.app.run_plans.info(run_id))
    assert [failure.attempt for failure in told.failures] == [1, 2]


# --- runs -----------------------------------------------------------------------------------------


def test_a_key_belongs_to_one_live_run(driven: Driven) -> None:
    job = driven.job(lambda number: None)
    first = driven.enqueue(job.using(key="k"), 1)
    assert driven.enqueue(job.using(key="k"), 1) == first
    with pytest.raises(KeyConflictError):
        driven.enqueue(job.using(key="k"), 2)
    assert driven.work() == ["succeeded"]
    assert driven.enqueue(job.using(key="k"), 2) == first
    assert driven.work() == ["succeeded"]
    assert driven.candidates() == []


def test_a_result_is_kept(driven: Driven) -> None:
    job = driven.job(lambda number: {"twice": 2 * number}, keep_result=timedelta(days=1))
    run_id = driven.enqueue(job, 21)
    assert driven.work() == ["succeeded"]
    assert driven.step(driven.app.run_plans.result(run_id, None)) == {"twice": 42}


def test_a_large_input_comes_back_equal(driven: Driven) -> None:
    seen: list[bytes] = []
    driven.enqueue(driven.job(seen.append), bytes(range(256)) * 400)
    assert driven.work() == ["succeeded"]
    assert seen == [bytes(range(256)) * 400]


def test_a_pending_run_that_is_cancelled_never_runs(driven: Driven) -> None:
    run_id = driven.enqueue(driven.job(nothing))
    driven.step(driven.app.run_plans.cancel(run_id))
    assert driven.work() == []
    assert driven.step(driven.app.run_plans.status(run_id)) == "cancelled"


def test_a_stale_holder_of_a_run_changes_nothing(driven: Driven) -> None:
    job = driven.job(nothing, keep_result=timedelta(days=1))
    run_id = driven.enqueue(job)
    first = driven.claim("first")
    driven.clock.advance(timedelta(seconds=31))
    second = driven.claim("second")
    now_ms = driven.clock.now_ms()
    held = driven.step(settle.settle(driven.items, second, run_id=run_id, now_ms=now_ms))
    assert int(held.fence) == 2
    changes = [driven.items.run.attempts.set(9)]
    with pytest.raises(LeaseLostError):
        driven.step(runs.move(driven.items, first, held.pk, changes, due_sort_key="later"))
    assert int(driven.run_item(run_id).attempts) == 0


def test_a_mark_without_a_run_waits_while_it_is_young_and_goes_when_it_is_old(driven: Driven) -> None:
    birth, born = driven.app.operations.born(driven.job(nothing).using(key="k"), (), {})
    driven.step(marks.place(driven.items, born.mark))
    assert driven.work() == ["repaired"]
    assert len(driven.rows()) == 1
    driven.clock.advance(timedelta(minutes=11))
    assert driven.work() == ["repaired"]
    assert driven.rows() == []
    assert birth.key == "k"


def test_the_mark_of_an_ended_run_goes(driven: Driven) -> None:
    job = driven.job(nothing)
    _, born = driven.app.operations.born(job.using(key="k"), (), {})
    driven.enqueue(job.using(key="k"))
    assert driven.work() == ["succeeded"]
    [run] = driven.rows()
    born.mark.generation = run["dd_gen"]["S"]
    driven.step(marks.place(driven.items, born.mark))
    assert driven.work() == ["repaired"]
    assert driven.rows() == [run]


# --- the caller's own transaction -----------------------------------------------------------------


def _user_put(driven: Driven, **extra: Any) -> dict[str, Any]:
    item = {"pk": {"S": "mine"}, "sk": {"S": "mine"}}
    return {"Put": {"TableName": driven.app.schema.table, "Item": item, **extra}}


def test_the_callers_transaction_takes_the_run_along(driven: Driven) -> None:
    job = driven.job(nothing, keep_result=timedelta(days=1))
    elements = driven.app.transact_items(job.using(key="k"))
    driven.send("TransactWriteItems", TransactItems=[_user_put(driven), *elements])
    assert driven.work() == ["succeeded"]


def test_a_cancelled_transaction_leaves_no_run(driven: Driven) -> None:
    condition = _user_put(driven, ConditionExpression="attribute_exists(pk)")
    elements = driven.app.transact_items(driven.job(nothing))
    with pytest.raises(TransactionFailedError) as refused:
        driven.send("TransactWriteItems", TransactItems=[condition, *elements])
    assert [reason.code for reason in refused.value.reasons] == ["ConditionalCheckFailed", "None"]
    assert driven.rows() == []


# --- queues, workers, tables ----------------------------------------------------------------------


def test_pages_come_in_due_order(driven: Driven) -> None:
    job = driven.job(lambda number: None)
    for number in range(12):
        driven.enqueue(job.using(delay=timedelta(seconds=12 - number)), number)
    driven.clock.advance(timedelta(seconds=13))
    for shard in range(4):
        due: list[int] = []
        start = None
        while True:
            plan = marks.poll(driven.items, queue="default", shard=shard, limit=2, until_ms=None, start=start)
            page = driven.step(plan)
            due += [candidate.due_ms for candidate in page.candidates]
            start = page.next_start
            if start is None:
                break
        assert due == sorted(due)


def test_a_queue_is_paused_counted_and_resumed(driven: Driven) -> None:
    driven.enqueue(driven.job(nothing))
    now_ms = driven.clock.now_ms()
    driven.step(queues.pause(driven.items, "default", now_ms=now_ms, reason="test"))
    assert driven.step(queues.is_paused(driven.items, "default"))
    counted = driven.step(queues.counts(driven.items, "default", now_ms=now_ms, limit=100))
    assert (counted.waiting, counted.in_flight, counted.dead, counted.more) == (1, 0, 0, False)
    driven.step(queues.resume(driven.items, "default"))
    assert not driven.step(queues.is_paused(driven.items, "default"))


def test_workers_are_known_while_they_are_alive(driven: Driven) -> None:
    now_ms = driven.clock.now_ms()
    record = workers.record(
        driven.items,
        name="one",
        unique="u",
        queues=["default"],
        jobs=["work"],
        concurrency=1,
        build="b1",
        started_ms=now_ms,
        now_ms=now_ms,
    )
    driven.step(workers.beat(record))
    assert [one.name for one in driven.step(workers.live(driven.items, now_ms=now_ms))] == ["one"]
    driven.step(workers.note_build(driven.items, "b1", now_ms=now_ms))
    assert driven.step(workers.builds(driven.items)) == {"b1": now_ms}
    driven.step(workers.forget(driven.items, record))
    assert driven.step(workers.live(driven.items, now_ms=now_ms)) == []


def test_a_table_is_made_and_checked(driven: Driven) -> None:
    name = f"{driven.app.schema.table}-made"
    other = App(name, client=driven.store.client, clock=driven.clock)
    with pytest.raises(TableMissingError, match="create_table"):
        driven.step(table.check(other.items))
    assert driven.step(other.operations.create_table()) is True
    assert driven.step(other.operations.create_table()) is False
    driven.step(table.check(other.items))
    wrong = App(name, client=driven.store.client, partition_key="id")
    with pytest.raises(TableSchemaError, match="id"):
        driven.step(table.check(wrong.items))
    driven.send("DeleteTable", TableName=name)


# --- plans as such --------------------------------------------------------------------------------


def test_plans_side_by_side_give_their_outcomes_in_order(driven: Driven) -> None:
    async def one(number: int) -> int:
        if number == 2:
            raise ValueError("two")
        await Pause(0.5, driven.clock)
        return number

    async def several() -> list[Any]:
        outcomes: list[Any] = await Several([one(number) for number in range(5)], limit=2)
        return outcomes

    outcomes = driven.step(several())
    assert [type(outcome) for outcome in outcomes] == [int, int, ValueError, int, int]
    assert [outcome for outcome in outcomes if isinstance(outcome, int)] == [0, 1, 3, 4]


def test_what_a_plan_raises_comes_out_and_the_plan_is_over(driven: Driven) -> None:
    async def failing() -> None:
        await marks.read(driven.items, "queue#x#0", "none")
        raise KeyError("mine")

    plan = failing()
    with pytest.raises(KeyError, match="mine"):
        driven.step(plan)
    assert inspect.getcoroutinestate(plan) == inspect.CORO_CLOSED
