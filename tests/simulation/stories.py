"""For clauses that chance misses only once in many thousand seeds: the shortest story in which each is missed.

In each a plan is stopped before its write, something happens, and the write must be refused.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from dynadurable.errors import LeaseLostError, StoreError
from dynadurable.storage import dead, journal, marks, operate, runs, schedules, signals
from dynadurable.storage.births import promoted
from dynadurable.storage.call import Call
from dynadurable.storage.items import CANCELLED, SUCCEEDED, Run
from dynadurable.storage.keys import schedules_partition
from tests.simulation import test_findings as findings
from tests.simulation.actors import Cast
from tests.simulation.story import Story
from tests.simulation.workflows import WorkflowCast
from tests.simulation.world import START_MS

Told = Callable[[], None]
STORIES: dict[str, Told] = {
    "leases.renew: dd_lease <= :value": findings.test_a_late_copy_of_a_renewal_shortens_no_named_lease,
    "marks._renewal: dd_lease <= :value": findings.test_a_late_copy_of_a_renewal_shortens_no_lease,
    "marks._checkpoint: attribute_not_exists (dd_cursor)": findings.test_a_late_copy_of_a_checkpoint_takes_nothing_back,
    "runs.update_held: attribute_not_exists (dd_tail)": findings.test_a_late_copy_of_a_record_takes_no_later_one_back,
    "signals._moved: dd_v <= :value": findings.test_a_run_that_a_newer_version_has_taken_over_is_not_woken,
}
"""By the clause that is missed."""
OTHER = {"S": "another"}


def story(*names: str) -> Callable[[Told], Told]:
    def told(function: Told) -> Told:
        STORIES.update(dict.fromkeys(names, function))
        return function

    return told


# --- marks ----------------------------------------------------------------------------------------


@story("marks.drop: attribute_not_exists (dd_vouched)")
def a_mark_that_is_vouched_for_is_not_dropped() -> None:
    told = Story()
    run = told.enqueued(told.cast.kept)
    mark = told.claimed(run)
    told.run(runs.vouch(told.items, run))
    told.run(marks.drop(told.items, mark))
    assert told.now(mark.pk, mark.sk)


@story("marks.drop: dd_vouched = :value")
def nor_one_that_is_vouched_for_a_second_time() -> None:
    told = Story()
    run = told.enqueued(told.cast.kept)
    told.run(runs.vouch(told.items, run))
    mark = told.claimed(run)
    told.run(runs.vouch(told.items, run))
    told.run(marks.drop(told.items, mark))
    assert told.now(mark.pk, mark.sk)


@story("marks._checkpoint: dd_cursor = :value")
def a_late_copy_of_a_second_checkpoint_takes_nothing_back() -> None:
    told = Story()
    mark = told.claimed(told.enqueued(told.cast.kept))
    told.checkpoint(mark, b"1j1", None)
    told.checkpoint(mark, b"1j2", b"1j1")
    late = told.sent[-1]
    told.checkpoint(mark, b"1j3", b"1j2")
    told.again(late)


@story("marks._renewal: dd_token = :value")
def a_renewal_of_an_earlier_claim_is_refused() -> None:
    told = Story()
    mark = told.claimed(told.enqueued(told.cast.kept))
    rival = told.rival(mark)
    until_ms = int(rival.lease_until_ms) + 1
    with pytest.raises(LeaseLostError):
        told.run(marks.renew(told.items, mark, lease_until_ms=until_ms))
    assert told.now(mark.pk, mark.sk)["dd_lease"] == {"N": str(int(rival.lease_until_ms))}


@story("marks._finish: dd_token = :value")
def the_end_of_an_earlier_claim_is_refused() -> None:
    told = Story()
    _, mark = told.placed()
    told.rival(mark)
    with pytest.raises(LeaseLostError):
        told.run(marks.finish(told.items, mark))
    assert told.now(mark.pk, mark.sk)


@story("marks._claim: dd_v <= :value")
def a_mark_of_a_newer_version_is_not_claimed() -> None:
    told = Story()
    run = told.enqueued(told.cast.kept)
    pk = f"queue#default#{int(run.shard)}"
    told.newer(pk, run.mark)
    plan = marks.claim(told.items, pk=pk, sk=run.mark, token="t", now_ms=1, lease_until_ms=2, worker="w")
    assert told.run(plan) is None
    assert "dd_token" not in told.now(pk, run.mark)


@story("marks.request_cancel: dd_token = :value")
def a_wish_for_one_holder_is_not_told_to_the_next() -> None:
    told = Story()
    mark = told.claimed(told.enqueued(told.cast.kept))
    told.rival(mark)
    assert not told.run(marks.request_cancel(told.items, mark))
    assert "dd_cancel" not in told.now(mark.pk, mark.sk)


# --- from a self-contained mark to a run ----------------------------------------------------------


def converting(told: Story, run_id: str, mark: Any) -> Any:
    run = promoted(told.items, mark, run_id, "generation", START_MS, SUCCEEDED)
    release = marks.held_by(told.items, mark) & told.items.mark.cancelled.does_not_exist()
    return runs.convert(told.items, mark, run, [], release=release, token="generation")


@story("runs.convert: dd_token = :value")
def an_earlier_holder_turns_no_mark_into_a_run() -> None:
    told = Story()
    run_id, mark = told.placed()
    told.rival(mark)
    with pytest.raises(LeaseLostError):
        told.run(converting(told, run_id, mark))
    assert not told.now(f"run#{run_id}", "run")


@story("runs.convert: attribute_not_exists (dd_cancel)")
def nor_does_a_holder_whose_run_is_to_be_cancelled() -> None:
    told = Story()
    run_id, mark = told.placed()
    told.run(marks.request_cancel(told.items, mark))
    with pytest.raises(LeaseLostError):
        told.run(converting(told, run_id, mark))
    assert not told.now(f"run#{run_id}", "run")


@story("runs.<listcomp>: attribute_not_exists (pk)")
def the_echo_of_an_enqueue_takes_no_run_back() -> None:
    told = Story()
    run_id, mark = told.placed()
    told.change(f"run#{run_id}", "run", dd_gen=OTHER, dd_v={"N": "1"}, dd_job=OTHER, dd_mark=OTHER)
    told.change(f"run#{run_id}", "run", dd_queue=OTHER, dd_shard={"N": "0"}, dd_at={"N": "1"})
    with pytest.raises(LeaseLostError):
        told.run(converting(told, run_id, mark))
    assert told.now(f"run#{run_id}", "run")["dd_gen"] == OTHER


# --- starts ---------------------------------------------------------------------------------------


def over_an_ended_run(told: Story) -> tuple[Run, Any, Call]:
    """A start that is about to write over the ended run of its key."""
    keyed = told.cast.kept.using(key="a")
    run = told.enqueued(keyed)
    told.change(run.pk, "run", dd_state={"S": SUCCEEDED})
    told.world.now_ms += 1_000
    plan = told.cast.operations(told.clock).enqueue(keyed, (1,), {})
    return run, plan, told.up_to(plan, "PutItem", "run#")


@story("runs._put: dd_gen = :value")
def a_start_does_not_write_over_a_later_life() -> None:
    told = Story()
    run, plan, call = over_an_ended_run(told)
    told.change(run.pk, "run", dd_gen=OTHER)
    with contextlib.suppress(Exception):
        told.finish(plan, call)
    assert told.now(run.pk, "run")["dd_gen"] == OTHER


@story("runs._put: dd_state = :value")
def nor_over_a_run_that_lives_again() -> None:
    told = Story()
    run, plan, call = over_an_ended_run(told)
    told.change(run.pk, "run", dd_state={"S": "live"})
    with contextlib.suppress(Exception):
        told.finish(plan, call)
    assert told.now(run.pk, "run")["dd_gen"] == {"S": run.generation}


@story("runs._put: dd_v <= :value")
def nor_over_one_of_a_newer_version() -> None:
    told = Story()
    run, plan, call = over_an_ended_run(told)
    told.newer(run.pk, "run")
    with contextlib.suppress(Exception):
        told.finish(plan, call)
    assert told.now(run.pk, "run")["dd_gen"] == {"S": run.generation}


@story("runs._put: (attribute_not_exists (pk) OR dd_v <= :value)")
def a_letter_of_a_newer_version_stays_when_its_key_is_used_again() -> None:
    told = Story()
    keyed = told.cast.kept.using(key="a")
    letter = told.died(told.enqueued(keyed))
    told.newer(letter.pk, letter.sk)
    told.world.now_ms += 1_000
    told.run(told.cast.operations(told.clock).enqueue(keyed, (1,), {}))
    assert told.now(letter.pk, letter.sk)


def own_transaction(told: Story) -> Call:
    """A start inside the caller's transaction, made now."""
    _, elements = told.cast.operations(told.clock).transact_items(told.cast.kept.using(key="a"), (1,), {})
    return Call(operation="TransactWriteItems", params={"TransactItems": elements})


