"""The sync and the async API are twins: the same names, the same parameters, the same returns."""

from __future__ import annotations

import inspect
import re
import sys
from collections import defaultdict
from functools import cached_property
from typing import Any

import pytest

from dynadurable import AioApp, App, AsyncJobContext, JobContext, Worker

# Definitions are made once, for both.
DEFINING = {"aio", "job", "workflow", "schedule"}
# What one side has alone, and why.
ALONE = {
    "AioApp": {"close"},  # boto3's client needs none
    "App": {"lease_parts", "signal_plans", "workflow_plans"},  # for leases of both sides
    "AsyncJobContext": {"wait_stopping", "loop_driver"},  # an event to await; the plain one has `stopping.wait()`
    "AioLease": {"wait_lost"},  # likewise
}
# Nothing is sent, so there is nothing to await.
AT_ONCE: defaultdict[str, set[str]] = defaultdict(set)
AT_ONCE["AioApp"] = {"transact_items", "transact_models", "run", "worker", "lease", "cleaner", "leader", "ledger"}
AT_ONCE["AioWorker"] = {"wake"}
AT_ONCE["AioLease"] = {"begin"}
# Of a worker only what users call; lanes and the app call the rest.
OF_WORKERS = {"run", "drain", "start", "stop", "wake"}
INTERNAL_PARAMETERS = {"hurry"}


def twin_name(annotation: str) -> str:
    """An annotation of the async side as the sync side has it.

    >>> twin_name("AioRunHandle[Returned]")
    'RunHandle[Returned]'
    """
    return re.sub(r"\b(Aio|Async)(?=[A-Z])", "", str(annotation))


def public(kind: type) -> dict[str, Any]:
    """Public methods and properties, inherited ones too."""
    names = [name for name in dir(kind) if not name.startswith("_") and name != "after_fork"]
    found = {name: inspect.getattr_static(kind, name) for name in names}
    return {
        name: value
        for name, value in found.items()
        if inspect.isfunction(value) or isinstance(value, (property, cached_property))
    }


def returns(member: Any) -> str:
    function = member.func if isinstance(member, cached_property) else getattr(member, "fget", member)
    return str(inspect.signature(function).return_annotation)


def shown(function: Any) -> list[tuple[str, Any, Any, str]]:
    parameters = inspect.signature(function).parameters.values()
    return [
        (one.name, one.kind, one.default, twin_name(one.annotation))
        for one in parameters
        if one.name not in INTERNAL_PARAMETERS
    ]


def twins() -> list[tuple[type, type]]:
    """All pairs that can be reached from the app, by what its members return."""
    found: list[tuple[type, type]] = [(App, AioApp), (JobContext, AsyncJobContext)]
    for sync, aio in found:
        for member in public(aio).values():
            name = returns(member).partition("[")[0]
            other = getattr(sys.modules[aio.__module__], name, None)
            plain = getattr(sys.modules[sync.__module__], twin_name(name), None)
            if name != twin_name(name) and isinstance(other, type) and isinstance(plain, type):
                pair = (plain, other)
                found += [pair] if pair not in found else []
    return found


PAIRS = twins()


def test_the_walk_reaches_every_shell() -> None:
    names = {aio.__name__ for _, aio in PAIRS}
    assert {"AioApp", "AioRunHandle", "AioWorker", "AioDeadLetters", "AioQueues", "AioRuns", "AioWorkers"} <= names


@pytest.mark.parametrize(("sync", "aio"), PAIRS, ids=lambda kind: kind.__name__)
def test_twins_have_the_same_names(sync: type, aio: type) -> None:
    one, other = (set(public(kind)) - ALONE.get(kind.__name__, set()) for kind in (sync, aio))
    one -= DEFINING
    if sync is Worker:
        one &= OF_WORKERS
    assert one == other


@pytest.mark.parametrize(
    ("sync", "aio", "name"),
    [
        pytest.param(sync, aio, name, id=f"{aio.__name__}.{name}")
        for sync, aio in PAIRS
        for name in sorted(public(aio).keys() & public(sync).keys())
    ],
)
def test_twins_have_the_same_signatures(sync: type, aio: type, name: str) -> None:
    one, other = public(sync)[name], public(aio)[name]
    assert twin_name(returns(other)) == returns(one)
    if not inspect.isfunction(one):
        assert type(other) is type(one)
        return
    assert shown(other) == shown(one)
    if other is not one:  # inherited by both
        assert inspect.iscoroutinefunction(other) == (name not in AT_ONCE[aio.__name__])
