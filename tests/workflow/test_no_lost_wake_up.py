"""No wake-up is lost, in whatever order the requests of the waiter and of the signaller come, and whoever dies.

Every order that can make a difference is tried. Without help the run would look up after a day; here it must end well
within an hour.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from dynadurable import App
from dynadurable.workflow.context import WorkflowContext
from tests.workflow.interleave import Actor, Touched, alike, orders
from tests.workflow.rig import Process, Rig

SOON = timedelta(minutes=40)
Make = Callable[[Rig], list[Actor]]


def define(app: App, rig: Rig) -> None:
    @app.workflow(keep_result=timedelta(days=30))
    def waits(ctx: WorkflowContext) -> Any:
        value = ctx.wait_event("go")
        ctx.step(lambda: rig.note("after"), name="after")
        return value

    @app.workflow(keep_result=timedelta(days=30))
    def calls(ctx: WorkflowContext) -> Any:
        return ctx.call(child)

    @app.job
    def child() -> str:
        rig.note("child")
        return "gone"


def acting(rig: Rig) -> tuple[Process, Actor]:
    process = rig.process()
    actor = Actor(rig.store)
    process.app._clients._client = actor
    process.client = actor  # type: ignore[assignment]
    return process, actor


def waiter(rig: Rig) -> Actor:
    """A worker that has claimed the run and read it, and has still to look for the event."""
    process, actor = acting(rig)
    [candidate] = [one for one in rig.outside.marks() if one.job in ("waits", "calls")]
    actor.act(lambda: process.engine.driver.run(process._attempts.of(candidate)))
    for _ in range(2):  # claim, read
        actor.go_on()
    return actor


def sender(rig: Rig) -> Actor:
    process, actor = acting(rig)
    actor.act(lambda: process.app.run(rig.notes["run_id"]).send_event("go", "gone"))
    return actor


def ended_in_time(rig: Rig) -> bool:
    rig.finish(until=SOON)
    return rig.outside.app.run(rig.notes["run_id"]).status() == "succeeded"


def played(order: tuple[int, ...], make: Make, start: str) -> tuple[Rig, list[Actor], list[list[Touched]]]:
    """What has come of that order, and what each of its steps has touched."""
    rig = Rig(define=define)
    rig.start(start)
    actors = make(rig)
    steps = []
    for one in order:
        actors[one].go_on()
        steps.append(actors[one].touched)
    for actor in actors:
        actor.go_to_the_end()
    return rig, actors, steps


def worlds(make: Make, start: str) -> Iterator[tuple[tuple[int, ...], Rig, list[Actor]]]:
    """Every order of the requests of both, played; of those that cannot but come to the same, one."""
    seen: set[tuple[int, ...]] = set()
    for order in orders(lengths(make, start)):
        if order not in seen:
            rig, actors, steps = played(order, make, start)
            seen |= alike(order, steps)
            yield order, rig, actors
            rig.close()


def lengths(make: Make, start: str) -> list[int]:
    """The most requests that each actor makes after where it stands."""
    most = [0, 0]
    for first in (0, 1):
        rig = Rig(define=define)
        rig.start(start)
        actors = make(rig)
        before = [actor.requests for actor in actors]
        actors[first].go_to_the_end()
        actors[1 - first].go_to_the_end()
        most = [max(most[i], actors[i].requests - before[i]) for i in (0, 1)]
        rig.close()
    return most


def both(rig: Rig) -> list[Actor]:
    return [waiter(rig), sender(rig)]


def dying(make: Make, who: int, at: int) -> Make:
    def made(rig: Rig) -> list[Actor]:
        actors = make(rig)
        actors[who].dies_at = actors[who].requests + at
        return actors

    return made


def test_an_event_in_any_order() -> None:
    for order, rig, actors in worlds(both, "waits"):
        assert actors[1].error is None
        assert ended_in_time(rig), order
        assert rig.result() == "gone"
        assert rig.effects == {"after": 1}


@pytest.mark.parametrize("at", range(1, 8))
@pytest.mark.parametrize("who", [0, 1], ids=["the waiter", "the sender"])
def test_an_event_in_any_order_and_one_of_them_dies(who: int, at: int) -> None:
    """A sender that died was not heard, so it sends again."""
    for order, rig, actors in worlds(dying(both, who, at), "waits"):
        if actors[1].error is not None:
            rig.outside.app.run(rig.notes["run_id"]).send_event("go", "gone")
        assert ended_in_time(rig), order
        assert rig.result() == "gone"


def with_child(rig: Rig) -> list[Actor]:
    """The parent has started its child and looks whether that has ended; a worker has claimed and run the child."""
    parent = waiter(rig)
    while not any(one.job == "child" for one in rig.outside.marks()) or not rig.records():
        parent.go_on()
    process, actor = acting(rig)
    [candidate] = [one for one in rig.outside.marks() if one.job == "child"]
    actor.act(lambda: process.engine.driver.run(process._attempts.of(candidate)))
    while not rig.effects["child"]:
        actor.go_on()
    return [parent, actor]


def test_the_end_of_a_child_in_any_order() -> None:
    for order, rig, _ in worlds(with_child, "calls"):
        assert ended_in_time(rig), order
        assert rig.result() == "gone"
        assert rig.effects == {"child": 1}


@pytest.mark.parametrize("at", range(1, 8))
@pytest.mark.parametrize("who", [0, 1], ids=["the parent", "the child"])
def test_the_end_of_a_child_and_one_of_them_dies(who: int, at: int) -> None:
    for order, rig, _ in worlds(dying(with_child, who, at), "calls"):
        assert ended_in_time(rig), order
        assert rig.result() == "gone"