def refused(told: Story, call: Call, run: Run) -> None:
    with contextlib.suppress(StoreError):
        told.world.execute("caller", call)
    assert told.now(run.pk, "run")["dd_gen"] == {"S": run.generation}


@story("operations.transact_items: dd_fence < :value")
def a_transaction_that_is_sent_late_takes_no_fence_back() -> None:
    told = Story()
    late = own_transaction(told)
    told.world.now_ms += 1_000
    run = told.enqueued(told.cast.kept.using(key="a"))
    told.change(run.pk, "run", dd_state={"S": SUCCEEDED})
    refused(told, late, run)


@story("operations.transact_items: dd_v <= :value")
def a_transaction_does_not_write_over_a_newer_version() -> None:
    told = Story()
    run = told.enqueued(told.cast.kept.using(key="a"))
    told.change(run.pk, "run", dd_state={"S": SUCCEEDED})
    told.newer(run.pk, "run")
    told.world.now_ms += 1_000
    refused(told, own_transaction(told), run)


@story("operations.transact_items: (attribute_not_exists (dd_unique) OR dd_unique <= :value)")
def a_transaction_takes_no_key_that_is_to_stay_taken() -> None:
    told = Story()
    run = told.enqueued(told.cast.kept.using(key="a", unique_for=timedelta(hours=1)))
    told.change(run.pk, "run", dd_state={"S": SUCCEEDED})
    told.world.now_ms += 1_000
    refused(told, own_transaction(told), run)


