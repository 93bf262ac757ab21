"""Stories of marks, of starts, and of marks that are turned into runs."""

from __future__ import annotations

import contextlib
from datetime import timedelta
from typing import Any

import pytest

from dynadurable.errors import LeaseLostError, StoreError
from dynadurable.storage import marks, runs
from dynadurable.storage.births import promoted
from dynadurable.storage.call import Call
from dynadurable.storage.items import SUCCEEDED, Run
from tests.simulation.story import Story
from tests.simulation.told import OTHER, story
from tests.simulation.world import START_MS

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
