"""Named leases: acquire, renew, lose, release; what a holder is told and when; what the fence refuses."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from dynadurable import App, ConfigurationError, LeaseLostError
from dynadurable.errors import LeaseBusyError, NameRefusedError, StoreUnavailableError
from dynadurable.lease import Lease
from dynadurable.testing.clock import ManualClock
from dynadurable.testing.ledger import ledger
from tests import faults
from tests.faults import FaultPlan, Hold, Recorded
from tests.patience import crash, pass_time, settled, until

ItemsIn = Callable[[App], list[dict[str, Any]]]
MakeApp = Callable[..., App]
SECOND = timedelta(seconds=1)


def is_renewal(call: Recorded) -> bool:
    names = set((call.params.get("ExpressionAttributeNames") or {}).values())
    return (
        call.operation == "UpdateItem" and "dd_fence" not in names and "REMOVE" not in call.params["UpdateExpression"]
    )


def threads_of_leases() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith(("dynadurable-k", "dynadurable-r"))]


# --- acquire and take over ------------------------------------------------------------------------


def test_a_lease_that_lapsed_is_taken_by_one_try_and_one_that_stands_is_refused_at_once(
    make_app: MakeApp, clock: ManualClock, moto_client: Any
) -> None:
    """PUB-17."""
    first, second = make_app(), make_app()
    first.lease("refresher", ttl=timedelta(minutes=15)).acquire()
    crash(first)
    newcomer = second.lease("refresher", ttl=timedelta(minutes=15))
    with FaultPlan(moto_client) as plan:
        clock.advance(timedelta(minutes=10))
        before = clock.monotonic()
        assert not newcomer.try_acquire()
        assert len(plan.calls) <= 2
        clock.advance(timedelta(minutes=80))
        assert newcomer.try_acquire()
        assert len(plan.calls) <= 3
    assert clock.monotonic() - before == 80 * 60  # no try has waited
    assert newcomer.fence == 2


def test_a_busy_lease_names_its_owner(make_app: MakeApp) -> None:
    with make_app().lease("refresher", ttl=10 * SECOND) as lease:
        with pytest.raises(LeaseBusyError, match=r"'refresher' is held by .+-\d+"):
            make_app().lease("refresher", ttl=10 * SECOND).acquire()
        assert lease.is_valid()


def test_waiting_ends_when_the_lease_comes_free(make_app: MakeApp, clock: ManualClock) -> None:
    first, second = make_app(), make_app()
    first.lease("refresher", ttl=10 * SECOND).acquire()
    crash(first)
    begun = clock.monotonic()
    with second.lease("refresher", ttl=10 * SECOND, wait=60 * SECOND):
        assert 10.0 < clock.monotonic() - begun < 10.1  # it wakes when the lease lapses, not a look later


def test_waiting_ends_with_its_time(make_app: MakeApp, clock: ManualClock) -> None:
    first, second = make_app(), make_app()
    first.lease("refresher", ttl=100 * SECOND).acquire()
    crash(first)
    begun = clock.monotonic()
    with pytest.raises(LeaseBusyError):
        second.lease("refresher", ttl=10 * SECOND).acquire(wait=5 * SECOND)
    assert clock.monotonic() - begun == pytest.approx(5.0)


def test_a_wait_reads_and_writes_only_when_the_lease_is_free(
    make_app: MakeApp, moto_client: Any, clock: ManualClock
) -> None:
    first, second = make_app(), make_app()
    first.lease("refresher", ttl=20 * SECOND).acquire()
    crash(first)
    with ledger(moto_client) as cost:
        second.lease("refresher", ttl=20 * SECOND).acquire(wait=None)
    assert cost.write_units == 2  # the first try, and the one that succeeds
    assert cost.failed_writes == 1
    assert cost.read_units < 20  # half a unit a second


def test_the_fence_grows_over_the_life_of_the_name(make_app: MakeApp, clock: ManualClock, items_in: ItemsIn) -> None:
    """Over releases, take-overs and breaks: so the item is never deleted."""
    fences = []
    for number in range(6):
        app = make_app()
        lease = app.lease("refresher", ttl=10 * SECOND).acquire()
        fences.append(lease.fence)
        if number % 3 == 0:
            lease.release()
        elif number % 3 == 1:
            crash(app)
            clock.advance(11 * SECOND)
        else:
            app.leases.break_("refresher")
            crash(app)
        (item,) = items_in(app)
        assert int(item["dd_fence"]["N"]) == number + 1
    assert fences == [1, 2, 3, 4, 5, 6]


def test_an_acquired_lease_is_not_acquired_again_by_the_same_object(app: App) -> None:
    with app.lease("refresher", ttl=10 * SECOND) as lease, pytest.raises(ConfigurationError, match="already"):
        lease.acquire()


def test_before_it_is_acquired_there_is_no_fence(app: App) -> None:
    lease = app.lease("refresher", ttl=10 * SECOND)
    assert not lease.is_valid()
    assert lease.remaining == timedelta()
    for ask in (lambda: lease.fence, lease.condition_check, lease.raise_if_lost):
        with pytest.raises(LeaseLostError):
            ask()


@pytest.mark.parametrize("name", ["x", "a#b", "ä" * 100, "%23", "lease#1", " "])
def test_any_name_is_a_lease_of_its_own(app: App, name: str) -> None:
    with app.lease(name, ttl=10 * SECOND), app.lease("another", ttl=10 * SECOND):
        assert [lease.name for lease in app.leases.list()] == sorted([name, "another"])


@pytest.mark.parametrize("name", ["", "x" * 257, "\ud800", None, 7])
def test_a_name_that_cannot_be_used_is_refused(app: App, name: Any) -> None:
    with pytest.raises(NameRefusedError):
        app.lease(name, ttl=10 * SECOND)


@pytest.mark.parametrize(
    ("ttl", "renew_every"),
    [
        (timedelta(), None),
        (timedelta(seconds=0.5), None),
        (-SECOND, None),
        (10 * SECOND, 5 * SECOND),
        (10 * SECOND, 10 * SECOND),
        (10 * SECOND, timedelta()),
        (10 * SECOND, -SECOND),
        (15, None),
        (10 * SECOND, 3),
    ],
)
def test_times_that_leave_no_room_for_a_second_try_are_refused_at_construction(
    app: App, ttl: Any, renew_every: Any
) -> None:
    with pytest.raises(ConfigurationError):
        app.lease("refresher", ttl=ttl, renew_every=renew_every)


# --- renewal --------------------------------------------------------------------------------------


def test_failed_renewals_are_tried_again_within_the_lease(
    make_app: MakeApp, clock: ManualClock, moto_client: Any
) -> None:
    """PUB-19: lease 6 s, renewal each second, two failures in a row; the body lasts 12 s as the only owner."""
    app, rival = make_app(), make_app()
    lease = app.lease("refresher", ttl=6 * SECOND, renew_every=SECOND)
    renewals = iter(range(1, 1000))
    with FaultPlan(moto_client) as plan:
        number: dict[int, int] = {}

        def nth(call: Recorded) -> int:
            if is_renewal(call) and id(call) not in number:
                number[id(call)] = next(renewals)
            return number.get(id(call), 0)

        plan.on("UpdateItem", faults.throttled(), when=lambda call: nth(call) == 2)
        plan.on("UpdateItem", faults.unreachable(), when=lambda call: nth(call) == 3)
        with lease:
            for _ in range(12):
                pass_time(app.lease_parts.keeper, clock, 1.0)
                assert lease.is_valid()
                assert not rival.lease("refresher", ttl=6 * SECOND).try_acquire()
            assert not lease.lost.is_set()
        assert len([call for call in plan.calls if is_renewal(call)]) >= 12


@pytest.mark.parametrize("fault", ["refused", "hanging"])
def test_a_holder_that_cannot_renew_is_told_before_anybody_else_can_own_the_lease(
    make_app: MakeApp, clock: ManualClock, moto_client: Any, fault: str
) -> None:
    """PUB-19, and its kind: requests that never come back."""
    app, rival = make_app(), make_app()
    told: list[Lease] = []
    hold = Hold()
    with FaultPlan(moto_client) as plan:
        plan.on("UpdateItem", hold if fault == "hanging" else faults.internal_error(), when=is_renewal, attempts=None)
        lease = app.lease("refresher", ttl=10 * SECOND, on_lost=told.append).acquire()
        begun = clock.monotonic()
        while not lease.lost.is_set():
            clock.advance(SECOND / 4)
            if clock.monotonic() - begun >= 9.0:
                until(lease.lost.is_set, "the holder is told")
            elif fault == "refused":
                settled(app.lease_parts.keeper, clock)
        assert clock.monotonic() - begun == pytest.approx(9.0, abs=0.26)
        assert not lease.is_valid()
        assert not rival.lease("refresher", ttl=10 * SECOND).try_acquire()
        hold.release()
        clock.advance(timedelta(seconds=1.1) if fault == "refused" else timedelta(seconds=20))
        assert rival.lease("refresher", ttl=10 * SECOND).try_acquire()
        until(lambda: told == [lease], "the callback")
        with pytest.raises(LeaseLostError):
            lease.raise_if_lost()
        assert not lease.release()


def test_a_renewal_that_was_seen_to_fail_ends_the_lease_at_once(make_app: MakeApp, clock: ManualClock) -> None:
    app = make_app()
    lease = app.lease("refresher", ttl=9 * SECOND).acquire()
    make_app().leases.break_("refresher")
    clock.advance(3 * SECOND)
    until(lease.lost.is_set, "the holder learns at its next renewal that the lease was broken")


def test_the_local_deadline_counts_from_before_the_request_was_sent(
    make_app: MakeApp, clock: ManualClock, moto_client: Any
) -> None:
    """PUB-21: the reply took 4 s of a lease of 10 s; nobody else is there."""
    app = make_app()
    original = moto_client._endpoint._do_get_response

    def slow(request: Any, operation: Any, *rest: Any) -> Any:
        reply = original(request, operation, *rest)
        clock.advance(4 * SECOND)
        return reply

    moto_client._endpoint._do_get_response = slow
    begun = clock.monotonic()
    lease = app.lease("refresher", ttl=10 * SECOND).acquire()
    app.lease_parts.keeper.stop()
    del moto_client._endpoint._do_get_response
    assert lease.remaining == 6 * SECOND
    clock.advance(timedelta(seconds=5.9))
    assert lease.is_valid()
    clock.advance(timedelta(seconds=0.6))
    assert clock.monotonic() - begun == 10.5
    assert not lease.is_valid()


def test_a_defect_in_one_renewal_does_not_end_the_others(
    make_app: MakeApp, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = make_app()
    with app.lease("one", ttl=9 * SECOND) as one, app.lease("two", ttl=9 * SECOND) as two:
        assert one._tenure is not None
        monkeypatch.setattr(one._tenure, "renewal", lambda *_, **__: 1 / 0)
        pass_time(app.lease_parts.keeper, clock, 8.0)
        assert two.is_valid()
        clock.advance(SECOND)
        until(one.lost.is_set, "the one is told")
        settled(app.lease_parts.keeper, clock)
        assert two.is_valid()
        one._tenure = None


def test_a_callback_that_raises_or_never_returns_disturbs_nobody(make_app: MakeApp, clock: ManualClock) -> None:
    app, never = make_app(), threading.Event()

    def bad(_: Lease) -> None:
        never.wait(60)
        raise ValueError("no")

    one = app.lease("one", ttl=9 * SECOND, on_lost=bad).acquire()
    with app.lease("two", ttl=9 * SECOND) as two:
        make_app().leases.break_("one")
        pass_time(app.lease_parts.keeper, clock, 30.0, step=1.0)
        assert one.lost.is_set()
        assert two.is_valid()
    never.set()


# --- release --------------------------------------------------------------------------------------


def test_a_renewal_in_flight_during_the_release_does_not_bring_the_lease_back(
    make_app: MakeApp, clock: ManualClock, moto_client: Any, items_in: ItemsIn
) -> None:
    """PUB-18."""
    app, rival = make_app(), make_app()
    hold = Hold()
    with FaultPlan(moto_client) as plan:
        plan.on("UpdateItem", hold, when=is_renewal, times=1)
        lease = app.lease("refresher", ttl=3 * SECOND, renew_every=SECOND).acquire()
        clock.advance(SECOND)
        hold.wait_until_reached()
        assert lease.release()
        hold.release()
        until(lambda: not threads_of_leases(), "no thread remains")
        for _ in range(10):
            clock.advance(SECOND)
        assert len([call for call in plan.calls if is_renewal(call)]) == 1
        (item,) = items_in(app)
        assert not {"dd_token", "dd_lease"} & item.keys()
        assert rival.lease("refresher", ttl=3 * SECOND).try_acquire()
    assert not lease.lost.is_set()  # it was not lost: it was given up


def test_a_renewal_that_arrives_after_the_release_is_refused(
    make_app: MakeApp, clock: ManualClock, moto_client: Any, items_in: ItemsIn
) -> None:
    """The same with the renewal overtaken on its way: it finds no token of its own."""
    app = make_app()
    lease = app.lease("refresher", ttl=3 * SECOND).acquire()
    tenure = lease._tenure
    assert tenure is not None
    assert lease.release()
    with pytest.raises(LeaseLostError):
        app.driver.run(tenure.renewal(app.items, lease_until_ms=clock.now_ms() + 1_000_000))
    (item,) = items_in(app)
    assert "dd_lease" not in item


def test_a_failing_renewal_is_not_sent_again_after_the_release(
    make_app: MakeApp, clock: ManualClock, moto_client: Any
) -> None:
    app = make_app()
    with FaultPlan(moto_client) as plan:
        plan.on("UpdateItem", faults.throttled(), when=is_renewal, attempts=None)
        lease = app.lease("refresher", ttl=9 * SECOND).acquire()
        clock.advance(3 * SECOND)
        until(lambda: [call for call in plan.calls if is_renewal(call)], "the first renewal")
        lease.release()
        until(lambda: not threads_of_leases(), "no thread remains")
        sent = len(plan.calls)
        for _ in range(10):
            clock.advance(3 * SECOND)
        assert len(plan.calls) == sent


def test_renewal_starts_again_after_a_quick_second_acquisition(
    make_app: MakeApp, clock: ManualClock, moto_client: Any
) -> None:
    """PUB-20: acquire, release, acquire again within 100 ms, hold for 9 s."""
    app, rival = make_app(), make_app()
    lease = app.lease("refresher", ttl=3 * SECOND, renew_every=SECOND)
    lease.acquire()
    clock.advance(timedelta(milliseconds=50))
    lease.release()
    clock.advance(timedelta(milliseconds=50))
    with FaultPlan(moto_client) as plan, lease:
        for _ in range(45):
            pass_time(app.lease_parts.keeper, clock, 0.2, step=0.2)
            assert not rival.lease("refresher", ttl=3 * SECOND).try_acquire()
        assert len([call for call in plan.calls if is_renewal(call)]) >= 6
        assert lease.is_valid()
        assert lease.fence == 2


def test_a_release_of_a_lease_that_moved_on_changes_nothing(
    make_app: MakeApp, clock: ManualClock, items_in: ItemsIn
) -> None:
    first, second = make_app(), make_app()
    old = first.lease("refresher", ttl=3 * SECOND).acquire()
    crash(first)
    clock.advance(4 * SECOND)
    with second.lease("refresher", ttl=3 * SECOND) as new:
        before = items_in(second)
        assert not old.release()
        assert items_in(second) == before
        assert new.is_valid()
    assert old.release()  # nothing is held any more: nothing is done


def test_a_block_whose_lease_moved_on_ends_in_an_error(make_app: MakeApp, clock: ManualClock) -> None:
    first, second = make_app(), make_app()
    lease = first.lease("refresher", ttl=3 * SECOND)

    def block() -> None:
        with lease:
            crash(first)
            clock.advance(4 * SECOND)
            second.lease("refresher", ttl=3 * SECOND).acquire()

    with pytest.raises(LeaseLostError, match="moved on"):
        block()


def test_an_error_of_the_block_is_not_replaced(make_app: MakeApp, clock: ManualClock) -> None:
    first, second = make_app(), make_app()

    def block() -> None:
        with first.lease("refresher", ttl=3 * SECOND):
            crash(first)
            clock.advance(4 * SECOND)
            second.lease("refresher", ttl=3 * SECOND).acquire()
            raise KeyError("own")

    with pytest.raises(KeyError):
        block()


def test_a_release_that_cannot_be_sent_is_logged_and_the_lease_runs_out(
    make_app: MakeApp, clock: ManualClock, moto_client: Any, caplog: pytest.LogCaptureFixture
) -> None:
    app = make_app()
    with FaultPlan(moto_client) as plan, app.lease("refresher", ttl=600 * SECOND):
        plan.on("UpdateItem", faults.throttled(), attempts=None)
    assert "could not be released" in caplog.text
    clock.advance(600 * SECOND)
    assert make_app().lease("refresher", ttl=3 * SECOND).try_acquire()


@pytest.mark.parametrize("loss", [faults.lost_request, faults.lost_reply, faults.throttled, faults.internal_error])
@pytest.mark.parametrize("nth", [1, 2, 3])
def test_a_lease_survives_one_fault_at_any_write(
    make_app: MakeApp, clock: ManualClock, moto_client: Any, items_in: ItemsIn, loss: Callable[[], Any], nth: int
) -> None:
    """Acquire, renew, release: an own write whose reply was lost is not taken for somebody else's."""
    app = make_app()
    with FaultPlan(moto_client) as plan:
        plan.on("UpdateItem", loss(), nth=nth)
        lease = app.lease("refresher", ttl=9 * SECOND).acquire()
        assert lease.fence == 1
        pass_time(app.lease_parts.keeper, clock, 4.0)
        assert lease.is_valid()
        assert lease.release()
    (item,) = items_in(app)
    assert not {"dd_token", "dd_lease"} & item.keys()


def test_an_acquisition_that_was_never_answered_is_an_error_that_says_so(make_app: MakeApp, moto_client: Any) -> None:
    app = make_app()
    with FaultPlan(moto_client) as plan:
        plan.on("UpdateItem", faults.unreachable(), attempts=None)
        with pytest.raises(StoreUnavailableError, match="UpdateItem"):
            app.lease("refresher", ttl=3 * SECOND).acquire()
    assert threads_of_leases() == []


def test_an_interrupted_acquisition_does_not_keep_the_lease(make_app: MakeApp, moto_client: Any) -> None:
    app = make_app()
    original = moto_client._endpoint._do_get_response
    interrupts = iter([KeyboardInterrupt])

    def interrupted(*arguments: Any) -> Any:
        reply = original(*arguments)
        for kind in interrupts:
            raise kind
        return reply

    moto_client._endpoint._do_get_response = interrupted
    with pytest.raises(KeyboardInterrupt):
        app.lease("refresher", ttl=600 * SECOND).acquire()
    del moto_client._endpoint._do_get_response
    assert make_app().lease("refresher", ttl=3 * SECOND).try_acquire()
