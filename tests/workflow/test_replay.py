"""Before a deploy: do the runs under way fit today's code? And how a run got where it is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from dynadurable import App, AsyncWorkflowContext, RunUnknownError, WorkflowContext
from tests.workflow.conftest import MakeRig
from tests.workflow.rig import Rig

DAY, HOUR = timedelta(days=1), timedelta(hours=1)


def version(*names: str, broken: bool = False) -> Callable[[App, Rig], None]:
    """Steps of these names with an hour between them, side by side in a map, and the same on an event loop."""

    def define(app: App, rig: Rig) -> None:
        def body(ctx: WorkflowContext, name: str) -> None:
            ctx.step(rig.note, name, name=name)
            ctx.sleep(HOUR)

        @app.workflow(keep_result=DAY)
        def flow(ctx: WorkflowContext) -> None:
            for name in names:
                body(ctx, name)
            if broken:
                raise OSError("no file")

        @app.workflow(keep_result=DAY)
        def maps(ctx: WorkflowContext) -> None:
            ctx.map(body, names, max_concurrency=2)

        @app.workflow(keep_result=DAY)
        async def awaits(ctx: AsyncWorkflowContext) -> None:
            await asyncio.gather(*(ctx.step(rig.note, name, name=name) for name in names))
            await ctx.sleep(HOUR)

        @app.job(keep_result=DAY)
        def plain() -> None: ...

    return define


@pytest.mark.parametrize("name", ["flow", "maps", "awaits"])
@pytest.mark.parametrize(
    ("now", "outcome"), [(("a", "b"), "fits"), (("b", "a"), "does not fit"), (("x", "b"), "does not fit")]
)
def test_a_run_is_replayed_without_doing_anything(
    make_rig: MakeRig, name: str, now: tuple[str, ...], outcome: str
) -> None:
    rig = make_rig(version("a", "b"))
    run = rig.start(name)
    rig.process().work()
    before, effects = rig.store.items("shop"), rig.effects.copy()
    rig.define = version(*now)
    today = rig.process()
    check = today.app.workflows.check(run.id)
    # What two steps side by side are called in is no order: on an event loop either may come first.
    assert check.outcome == ("fits" if name == "awaits" and now == ("b", "a") else outcome), str(check)
    assert rig.store.items("shop") == before
    assert rig.effects == effects
    assert [one.outcome for one in today.app.workflows.check_live()] == [check.outcome]


def test_the_same_is_asked_on_an_event_loop(make_rig: MakeRig) -> None:
    rig = make_rig(version("a", "b"))
    run_ids = [rig.start(name).id for name in ("flow", "maps", "awaits")]
    worker = rig.process()
    worker.work()

    async def main() -> list[str]:
        checks = [await worker.app.aio.workflows.check(run_id) for run_id in run_ids]
        return [check.outcome for check in checks]

    assert asyncio.run(main()) == ["fits"] * 3


def test_code_that_raises_by_itself_is_told_apart(make_rig: MakeRig) -> None:
    rig = make_rig(version("a"))
    run = rig.start("flow")
    rig.process().work()
    rig.clock.advance(2 * HOUR)
    rig.define = version(broken=True)
    check = rig.process().app.workflows.check(run.id)
    assert not check.is_good
    assert "no file" in str(check)


def test_what_is_no_workflow_is_unknown(make_rig: MakeRig) -> None:
    rig = make_rig(version("a"))
    plain = rig.start("plain")
    assert rig.outside.app.workflows.check(plain.id).outcome == "unknown"
    with pytest.raises(RunUnknownError):
        rig.outside.app.workflows.timeline(plain.id)


def test_the_timeline_tells_what_happened_and_who_did_it(make_rig: MakeRig) -> None:
    def define(app: App, rig: Rig) -> None:
        def flaky() -> None:
            if rig.note("flaky") == 1:
                raise ValueError("no")

        @app.job
        def mail() -> None: ...

        @app.workflow(keep_result=DAY)
        def flow(ctx: WorkflowContext) -> None:
            ctx.step(flaky)
            ctx.map(rig.note, ["x"], name="pack")
            ctx.call(mail)
            ctx.sleep(HOUR)

    rig = make_rig(define)
    run = rig.start("flow")
    worker = rig.process()
    rig.finish(worker, until=timedelta(minutes=5))
    events: list[Any] = list(rig.outside.app.workflows.timeline(run.id))
    assert [(one.kind, one.label, one.state) for one in events] == [
        ("step", "flaky", "done"),
        ("batch", "pack", "done"),
        ("step", "pack[0]/pack", "done"),
        ("child", "mail", "done"),
        ("sleep", "sleep", "began"),
    ]
    assert events[0].tries == 2
    assert events[0].worker == worker.engine.worker_id
    assert events[3].child.startswith("mail@")
    assert events[4].wakes_at == events[4].began_at + HOUR
    assert events[4].to_record()["wakes_at"] == events[4].wakes_at.isoformat()
