"""Turns of workflows that are rarely taken: commits whose reply is lost, steps whose bodies end in odd ways."""

from __future__ import annotations

import asyncio
import functools
import threading
from dataclasses import dataclass, field
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from dynadurable import App, JobContext, Retry
from dynadurable.clock import SystemClock
from dynadurable.errors import (
    BodyCancelledError,
    ConfigurationError,
    Interrupted,
    RequestRefusedError,
    StepTimeoutError,
    StoreUnavailableError,
    TransactionFailedError,
)
from dynadurable.model.history import Past
from dynadurable.model.record import Identity, Record, pack
from dynadurable.storage import signals
from dynadurable.storage.journal import Loaded
from dynadurable.storage.signals import OK, Signal
from dynadurable.worker import endings
from dynadurable.worker.held import Held
from dynadurable.workflow import children, commit, steps
from dynadurable.workflow.execution import Execution
from dynadurable.workflow.halt import Halted, JournalLost, Parked
from dynadurable.workflow.steps import StepBody
from dynadurable.workflow.turn import ThreadTurn
from tests.unit.scripted import (
    DONE,
    ITEMS,
    LIFE,
    NOW_MS,
    RUN_ID,
    a_mark,
    a_run,
    cancelled,
    changed,
    found,
    play,
    refused,
)

NOTHING: dict[str, Any] = {}
IDENTITY = Identity("commit", "commit", "", 1)
END = Record(identity=IDENTITY, phase=1, at_ms=NOW_MS)
WRITE = {"Put": {"TableName": "shop", "Item": {"pk": {"S": "a"}, "sk": {"S": "b"}}}}


# --- commits --------------------------------------------------------------------------------------


class Writer:
    """A journal's writer whose tail would be this one record."""

    def __init__(self) -> None:
        self.run = a_run(workflow=True)
        self.after: Any = None

    async def prepared(self, records: list[Record]) -> tuple[list[Record], None, list[Any]]:
        return records, None, [ITEMS.run.tail.set(pack(records))]

    def as_read(self) -> Any:
        return ITEMS.run.tail.does_not_exist()

    def written(self, tail: Any, page: Any) -> None:
        self.after = (tail, page)


@dataclass
class Attempt:
    """As much of an execution as a commit looks at."""

    writer: Writer = field(default_factory=Writer)
    sequence: list[Record] = field(default_factory=list)
    given_back: list[Record] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    items: Any = ITEMS
    journal_id: str = LIFE

    @property
    def attempt(self) -> Any:
        return SimpleNamespace(mark=a_mark())

    @property
    def held(self) -> Any:
        return SimpleNamespace(run_id=RUN_ID, tell=self.told.append)

    def drain(self) -> list[Record]:
        return []

    def changes(self) -> list[Any]:
        return []

    def give_back(self, records: list[Record]) -> None:
        self.given_back += records

    def end(self, stop: BaseException) -> None:
        raise stop


def write(attempt: Attempt, *answers: Any) -> Any:
    plan = commit._write(attempt, Past(identity=IDENTITY), [WRITE], END)  # type: ignore[arg-type]
    return play(plan, *answers)


def test_a_commit_whose_reply_was_lost_is_known_by_its_record() -> None:
    attempt = Attempt()
    written = found(a_run(workflow=True, tail=pack([END])))
    assert write(attempt, cancelled("ConditionalCheckFailed", "ConditionalCheckFailed"), written).error is None
    assert attempt.writer.after == ([END], None)
    assert attempt.sequence == [END]


def test_a_commit_of_a_lost_run_ends_the_attempt() -> None:
    for stands in (NOTHING, found(a_run(generation="another"))):
        attempt = Attempt()
        with pytest.raises(Interrupted):
            write(attempt, cancelled("None", "ConditionalCheckFailed"), stands)
        assert attempt.told == ["lease lost"]


def test_a_commit_that_a_busy_store_refused_is_not_refused_for_good() -> None:
    attempt = Attempt()
    with pytest.raises(JournalLost):
        write(attempt, cancelled("None", "TransactionConflict"), found(a_run(workflow=True)))
    assert attempt.sequence == []


