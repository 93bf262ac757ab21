"""Compensation: in reverse order, each a recorded step, once the workflow has failed for good or was cancelled."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from dynadurable import App, Fail, Retry
from dynadurable.errors import StepFailedError
from dynadurable.storage.items import CANCELLED, DEAD, SUCCEEDED
from dynadurable.workflow.context import WorkflowContext
from tests.integration.stepping import Died, Fault
from tests.workflow.conftest import MakeRig
from tests.workflow.rig import Rig, stopped_everywhere

DAY, HOUR = timedelta(days=1), timedelta(hours=1)


class Trip:
    """A trip that cannot be finished: what was done and undone, in order."""

    def __init__(self, *, fails: str = "hotel", undo_fails: str = "", waits: bool = False) -> None:
        self.fails, self.undo_fails, self.waits = fails, undo_fails, waits
        self.log: list[str] = []
        self.keys: dict[str, set[str]] = {}

    def define(self, app: App, rig: Rig) -> None:
        rig.notes["log"] = self.log

        def book(what: str, *, idempotency_key: str) -> str:
            self.log.append(f"book {what}")
            self.keys.setdefault(what, set()).add(idempotency_key)
            if what == self.fails and not rig.notes.get("fixed"):
                raise Fail(f"no {what}")
            return f"the {what}"

        def cancel(what: str) -> None:
            self.log.append(f"cancel {what}")
            if what == f"the {self.undo_fails}":
                raise ValueError(f"cannot cancel {what}")

        def tell(who: str) -> None:
            self.log.append(f"tell {who}")

        @app.workflow(keep_result=DAY, retry=Retry(max_attempts=2))
        def trip(ctx: WorkflowContext) -> str:
            ctx.on_failure(tell, "the traveller")
            ctx.step(book, "flight", name="book flight", compensate=cancel)
            if self.waits:
                ctx.sleep(HOUR)
            ctx.step(book, "car", name="book car", compensate=cancel)
            ctx.step(book, "hotel", name="book hotel", compensate=cancel)
            return "booked"


UNDONE = ["book flight", "book car", "book hotel", "cancel the car", "cancel the flight", "tell the traveller"]


def test_what_was_done_is_undone_in_reverse_order(make_rig: MakeRig) -> None:
    trip = Trip(waits=True)
    rig = make_rig(trip.define)
    rig.start("trip")
    rig.finish()
    assert trip.log == UNDONE
    assert rig.run().state == DEAD
    assert "no hotel" in rig.run().error
    assert [line for line in rig.told() if line.startswith("undo")] == [
        "undo undo/cancel: done",
        "undo undo/cancel#2: done",
        "undo undo/tell: done",
    ]


def test_nothing_is_undone_where_nothing_has_failed(make_rig: MakeRig) -> None:
    trip = Trip(fails="nothing")
    rig = make_rig(trip.define)
    rig.start("trip")
    rig.finish()
    assert trip.log == UNDONE[:3]
    assert rig.run().state == SUCCEEDED


def test_a_handled_failure_undoes_nothing(make_rig: MakeRig) -> None:
    def define(app: App, rig: Rig) -> None:
        def broken() -> None:
            raise Fail("no")

        @app.workflow(keep_result=DAY)
        def flow(ctx: WorkflowContext) -> str:
            ctx.on_failure(rig.note, "undone")
            try:
                ctx.step(broken)
            except StepFailedError:
                return "handled"
            return "fine"

    rig = make_rig(define)
    rig.start("flow")
    rig.finish()
    assert rig.result() == "handled"
    assert rig.effects == {}


def test_one_that_fails_for_good_does_not_keep_the_others_from_being_undone(make_rig: MakeRig) -> None:
    trip = Trip(undo_fails="car")
    rig = make_rig(trip.define)
    rig.start("trip")
    rig.finish()
    assert trip.log == [*UNDONE[:3], *["cancel the car"] * 5, "cancel the flight", "tell the traveller"]
    assert "no hotel" in rig.run().error
    assert any("cannot cancel the car" in note for note in rig.failure().notes)


def test_a_cancelled_run_is_undone_too(make_rig: MakeRig) -> None:
    trip = Trip(waits=True)
    rig = make_rig(trip.define)
    run = rig.start("trip")
    rig.process().work()
    assert trip.log == ["book flight"]
    assert run.cancel() == "cancelling"
    rig.finish()
    assert trip.log == ["book flight", "cancel the flight", "tell the traveller"]
    assert rig.run().state == CANCELLED


def test_it_is_undone_wherever_it_stops() -> None:
    """Every write: what is recorded is not repeated, what was in flight at most once, and the order holds."""
    trips: list[Trip] = []

    def define(app: App, rig: Rig) -> None:
        if "trip" not in rig.notes:
            trips.append(Trip(waits=True))
            rig.notes["trip"] = trips[-1]
        rig.notes["trip"].define(app, rig)

    for fault, rig in stopped_everywhere(define, lambda rig: rig.start("trip")):
        log = rig.notes["trip"].log
        assert list(dict.fromkeys(log)) == UNDONE, fault
        assert len(log) <= len(UNDONE) + 1, (fault, log)
        assert rig.run().state == DEAD, fault
        rig.close()


def test_a_cancelled_run_is_undone_wherever_that_stops() -> None:
    def define(app: App, rig: Rig) -> None:
        rig.notes.setdefault("trip", Trip(waits=True)).define(app, rig)

    def cancelled(rig: Rig) -> None:
        run = rig.start("trip")
        rig.process().work()
        run.cancel()

    for fault, rig in stopped_everywhere(define, cancelled):
        log = rig.notes["trip"].log
        assert list(dict.fromkeys(log)) == ["book flight", "cancel the flight", "tell the traveller"], fault
        assert len(log) <= 4, (fault, log)
        assert rig.run().state == CANCELLED, fault
        rig.close()


def test_a_workflow_that_kills_its_workers_is_undone(make_rig: MakeRig) -> None:
    """Its attempts are used up by crashes; what it had done before is taken back without its code going on."""
    trip = Trip(fails="nothing")
    rig = make_rig(trip.define)
    rig.start("trip")
    for _ in range(2):  # claim, the flight's record, the car's; then claim, fence, the car's
        worker = rig.process(Fault(nth=3, applied=False, dies=True))
        with pytest.raises(Died):
            worker.work()
        rig.clock.advance(timedelta(seconds=31))
    rig.finish()
    assert rig.run().state == DEAD
    assert "WorkerLost" in rig.run().error
    assert trip.log == ["book flight", *["book car"] * 2, "cancel the flight", "tell the traveller"]


def test_brought_back_it_begins_anew_with_other_keys(make_rig: MakeRig) -> None:
    """What was refunded must be charged again: the outside has to see another key."""
    trip = Trip()
    rig = make_rig(trip.define)
    run = rig.start("trip")
    rig.finish()
    assert trip.log == UNDONE
    rig.notes["fixed"] = True
    rig.outside.app.dead.replay(run.id)
    rig.finish()
    assert rig.result() == "booked"
    assert trip.log[len(UNDONE) :] == UNDONE[:3]
    assert len(trip.keys["flight"]) == 2


def test_without_compensation_a_replay_goes_on_where_it_died(make_rig: MakeRig) -> None:
    keys: dict[str, list[str]] = {}

    def define(app: App, rig: Rig) -> None:
        def book(what: str, *, idempotency_key: str) -> str:
            rig.note(what)
            keys.setdefault(what, []).append(idempotency_key)
            if what == "hotel" and not rig.notes.get("fixed"):
                raise Fail("no hotel")
            return what

        @app.workflow(keep_result=DAY)
        def trip(ctx: WorkflowContext) -> Any:
            done = [ctx.step(book, what) for what in ("flight", "car", "hotel", "museum")]
            ctx.sleep(HOUR)
            return done

    rig = make_rig(define)
    run = rig.start("trip")
    rig.finish()
    assert rig.effects == {"flight": 1, "car": 1, "hotel": 1}
    rig.notes["fixed"] = True
    rig.outside.app.dead.replay(run.id)
    rig.finish()
    assert rig.result() == ["flight", "car", "hotel", "museum"]
    assert rig.effects == {"flight": 1, "car": 1, "hotel": 2, "museum": 1}
    assert keys["hotel"][0] == keys["hotel"][1]
