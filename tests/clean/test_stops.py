"""The cleaner is stopped after every one of its writes: lost or applied, and it dies there or goes on.

Another one then goes on, workers work, and in the end the table says the same as after an undisturbed pass.
"""

from __future__ import annotations

import contextlib
import random
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from dynadurable import App, Fail
from dynadurable.clock import UniqueIds
from dynadurable.model.clean_report import CleanReport
from dynadurable.storage.keys import mark_sort_key, page_sort_key, queue_partition, run_partition
from dynadurable.testing.memory import MemoryClient
from tests.clean.site import Raw, Site
from tests.integration.stepping import Died, Fault, FaultyClient, Meter

UNIQUE = re.compile(r"[0-9a-z]{22}|#[0-9a-z]{8}\.\d+")
KINDS = {"runs", "pages", "marks", "dead letters", "workers"}


def define(app: App, effects: list[str]) -> None:
    @app.job(keep_result=timedelta(days=7))
    def kept(name: str) -> bytes:
        effects.append(name)
        return random.Random(1).randbytes(6_000)

    @app.job(keep_failed=timedelta(days=3))
    def bad() -> None:
        raise Fail("no")


def littered(effects: list[str]) -> Site:
    """A table with something of every kind to do, beside what must not be touched."""
    site = Site()
    define(site.app, effects)
    kept, bad = (site.app.registry.get(name) for name in ("kept", "bad"))
    assert kept is not None
    assert bad is not None
    site.app.enqueue(kept, name="expired")
    site.app.enqueue(bad)
    site.work()
    site.app.worker(queues=["default"]).registrar.beat()
    site.advance(days=7, hours=12)
    ended = site.app.enqueue(kept.using(key="ended"), name="ended")
    dead = site.app.enqueue(bad.using(key="dead"))
    site.work()
    litter(site, ended.id, dead.id)
    site.app.enqueue(kept.using(key="live"), name="live")
    site.app.enqueue(kept.using(key="lost"), name="lost")
    site.edit(lambda row: None if "dd_gen" in row and "lost" in lost_of(site, row) else row, kind="queue")
    site.app.enqueue(kept.using(key="later", delay=timedelta(days=30)), name="later")
    site.advance(hours=2)
    return site


def lost_of(site: Site, mark: Raw) -> str:
    """The key of the run that a mark points to."""
    named = [run for run in site.rows("run") if run.get("dd_mark") == mark["sk"]]
    return str(named[0]["dd_key"]["S"]) if named else ""


def litter(site: Site, ended_id: str, dead_id: str) -> None:
    items, now_ms = site.items, site.clock.now_ms()
    old = UniqueIds().make(now_ms - 200_000_000)
    runs = {row["pk"]["S"]: row for row in site.rows("run") if row["sk"]["S"] == "run"}
    ended, dead = (runs[run_partition(site.schema, run_id)] for run_id in (ended_id, dead_id))
    due = mark_sort_key(now_ms, "kept@nobody", place="p.0")
    pk = queue_partition(site.schema, "default", 0)
    site.put(items.mark(pk=pk, sk=due, job="kept", generation=old, placed_ms=now_ms))
    left = {"job": "bad", "generation": dead["dd_gen"]["S"], "placed_ms": now_ms}
    site.put(items.mark(pk=pk, sk=dead["dd_mark"]["S"], **left))
    site.put(items.page(pk="run#kept@nobody", sk=page_sort_key(old, 1, "1"), body=b"stray"))
    site.put(items.page(pk=ended["pk"]["S"], sk=page_sort_key(ended["dd_gen"]["S"], 1, "1"), body=b"sealed"))
    [letter] = [row for row in site.rows("dead") if row["dd_gen"] == dead["dd_gen"]]
    stale = {**letter, "sk": {"S": mark_sort_key(1, "bad@nobody")}}
    site.client.put_item(TableName="shop", Item=stale)


def cleaned(site: Site, client: Any = None) -> CleanReport:
    return site.make_app(client).cleaner().run()