@story("operations.transact_items: attribute_not_exists (pk)")
def a_transaction_that_is_sent_again_frees_no_mark() -> None:
    told = Story()
    run_id, elements = told.cast.operations(told.clock).transact_items(told.cast.plain, (1,), {})
    call = Call(operation="TransactWriteItems", params={"TransactItems": elements})
    told.world.execute("caller", call)
    key = elements[0]["Put"]["Item"]
    mark = told.claim(key["pk"]["S"], key["sk"]["S"])
    with contextlib.suppress(StoreError):
        told.world.execute("caller", call)
    assert told.now(mark.pk, mark.sk).get("dd_token") == {"S": "token"}, run_id


# --- the dead -------------------------------------------------------------------------------------


def replaying(told: Story) -> tuple[Run, Any, Call]:
    """A replay that is about to be written."""
    run = told.enqueued(told.cast.kept)
    told.died(run)
    revival = dead.Revival(generation="revived", due_ms=START_MS)
    plan = dead.replay(told.items, run.pk[4:], None, revival)
    return run, plan, told.up_to(plan, "TransactWriteItems")


def not_revived(told: Story, run: Run, plan: Any, call: Call) -> None:
    with contextlib.suppress(Exception):
        told.finish(plan, call)
    assert told.now(run.pk, "run")["dd_gen"] != {"S": "revived"}


@story("dead.replay: dd_gen = :value")
def a_replay_brings_no_later_life_back() -> None:
    told = Story()
    run, plan, call = replaying(told)
    told.change(run.pk, "run", dd_gen=OTHER)
    not_revived(told, run, plan, call)


@story("dead.replay: dd_state = :value")
def a_replay_brings_back_the_dead_only() -> None:
    told = Story()
    run, plan, call = replaying(told)
    told.change(run.pk, "run", dd_state={"S": "live"})
    not_revived(told, run, plan, call)


@story("dead.replay: dd_v <= :value")
def a_replay_leaves_a_newer_version_alone() -> None:
    told = Story()
    run, plan, call = replaying(told)
    told.newer(run.pk, "run")
    not_revived(told, run, plan, call)


@story("dead.replay: (attribute_not_exists (pk) OR dd_v <= :value)")
def a_replay_leaves_a_letter_of_a_newer_version_alone() -> None:
    told = Story()
    run = told.enqueued(told.cast.kept)
    letter = told.died(run)
    told.newer(letter.pk, letter.sk)
    with contextlib.suppress(Exception):
        told.run(dead.replay(told.items, run.pk[4:], None, dead.Revival(generation="revived", due_ms=START_MS)))
    assert told.now(letter.pk, letter.sk)


# --- operators ------------------------------------------------------------------------------------


@story("operate._ask_to_cancel: dd_v <= :value")
def a_wish_is_not_written_over_a_newer_version() -> None:
    told = Story()
    run = told.enqueued(told.cast.kept)
    told.claimed(run)
    plan = operate.cancel(told.items, run.pk[4:], clock=told.clock, ids=told.ids)
    call = told.up_to(plan, "UpdateItem", "run#")
    told.newer(run.pk, "run")
    with contextlib.suppress(Exception):
        told.finish(plan, call)
    assert "dd_cancel" not in told.now(run.pk, "run")


