"""``async def`` workflows: what could not be replayed is refused, and code that does not fit its journal is noticed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from dynadurable import AsyncWorkflowContext, Retry
from dynadurable.errors import NotReplayableError
from dynadurable.storage.items import DEAD
from tests.workflow.conftest import MakeRig
from tests.workflow.rig import Rig
from tests.workflow.test_async import Code, do, finished, flow_of

HOUR = timedelta(hours=1)

# --- what could not be replayed is refused --------------------------------------------------------


async def sleeps(ctx: AsyncWorkflowContext) -> None:
    await asyncio.sleep(1)


async def times_out(ctx: AsyncWorkflowContext) -> None:
    async with asyncio.timeout(5):
        await ctx.sleep(HOUR)


async def waits_for(ctx: AsyncWorkflowContext) -> None:
    await asyncio.wait_for(asyncio.ensure_future(ctx.sleep(HOUR)), 5)


async def uses_threads(ctx: AsyncWorkflowContext) -> None:
    await asyncio.to_thread(print)


async def uses_the_network(ctx: AsyncWorkflowContext) -> None:
    await asyncio.open_connection("localhost", 1)


async def waits_for_nothing(ctx: AsyncWorkflowContext) -> None:
    await asyncio.get_running_loop().create_future()


async def uses_ctx_in_a_step(ctx: AsyncWorkflowContext) -> None:
    async def step() -> None:
        await ctx.sleep(HOUR)

    await ctx.step(step, retry=Retry.none())


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (sleeps, "use ctx.sleep"),
        (times_out, "use ctx.now"),
        (waits_for, "ctx."),
        (uses_threads, "do it in a step"),
        (uses_the_network, "do it in a step"),
        (waits_for_nothing, "nothing in it will bring about"),
        (uses_ctx_in_a_step, "cannot be used inside a step"),
    ],
)
def test_what_is_not_replayed_is_refused(
    make_rig: MakeRig, code: Callable[[AsyncWorkflowContext], Any], words: str
) -> None:
    rig = finished(make_rig, lambda ctx, rig: code(ctx))
    assert rig.run().state == DEAD
    assert words in rig.failure().message
    assert NotReplayableError.__name__ in rig.failure().type or code is uses_ctx_in_a_step


# --- determinism ----------------------------------------------------------------------------------


def changed(make_rig: MakeRig, before: Code, after: Code) -> Rig:
    rig = make_rig(flow_of(before))
    rig.start("flow")
    rig.process().work()
    rig.effects.clear()
    rig.define = flow_of(after)
    rig.finish()
    return rig


@pytest.mark.parametrize(
    ("after", "words"),
    [
        (lambda ctx, rig: ctx.step(do, rig, 2, name="b"), "come to step b"),
        (
            lambda ctx, rig: asyncio.gather(ctx.step(do, rig, 2, name="b"), ctx.sleep(HOUR)),
            "come to step b, sleep sleep",
        ),
        (lambda ctx, rig: asyncio.sleep(0), "come to the end"),
        (lambda ctx, rig: ctx.step(do, rig, 1, name="a"), "sleep sleep"),
    ],
)
def test_code_that_does_not_fit_its_journal(make_rig: MakeRig, after: Any, words: str) -> None:
    async def before(ctx: AsyncWorkflowContext, rig: Rig) -> None:
        await ctx.step(do, rig, 1, name="a")
        await ctx.sleep(HOUR)

    async def later(ctx: AsyncWorkflowContext, rig: Rig) -> None:
        try:
            await after(ctx, rig)
        except Exception:  # noqa: BLE001 - as some code does
            rig.note("swallowed")

    rig = changed(make_rig, before, later)
    assert rig.effects == {}
    assert rig.run().state == DEAD
    assert "NonDeterminismError" in rig.run().error
    assert words in rig.failure().message


def test_lines_are_logged_once(make_rig: MakeRig, caplog: pytest.LogCaptureFixture) -> None:
    async def code(ctx: AsyncWorkflowContext, rig: Rig) -> None:
        ctx.log.info("begins")
        await ctx.step(do, rig, 1)
        ctx.log.info("did")
        await ctx.sleep(HOUR)
        ctx.log.info("slept")
        await ctx.wait_event("never", timeout=HOUR, default=None)
        ctx.log.info("ends")

    with caplog.at_level(logging.INFO, logger="dynadurable.job.flow"):
        finished(make_rig, code)
    lines = [record.getMessage() for record in caplog.records if record.name == "dynadurable.job.flow"]
    assert lines == ["begins", "did", "slept", "ends"]