def end_of(site: Site, effects: list[str]) -> dict[str, Any]:
    """What is there in the end, and what was done: leases and the like apart."""
    stored = [row for row in site.rows() if not row["pk"]["S"].startswith("lease#")]
    for row in stored:
        row.pop("dd_vouched", None)  # how often a mark was made sure of
    before = sorted((row["pk"]["S"], UNIQUE.sub("", row["sk"]["S"]), sorted(row)) for row in stored)
    site.work()
    return {"stored": before, "effects": sorted(effects), "letters": len(site.app.dead.list())}


Outcome = tuple[dict[str, Any], set[str]]


def undisturbed() -> tuple[dict[str, Any], CleanReport, int]:
    effects: list[str] = []
    site = littered(effects)
    client = FaultyClient(MemoryClient(site.store), Meter(None))
    report = cleaned(site, client)
    return end_of(site, effects), report, client.writes


def end_with(fault: Fault, then: Callable[[Site], None]) -> dict[str, Any]:
    effects: list[str] = []
    site = littered(effects)
    client = FaultyClient(MemoryClient(site.store), Meter(fault))
    with contextlib.suppress(Died):
        cleaned(site, client)
    assert client.fault_met, str(fault)
    site.advance(minutes=2)  # the lease of the dead one is over
    then(site)
    assert cleaned(site).finished
    return end_of(site, effects)


def test_an_undisturbed_pass_does_something_of_every_kind() -> None:
    _, report, writes = undisturbed()
    assert set(report.removed) == KINDS
    assert (report.stamped, report.restored, report.left) == (1, 1, 0)
    assert writes >= 12


@pytest.mark.parametrize("works", [False, True], ids=["", "workers work in between"])
@pytest.mark.parametrize("applied", [False, True], ids=["lost", "applied"])
@pytest.mark.parametrize("dies", [False, True], ids=["goes on", "dies"])
def test_a_stop_after_any_write_ends_as_an_undisturbed_pass(applied: bool, dies: bool, works: bool) -> None:
    expected, _, writes = undisturbed()
    for nth in range(1, writes + 1):
        end = end_with(Fault(nth=nth, applied=applied, dies=dies), Site.work if works else lambda _: None)
        if works:  # what they have ended is there in its ended form
            assert (end["effects"], end["letters"]) == (expected["effects"], expected["letters"])
        else:
            assert end == expected, nth


# --- the doctor ------------------------------------------------------------------------------------


def repaired(site: Site, client: Any = None) -> set[str]:
    """What the doctor has put right."""
    found = site.make_app(client).doctor.examine(queues=["default"], repair=True)
    return {finding.check for finding in found.findings if finding.repaired}


def after_repair(fault: Fault | None, then: Callable[[Site], None] = lambda _: None) -> tuple[Any, ...]:
    effects: list[str] = []
    site = littered(effects)
    client = FaultyClient(MemoryClient(site.store), Meter(fault))
    with contextlib.suppress(Died):
        repaired(site, client)
    site.advance(minutes=2)
    then(site)
    repaired(site)
    calm = site.rows()
    assert repaired(site) == set()  # it is all done, and doing it again does nothing
    assert site.rows() == calm
    end = end_of(site, effects)
    return client.writes, end["effects"], end["letters"], [UNIQUE.sub("", pk) for pk, _, _ in end["stored"]]


def test_a_repair_puts_right_what_there_is() -> None:
    assert repaired(littered([])) == {"marks", "dead letters"}


@pytest.mark.parametrize("works", [False, True], ids=["", "workers work in between"])
def test_a_repair_that_stops_at_any_write_is_done_by_the_next_one(works: bool) -> None:
    writes, *expected = after_repair(None)
    for nth in range(1, writes + 1):
        applied, dies = ((False, True), (True, True), (True, False))[nth % 3]
        fault = Fault(nth=nth, applied=applied, dies=dies)
        _, *end = after_repair(fault, Site.work if works else lambda _: None)
        assert end[: 2 if works else 3] == expected[: 2 if works else 3], str(fault)
