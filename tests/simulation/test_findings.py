"""What the simulation found, each played by hand: the shortest story in which it happens."""

from __future__ import annotations

import pytest

from dynadurable.errors import ConditionFailedError, NewerFormatError
from dynadurable.model.record import DONE, Identity, Record, unpack
from dynadurable.storage import leases, marks, operate, runs, settle, signals
from dynadurable.storage.journal import Writer
from tests.simulation.search import AtOnce
from tests.simulation.story import LEASE_MS, Story
from tests.simulation.workflows import WorkflowCast
from tests.simulation.world import START_MS


def test_a_mark_that_is_vouched_for_has_the_checkpoint() -> None:
    story = Story()
    run = story.enqueued(story.cast.kept)
    run.cursor = b"1j3"
    run.mark = run.mark.replace("0#kept", "1#kept") if "0#kept" in run.mark else run.mark + "1"
    story.run(runs.vouch(story.items, run))
    put = story.world.peek((f"queue#{run.queue}#{int(run.shard)}", run.mark))
    assert put is not None
    assert put["dd_cursor"] == {"B": b"1j3"}


def test_a_mark_that_was_put_again_without_its_fence_is_not_dropped() -> None:
    story = Story()
    run = story.enqueued(story.cast.kept)
    story.change(run.pk, "run", dd_fence={"N": "9" * 19})  # a claim of the mark that is gone has raised it
    mark = story.claimed(run)
    assert story.run(settle.settle(story.items, mark, run_id=run.pk[4:], now_ms=START_MS)) is None
    again = story.claimed(run, "another")
    assert story.run(settle.settle(story.items, again, run_id=run.pk[4:], now_ms=START_MS)) is not None
    assert int(again.fence) > int("9" * 19)


def test_an_operator_who_moves_a_run_keeps_the_checkpoint_and_the_attempts_of_a_dead_worker() -> None:
    story = Story()
    run = story.enqueued(story.cast.kept)
    story.checkpoint(story.claimed(run), b"1j2", None)
    story.world.now_ms += 2 * LEASE_MS  # the worker has died
    due_ms = story.clock.now_ms() + 5_000
    plan = operate.reschedule(story.items, run.pk[4:], due_ms=due_ms, clock=story.clock, ids=story.ids)
    assert story.run(plan).outcome == operate.DONE
    moved = story.run(runs.read(story.items, run.pk[4:]))
    mark = story.run(marks.read(story.items, f"queue#{run.queue}#{int(run.shard)}", moved.mark))
    assert (mark.cursor, int(mark.attempt)) == (b"1j2", 1)


def test_a_late_copy_of_a_checkpoint_takes_nothing_back() -> None:
    story = Story()
    mark = story.claimed(story.enqueued(story.cast.kept))
    story.checkpoint(mark, b"1j1", None)
    late = story.sent[-1]
    story.checkpoint(mark, b"1j2", b"1j1")
    story.again(late)
    stands = story.run(marks.read(story.items, mark.pk, mark.sk))
    assert stands.cursor == b"1j2"


def test_a_checkpoint_from_another_thread_of_the_holder_does_not_cost_the_lease() -> None:
    story = Story()
    mark = story.claimed(story.enqueued(story.cast.kept))
    story.checkpoint(mark, b"1j1", None)
    story.checkpoint(mark, b"1j2", None)  # it did not know of the first
    stands = story.run(marks.read(story.items, mark.pk, mark.sk))
    assert stands.cursor == b"1j2"


def test_a_late_copy_of_a_renewal_shortens_no_lease() -> None:
    story = Story()
    mark = story.claimed(story.enqueued(story.cast.kept))
    until_ms = START_MS + 20_000
    story.run(marks.renew(story.items, mark, lease_until_ms=until_ms))
    late = story.sent[-1]
    story.run(marks.renew(story.items, mark, lease_until_ms=until_ms + 5_000))
    story.again(late)
    assert story.run(marks.renew(story.items, mark, lease_until_ms=until_ms)).lease_until_ms == until_ms + 5_000


def test_a_late_copy_of_a_renewal_shortens_no_named_lease() -> None:
    story = Story()
    until_ms = START_MS + 20_000
    taken = leases.acquire(story.items, "a", token="t", owner="o", now_ms=START_MS, lease_until_ms=until_ms)
    assert story.run(taken).mine
    story.run(leases.renew(story.items, "a", token="t", lease_until_ms=until_ms))
    late = story.sent[-1]
    story.run(leases.renew(story.items, "a", token="t", lease_until_ms=until_ms + 5_000))
    story.again(late)
    story.run(leases.renew(story.items, "a", token="t", lease_until_ms=until_ms))
    stands = story.run(leases.read(story.items, "a"))
    assert int(stands.lease_until_ms) == until_ms + 5_000


def recorded(name: str) -> Record:
    return Record(identity=Identity("", "step", name, 1), phase=DONE, at_ms=START_MS, value=b"1j1")


def test_a_late_copy_of_a_record_takes_no_later_one_back() -> None:
    story = Story(WorkflowCast)
    assert isinstance(story.cast, WorkflowCast)
    run = story.enqueued(story.cast.flows[1])
    mark = story.claimed(run)
    writer = Writer(items=story.items, mark=mark, run=run)
    story.run(writer.append([recorded("first")]))
    late = story.sent[-1]
    story.run(writer.append([recorded("second")]))
    story.again(late)
    stands = story.run(runs.read(story.items, run.pk[4:]))
    assert [record.identity.name for record in unpack(stands.tail)] == ["first", "second"]


def test_an_enqueue_that_meets_its_own_run_in_a_newer_format_leaves_it_its_mark() -> None:
    story = Story()
    operations = story.cast.operations(story.clock)
    birth, born = operations.born(story.cast.kept, (1,), {})
    assert born.run is not None
    plan = runs.start(story.items, born.run, born.mark, run_id=born.run_id, now_ms=birth.now_ms, elapsed_ms=lambda: 0)
    reply = None
    while (call := plan.send(reply)).params.get("Item", {}).get("sk") != {"S": "run"}:
        reply = story.world.execute("caller", call)
    story.world.execute("caller", call)  # the reply is lost, and before it is sent again:
    story.newer(born.run.pk, "run")
    with pytest.raises(NewerFormatError):
        AtOnce(story.world, "caller").go_on(plan, ConditionFailedError("PutItem", ambiguous=True))
    assert story.world.peek((born.mark.pk, born.mark.sk)) is not None


def test_a_run_that_a_newer_version_has_taken_over_is_not_woken() -> None:
    story = Story(WorkflowCast)
    assert isinstance(story.cast, WorkflowCast)
    run = story.enqueued(story.cast.flows[1])
    parked = story.run(
        signals.park(
            story.items,
            story.claimed(run),
            run,
            [],
            run_id=run.pk[4:],
            due_ms=START_MS + 10**8,
            topics=["e#e0"],
            now_ms=START_MS,
        )
    )
    story.newer(run.pk, "run")
    with pytest.raises(NewerFormatError):
        story.run(signals.wake(story.items, parked, run_id=run.pk[4:], topic_=None, now_ms=START_MS))
    raw = story.world.peek((run.pk, "run"))
    assert raw is not None
    assert raw["dd_mark"]["S"] == parked.mark
