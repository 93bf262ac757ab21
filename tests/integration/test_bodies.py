"""Bodies that do what bodies should not: the worker survives or leaves as it must, and no run is left behind held."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from dynadurable import App, Interrupted, JobContext, Retry
from dynadurable.errors import LeaseLostError
from dynadurable.testing.clock import ManualClock

ItemsIn = Callable[[App], list[dict[str, Any]]]
TWICE = Retry(max_attempts=2, delay=timedelta())


def raising(error: BaseException) -> Callable[[], None]:
    def body() -> None:
        raise error

    return body


def generator() -> Iterator[int]:
    yield 1


async def async_generator() -> AsyncIterator[int]:
    yield 1


def endless() -> None:
    endless()


def ends(app: App, items_in: ItemsIn) -> list[tuple[str, str]]:
    """State and error of each run item."""
    found = [item for item in items_in(app) if "dd_state" in item]
    return [(item["dd_state"]["S"], item.get("dd_error", {}).get("S", "")) for item in found]


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (generator, "ConfigurationError: job 'work' returned a generator"),
        (async_generator, "ConfigurationError: job 'work' returned a generator"),
        (lambda: asyncio.sleep(0), "ConfigurationError: job 'work' looks like a plain function"),
        (endless, "RecursionError"),
        (raising(MemoryError()), "MemoryError"),
        (raising(StopIteration(1)), "RuntimeError: the body let out StopIteration"),
        (raising(GeneratorExit()), "RuntimeError: the body let out GeneratorExit"),
        (raising(StopAsyncIteration(1)), "StopAsyncIteration"),
        (raising(asyncio.CancelledError()), "BodyCancelledError"),
        (raising(ExceptionGroup("both", [ValueError("a"), KeyError("b")])), "ExceptionGroup: both"),
        (raising(LeaseLostError("made up")), "LeaseLostError: made up"),
    ],
)
def test_whatever_a_body_lets_out_is_a_failure_with_its_name(
    app: App, items_in: ItemsIn, body: Callable[[], Any], error: str
) -> None:
    """Also what would mean something to the machinery around it, and what returns its work instead of doing it."""
    work = app.job(name="work", retry=TWICE)(lambda: body())
    app.enqueue(work)
    for _ in range(2):
        app.worker(concurrency=1).drain()
    [(state, said)] = ends(app, items_in)
    assert state == "dead"
    assert error in said


@pytest.mark.parametrize(
    "error",
    [
        SystemExit(0),
        KeyboardInterrupt(),
        BaseExceptionGroup("leaving", [SystemExit(1)]),
        type("OfTheirOwn", (BaseException,), {})(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_is_no_exception_leaves_the_worker_and_the_run_is_handed_back(
    app: App, items_in: ItemsIn, error: BaseException
) -> None:
    """PUB-05, and PUB-09: it uses an attempt, so that a body which always leaves does not do so for ever."""
    work = app.job(name="work", retry=TWICE)(raising(error))
    app.enqueue(work)
    for _ in range(2):
        with pytest.raises(type(error)):
            app.worker(concurrency=1).drain()
        assert all("dd_token" not in item for item in items_in(app))
    app.worker(concurrency=1).drain()
    assert [state for state, _ in ends(app, items_in)] == ["dead"]


def test_a_body_that_says_it_was_interrupted_although_it_was_not_uses_its_attempts(
    app: App, clock: ManualClock, items_in: ItemsIn
) -> None:
    starts: list[int] = []

    @app.job(retry=TWICE)
    def work(ctx: JobContext) -> None:
        starts.append(ctx.attempt)
        raise Interrupted("nobody asked")

    app.enqueue(work)
    for _ in range(4):
        app.worker(concurrency=1).drain()
    assert starts == [1, 2]
    assert [state for state, _ in ends(app, items_in)] == ["dead"]


def leave(how: str) -> None:
    if how == "exit":
        sys.exit(3)
    if how == "error":
        raise ValueError("in the child")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.parametrize(("how", "code"), [("return", 0), ("exit", 3), ("error", 1)])
def test_a_child_that_a_body_forks_never_acts_as_the_worker(app: App, items_in: ItemsIn, how: str, code: int) -> None:
    """It would end or hand back the run of its parent, which is still at it."""
    seen: list[tuple[int, list[str | None]]] = []

    @app.job
    def work(ctx: JobContext) -> None:
        child = os.fork()
        if child == 0:
            leave(how)
            return
        _, status = os.waitpid(child, 0)
        seen.append((os.waitstatus_to_exitcode(status), [item.get("dd_token", {}).get("S") for item in items_in(app)]))
        ctx.checkpoint("the parent still holds it")

    app.enqueue(work)
    app.worker(concurrency=1).drain()
    [(exit_code, tokens)] = seen
    assert exit_code == code
    assert None not in tokens
    assert items_in(app) == []


def test_a_hook_that_raises_changes_nothing(app: App, items_in: ItemsIn) -> None:
    def hook(event: str, job: str, run_id: str) -> None:
        raise SystemExit(event)

    app.enqueue(app.job(name="work")(lambda: None))
    assert app.worker(hook=hook).drain() is None
    assert items_in(app) == []


def test_logging_that_raises_changes_nothing(make_app: Callable[..., App], items_in: ItemsIn) -> None:
    """A log line is written in the middle of things: nothing there may end by it."""

    def broken(record: logging.LogRecord) -> bool:
        raise RuntimeError(record.getMessage())

    app, older = make_app(), make_app()
    older.enqueue(older.job(name="retired")(lambda: None))
    app.enqueue(app.job(name="work", retry=TWICE)(raising(ValueError("no"))))
    logger = logging.getLogger("dynadurable.worker")
    logger.addFilter(broken)
    try:
        for _ in range(2):
            app.worker(concurrency=1).drain()
    finally:
        logger.removeFilter(broken)
    assert ends(app, items_in) == [("dead", "ValueError: no")]


def test_a_context_that_outlives_its_body_writes_nothing(app: App, items_in: ItemsIn) -> None:
    kept: list[JobContext] = []
    app.enqueue(app.job(name="work")(lambda ctx: kept.append(ctx)))
    app.worker(concurrency=1).drain()
    with pytest.raises(LeaseLostError):
        kept[0].checkpoint("late")
    assert items_in(app) == []


def test_threads_of_a_body_share_its_context(app: App) -> None:
    seen: list[Any] = []

    @app.job
    def work(ctx: JobContext) -> None:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(ctx.checkpoint, range(8)))
        seen.append(ctx.cursor)

    app.enqueue(work)
    app.worker(concurrency=1).drain()
    assert seen[0] in range(8)


def test_a_result_that_nests_as_deep_as_the_interpreter_allows_is_refused_by_name(app: App, items_in: ItemsIn) -> None:
    nested: list[Any] = []
    for _ in range(sys.getrecursionlimit() * 2):
        nested = [nested]
    app.enqueue(app.job(name="work", retry=TWICE, keep_result=timedelta(days=1))(lambda: nested))
    app.worker(concurrency=1).drain()
    [(state, said)] = ends(app, items_in)
    assert state == "dead"
    assert "result" in said