def test_a_commit_that_the_users_condition_refused_says_so() -> None:
    attempt = Attempt()
    played = write(attempt, cancelled("ConditionalCheckFailed", "None"), found(a_run(workflow=True)))
    assert isinstance(played.error, TransactionFailedError)
    assert attempt.sequence == []


def test_a_commit_into_a_store_that_is_out_of_reach_ends_the_attempt() -> None:
    with pytest.raises(JournalLost):
        write(Attempt(), StoreUnavailableError("TransactWriteItems", "down"))


def test_a_commit_that_went_through_is_written() -> None:
    attempt = Attempt()
    assert write(attempt, DONE).error is None
    assert attempt.writer.after == ([END], None)


# --- steps ----------------------------------------------------------------------------------------


def body(call: Any, *, timeout: timedelta | None = None) -> StepBody:
    engine = SimpleNamespace(clock=SystemClock(), tell=lambda *_: None)
    execution: Any = SimpleNamespace(engine=engine, held=SimpleNamespace(run_id=RUN_ID))
    return StepBody(execution, call, "charge", timeout)


MINUTE = timedelta(minutes=1)


def test_a_step_with_a_timeout_gives_what_its_body_gives() -> None:
    assert body(lambda: 7, timeout=MINUTE).perform() == 7

    def fails() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        body(fails, timeout=MINUTE).perform()


def test_a_step_that_takes_too_long_is_given_up_in_a_thread_and_on_a_loop() -> None:
    forever = SystemClock().wait

    def hangs() -> None:
        forever(threading.Event(), 30.0)

    with pytest.raises(StepTimeoutError):
        body(hangs, timeout=timedelta(milliseconds=20)).perform()

    async def hangs_too() -> None:
        await asyncio.Event().wait()

    with pytest.raises(StepTimeoutError):
        asyncio.run(body(hangs_too, timeout=timedelta(milliseconds=20)).perform_async())


def test_an_async_step_of_a_plain_workflow_runs_on_a_loop_of_its_own() -> None:
    async def charge() -> int:
        await asyncio.sleep(0)
        return 7

    assert body(charge).perform() == 7
    assert asyncio.run(body(functools.partial(lambda: charge())).perform_async()) == 7


def test_a_body_that_times_out_or_is_cancelled_by_itself_is_not_taken_for_ours() -> None:
    async def times_out() -> None:
        raise TimeoutError("its own")

    async def cancelled_by_itself() -> None:
        raise asyncio.CancelledError

    with pytest.raises(TimeoutError, match="its own"):
        asyncio.run(body(times_out, timeout=MINUTE).perform_async())
    with pytest.raises(BodyCancelledError):
        asyncio.run(body(cancelled_by_itself).perform_async())


def test_a_step_that_the_worker_cancels_ends_so() -> None:
    async def go() -> None:
        async def hangs() -> None:
            await asyncio.Event().wait()

        task = asyncio.create_task(body(hangs).perform_async())
        await asyncio.sleep(0)
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(go())


def test_a_step_is_called_as_its_function_is() -> None:
    def charge() -> None: ...

    class Charging:
        def __call__(self) -> None: ...

    assert steps.name_of(functools.partial(functools.partial(charge)), None) == "charge"
    assert steps.name_of(Charging(), None) == "Charging"
    with pytest.raises(ConfigurationError, match="a lambda has no name"):
        steps.name_of(lambda: None, None)


def test_a_wait_that_ends_early_is_gone_on_with() -> None:
    """A clock may say that a wait is over before its time."""

    class Hasty(SystemClock):
        early = True

        def wait(self, event: threading.Event, seconds: float) -> bool:
            if self.early:
                self.early = False
                return False
            return super().wait(event, seconds)

    step = body(lambda: 7, timeout=MINUTE)
    step._clock = Hasty()
    assert step.perform() == 7


def test_a_step_that_fails_for_a_moment_is_tried_again_where_it_stands() -> None:
    """A delay too short to park for. Each try is recorded before the next; the last outcome is what counts."""
    one, tries = execution(), []

    def shaky() -> int:
        tries.append(1)
        if len(tries) < 3:
            raise ValueError("not yet")
        return 7

    call = steps.StepCall.of(shaky, (), {}, name="shaky", retry=Retry.fixed(timedelta(milliseconds=20)))
    past = Past(identity=Identity("step", "shaky", "", 1))
    written = changed(a_run(workflow=True))
    played = play(steps.step(one, past, call, "key"), written, written, written)
    assert (played.result.tries, len(tries)) == (3, 3)


