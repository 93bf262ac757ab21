# pyright: reportUnnecessaryTypeIgnoreComment=true
"""User code as type checkers and tools see it; mypy and pyright read this file, and a needless ignore is an error."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import ParamSpec, TypeVar, assert_type

import pytest

from dynadurable import App, AsyncJobContext, JobContext, Retry, RunHandle
from dynadurable.errors import InputRefusedError

Params = ParamSpec("Params")
Returned = TypeVar("Returned")

app = App("shop", region="us-east-1")


@dataclass
class Order:
    number: int


def counted(function: Callable[Params, Returned]) -> Callable[Params, Returned]:
    @functools.wraps(function)
    def call(*args: Params.args, **kwargs: Params.kwargs) -> Returned:
        return function(*args, **kwargs)

    return call


@app.job
def plain(number: int, step: int = 1) -> int:
    """Add a step.

    >>> plain(1)
    2
    """
    return number + step


@app.job(queue="orders", retry=Retry(max_attempts=8))
def ship(ctx: JobContext, order: Order, *, to: str) -> Order:
    ctx.checkpoint(to)
    return order


@app.job
async def fetch(ctx: AsyncJobContext, url: str) -> bytes:
    await ctx.checkpoint(url)
    return b""


@app.job
@counted
def decorated(ctx: JobContext, number: int) -> str:
    return f"{ctx.run_id} {number}"


def handles_know_what_their_job_returns() -> None:
    """Only for type checkers."""
    assert_type(app.enqueue(plain, 1), RunHandle[int])
    assert_type(app.enqueue(ship, Order(1), to="here").result(), Order)
    assert_type(app.enqueue(ship.using(key="k", delay=timedelta(days=1)), Order(1), to="here"), RunHandle[Order])
    assert_type(app.enqueue(fetch, "http://"), RunHandle[bytes])
    assert_type(app.enqueue(decorated, 1), RunHandle[str])
    assert_type(app.enqueue_many([plain.call(1)]), list[RunHandle[int]])
    assert_type(app.transact_items(plain, 1).run_id, str)
    assert_type(app.transact_models(plain, 1).run_id, str)


async def the_async_side_too() -> None:
    """Only for type checkers."""
    assert_type(await (await app.aio.enqueue(ship, Order(1), to="here")).result(), Order)
    assert_type(await fetch("http://"), bytes)


def test_a_call_that_does_not_fit_is_an_error_for_type_checkers_and_refused_at_once() -> None:
    with pytest.raises(InputRefusedError):
        app.enqueue(plain, wrong=1)  # type: ignore[call-arg]
    with pytest.raises(InputRefusedError):
        app.enqueue(ship, Order(1))  # type: ignore[call-arg]
    with pytest.raises(InputRefusedError):
        app.enqueue(ship.using(queue="other"), Order(1), to="here", wrong=1)  # type: ignore[call-arg]
    with pytest.raises(InputRefusedError):
        app.transact_items(fetch)  # type: ignore[call-arg]
    with pytest.raises(InputRefusedError):
        app.enqueue(decorated)  # type: ignore[call-arg]
    with pytest.raises(InputRefusedError):
        plain.using(delay=3)  # type: ignore[arg-type]


def test_tools_see_the_function_behind_a_job() -> None:
    assert str(inspect.signature(plain)) == "(number: 'int', step: 'int' = 1) -> 'int'"
    assert inspect.unwrap(plain).__doc__ == plain.function.__doc__
    assert repr(ship) == "<Job 'ship' of queue 'orders'>"
    assert repr(fetch) == "<AsyncJob 'fetch' of queue 'default'>"
