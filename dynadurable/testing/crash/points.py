"""Runs a scenario once undisturbed, and then once for every write that it makes and every way it can fail."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

from dynadurable.app import App
from dynadurable.model import codec
from dynadurable.storage.keys import RUN_SORT_KEY
from dynadurable.testing.backend import backend
from dynadurable.testing.crash.client import LOSSES, CrashingClient, ProcessDied, Write
from dynadurable.testing.crash.report import Crash, CrashReport, Ending, compare
from dynadurable.testing.kit import Kit, kit

PAST_EVERY_LEASE = timedelta(minutes=10)

Scenario = Callable[[Kit], object]


def crash_points(scenario: Scenario, app: App, *, losses: Sequence[str] = LOSSES) -> CrashReport:
    """Crash the scenario at every write it makes, and see whether everything still ends the same.

    ``scenario(kit)`` does what is to be tested: calls the code that enqueues, and ``kit.run_until_idle(...)``. It is
    called once for each crash, on a fresh table, in memory. After a crash a fresh process works off what is pending.
    Note side effects on the outside world with ``kit.effect("charge")`` in your fakes: the report names those that were
    seen twice. The report is a list of the crashes, too.

    >>> report = crash_points(place_one_order, shop.app)  # doctest: +SKIP
    >>> report.assert_same_end()  # doctest: +SKIP
    >>> report.assert_no_effect_twice()  # doctest: +SKIP
    >>> for crash in crash_points(place_one_order, shop.app):  # doctest: +SKIP
    ...     print(crash)
    """
    writes, undisturbed = _undisturbed(scenario, app)
    report = CrashReport(undisturbed=undisturbed, writes=writes)
    for write in writes:
        for loss in losses:
            report.crashes.append(_crash(scenario, app, undisturbed, write, loss))
    return report


def _undisturbed(scenario: Scenario, app: App) -> tuple[list[Write], Ending]:
    with _stage(app) as (tools, client):
        scenario(tools)
        tools.run_until_idle(skip_time=True)
        writes = list(client.writes)
        return writes, _ending(tools)


def _crash(scenario: Scenario, app: App, undisturbed: Ending, write: Write, loss: str) -> Crash:
    with _stage(app, at=write.number, loss=loss) as (tools, client):
        in_caller, error = False, ""
        try:
            scenario(tools)
        except ProcessDied:
            in_caller = not tools.is_working
        except Exception as raised:  # noqa: BLE001 - whatever a crash makes the code under test raise is the finding
            error = f"{type(raised).__name__}: {raised}"
        client.revive()
        tools.is_working = False
        tools.clock.advance(PAST_EVERY_LEASE)
        tools.run_until_idle(skip_time=True)
        found = client.writes[write.number - 1] if len(client.writes) >= write.number else write
        compared = compare(undisturbed, _ending(tools), in_caller=in_caller)
        return Crash(write=found, loss=loss, error=error, **compared)


@contextmanager
def _stage(app: App, *, at: int | None = None, loss: str | None = None) -> Any:
    with backend("memory", schema=app.schema) as made:
        client = CrashingClient(made.client, at=at, loss=loss)
        with kit(app, replace(made, client=client), shards=1) as tools, suppress(ProcessDied):
            client.doing = lambda: tools.doing
            yield tools, client


def _ending(tools: Kit) -> Ending:
    raw = tools.all_items()
    return Ending(
        own_items=tuple(sorted(repr(item) for item in raw if "dd_v" not in item)),
        runs=tuple(sorted(_run_shown(tools, item) for item in raw if _is_run(tools, item))),
        pending=len(tools.enqueued),
        bodies=tools.bodies,
        effects=tools.effects.copy(),
    )


def _is_run(tools: Kit, item: dict[str, Any]) -> bool:
    return "dd_v" in item and bool(item[tools.app.schema.sort_key]["S"] == RUN_SORT_KEY) and _matters(item)


def _matters(item: dict[str, Any]) -> bool:
    """A plain run that succeeded after a failure leaves an item for a while, one that did not leaves none."""
    return item["dd_state"]["S"] != "succeeded" or "dd_keep" in item or "dd_key" in item


def _run_shown(tools: Kit, item: dict[str, Any]) -> str:
    run = tools.app.items.run.from_raw_data(item)
    result = "" if run.result is None else f" with {codec.decode(run.result)!r}"
    return f"{run.job} {run.state}{result}"
