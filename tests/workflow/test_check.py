"""The check of workflows' code: what it finds, and what it leaves alone."""

from __future__ import annotations

import asyncio
import datetime as dates  # noqa: ICN001 - under whichever name
import os
import random
import time
import uuid
from datetime import UTC, datetime, timedelta
from datetime import datetime as dt
from random import randint
from time import sleep as doze
from typing import Any

import pytest

from dynadurable import App, AsyncWorkflowContext, WorkflowContext
from dynadurable.testing.determinism import assert_deterministic
from dynadurable.workflow.check import Finding, check_workflows

# What follows is read, never run.
# ruff: noqa: TID251, DTZ005, DTZ011, C416


def found_in(function: Any) -> list[Finding]:
    app = App("never reached")
    app.workflow(function)
    return check_workflows(app.registry.jobs())


def clock(ctx: WorkflowContext) -> Any:
    return datetime.now(UTC)


def aliased(ctx: WorkflowContext) -> Any:
    return dt.now(), dates.date.today()


def stopwatch(ctx: WorkflowContext) -> Any:
    return time.time(), time.monotonic()


def naps(ctx: WorkflowContext) -> None:
    doze(1)


def throws(ctx: WorkflowContext) -> Any:
    return random.random(), randint(1, 6), random.choice([1, 2])


def names(ctx: WorkflowContext) -> Any:
    return uuid.uuid4()


def environment(ctx: WorkflowContext) -> Any:
    return os.environ["HOME"], os.getenv("HOME"), os.environ.get("HOME")


def files(ctx: WorkflowContext) -> Any:
    with open("x") as file:  # noqa: PTH123
        return file.read()


def sets(ctx: WorkflowContext, things: list[str]) -> None:
    for thing in set(things):
        ctx.step(print, thing)


def named_sets(ctx: WorkflowContext, things: list[str]) -> Any:
    kinds = {thing[0] for thing in things}
    return [kind for kind in kinds], list(kinds)


async def awaits(ctx: AsyncWorkflowContext) -> None:
    await asyncio.sleep(1)
    await asyncio.to_thread(print)


def helper() -> Any:
    return deeper()


def deeper() -> Any:
    return time.time()


def calls_a_helper(ctx: WorkflowContext) -> Any:
    return helper()


def branches(ctx: WorkflowContext) -> None:
    def branch(ctx: WorkflowContext, n: int) -> float:
        return n + random.random()

    ctx.map(branch, range(3))


@pytest.mark.parametrize(
    ("function", "count", "words"),
    [
        (clock, 1, "datetime.datetime.now reads the clock"),
        (aliased, 2, "reads the clock"),
        (stopwatch, 2, "ctx.now()"),
        (naps, 1, "ctx.sleep()"),
        (throws, 3, "ctx.random()"),
        (names, 1, "uuid.uuid4"),
        (environment, 3, "environment"),
        (files, 1, "file"),
        (sets, 1, "order of a set"),
        (named_sets, 2, "order of a set"),
        (awaits, 2, ""),
        (calls_a_helper, 1, "time.time"),
        (branches, 1, "random"),
    ],
)
def test_it_finds(function: Any, count: int, words: str) -> None:
    found = found_in(function)
    # Findings of one kind on one line are one finding where they read the same.
    assert 1 <= len(found) <= count
    assert any(words in str(one) for one in found)
    assert all(one.file == __file__ for one in found)


def test_it_names_file_and_line() -> None:
    [finding] = found_in(clock)
    assert finding.line == clock.__code__.co_firstlineno + 1
    assert finding.workflow == "clock"
    assert str(finding).startswith(f"{__file__}:{finding.line}: ")


# --- and leaves alone -----------------------------------------------------------------------------


def in_steps(ctx: WorkflowContext) -> Any:
    def charge() -> float:
        return time.time()

    ctx.step(charge)
    ctx.step(deeper)
    ctx.step(lambda: random.random(), name="dice")
    ctx.step(uuid.uuid4, compensate=lambda _: os.getenv("HOME"))
    ctx.on_failure(lambda: time.sleep(1), name="nap")
    ctx.wait_for(lambda: os.environ.get("READY"), every=timedelta(seconds=1), name="ready")
    ctx.map(lambda n: n * random.random(), range(3), name="map")
    ctx.parallel(("a", lambda: time.time()), charge)
    return ctx.group(part)


def part(ctx: WorkflowContext) -> float:
    return ctx.step(time.time)


def same_on_replay(ctx: WorkflowContext, things: set[str]) -> Any:
    dice = random.Random(5)
    now = ctx.now()
    later = datetime(2027, 1, 1, tzinfo=UTC) + timedelta(days=1)
    text = now.strftime("%Y")
    known = {1, 2}
    return [dice.random(), later, text, 1 in known, len(known), sorted({"b", "a"}), uuid.UUID(int=5), max(things)]


def own_names(ctx: WorkflowContext, time: Any, random: Any) -> Any:
    def now() -> int:
        return 5

    return now(), time.time(), random.random()


async def gathers(ctx: AsyncWorkflowContext) -> Any:
    return await asyncio.gather(ctx.step(time.time), ctx.sleep(timedelta(seconds=1)))


@pytest.mark.parametrize("function", [in_steps, same_on_replay, own_names, gathers])
def test_it_leaves_alone(function: Any) -> None:
    assert found_in(function) == []


def test_plain_jobs_are_free_to_do_as_they_like() -> None:
    app = App("never reached")

    @app.job
    def job() -> float:
        return time.time()

    assert check_workflows(app.registry.jobs()) == []


def test_a_users_test_fails_with_file_and_line() -> None:
    app = App("never reached")
    app.workflow(in_steps)
    assert_deterministic(app)
    app.workflow(clock)
    with pytest.raises(AssertionError, match=r"test_check\.py:\d+: datetime\.datetime\.now reads the clock"):
        assert_deterministic(app)