# --- workflows ------------------------------------------------------------------------------------


def flow(told: Story) -> Run:
    assert isinstance(told.cast, WorkflowCast)
    return told.enqueued(told.cast.flows[1])


def waking(told: Story, operation: str, pk: str) -> tuple[Run, Any, Call]:
    """A parked run, and somebody who is about to wake it."""
    run = flow(told)
    mark = told.claimed(run)
    plan = signals.park(
        told.items, mark, run, [], run_id=run.pk[4:], due_ms=START_MS + 10**8, topics=["e#e0"], now_ms=START_MS
    )
    parked = told.run(plan)
    wake = signals.wake(told.items, parked, run_id=run.pk[4:], topic_=None, now_ms=START_MS)
    return parked, wake, told.up_to(wake, operation, pk)


@story("signals._moved: dd_state = :value")
def who_has_ended_is_not_woken() -> None:
    told = Story(WorkflowCast)
    parked, plan, call = waking(told, "UpdateItem", "run#")
    told.change(parked.pk, "run", dd_state={"S": CANCELLED})
    told.finish(plan, call)
    assert told.now(parked.pk, "run")["dd_mark"] == {"S": parked.mark}


@story("signals._moved: attribute_exists (dd_waits)")
def who_is_being_worked_on_is_not_woken() -> None:
    told = Story(WorkflowCast)
    parked, plan, call = waking(told, "UpdateItem", "run#")
    told.change(parked.pk, "run", dd_waits=None)  # its wait was over by itself, and a worker has begun
    told.finish(plan, call)
    assert told.now(parked.pk, "run")["dd_mark"] == {"S": parked.mark}


@story("signals._forget: attribute_not_exists (dd_token)")
def a_mark_that_was_claimed_is_not_taken_away_by_who_wakes_its_run() -> None:
    told = Story(WorkflowCast)
    parked, plan, call = waking(told, "DeleteItem", "queue#")
    mark = told.claimed(parked)
    told.finish(plan, call)
    assert told.now(mark.pk, mark.sk)


@story("signals._forget: dd_v <= :value")
def nor_is_one_of_a_newer_version() -> None:
    told = Story(WorkflowCast)
    parked, plan, call = waking(told, "DeleteItem", "queue#")
    pk = f"queue#default#{int(parked.shard)}"
    told.newer(pk, parked.mark)
    told.finish(plan, call)
    assert told.now(pk, parked.mark)


@story("runs.update_held: dd_tail = :value")
def a_late_copy_of_a_second_record_takes_no_later_one_back() -> None:
    told = Story(WorkflowCast)
    run = flow(told)
    writer = journal.Writer(items=told.items, mark=told.claimed(run), run=run)
    told.run(writer.append([findings.recorded("first")]))
    told.run(writer.append([findings.recorded("second")]))
    late = told.sent[-1]
    told.run(writer.append([findings.recorded("third")]))
    told.again(late)


@story("journal.expire: attribute_exists (pk)")
def a_page_that_has_gone_is_not_planted_again() -> None:
    told = Story(WorkflowCast)
    run = flow(told)
    run.ttl = 1
    sk = f"page#{run.journal_id}#1#1"
    told.change(run.pk, sk, dd_v={"N": "1"})
    plan = journal.expire(told.items, run)
    call = told.up_to(plan, "UpdateItem", run.pk)
    told.remove(run.pk, sk)
    told.finish(plan, call)
    assert not told.now(run.pk, sk)


# --- schedules ------------------------------------------------------------------------------------


@story("schedules.change: dd_gen = :value")
def a_schedule_of_another_life_is_not_changed() -> None:
    told = Story()
    record = told.items.schedule(
        pk=schedules_partition(told.items.schema),
        sk="tick",
        definition="{}",
        input=b"",
        deployed_ms=1,
        generation="first",
        queue="default",
        shard=0,
        last_done_ms=1,
    )
    assert told.run(schedules.create(told.items, record))
    told.change(record.pk, record.sk, dd_gen=OTHER)
    actions = [told.items.schedule.last_done_ms.set(2)]
    assert told.run(schedules.change(told.items, record, actions, token="t")) is None


@story("schedules.note_run: attribute_exists (pk)")
def a_run_of_a_schedule_that_has_gone_is_not_noted() -> None:
    told = Story(Cast)
    told.run(schedules.note_run(told.items, "gone", run_id="run", slot_ms=1))
    assert not told.now(schedules_partition(told.items.schema), "gone")
