"""Leader election: one process leads, its duties run, another takes over; what raises stops nobody else."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Coroutine, Iterator
from datetime import timedelta
from typing import Any

import pytest

from dynadurable import App, ConfigurationError
from dynadurable.errors import Interrupted
from dynadurable.leader import Leader, Term
from dynadurable.leader_aio import AioLeader, AioTerm
from dynadurable.testing.clock import ManualClock
from dynadurable.testing.memory import MemoryClient, MemoryStore
from tests.patience import LOOK_SECONDS, LOOKS, until

SECOND = timedelta(seconds=1)
TTL = 9 * SECOND
MakeApp = Callable[[], App]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def make_app(clock: ManualClock) -> Iterator[MakeApp]:
    client, made = MemoryClient(MemoryStore(locked=True)), list[App]()

    def make() -> App:
        made.append(App("table", client=client, clock=clock))
        return made[-1]

    make().create_table()
    yield make
    for app in made:
        app.lease_parts.keeper.stop()


def passed(clock: ManualClock) -> bool:
    """Let a moment pass, and look again."""
    clock.advance(SECOND / 10)
    return False


def steady(events: list[str], name: str) -> Callable[[Term], None]:
    """A duty that goes on until its term is over."""

    def duty(term: Term) -> None:
        events.append(f"{name} begins, fence {term.fence}")
        while not term.wait(0.01):
            pass
        events.append(f"{name} ends")

    return duty


def test_one_leads_and_the_other_takes_over_at_once_after_a_graceful_stop(make_app: MakeApp) -> None:
    events: list[str] = []
    first = make_app().leader("house", [steady(events, "a1"), steady(events, "a2")], ttl=TTL)
    second = make_app().leader("house", [steady(events, "b")], ttl=TTL)
    with second:
        with first:
            until(lambda: first.is_leader or second.is_leader, "a leader")
            leads, stands = (first, second) if first.is_leader else (second, first)
            assert not stands.is_leader
            if leads is second:
                return  # the other way round is the same
            until(lambda: len(events) == 2, "both duties")
        until(lambda: second.is_leader, "the take-over without any time passing")
        until(lambda: "b begins, fence 2" in events, "its duty")
        assert events.index("a1 ends") < events.index("b begins, fence 2")
        assert events.index("a2 ends") < events.index("b begins, fence 2")
    assert second.fence is None


def test_after_a_crash_another_one_leads_when_the_lease_has_lapsed(make_app: MakeApp, clock: ManualClock) -> None:
    victim = make_app()
    victim.lease("house", ttl=TTL).acquire()
    victim.lease_parts.keeper.stop()  # it was killed: nobody renews
    events: list[str] = []
    with make_app().leader("house", [steady(events, "b")], ttl=TTL) as heir:
        clock.advance(TTL - SECOND)
        threading.Event().wait(0.1)
        assert not heir.is_leader
        clock.advance(SECOND + timedelta(milliseconds=2))
        until(lambda: heir.is_leader, "the take-over")
        assert heir.fence == 2


def test_a_leader_that_loses_its_lease_ends_its_duties_and_stands_again(make_app: MakeApp, clock: ManualClock) -> None:
    events: list[str] = []
    with make_app().leader("house", [steady(events, "a")], ttl=TTL) as leader:
        until(lambda: events, "its duty")
        make_app().leases.break_("house")
        clock.advance(3 * SECOND)
        until(lambda: "a begins, fence 2" in events, "its second term")
    assert events == ["a begins, fence 1", "a ends", "a begins, fence 2", "a ends"]
    assert not leader.is_leader


def test_a_duty_that_raises_neither_ends_the_leadership_nor_stops_the_others(
    make_app: MakeApp, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    events: list[str] = []
    told: list[tuple[str, str]] = []
    errors: list[BaseException] = [ValueError("one"), SystemExit(3), KeyboardInterrupt()]

    def bad() -> None:
        events.append("bad begins")
        if errors:
            raise errors.pop(0)

    def on_error(duty: str, error: BaseException) -> None:
        told.append((duty.rpartition(".")[2], type(error).__name__))
        raise RuntimeError("the hook is bad as well")

    leader = make_app().leader("house", [steady(events, "good"), bad], ttl=TTL, on_error=on_error)
    with leader:
        for number in range(3):
            until(lambda: len(told) == number + 1, "the failure")  # noqa: B023 - asked at once
            until(lambda: events.count("bad begins") > number + 1 or passed(clock), "it begins again")  # noqa: B023
        assert leader.is_leader
        assert events.count("good begins, fence 1") == 1
        assert "good ends" not in events
    assert told == [("bad", "ValueError"), ("bad", "SystemExit"), ("bad", "KeyboardInterrupt")]
    assert "raised, again in 4 s" in caplog.text


def test_a_duty_with_an_interval_is_called_again_and_again(make_app: MakeApp, clock: ManualClock) -> None:
    called: list[float] = []
    leader = make_app().leader("house", ttl=TTL)

    @leader.duty(every=5 * SECOND)
    def tick() -> None:
        called.append(clock.monotonic())

    @leader.duty
    def once(term: Term) -> None:
        term.raise_if_over()

    with leader:
        for number in range(4):
            until(lambda: len(called) > number, "a call")  # noqa: B023
            clock.advance(SECOND)
        assert leader.is_leader


def test_a_duty_that_will_not_end_keeps_others_from_leading_beside_it(make_app: MakeApp, clock: ManualClock) -> None:
    """The lease is not released but runs out: until then the duty may go on alone."""
    go_on = threading.Event()
    leader = make_app().leader("house", [lambda: go_on.wait(30)], ttl=TTL)
    leader.start()
    until(lambda: leader.is_leader, "a leader")
    stopper = threading.Thread(target=leader.stop, kwargs={"grace": SECOND})
    stopper.start()
    until(lambda: not stopper.is_alive() or passed(clock), "the stop")
    assert len(leader.stop()) == 1
    heir = make_app().lease("house", ttl=TTL)
    assert not heir.try_acquire()
    clock.advance(TTL + SECOND)
    assert heir.try_acquire()
    go_on.set()


def test_an_interruption_ends_a_duty_quietly(make_app: MakeApp, caplog: pytest.LogCaptureFixture) -> None:
    def duty(term: Term) -> None:
        term.stopping.wait(10)
        with pytest.raises(Interrupted):
            term.raise_if_over()
        term.raise_if_over()

    with make_app().leader("house", [duty], ttl=TTL) as leader:
        until(lambda: leader.is_leader, "a leader")
    assert "raised" not in caplog.text


def test_a_store_out_of_reach_does_not_end_the_candidacy(make_app: MakeApp, monkeypatch: pytest.MonkeyPatch) -> None:
    app = make_app()
    failures: list[int] = []
    original = app.driver.run

    def unreachable(plan: Any, **options: Any) -> Any:
        if len(failures) < 2:
            failures.append(1)
            plan.close()
            raise RuntimeError("a defect")
        return original(plan, **options)

    monkeypatch.setattr(app.driver, "run", unreachable)
    with app.leader("house", [lambda: None], ttl=TTL) as leader:
        until(lambda: leader.is_leader, "a leader after all")


@pytest.mark.parametrize(
    ("name", "duties", "ttl"),
    [
        ("", [lambda: None], TTL),
        ("house", [7], TTL),
        ("house", [lambda one, two: None], TTL),
        ("house", [lambda: None], timedelta(milliseconds=10)),
    ],
)
def test_what_cannot_lead_is_refused(make_app: MakeApp, name: str, duties: Any, ttl: timedelta) -> None:
    with pytest.raises(ConfigurationError):
        make_app().leader(name, duties, ttl=ttl)


def test_kinds_of_duties_are_not_mixed_up(make_app: MakeApp) -> None:
    async def duty() -> None: ...

    with pytest.raises(ConfigurationError, match="a plain function"):
        make_app().leader("house", [duty])
    with pytest.raises(ConfigurationError, match="an `async def`"):
        make_app().aio.leader("house", [lambda: None])
    with pytest.raises(ConfigurationError, match="nothing to do"):
        make_app().leader("house").start()


def test_a_leader_is_used_once(make_app: MakeApp) -> None:
    leader = make_app().leader("house", [lambda: None], ttl=TTL)
    with leader, pytest.raises(ConfigurationError, match="once"):
        leader.start()
    with pytest.raises(ConfigurationError, match="once"):
        leader.start()
    assert leader.stop() == []


# --- on an event loop -----------------------------------------------------------------------------


async def soon(condition: Callable[[], Any], what: str) -> None:
    for _ in range(LOOKS):
        if condition():
            return
        await asyncio.sleep(LOOK_SECONDS)
    raise AssertionError(f"waited in vain: {what}")


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), 60))


def never_ending(events: list[str], name: str) -> Callable[[AioTerm], Coroutine[Any, Any, None]]:
    async def duty(term: AioTerm) -> None:
        events.append(f"{name} begins, fence {term.fence}")
        try:
            await asyncio.Event().wait()
        finally:
            events.append(f"{name} ends")

    return duty


def test_on_a_loop_the_other_takes_over_at_once_after_a_graceful_stop(make_app: MakeApp) -> None:
    events: list[str] = []

    async def test() -> None:
        second = make_app().aio.leader("house", [never_ending(events, "b")], ttl=TTL)
        async with make_app().aio.leader("house", [never_ending(events, "a")], ttl=TTL) as first:
            await soon(lambda: first.is_leader, "a leader")
            await second.start()
            await soon(lambda: events, "its duty")
            assert not second.is_leader
        await soon(lambda: second.is_leader, "the take-over")
        await soon(lambda: len(events) == 3, "its duty")
        assert await second.stop() == []

    run(test)
    assert events == ["a begins, fence 1", "a ends", "b begins, fence 2", "b ends"]


def test_on_a_loop_duties_are_cancelled_when_the_lease_is_lost(make_app: MakeApp, clock: ManualClock) -> None:
    events: list[str] = []

    async def test() -> None:
        async with make_app().aio.leader("house", [never_ending(events, "a")], ttl=TTL):
            await soon(lambda: events, "its duty")
            await make_app().aio.leases.break_("house")
            clock.advance(3 * SECOND)
            await soon(lambda: "a begins, fence 2" in events, "its second term")

    run(test)
    assert events == ["a begins, fence 1", "a ends", "a begins, fence 2", "a ends"]


def test_on_a_loop_a_duty_that_raises_stops_nobody_else(make_app: MakeApp) -> None:
    events: list[str] = []
    errors: list[BaseException] = [ValueError("one"), asyncio.CancelledError()]

    async def bad() -> None:
        events.append("bad begins")
        if errors:
            raise errors.pop(0)

    async def test() -> None:
        async with make_app().aio.leader("house", [never_ending(events, "good"), bad], ttl=TTL) as leader:
            await soon(lambda: events.count("bad begins") == 3, "it begins again")
            assert leader.is_leader
            assert "good ends" not in events

    run(test)


def test_on_a_loop_a_duty_that_will_not_end_keeps_its_lease(make_app: MakeApp) -> None:
    async def stubborn() -> None:
        while True:
            try:
                await asyncio.sleep(30)
            except asyncio.CancelledError:
                if over:
                    raise

    over: list[bool] = []

    async def test() -> None:
        leader = make_app().aio.leader("house", [stubborn], ttl=TTL)
        await leader.start()
        await soon(lambda: leader.is_leader, "a leader")
        await asyncio.sleep(0)
        left = await leader.stop(grace=SECOND / 2)
        assert len(left) == 1
        assert not await make_app().aio.lease("house", ttl=TTL).try_acquire()
        over.append(True)

    run(test)


def test_a_cancelled_block_stops_its_leader(make_app: MakeApp) -> None:
    events: list[str] = []

    async def block() -> None:
        async with make_app().aio.leader("house", [never_ending(events, "a")], ttl=TTL):
            await asyncio.Event().wait()

    async def test() -> None:
        task = asyncio.create_task(block())
        await soon(lambda: events, "its duty")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await make_app().aio.lease("house", ttl=TTL).try_acquire()

    run(test)
    assert events[-1] == "a ends"


def test_the_twins_have_the_same_methods() -> None:
    for name, method in inspect.getmembers(Leader, inspect.isfunction):
        if not name.startswith("_") and name != "after_fork":
            twin = inspect.signature(getattr(AioLeader, name))
            assert list(twin.parameters.values()) == list(inspect.signature(method).parameters.values()), name
