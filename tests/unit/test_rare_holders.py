"""Turns of those who hold something that are rarely taken: writes tried again, renewals that come late, odd ends."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from dynadurable import App, Snooze
from dynadurable.clock import SystemClock, UniqueIds
from dynadurable.errors import (
    ConditionFailedError,
    LeaseLostError,
    NameRefusedError,
    NewerFormatError,
    PayloadTooLargeError,
    StoreUnavailableError,
    TransactionFailedError,
)
from dynadurable.model.record import Identity, Record
from dynadurable.storage import formats, journal, operate, requests, runs, signals
from dynadurable.storage.call import Call, Plan
from dynadurable.storage.journal import Writer
from dynadurable.storage.keys import check_name
from dynadurable.storage.prepared import prepared
from dynadurable.testing.clock import ManualClock
from dynadurable.worker import endings, verdict
from dynadurable.worker.attempt import Attempts
from dynadurable.worker.held import Held
from dynadurable.worker.insist import insist
from dynadurable.worker.keeper import Keeper
from dynadurable.worker.tenure import LOST, Tenure
from dynadurable.worker.verdict import Cancel, HandBack, Later, LetGo
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
DOWN = StoreUnavailableError("PutItem", "down")
CLOCK, IDS = SystemClock(), UniqueIds()


# --- a holder insists -----------------------------------------------------------------------------


async def write(*, repeatable: bool = True) -> None:
    await Call(operation="PutItem", params={}, repeatable=repeatable)


def held(*, lease_seconds: float = 30.0) -> Held:
    return Held(a_mark(), run_id=RUN_ID, lease_seconds=lease_seconds, sent=CLOCK.monotonic())


def test_a_holder_asks_again_while_its_lease_stands() -> None:
    assert play(insist(write(), held(), CLOCK), DOWN, DOWN, DONE).error is None


def test_a_holder_gives_up_with_its_lease_and_never_repeats_what_must_not_be() -> None:
    assert play(insist(write(), held(lease_seconds=0.0), CLOCK), DOWN).error is DOWN
    assert play(insist(write(repeatable=False), held(), CLOCK), DOWN).error is DOWN


@pytest.mark.parametrize("error", [ConditionFailedError("PutItem"), TransactionFailedError("T", reasons=[])])
def test_a_refusal_after_a_write_that_may_have_been_applied_is_ambiguous(error: Any) -> None:
    first: Any = play(insist(write(), held(), CLOCK), error).error
    assert first is not None
    assert not first.ambiguous
    second: Any = play(insist(write(), held(), CLOCK), DOWN, error).error
    assert second is not None
    assert second.ambiguous


# --- the keeper -----------------------------------------------------------------------------------


class Renewed(Tenure):
    """Renewed by ``renew``, which may fail."""

    def __init__(self, renew: Callable[[], bool], *, sent: float) -> None:
        super().__init__("a lease", lease_seconds=9.0, sent=sent)
        self.renew = renew

    async def renewal(self, items: Any, *, lease_until_ms: int) -> bool:
        return self.renew()


@dataclass
class Stepper:
    """A driver that runs plans without requests."""

    def run(self, plan: Plan[Any], *, give_up_at: float | None = None) -> Any:
        try:
            plan.send(None)
        except StopIteration as stop:
            return stop.value
        raise AssertionError("a plan with requests")


@dataclass
class Kept:
    """A keeper without threads of its own: the test looks and renews."""

    clock: ManualClock = field(default_factory=ManualClock)
    keeper: Any = None

    def __post_init__(self) -> None:
        driver: Any = Stepper()
        self.keeper = Keeper(ITEMS, driver, self.clock)
        self.keeper._stopped = True  # so that it starts no thread

    def keep(self, renew: Callable[[], bool] = lambda: False) -> Renewed:
        tenure = Renewed(renew, sent=self.clock.monotonic())
        self.keeper.keep(tenure)
        return tenure


def raising(error: Exception) -> Callable[[], bool]:
    def renew() -> bool:
        raise error

    return renew


def test_a_lease_that_a_checkpoint_has_renewed_meanwhile_is_not_renewed_now() -> None:
    kept = Kept()
    tenure = kept.keep()
    kept.clock.advance(timedelta(seconds=3))
    tenure.extended(sent=kept.clock.monotonic())
    assert kept.keeper._look(kept.clock.monotonic()) == []
    (one,) = kept.keeper._kept.values()
    assert one.try_at == tenure.renew_at
    assert not one.sending


@pytest.mark.parametrize(
    ("error", "said"),
    [(DOWN, "trying again"), (ValueError("a defect"), "trying again"), (LeaseLostError("gone"), "lost a lease")],
)
def test_a_renewal_that_fails_is_tried_again_unless_the_lease_is_gone(
    error: Exception, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    kept = Kept()
    tenure = kept.keep(raising(error))
    (one,) = kept.keeper._kept.values()
    again_at = kept.keeper._renew(one)
    assert said in caplog.text
    if isinstance(error, LeaseLostError):
        assert (again_at, tenure.reason) == (None, LOST)
    else:
        assert kept.clock.monotonic() < again_at < tenure.deadline


def test_who_listens_late_is_told_at_once() -> None:
    tenure = Kept().keep()
    told: list[str] = []
    tenure.listen(told.append)
    tenure.tell(LOST)
    tenure.unlisten(told.append)
    tenure.listen(told.append)
    assert told == [LOST, LOST]


def test_a_lease_that_was_let_go_is_neither_told_nor_kept() -> None:
    kept = Kept()
    tenure = kept.keep()
    tenure.closed = True
    kept.keeper._lost(tenure, "too late")
    assert tenure.reason is None
    assert kept.keeper._look(kept.clock.monotonic()) == []
    assert kept.keeper._kept == {}


def test_what_is_renewed_is_looked_at_again_when_that_is_due() -> None:
    """One that is closed, or lost, is forgotten; whoever watches is woken if something is due before it would look."""
    kept = Kept()
    good, closed = kept.keep(), kept.keep()
    closed.closed = True
    keeper = kept.keeper
    keeper._sending, keeper._wake_at = 2, -1.0
    for one in [*keeper._kept.values(), None]:
        keeper._to_send.put(one)
    keeper._nudge.clear()
    keeper._renew_all(keeper._to_send)
    assert list(keeper._kept) == [good]
    assert keeper._sending == 0
    assert not keeper._nudge.is_set()
    (one,) = keeper._kept.values()
    assert one.try_at == good.renew_at
    keeper._wake_at = one.wake_at + 100.0
    old: Any = queue.SimpleQueue()  # of threads that were told to end meanwhile: what they count is over
    old.put(one)
    old.put(None)
    keeper._renew_all(old)
    assert keeper._sending == 0
    assert keeper._nudge.is_set()


def test_there_are_no_more_threads_than_there_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dynadurable.worker.keeper.MAX_SENDERS", 0)
    kept = Kept()
    kept.keep()
    kept.clock.advance(timedelta(seconds=3))
    kept.keeper._look(kept.clock.monotonic())
    assert kept.keeper._senders == []
    assert kept.keeper._to_send.qsize() == 1


def test_a_child_of_a_fork_keeps_nothing_of_its_parent() -> None:
    kept = Kept()
    kept.keep()
    kept.keeper.after_fork()
    assert kept.keeper._kept == {}
    assert not kept.keeper._stopped


def test_a_stop_does_not_wait_for_a_request_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dynadurable.worker.keeper.STOP_SECONDS", 0.01)
    hangs, kept = threading.Event(), Kept()
    threads = [threading.Thread(target=hangs.wait, daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    kept.keeper._senders = threads
    kept.keeper.stop()
    assert all(thread.is_alive() for thread in threads)
    hangs.set()


# --- attempts -------------------------------------------------------------------------------------


def test_a_workflow_whose_journal_is_of_a_newer_version_is_left_to_whoever_knows(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def body(*_: Any) -> Any:
        raise NewerFormatError("a page of the journal", version=9)

    attempts: Any = SimpleNamespace()
    plan = Attempts._workflow_body(attempts, body, attempt(), None, None)  # type: ignore[arg-type]
    left = play(plan).result
    assert isinstance(left, HandBack)
    assert left.refund
    assert "handed back" in caplog.text


def test_a_snooze_for_less_than_no_time_is_a_failure() -> None:
    app = App("shop")

    @app.job
    def work() -> None: ...

    absurd = verdict.on_error(Snooze(timedelta(seconds=-1)), job=work, attempt=1, told=None, dice=0.5)
    assert isinstance(absurd, verdict.Bury)


# --- ends of attempts -----------------------------------------------------------------------------


LATER = Later(delay=timedelta(seconds=1))


def attempt(**facts: Any) -> endings.Attempt:
    engine: Any = SimpleNamespace(items=ITEMS, clock=CLOCK, ids=IDS, worker_id="me", build=None)
    given = {"engine": engine, "held": held(), "mark": a_mark(), "run": a_run(), "job": None}
    return endings.Attempt(**{**given, **facts})


def test_a_write_that_a_wish_to_cancel_refused_is_followed_by_what_was_wished() -> None:
    """A workflow with compensations is handed back for them; any other run ends as cancelled."""
    lost = [refused(), found(a_mark(cancelled=True)), found(a_run())]
    undo = attempt(run=a_run(has_undo=True))
    assert play(endings.carry_out(undo, LATER), *lost, DONE).result == "handed back"
    plain = attempt()
    assert play(endings.carry_out(plain, LATER), *lost, changed(a_run(state="cancelled")), DONE).result == "cancelled"


@pytest.mark.parametrize("stands", [NOTHING, found(a_mark(token="another"))])
def test_a_write_of_somebody_who_lost_the_mark_is_just_lost(stands: Any) -> None:
    assert isinstance(play(endings.carry_out(attempt(), LATER), refused(), stands).error, LeaseLostError)


def test_whether_a_run_was_cancelled_is_a_newer_versions_business() -> None:
    run = a_run()
    run.version = 1_000
    assert play(endings.was_cancelled(attempt()), found(a_mark()), found(run)).result is False
    assert play(endings.was_cancelled(attempt(run=None)), found(a_mark(cancelled=True))).result is True


def test_a_cancellation_that_lost_the_mark_is_lost() -> None:
    assert isinstance(play(endings.carry_out(attempt(), Cancel()), refused()).error, LeaseLostError)
    assert play(endings.carry_out(attempt(), LetGo())).result == "lost"
    assert play(endings.carry_out(attempt(), HandBack(refund=True)), refused()).result == "handed back"


# --- operators ------------------------------------------------------------------------------------


def test_an_operator_looks_again_where_the_run_changed_under_its_wish() -> None:
    held_mark, refusals = a_mark(lease_until_ms=CLOCK.latest_ms() + 60_000), [refused()]

    def answer(call: Call) -> Any:
        if call.operation == "UpdateItem":
            return refusals.pop() if refusals else DONE
        return found(held_mark if call.params["Key"]["pk"]["S"].startswith("queue#") else a_run())

    played = play(operate.cancel(ITEMS, RUN_ID, clock=CLOCK, ids=IDS), by=answer)
    assert played.result.outcome == operate.ASKED


# --- journals and signals -------------------------------------------------------------------------


def record(**facts: Any) -> Record:
    return Record(**{"identity": Identity("step", "charge", "", 1), "phase": 1, "at_ms": NOW_MS, **facts})


def test_a_value_that_lies_in_a_page_already_is_not_put_again_and_one_that_is_too_large_is_refused() -> None:
    writer = Writer(items=ITEMS, mark=a_mark(), run=a_run(workflow=True))
    there = play(writer._stored(record(page="page#there", value=b"1"))).result
    assert (there.page, there.value) == ("page#there", None)
    large = play(writer._stored(record(value=b"x" * (journal.MAX_VALUE_BYTES + 1))))
    assert isinstance(large.error, PayloadTooLargeError)


def test_what_is_not_ours_among_the_pages_of_a_run_is_passed_over() -> None:
    stranger = {"pk": {"S": f"run#{RUN_ID}"}, "sk": {"S": f"page#{LIFE}#x"}}
    assert play(journal.pages_of(ITEMS, a_run()), {"Items": [stranger]}).result == {}


def test_a_run_that_waits_for_very_much_waits_for_anything() -> None:
    assert signals._waits(["e#a", "e#b"]) == {"e#a", "e#b"}
    assert signals._waits(["e#" + "x" * 400]) == {signals.ANYTHING}


def test_a_run_that_parks_and_has_been_told_already_is_woken_at_once() -> None:
    parked = a_run(waits={"e#go"}, mark="later")
    news = ITEMS.page(pk=f"run#{RUN_ID}", sk=signals.sort_key(LIFE, "e#go"), body=b"1")
    plan = signals.park(ITEMS, a_mark(), a_run(), [], run_id=RUN_ID, due_ms=NOW_MS + 9, topics=["e#go"], now_ms=NOW_MS)
    played = play(plan, changed(parked), found(news), changed(a_run(mark="now")), DONE, refused(), DONE)
    assert played.result.mark == "later"
    assert played.operations == ["UpdateItem", "GetItem", "UpdateItem", "PutItem", "DeleteItem", "DeleteItem"]


def test_a_run_that_parks_for_a_time_only_is_told_nothing() -> None:
    plan = signals.park(ITEMS, a_mark(), a_run(), [], run_id=RUN_ID, due_ms=NOW_MS + 9, topics=[], now_ms=NOW_MS)
    played = play(plan, changed(a_run(mark="later")), DONE, DONE)
    assert played.operations == ["UpdateItem", "PutItem", "DeleteItem"]


# --- starts ---------------------------------------------------------------------------------------


def start(run: Any, *answers: Any, elapsed_ms: int = 0, **options: Any) -> Any:
    plan = runs.start(
        ITEMS, run, a_mark(token=None), run_id=RUN_ID, now_ms=NOW_MS, elapsed_ms=lambda: elapsed_ms, **options
    )
    return play(plan, *answers)


def test_a_start_that_took_long_vouches_for_all_that_it_has_put() -> None:
    page = ITEMS.page(pk=f"run#{RUN_ID}", sk="page#input", body=b"1")
    played = start(a_run(), *[DONE] * 5, page=page, elapsed_ms=runs.GRACE_MS)
    assert played.result.created
    assert played.operations == ["PutItem", "PutItem", "PutItem", "PutItem", "UpdateItem"]


def test_a_start_whose_run_was_put_and_removed_by_others_says_so() -> None:
    played = start(a_run(key="k", digest="d"), NOTHING, DONE, refused(), NOTHING, refused())
    assert isinstance(played.error, LeaseLostError)


def test_a_start_that_meets_a_run_of_a_newer_version_takes_its_mark_back() -> None:
    later = a_run(key="k", digest="d")
    later.version = 1_000
    played = start(a_run(key="k", digest="d"), NOTHING, DONE, refused(), found(later), DONE)
    assert isinstance(played.error, NewerFormatError)
    assert played.operations[-1] == "DeleteItem"


def test_a_start_whose_reply_was_lost_leaves_its_mark_to_the_version_that_went_on_with_it() -> None:
    later = a_run(key="k", digest="d")
    later.version = 1_000
    played = start(a_run(key="k", digest="d"), NOTHING, DONE, refused(ambiguous=True), found(later), found(later))
    assert isinstance(played.error, NewerFormatError)
    assert "DeleteItem" not in played.operations


def test_a_start_that_meets_its_own_run_after_a_lost_reply_has_begun_it() -> None:
    run = a_run(key="k", digest="d")
    assert start(run, NOTHING, DONE, refused(run, ambiguous=True)).result.created


def test_a_start_over_an_ended_life_whose_letter_cannot_go_leaves_the_letter() -> None:
    dead = a_run(key="k", digest="d", state="dead", dead_letter=f"{NOW_MS}#{RUN_ID}", generation="first")
    run = a_run(key="k", digest="d")
    letter_in_the_way = cancelled("None", "ConditionalCheckFailed")
    assert start(run, found(dead), DONE, letter_in_the_way, DONE).result.created
    taken = cancelled("ConditionalCheckFailed", "None")
    other = found(a_run(key="k", digest="d", generation="third"))
    answers = (found(dead), DONE, taken, other, DONE, DONE)
    assert not start(a_run(key="k", digest="d"), *answers).result.created
    busy = start(a_run(key="k", digest="d"), found(dead), DONE, cancelled("TransactionConflict", "None"))
    assert isinstance(busy.error, TransactionFailedError)


def test_what_became_of_a_promotion_is_read_where_it_was_refused() -> None:
    """Our own write, or the echo of an enqueue that was sent twice: then the echo goes."""
    mark, release = a_mark(generation=None), ITEMS.mark.token == "mine"

    def convert(*answers: Any) -> Any:
        return play(runs.convert(ITEMS, mark, a_run(), [], release=release, token="t"), *answers)

    gone = cancelled("ConditionalCheckFailed", "None")
    assert convert(gone, found(a_run())).error is None
    assert isinstance(convert(gone, NOTHING).error, LeaseLostError)
    echo = convert(gone, found(a_run(generation="another")), refused())
    assert isinstance(echo.error, LeaseLostError)
    assert echo.operations[-1] == "DeleteItem"


# --- formats, requests ----------------------------------------------------------------------------


def test_what_this_version_cannot_read_is_left_out_of_lists_with_a_warning(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(formats, "_warned", set())
    good = a_run().serialize()
    later = {**good, "dd_v": {"N": "1000"}}
    odd = {**good, "dd_fence": {"S": "seven"}}
    stranger = {"pk": {"S": "a"}, "sk": {"S": "b"}}
    lacking = {name: value for name, value in good.items() if name != "dd_mark"}
    with caplog.at_level(logging.WARNING):
        assert len(formats.models(ITEMS.run, [good, later, odd, stranger, lacking], "some runs")) == 1
        assert len(formats.models(ITEMS.run, [good, lacking], "some runs", whole=False)) == 2
    assert len(caplog.records) >= 2


def test_a_scan_goes_on_where_it_was_left_and_shows_what_is_asked_for() -> None:
    condition = ITEMS.run.pk.exists()
    whole = requests.scan(ITEMS.run, condition, segment=0, segments=1, limit=5).params
    assert not {"ProjectionExpression", "ExclusiveStartKey", "ExpressionAttributeValues"} & whole.keys()
    start = {"pk": {"S": "a"}, "sk": {"S": "b"}}
    part = requests.scan(
        ITEMS.run, ITEMS.run.state == "dead", segment=0, segments=1, limit=5, start=start, fields=["pk"]
    ).params
    assert part["ExclusiveStartKey"] == start
    assert part["ExpressionAttributeValues"] == {":0": {"S": "dead"}}
    touched = requests.upsert(ITEMS.run, "a", "run", [ITEMS.run.rev.set(1)]).params
    assert "ConditionExpression" not in touched


def test_names_that_cannot_be_stored_are_refused() -> None:
    for name in ("", "\ud800", "x" * 300):
        with pytest.raises(NameRefusedError):
            check_name("a queue's name", name)


def test_a_prepared_request_may_have_no_values_but_its_key() -> None:
    @prepared
    def forget(model: Any, *, pk: str, sk: str) -> Call:
        return requests.delete(model, pk, sk, model.pk.exists())

    for name in ("a", "b"):
        assert forget(ITEMS.mark, pk=name, sk="x").params["Key"] == {"pk": {"S": name}, "sk": {"S": "x"}}
