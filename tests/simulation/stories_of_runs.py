"""Stories of the dead, of operators, of workflows and of schedules."""

from __future__ import annotations

import contextlib
from typing import Any

from dynadurable.storage import dead, journal, marks, operate, schedules, settle, signals
from dynadurable.storage.call import Call
from dynadurable.storage.items import CANCELLED, Run
from dynadurable.storage.keys import schedules_partition
from dynadurable.worker.attempt import Attempts
from tests.simulation import test_findings as findings
from tests.simulation.actors import Cast, Context, SimulatedKeeper
from tests.simulation.story import Story
from tests.simulation.told import OTHER, story
from tests.simulation.workflows import WorkflowCast
from tests.simulation.world import START_MS

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


def purging(told: Story, **meanwhile: Any) -> None:
    """A purge that is about to delete the run."""
    run = told.enqueued(told.cast.kept)
    letter = told.died(run)
    plan = dead.purge(told.items, letter)
    call = told.up_to(plan, "DeleteItem", "run#")
    told.change(run.pk, "run", **meanwhile)
    with contextlib.suppress(Exception):
        told.finish(plan, call)
    assert told.now(run.pk, "run")


@story("dead.purge: dd_gen = :value")
def a_purge_forgets_no_later_life() -> None:
    purging(Story(), dd_gen=OTHER)


@story("dead.purge: dd_state = :value")
def a_purge_forgets_the_dead_only() -> None:
    purging(Story(), dd_state={"S": "live"})


@story("dead.purge: dd_v <= :value")
def a_purge_leaves_a_newer_version_alone() -> None:
    purging(Story(), dd_v={"N": "2"})


def dropping(told: Story, **meanwhile: Any) -> None:
    letter = told.died(told.enqueued(told.cast.kept))
    told.change(letter.pk, letter.sk, **meanwhile)
    told.run(dead.drop_stale(told.items, letter))
    assert told.now(letter.pk, letter.sk)


@story("dead.drop_stale: dd_gen = :value")
def a_letter_of_a_later_death_is_not_dropped_with_an_earlier_one() -> None:
    dropping(Story(), dd_gen=OTHER)


@story("dead.drop_stale: dd_v <= :value")
def a_letter_of_a_newer_version_is_not_dropped() -> None:
    dropping(Story(), dd_v={"N": "2"})


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


@story("signals._moved: dd_mark = :value")
def who_was_parked_anew_is_woken_as_it_stands_now() -> None:
    told = Story(WorkflowCast)
    parked, plan, call = waking(told, "UpdateItem", "run#")
    told.change(parked.pk, "run", dd_mark=OTHER, dd_rev={"N": "7"})
    told.finish(plan, call)
    assert f"{parked.generation}.8#" in told.now(parked.pk, "run")["dd_mark"]["S"]


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


def committing(told: Story, **meanwhile: Any) -> None:
    """A workflow whose commit is on its way while its run is taken over."""
    assert isinstance(told.cast, WorkflowCast)
    run = told.enqueued(told.cast.flows[1], 4)
    execute = told.world.execute
    done: list[Call] = []

    def taken_over(actor: str, call: Call) -> Any:
        if call.operation == "TransactWriteItems" and not done:
            done.append(call)
            told.change(run.pk, "run", **meanwhile)
        return execute(actor, call)

    told.world.execute = taken_over  # type: ignore[method-assign]
    engine = told.cast.engine("worker")
    engine.keeper = SimulatedKeeper()  # type: ignore[assignment]
    [raw] = [item for item in told.world.all_items() if item["pk"]["S"].startswith("queue#")]
    seen = marks.to_candidate(told.items, raw["pk"]["S"], raw)
    assert seen is not None
    attempts = Attempts(engine, Context, told.cast.workflow_body())
    told.world.to_the_end(told.world.drive("worker", attempts.of(seen)))
    assert done
    assert not [item for item in told.world.all_items() if item["pk"]["S"] == "users"]


@story("commit._write: dd_fence <= :value")
def a_commit_of_an_earlier_claim_is_refused() -> None:
    committing(Story(WorkflowCast), dd_fence={"N": "9" * 19})


@story("commit._write: dd_v <= :value")
def a_commit_does_not_touch_a_run_of_a_newer_version() -> None:
    committing(Story(WorkflowCast), dd_v={"N": "2"})


@story("settle: a mark without its run is left alone while it is young")
def the_mark_of_a_start_under_way_is_left_alone() -> None:
    told = Story()
    _, born = told.cast.operations(told.clock).born(told.cast.kept, (1,), {})
    told.run(marks.place(told.items, born.mark))
    mark = told.claim(born.mark.pk, born.mark.sk)
    assert told.run(settle.settle(told.items, mark, run_id=born.run_id, now_ms=told.clock.now_ms())) is None
    assert told.now(mark.pk, mark.sk)


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