def test_a_step_whose_next_try_is_near_waits_where_it_stands() -> None:
    one, ticks = execution(), iter(range(0, 100, 10))
    one.now_ms = lambda: next(ticks)  # type: ignore[method-assign]
    assert play(steps.until(one, 40)).error is None
    assert next(ticks) == 50  # it looked until the time had come


def test_a_step_whose_next_try_is_far_off_parks() -> None:
    one = execution()
    with pytest.raises(Parked):
        play(steps.until(one, one.now_ms() + 3_600_000))


# --- what an execution does with its journal ------------------------------------------------------


def execution(**facts: Any) -> Execution:
    engine: Any = SimpleNamespace(
        items=ITEMS, clock=SystemClock(), worker_id="me", build=None, tell=lambda *_: None, dice=lambda: 0.5
    )
    held = Held(a_mark(), run_id=RUN_ID, lease_seconds=30.0, sent=engine.clock.monotonic())
    attempt = endings.Attempt(engine=engine, held=held, mark=a_mark(), run=a_run(workflow=True, **facts), job=None)
    return Execution(attempt, Loaded(records=[], tail=[], input=b"x"), ThreadTurn())


def entry(**facts: Any) -> Record:
    return Record(**{"identity": Identity("step", "charge", "", 1), "phase": 1, "at_ms": NOW_MS, **facts})


def recorded(one: Execution, *answers: Any) -> Any:
    return play(one.record(entry()), *answers)


def test_what_ended_an_attempt_first_is_what_ended_it() -> None:
    one, first = execution(), JournalLost(ValueError("first"))
    for stop in (first, JournalLost(ValueError("second"))):
        with pytest.raises(JournalLost, match="first"):
            one.end(stop)
    with pytest.raises(JournalLost, match="first"):
        recorded(one)


def test_a_run_that_waits_says_that_it_waits_no_more_before_anything_is_done() -> None:
    assert play(execution().settle_waits()).operations == []
    waiting = execution(waits={"e#go"})
    assert play(waiting.settle_waits(), changed(a_run(workflow=True))).operations == ["UpdateItem"]
    assert play(waiting._flushed(always=True)).operations == []  # somebody else has said so meanwhile


@pytest.mark.parametrize(
    ("error", "ends_as", "told"),
    [
        (refused(), Interrupted, "lease lost"),
        (StoreUnavailableError("UpdateItem", "down"), JournalLost, None),
        (RequestRefusedError("UpdateItem", "too large"), Halted, None),
    ],
)
def test_a_record_that_could_not_be_written_ends_the_attempt(error: Any, ends_as: Any, told: str | None) -> None:
    one = execution()
    with pytest.raises(ends_as):
        recorded(one, error)
    assert one.held.reason == told


def test_a_wish_to_cancel_is_learnt_with_each_record() -> None:
    one = execution()
    assert recorded(one, changed(a_run(workflow=True, cancelled=True))).error is None
    assert one.held.reason == "cancelled"


def test_a_large_signal_stays_where_it_lies() -> None:
    one, past = execution(), Past(identity=Identity("event", "go", "", 1))
    small = one.told(past, "e#go", Signal(value=b"1", outcome=OK, at_ms=NOW_MS), 1, {})
    large = one.told(past, "e#go", Signal(value=b"1" * 5_000, outcome=OK, at_ms=NOW_MS), 1, {})
    assert (small.page, large.page) == ("", signals.sort_key(LIFE, "e#go"))


# --- children -------------------------------------------------------------------------------------


def test_a_child_has_no_key_of_its_own() -> None:
    app = App("shop")

    @app.job
    def pick(ctx: JobContext) -> None: ...

    assert children.checked(pick) is pick
    with pytest.raises(ConfigurationError, match="a child gets its id from its parent"):
        children.checked(pick.using(key="k"))
    with pytest.raises(ConfigurationError, match="for functions use"):
        children.checked(print)
