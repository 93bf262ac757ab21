"""Child runs: one each, however often the parent comes by, and joined without a hot item."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

from dynadurable import App, Fail, Retry
from dynadurable.errors import ChildFailedError
from dynadurable.workflow.context import WorkflowContext
from tests.integration.stepping import Fault
from tests.workflow.conftest import MakeRig
from tests.workflow.rig import Process, Rig

DAY, HOUR = timedelta(days=1), timedelta(hours=1)


def family(app: App, rig: Rig) -> None:
    @app.workflow
    def child(ctx: WorkflowContext, n: int) -> tuple[int, int]:
        rig.note("child began")
        ctx.sleep(timedelta(minutes=n))
        return (n, ctx.step(lambda: n * n, name="square"))

    @app.job(retry=Retry.none())
    def plain(n: int) -> int:
        rig.note("plain")
        if n < 0:
            raise Fail(f"{n} is below nothing")
        return n + 1

    @app.workflow(keep_result=DAY)
    def calls(ctx: WorkflowContext, n: int) -> Any:
        return ctx.call(child, n)

    @app.workflow(keep_result=DAY)
    def joins(ctx: WorkflowContext, minutes: list[int]) -> list[Any]:
        children = [ctx.start(child, n) for n in minutes]
        return [one.result() for one in children]

    @app.workflow(keep_result=DAY)
    def tries(ctx: WorkflowContext, n: int) -> Any:
        try:
            return ctx.call(plain, n)
        except ChildFailedError as error:
            return (error.state, str(error.failure), error.run_id)

    @app.workflow(keep_result=DAY)
    def forgets(ctx: WorkflowContext) -> str:
        return ctx.start(plain, 1).run_id


def test_a_workflow_calls_another(make_rig: MakeRig) -> None:
    rig = make_rig(family)
    rig.start("calls", 3)
    rig.finish()
    assert rig.result() == (3, 9)
    assert isinstance(rig.result(), tuple)
    assert rig.effects["child began"] == 2  # once and once after its sleep
    assert rig.told() == ["child child: began", "child child: done"]


def test_a_plain_job_can_be_a_child(make_rig: MakeRig) -> None:
    rig = make_rig(family)
    rig.start("tries", 1)
    rig.finish()
    assert rig.result() == 2


def test_a_dead_child_is_an_error_that_says_why(make_rig: MakeRig) -> None:
    rig = make_rig(family)
    rig.start("tries", -1)
    rig.finish()
    state, failure, run_id = rig.result()
    assert state == "dead"
    assert "-1 is below nothing" in failure
    assert run_id.startswith("plain@")


def test_a_cancelled_child_is_an_error_too(make_rig: MakeRig) -> None:
    rig = make_rig(family)
    rig.start("tries", 1)
    worker = rig.process()
    [candidate] = worker.marks()
    worker.engine.driver.run(worker._attempts.of(candidate))
    [child] = [one for one in worker.marks() if one.job == "plain"]
    assert rig.outside.app.run(child.run_id).cancel() == "cancelled"
    rig.finish(worker)
    assert rig.result()[0] == "cancelled"
    assert rig.effects["plain"] == 0


def test_a_child_may_be_left_alone(make_rig: MakeRig) -> None:
    rig = make_rig(family)
    rig.start("forgets")
    rig.finish()
    assert rig.effects["plain"] == 1
    assert rig.outside.app.run(rig.result()).result() == 2


def test_a_child_that_ended_before_its_start_was_recorded_is_not_started_again(make_rig: MakeRig) -> None:
    """The parent dies with the record of the start; the child runs to its end; only then does the parent resume."""
    rig = make_rig(family)
    rig.start("tries", 1)
    dying = rig.process(Fault(nth=4, applied=False, dies=True))  # claim, the child's mark and run, the record
    rig.finish(dying)
    assert rig.result() == 2
    assert rig.effects["plain"] == 1


def test_many_children_join_without_a_hot_item(make_rig: MakeRig) -> None:
    """The parent's item is written for its own records and a few wake-ups, not by each child that ends."""
    rig = make_rig(family)
    rig.start("joins", [5] * 200)
    worker = rig.process()
    touched = touches_of_the_run(rig, worker)
    worker.work()
    due_ms = max(mark.due_ms for mark in worker.marks() if mark.job != "joins")
    late = timedelta(milliseconds=due_ms - rig.clock.now_ms() + 1)
    rig.clock.advance(late)  # past the instant at which the children wake: who is woken by them queues behind them
    rig.finish(worker)
    assert rig.result() == [(5, 25)] * 200
    assert touched["parent"] <= 200 + 200 + 6, touched  # starts and results, to park, to be woken, to end


def test_children_that_end_in_reverse_order_wake_their_parent_once(make_rig: MakeRig) -> None:
    rig = make_rig(family)
    rig.start("joins", [30, 20, 10])
    worker = rig.process()
    touched = touches_of_the_run(rig, worker)
    rig.finish(worker)
    assert rig.result() == [(30, 900), (20, 400), (10, 100)]
    assert touched["parent"] == 3 + 3 + 3


def touches_of_the_run(rig: Rig, worker: Process) -> Counter[str]:
    """Counts the writes of the parent's run item from here on."""
    touched: Counter[str] = Counter()
    inner = worker.client.inner.update_item

    def counting(**params: Any) -> Any:
        key = params["Key"]
        touched["parent"] += (key["pk"]["S"], key["sk"]["S"]) == (f"run#{rig.notes['run_id']}", "run")
        return inner(**params)

    worker.client.inner.update_item = counting
    return touched


def test_children_of_children(make_rig: MakeRig) -> None:
    def define(app: App, rig: Rig) -> None:
        @app.workflow(keep_result=DAY)
        def count_down(ctx: WorkflowContext, n: int) -> int:
            rig.note(f"began {n}")
            return 0 if n == 0 else 1 + ctx.call(count_down, n - 1)

    rig = make_rig(define)
    rig.start("count_down", 5)
    rig.finish()
    assert rig.result() == 5
    assert rig.effects["began 0"] == 1
