"""Code that does not fit its journal is noticed before any body runs, and parked where people see it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from dynadurable import App, Retry
from dynadurable.errors import NonDeterminismError
from dynadurable.storage.items import DEAD
from dynadurable.workflow.context import WorkflowContext
from tests.workflow.conftest import MakeRig
from tests.workflow.rig import Define, Rig

DAY, HOUR = timedelta(days=1), timedelta(hours=1)
Code = Callable[[WorkflowContext, Rig], Any]


def version(code: Code, **options: Any) -> Define:
    def define(app: App, rig: Rig) -> None:
        @app.workflow(keep_result=DAY, **options)
        def flow(ctx: WorkflowContext) -> Any:
            return code(ctx, rig)

    return define


def deployed_over(make_rig: MakeRig, before: Code, after: Code, **options: Any) -> Rig:
    """A run of the first version until it waits, and then of the second."""
    rig = make_rig(version(before, **options))
    rig.start("flow")
    rig.process().work()
    assert rig.run().is_live
    rig.effects.clear()
    rig.define = version(after, **options)
    rig.finish(until=timedelta(hours=3))
    return rig


def charge(rig: Rig) -> str:
    rig.note("charge")
    return "charged"


def ship(rig: Rig) -> str:
    rig.note("ship")
    return "shipped"


def test_another_kind_of_operation_in_its_place(make_rig: MakeRig) -> None:
    """PUB-41: history has a finished sleep where the new code has a step."""

    def before(ctx: WorkflowContext, rig: Rig) -> None:
        ctx.sleep(HOUR)
        ctx.step(charge, rig)

    def after(ctx: WorkflowContext, rig: Rig) -> None:
        ctx.step(charge, rig)
        ctx.sleep(HOUR)

    rig = deployed_over(make_rig, before, after)
    assert rig.effects == {}
    assert rig.run().state == DEAD
    failure = rig.failure()
    assert failure.type == "dynadurable.errors.NonDeterminismError"
    assert "the journal holds sleep sleep" in failure.message
    assert "the code has come to step charge" in failure.message
    assert "test_determinism.py" in failure.message
    assert "ctx.step(charge, rig)" in failure.message
    assert failure.attempt == 1
    [letter] = rig.outside.app.dead.list()
    assert letter.run_id == rig.notes["run_id"]


@pytest.mark.parametrize(
    ("after", "words"),
    [
        (lambda ctx, rig: (ctx.step(ship, rig), ctx.step(charge, rig)), "come to step ship"),
        (lambda ctx, rig: ctx.step(charge, rig, name="renamed"), "come to step renamed"),
        (lambda ctx, rig: (ctx.wait_event("x"), ctx.step(charge, rig)), "come to event x"),
        (lambda ctx, rig: ctx.commit({"Put": {}}), "come to commit commit"),
        (lambda ctx, rig: ctx.map(charge, [rig]), "come to batch charge"),
        (lambda ctx, rig: None, "come to the end"),
        (lambda ctx, rig: ctx.step(charge, rig), "come to the end"),
    ],
)
def test_what_does_not_fit_is_refused_before_any_body_runs(make_rig: MakeRig, after: Code, words: str) -> None:
    def before(ctx: WorkflowContext, rig: Rig) -> None:
        ctx.step(charge, rig)
        ctx.step(ship, rig)
        ctx.sleep(HOUR)

    rig = deployed_over(make_rig, before, after)
    assert rig.effects == {}
    assert rig.run().state == DEAD
    assert words in rig.failure().message


def test_it_cannot_be_swallowed(make_rig: MakeRig) -> None:
    """Whatever the code catches, nothing runs after it, and the run does not succeed."""

    def before(ctx: WorkflowContext, rig: Rig) -> None:
        ctx.step(charge, rig)
        ctx.sleep(HOUR)

    def after(ctx: WorkflowContext, rig: Rig) -> str:
        for _ in range(3):
            try:
                ctx.step(ship, rig)
            except BaseException:  # noqa: BLE001 - as some code does
                rig.note("swallowed")
        return "fine"

    rig = deployed_over(make_rig, before, after)
    assert rig.effects == {"swallowed": 3}
    assert rig.run().state == DEAD
    assert NonDeterminismError.__name__ in rig.failure().type


def test_it_is_found_in_one_branch_before_a_body_runs_in_another(make_rig: MakeRig) -> None:
    def branches(second: Callable[[WorkflowContext, Rig], Any]) -> Code:
        def code(ctx: WorkflowContext, rig: Rig) -> Any:
            def branch(ctx: WorkflowContext, n: int) -> None:
                if n == 0:
                    ctx.sleep(HOUR)
                    ctx.step(charge, rig)
                else:
                    second(ctx, rig)
                    ctx.sleep(2 * HOUR)

            ctx.map(branch, [0, 1], max_concurrency=2)

        return code

    rig = deployed_over(
        make_rig,
        branches(lambda ctx, rig: ctx.step(ship, rig)),
        branches(lambda ctx, rig: ctx.step(ship, rig, name="x")),
    )
    assert rig.effects == {}
    assert rig.run().state == DEAD
    assert "step branch[1]/ship" in rig.failure().message


def test_another_number_of_branches_is_noticed(make_rig: MakeRig) -> None:
    def code(count: int) -> Code:
        def branch(ctx: WorkflowContext, n: int) -> None:
            ctx.sleep(HOUR)

        return lambda ctx, rig: ctx.map(branch, range(count))

    rig = deployed_over(make_rig, code(3), code(2))
    assert rig.run().state == DEAD
    assert "of 3 branches" in rig.failure().message


def test_it_does_not_loop(make_rig: MakeRig) -> None:
    """Permanent, whatever the policy of the workflow says."""
    rig = deployed_over(
        make_rig,
        lambda ctx, rig: ctx.sleep(HOUR),
        lambda ctx, rig: (rig.note("replays"), ctx.step(charge, rig)),
        retry=Retry(max_attempts=50, delay=timedelta()),
    )
    assert rig.effects == {"replays": 1}


def test_code_may_be_added_behind_what_is_recorded(make_rig: MakeRig) -> None:
    def before(ctx: WorkflowContext, rig: Rig) -> Any:
        ctx.step(charge, rig)
        ctx.sleep(HOUR)

    def after(ctx: WorkflowContext, rig: Rig) -> Any:
        before(ctx, rig)
        return ctx.step(ship, rig)

    rig = deployed_over(make_rig, before, after)
    assert rig.result() == "shipped"
    assert rig.effects == {"ship": 1}


def test_what_is_not_recorded_may_change_between_operations(make_rig: MakeRig) -> None:
    """New calls of now, random and uuid shift nothing that was there."""
    seen: list[Any] = []

    def values(ctx: WorkflowContext) -> Any:
        return ctx.now(), ctx.random("a"), ctx.uuid("b"), ctx.dice("c").randrange(1000), ctx.idempotency_key("d")

    def before(ctx: WorkflowContext, rig: Rig) -> None:
        ctx.step(charge, rig)
        seen.append((values(ctx), ctx.random()))
        ctx.sleep(HOUR)

    def after(ctx: WorkflowContext, rig: Rig) -> None:
        ctx.uuid(), ctx.now(), ctx.random("new"), ctx.dice("new")
        ctx.step(charge, rig)
        ctx.uuid("new"), ctx.now()
        seen.append((values(ctx), ctx.random()))
        ctx.sleep(HOUR)

    deployed_over(make_rig, before, after)
    assert len(seen) >= 2
    assert all(one == seen[0] for one in seen)


def test_values_differ_between_runs_and_calls(make_rig: MakeRig) -> None:
    def define(app: App, rig: Rig) -> None:
        @app.workflow(keep_result=DAY)
        def flow(ctx: WorkflowContext) -> list[Any]:
            return [ctx.uuid(), ctx.uuid(), ctx.random(), ctx.random(), *ctx.map(branch, range(2))]

        def branch(ctx: WorkflowContext, _n: int) -> Any:
            return ctx.uuid()

    rig = make_rig(define)
    results = []
    for _ in range(2):
        rig.start("flow")
        rig.finish()
        results += rig.result()
    assert len(set(results)) == len(results)


def test_the_time_is_that_of_the_last_record(make_rig: MakeRig) -> None:
    def define(app: App, rig: Rig) -> None:
        @app.workflow(keep_result=DAY)
        def flow(ctx: WorkflowContext) -> list[Any]:
            times = [ctx.now()]
            rig.clock.advance(timedelta(seconds=3))
            times.append(ctx.now())
            ctx.step(lambda: rig.clock.advance(timedelta(seconds=2)), name="slow")
            times.append(ctx.now())
            ctx.sleep(HOUR)
            times.append(ctx.now())
            return times

    rig = make_rig(define)
    began = rig.clock.now()
    run = rig.outside.app.enqueue(rig.outside.job("flow").using(delay=HOUR))
    rig.notes["run_id"] = run.id
    rig.finish()
    first, second, third, fourth = rig.result()
    assert first == second == began + HOUR, "when it was due"
    assert third == first + timedelta(seconds=5)
    assert fourth == third + HOUR


def test_lines_are_logged_once(make_rig: MakeRig, caplog: pytest.LogCaptureFixture) -> None:
    def define(app: App, rig: Rig) -> None:
        def branch(ctx: WorkflowContext, n: int) -> None:
            ctx.log.info("branch %d begins", n)
            ctx.sleep(n * HOUR)
            ctx.log.info("branch %d ends", n)

        @app.workflow
        def flow(ctx: WorkflowContext) -> None:
            ctx.log.info("begins")
            ctx.step(charge, rig)
            ctx.log.warning("charged in %s", ctx.run_id)
            ctx.sleep(HOUR)
            ctx.log.info("slept")
            ctx.map(branch, [1, 2])
            ctx.wait_event("never", timeout=HOUR, default=None)
            ctx.log.info("ends")

    rig = make_rig(define)
    with caplog.at_level(logging.INFO, logger="dynadurable.job.flow"):
        run = rig.start("flow")
        rig.finish()
    lines = [record.getMessage() for record in caplog.records if record.name == "dynadurable.job.flow"]
    assert sorted(lines) == sorted(set(lines))
    assert lines[:3] == ["begins", f"charged in {run.id}", "slept"]
    assert lines[-1] == "ends"
    assert {getattr(record, "run_id", None) for record in caplog.records if record.name.endswith("flow")} == {run.id}
