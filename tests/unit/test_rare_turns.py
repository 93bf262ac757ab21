"""Turns of the protocol that a store takes once in a million: replies lost, races lost twice, items half gone."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dynadurable.clock import SystemClock, UniqueIds
from dynadurable.errors import (
    CancellationReason,
    LeaseBusyError,
    LeaseLostError,
    NewerFormatError,
    PayloadUnreadableError,
    StoreUnavailableError,
    TransactionFailedError,
)
from dynadurable.model.record import Identity, Record
from dynadurable.storage import dead, ends, formats, journal, leases, lookup, marks, operate, runs, settle, signals
from dynadurable.storage.call import Pause, Work
from dynadurable.storage.items import DEAD, SUCCEEDED
from dynadurable.storage.keys import LEASE_SHARDS, RUN_SORT_KEY, parse_mark_sort_key, parse_partition
from dynadurable.storage.lookup import Found
from dynadurable.storage.schema import TableSchema
from dynadurable.storage.signals import OK, Signal
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
    listed,
    newer,
    play,
    refused,
)

NOTHING: dict[str, Any] = {}
REVIVAL = dead.Revival(generation="second", due_ms=NOW_MS)
CLOCK, IDS = SystemClock(), UniqueIds()


@pytest.fixture(autouse=True)
def _warnings_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "_warned", set())


# --- bringing back the dead -----------------------------------------------------------------------


def dead_run(**facts: Any) -> Any:
    return a_run(**{"state": DEAD, "dead_letter": f"{NOW_MS:015d}#{RUN_ID}", "ttl": None, **facts})


def letter(**facts: Any) -> Any:
    given = {"pk": "dead#default#0", "sk": f"{NOW_MS:015d}#{RUN_ID}", "job": "work", "generation": LIFE}
    return ITEMS.dead_letter(**{**given, **facts})


@pytest.mark.parametrize(
    ("stands", "told"),
    [
        (found(a_run(generation="second")), dead.REPLAYED),  # our own transaction, whose reply was lost
        (found(a_run(generation="third")), dead.NOT_DEAD),
        (NOTHING, dead.GONE),
    ],
)
def test_a_replay_that_was_refused_looks_what_has_become_of_the_run(stands: Any, told: str) -> None:
    plan = dead.replay(ITEMS, RUN_ID, None, REVIVAL)
    assert play(plan, found(dead_run()), cancelled("ConditionalCheckFailed", "None", "None"), stands).result == told


def test_a_replay_that_was_refused_though_the_run_is_dead_says_why() -> None:
    plan = dead.replay(ITEMS, RUN_ID, None, REVIVAL)
    played = play(plan, found(dead_run()), cancelled("None", "ValidationError", "None"), found(dead_run()))
    assert isinstance(played.error, TransactionFailedError)
    in_the_way = CancellationReason(code="ConditionalCheckFailed", message="", item=newer(letter()).serialize())
    plan = dead.replay(ITEMS, RUN_ID, None, REVIVAL)
    played = play(plan, found(dead_run()), cancelled("None", "None", in_the_way), found(dead_run()))
    assert isinstance(played.error, NewerFormatError)


def test_a_dead_run_without_a_letter_is_brought_back_too() -> None:
    played = play(dead.replay(ITEMS, RUN_ID, None, REVIVAL), found(dead_run(dead_letter=None)), DONE)
    assert played.result == dead.REPLAYED
    assert len(played.calls[-1].params["TransactItems"]) == 2


def test_a_dead_workflow_takes_its_pages_along_before_it_lives_again() -> None:
    expiring = dead_run(workflow=True, ttl=NOW_MS // 1000)
    played = play(dead.replay(ITEMS, RUN_ID, None, REVIVAL), found(expiring), listed(), DONE)
    assert played.result == dead.REPLAYED
    assert played.operations == ["GetItem", "Query", "TransactWriteItems"]


def test_a_letter_of_what_is_gone_or_lives_again_goes_and_nothing_else() -> None:
    gone = play(dead.purge(ITEMS, letter()), NOTHING, listed(), DONE)
    assert (gone.result, gone.operations) == (True, ["GetItem", "Query", "DeleteItem"])
    lives = play(dead.purge(ITEMS, letter()), found(a_run()), DONE)
    assert (lives.result, lives.operations) == (False, ["GetItem", "DeleteItem"])


def test_a_letter_whose_run_cannot_be_read_stands() -> None:
    keyed = letter(sk=f"{NOW_MS:015d}#work@mfrggzdfmztwq2lknnwg23tpoa")
    raw = {**a_run(pk="run#work@mfrggzdfmztwq2lknnwg23tpoa").serialize(), "dd_fence": {"S": "seven"}}
    assert play(dead.standing(ITEMS, [keyed]), {"Item": raw}).result == [keyed]


def test_pages_of_a_workflow_that_is_brought_back_are_kept_as_far_as_they_are_there() -> None:
    """One that has expired is missed by the worker that needs it, and does not stand in the way here."""
    played = play(journal.keep(ITEMS, dead_run(workflow=True)), listed(page(ttl=1), page("b", ttl=1)), DONE, refused())
    assert played.error is None
    assert played.operations == ["Query", "UpdateItem", "UpdateItem"]


def test_a_workflow_that_was_undone_takes_its_large_input_along_into_its_new_journal() -> None:
    undone = dead_run(workflow=True, undone=True, input=None)
    played = play(dead.replay(ITEMS, RUN_ID, None, REVIVAL), found(undone), found(page(body=b"large")), DONE, DONE)
    assert played.result == dead.REPLAYED
    assert played.operations == ["GetItem", "GetItem", "PutItem", "TransactWriteItems"]


def page(name: str = "000000000000001#0", **facts: Any) -> Any:
    return ITEMS.page(pk=f"run#{RUN_ID}", sk=f"page#{LIFE}#{name}", **facts)


def test_what_is_purged_may_go_under_our_hands() -> None:
    """Somebody else purges the same run: what is gone already is gone."""
    answers = [found(dead_run()), listed(page(), more=True), listed(page("b")), refused(), NOTHING, refused(), DONE]
    played = play(dead.purge(ITEMS, letter()), *answers, refused())
    assert played.result is True
    played = play(
        dead.purge(ITEMS, letter()), found(dead_run()), listed(page()), refused(), found(a_run(generation="new")), DONE
    )
    assert played.result is False
    assert played.operations[-1] == "DeleteItem"  # the letter is of nobody now


def test_a_letter_whose_run_is_gone_stands_for_nothing() -> None:
    keyed = letter(sk=f"{NOW_MS:015d}#work@mfrggzdfmztwq2lknnwg23tpoa")
    assert play(dead.standing(ITEMS, [keyed]), {"Responses": {}}).result == []


# --- ends and their debts -------------------------------------------------------------------------


def test_an_end_whose_parent_is_of_a_newer_version_leaves_its_mark_to_whoever_knows() -> None:
    run = a_run(state=SUCCEEDED, parent="parent~0~0mz0x5c00~01m8mb6acy0yv1spp7r6fm", parent_journal="j", ttl=1)
    plan = ends.end(ITEMS, a_mark(), run.pk, [], state=SUCCEEDED)
    played = play(plan, changed(run), DONE, found(newer(a_run())))
    assert played.result.state == SUCCEEDED
    assert played.operations == ["UpdateItem", "PutItem", "GetItem"]  # its mark was not deleted


def test_an_end_that_has_paid_is_as_good_the_second_time() -> None:
    gone = a_run(state=SUCCEEDED, workflow=True, ttl=NOW_MS // 1000)
    played = play(ends.pay(ITEMS, gone), listed(page(), page("b", ttl=1)), refused())
    assert played.error is None
    assert played.operations == ["Query", "UpdateItem"]


# --- journals -------------------------------------------------------------------------------------


def test_a_journal_of_several_pages_is_read_to_its_end() -> None:
    played = play(journal.pages_of(ITEMS, a_run()), listed(page(), more=True), listed(page("b")))
    assert len(played.result) == 2
    assert "ExclusiveStartKey" in played.calls[1].params


def record(**facts: Any) -> Record:
    identity = Identity(kind="step", name="charge", scope="", number=1)
    return Record(**{"identity": identity, "phase": "done", "at_ms": NOW_MS, **facts})


def test_a_journal_that_lacks_something_is_never_taken_for_whole() -> None:
    with pytest.raises(PayloadUnreadableError, match="the value of"):
        journal._with_value(record(page="page#gone"), {})
    with pytest.raises(PayloadUnreadableError, match="the input of the run is missing"):
        journal._input(a_run(input=None), {})


def test_a_page_that_expired_while_its_run_was_brought_back_is_missed() -> None:
    run = a_run(input=None, workflow=True)
    played = play(journal.load(ITEMS, run), listed(page(ttl=1)), refused())
    assert isinstance(played.error, PayloadUnreadableError)
    assert "has expired" in str(played.error)


# --- leases ---------------------------------------------------------------------------------------


def a_lease(**facts: Any) -> Any:
    return ITEMS.lease(**{"pk": "lease#0", "sk": "leader", "fence": 3, **facts})


@pytest.mark.parametrize(
    ("ambiguous", "stands", "broken"),
    [
        (True, a_lease(), True),  # our own write, its reply was lost
        (True, a_lease(token="another"), False),
        (False, a_lease(), False),
    ],
)
def test_a_break_that_was_refused_may_have_been_ours(ambiguous: bool, stands: Any, broken: bool) -> None:
    plan = leases.break_lease(ITEMS, "leader", seen=a_lease(token="seen"))
    assert play(plan, refused(stands, ambiguous=ambiguous)).result is broken


def test_a_renewal_whose_first_copy_came_is_no_lost_lease() -> None:
    plan = leases.renew(ITEMS, "leader", token="mine", lease_until_ms=NOW_MS)
    assert play(plan, refused(a_lease(token="mine", lease_until_ms=NOW_MS + 1))).error is None
    plan = leases.renew(ITEMS, "leader", token="mine", lease_until_ms=NOW_MS)
    assert isinstance(play(plan, refused(), NOTHING).error, LeaseLostError)


def test_a_list_of_leases_is_whole_or_an_error() -> None:
    pages = [listed(a_lease(), more=True), listed(a_lease(sk="another"))]
    played = play(leases.list_leases(ITEMS, limit=5), *pages, *[listed()] * (LEASE_SHARDS - 1))
    assert [lease.sk for lease in played.result] == ["another", "leader"]
    failing = [StoreUnavailableError("Query", "down"), *[listed()] * (LEASE_SHARDS - 1)]
    assert isinstance(play(leases.list_leases(ITEMS, limit=5), *failing).error, StoreUnavailableError)
    full = [listed(a_lease(), more=True)] * LEASE_SHARDS
    assert len(play(leases.list_leases(ITEMS, limit=1), *full).result) == 1


# --- marks ----------------------------------------------------------------------------------------


def test_a_page_that_begins_behind_what_is_due_is_empty_and_costs_nothing() -> None:
    start = {"pk": {"S": "queue#default#0"}, "sk": {"S": "zzz"}}
    plan = marks.poll(ITEMS, queue="default", shard=0, limit=5, until_ms=NOW_MS, start=start)
    played = play(plan)
    assert (played.result.candidates, played.result.next_start, played.calls) == ((), None, [])


def test_a_poll_passes_over_what_is_no_mark() -> None:
    strangers = [{"pk": {"S": "queue#default#0"}, "sk": {"S": name}} for name in ("zzz", a_mark().sk)]
    page = {"Items": [{**strangers[0], "dd_v": {"N": "1"}}, strangers[1], a_mark().serialize()]}
    plan = marks.poll(ITEMS, queue="default", shard=0, limit=5, until_ms=None)
    assert [candidate.run_id for candidate in play(plan, page).result.candidates] == [RUN_ID]


def test_a_checkpoint_that_older_copies_keep_overtaking_gives_up() -> None:
    plan = marks.checkpoint(ITEMS, a_mark(cursor=b"0"), cursor=b"1", lease_until_ms=NOW_MS)
    assert isinstance(play(plan, by=lambda _: refused(a_mark(cursor=b"7"))).error, LeaseLostError)


def test_a_checkpoint_meets_an_older_copy_of_its_own() -> None:
    """The reply of the first try was lost and the next one is refused; or a copy of an earlier cursor came between."""

    def checkpoint() -> Any:
        return marks.checkpoint(ITEMS, a_mark(cursor=b"0"), cursor=b"1", lease_until_ms=NOW_MS)

    assert play(checkpoint(), refused(a_mark(cursor=b"1"), ambiguous=True)).result.cursor == b"1"
    assert play(checkpoint(), refused(a_mark(cursor=b"7")), changed(a_mark(cursor=b"1"))).result.cursor == b"1"
    assert isinstance(play(checkpoint(), refused(a_mark(token="another"))).error, LeaseLostError)
    assert isinstance(play(checkpoint(), refused(), NOTHING).error, LeaseLostError)


def test_a_self_contained_mark_that_is_gone_after_a_lost_reply_was_finished_by_us() -> None:
    assert play(marks.finish(ITEMS, a_mark()), refused(ambiguous=True), NOTHING).error is None
    assert isinstance(play(marks.finish(ITEMS, a_mark()), refused(ambiguous=False)).error, LeaseLostError)
    played = play(marks.finish(ITEMS, a_mark()), refused(a_mark(token="another"), ambiguous=True))
    assert isinstance(played.error, LeaseLostError)


# --- what a claimed mark asks for -----------------------------------------------------------------


def taken(**facts: Any) -> Any:
    """A mark that somebody has claimed before us."""
    return a_mark(**{"fence": 5, "fence_placed": 0, "vouched": None, **facts})


def settled(mark: Any, *answers: Any, now_ms: int = NOW_MS) -> list[str]:
    played = play(settle.settle(ITEMS, mark, run_id=RUN_ID, now_ms=now_ms), *answers)
    assert played.error is None
    assert played.result is None
    return played.operations


def test_a_run_that_changed_between_two_looks_is_looked_at_again() -> None:
    """Its fence could not be raised, and then it was as it should be: the mark is handed back."""
    assert settled(taken(), refused(), found(a_run()), DONE) == ["UpdateItem", "GetItem", "UpdateItem"]


def test_a_mark_without_its_run_is_left_alone_while_it_is_young() -> None:
    assert settled(a_mark(), NOTHING, DONE) == ["GetItem", "UpdateItem"]
    assert settled(a_mark(), NOTHING, DONE, now_ms=NOW_MS + runs.GRACE_MS) == ["GetItem", "DeleteItem"]
    other = found(a_run(generation="another"))
    assert settled(a_mark(), other, DONE, now_ms=NOW_MS + runs.GRACE_MS) == ["GetItem", "DeleteItem"]


def test_a_stray_mark_puts_the_right_one_and_wakes_a_run_that_waits() -> None:
    elsewhere = a_run(mark=a_mark(sk="001800014400001#other").sk)
    assert settled(a_mark(), found(elsewhere), DONE, DONE) == ["GetItem", "PutItem", "DeleteItem"]
    waiting = a_run(mark=a_mark(sk=a_mark().sk.replace(".0", ".1")).sk, waits={"e#go"})
    moved = changed(a_run(mark="x", waits=None))
    operations = settled(a_mark(), found(waiting), DONE, moved, DONE, DONE, DONE)
    assert operations == ["GetItem", "PutItem", "UpdateItem", "PutItem", "DeleteItem", "DeleteItem"]


def test_a_run_of_this_mark_whose_fence_is_higher_is_not_ours() -> None:
    """A later claim has raised it, and this write is refused; or the mark was put again, and gets that fence back."""
    assert settled(a_mark(), found(a_run(fence=9)), DONE) == ["GetItem", "UpdateItem"]


def test_what_a_newer_version_has_written_is_left_to_it() -> None:
    assert settled(a_mark(), found(newer(a_run())), DONE) == ["GetItem", "UpdateItem"]
    ended = a_run(state=SUCCEEDED, parent=RUN_ID, parent_journal="j", ttl=1)
    answers = (found(ended), DONE, found(newer(a_run())), DONE)
    assert settled(a_mark(), *answers) == ["GetItem", "PutItem", "GetItem", "UpdateItem"]


# --- signals --------------------------------------------------------------------------------------

NEWS = Signal(value=b"1", outcome=OK, at_ms=NOW_MS)


def tell(*answers: Any) -> Any:
    return play(signals.tell(ITEMS, RUN_ID, LIFE, "e#go", NEWS, now_ms=NOW_MS), *answers)


def test_a_second_signal_looks_at_the_first_where_the_store_does_not_show_it() -> None:
    first = page("e#go", body=b"1", outcome=OK)
    assert tell(refused(), found(first), NOTHING).result is True
    assert tell(refused(), NOTHING, NOTHING).result is True  # gone again meanwhile: as good as ours
    assert tell(refused(page("e#go", body=b"2", outcome=OK)), NOTHING).result is False


def test_a_waker_that_loses_every_race_gives_up_and_the_waiter_looks_by_itself() -> None:
    waiting = a_run(waits={"e#go"})
    plan = signals.wake(ITEMS, waiting, run_id=RUN_ID, topic_="e#go", now_ms=NOW_MS)
    played = play(plan, by=lambda call: refused(waiting) if call.operation == "UpdateItem" else found(waiting))
    assert (played.result, played.error) == (None, None)
    assert played.operations.count("UpdateItem") == signals.MAX_LOOKS


# --- operators ------------------------------------------------------------------------------------


def looks(mark: Any) -> Any:
    """A run that is only a mark, which somebody else changes each time that it is looked at."""

    def answer(call: Any) -> Any:
        if call.operation != "GetItem":
            return refused()
        return found(mark) if call.params["Key"]["pk"]["S"].startswith("queue#") else NOTHING

    return answer


OPERATORS = pytest.mark.parametrize(
    "operate_on",
    [
        lambda: operate.cancel(ITEMS, RUN_ID, clock=CLOCK, ids=IDS),
        lambda: operate.reschedule(ITEMS, RUN_ID, due_ms=NOW_MS + 1, clock=CLOCK, ids=IDS),
    ],
    ids=["cancel", "reschedule"],
)


@OPERATORS
def test_an_operator_that_loses_every_race_says_so(operate_on: Any) -> None:
    free = a_mark(token=None, lease_until_ms=None, generation=None, input=b"x")
    assert isinstance(play(operate_on(), by=looks(free)).error, LeaseBusyError)


@OPERATORS
def test_two_operators_wait_for_each_other(operate_on: Any) -> None:
    held = a_mark(worker=operate.OPERATOR, lease_until_ms=CLOCK.latest_ms() + 3_600_000, generation=None)
    played = play(operate_on(), by=looks(held))
    assert isinstance(played.error, LeaseBusyError)
    assert set(played.operations) == {"GetItem"}


def stands(run: Any, mark: Any, *writes: Any) -> Any:
    """A run with its mark; the writes get these answers, one after the other."""
    left = list(writes)

    def answer(call: Any) -> Any:
        if call.operation != "GetItem":
            return left.pop(0)
        pk, sk = call.params["Key"]["pk"]["S"], call.params["Key"]["sk"]["S"]
        if pk.startswith("run#"):
            return found(run)
        return found(mark) if sk == mark.sk else NOTHING

    return answer


FREE: dict[str, Any] = {"token": None, "lease_until_ms": None, "fence": 0}


def test_a_cancellation_that_was_asked_for_before_is_not_asked_for_twice() -> None:
    """A workflow with compensations: its mark is handed back to whoever runs these."""
    run = a_run(has_undo=True, cancelled=True)
    answers = stands(run, a_mark(**FREE), changed(a_mark()), DONE)
    played = play(operate.cancel(ITEMS, RUN_ID, clock=CLOCK, ids=IDS), by=answers)
    assert played.result.outcome == operate.ASKED


def test_who_moves_a_run_that_is_to_be_cancelled_cancels_it() -> None:
    run = a_run(cancelled=True)
    answers = stands(run, a_mark(**FREE), changed(a_mark()), changed(a_run(state="cancelled")), DONE)
    plan = operate.reschedule(ITEMS, RUN_ID, due_ms=NOW_MS + 1, clock=CLOCK, ids=IDS)
    assert play(plan, by=answers).result.outcome == operate.DONE


def test_a_run_that_is_moved_keeps_what_a_worker_that_died_had_recorded_on_its_mark() -> None:
    moved = changed(a_run(mark="later", cursor=b"7"))
    answers = stands(a_run(), a_mark(**FREE), changed(a_mark(cursor=b"7")), moved, DONE, DONE)
    played = play(operate.reschedule(ITEMS, RUN_ID, due_ms=NOW_MS + 1, clock=CLOCK, ids=IDS), by=answers)
    assert played.result.outcome == operate.DONE
    update = next(
        call
        for call in played.calls
        if call.params.get("Key", {}).get("sk") == {"S": "run"} and call.operation == "UpdateItem"
    )
    assert {"B": b"7"} in update.params["ExpressionAttributeValues"].values()


def test_a_wish_that_meets_a_run_that_has_changed_looks_again() -> None:
    held = a_mark(lease_until_ms=CLOCK.latest_ms() + 60_000)
    answers = stands(a_run(), held, refused(), DONE, DONE)
    played = play(operate.cancel(ITEMS, RUN_ID, clock=CLOCK, ids=IDS), by=answers)
    assert played.result.outcome == operate.ASKED


# --- small things ---------------------------------------------------------------------------------


def test_work_is_done_where_it_can_be_done() -> None:
    with pytest.raises(TypeError, match="Work cannot be performed in a thread"):
        Work().perform()
    with pytest.raises(TypeError, match="Work cannot be performed on an event loop"):
        asyncio.run(Work().perform_async())
    asyncio.run(Pause(0.0, CLOCK).perform_async())


def test_what_is_no_key_of_ours_is_none() -> None:
    assert parse_partition(TableSchema(table="shop", prefix="jobs/"), "queue#mail#0") is None
    assert parse_mark_sort_key("soon#run") is None


def test_where_a_run_is_follows_from_its_id_where_nothing_else_is_known() -> None:
    assert Found(run_id=RUN_ID).place == ("default", 0)
    assert Found(run_id="job@key").place is None
    assert Found(run_id="job@key", run=a_run(queue="mail", shard=2)).place == ("mail", 2)


def test_a_mark_of_a_newer_version_is_found_and_not_read() -> None:
    seen = play(lookup.find(ITEMS, RUN_ID), by=lambda _: found(newer(a_mark(generation=None)))).result
    assert (seen.unreadable, seen.mark) == (True, None)


def test_an_input_lies_in_the_run_or_in_its_page() -> None:
    assert play(lookup.input_of(ITEMS, a_run(input=b"1"))).result == b"1"
    assert play(lookup.input_of(ITEMS, a_run(input=None)), found(page(body=b"2"))).result == b"2"
    assert play(lookup.input_of(ITEMS, a_run(input=None)), NOTHING).result is None


def test_a_warning_about_something_is_given_once(caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        formats.warn(NewerFormatError("run 7", version=9))
    assert len(caplog.records) == 1
    assert RUN_SORT_KEY == "run"
