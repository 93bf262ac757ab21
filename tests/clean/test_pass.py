"""How a pass is made: at a bounded rate, one at a time, in portions that can be gone on with."""

from __future__ import annotations

import asyncio
import threading
import tracemalloc
from datetime import timedelta
from typing import Any

import pytest

from dynadurable import ConfigurationError, JobContext, LeaseBusyError
from dynadurable.cleaner import CLEANER_LEASE
from dynadurable.model.clean_report import CleanReport
from dynadurable.storage.schema import TableSchema
from dynadurable.testing.clock import ManualClock
from dynadurable.testing.memory import MemoryClient
from tests.bench.endless import Endless
from tests.clean.site import NO_TTL, Site
from tests.clean.test_cleaner import define, job, pointer


@pytest.fixture
def site() -> Site:
    made = Site()
    define(made)
    return made


def fill(site: Site, count: int) -> None:
    """Ended runs that have expired."""
    for number in range(count):
        row = {"pk": {"S": f"run#r{number}@x"}, "sk": {"S": "run"}, "dd_v": {"N": "1"}, "dd_state": {"S": "succeeded"}}
        more = {"dd_gen": {"S": "g"}, "dd_ttl": {"N": "1"}, "dd_job": {"S": "kept"}, "dd_mark": {"S": "m"}}
        whole = {"dd_queue": {"S": "default"}, "dd_shard": {"N": "0"}, "dd_at": {"N": "1"}}
        site.client.put_item(TableName="shop", Item={**row, **more, **whole})


@pytest.mark.parametrize("rate", [10.0, 250.0, 5_000.0])
def test_the_write_rate_is_kept(site: Site, rate: float) -> None:
    fill(site, 500)
    began = site.clock.monotonic()
    times: list[float] = []

    class Timed(MemoryClient):
        def delete_item(self, **request: Any) -> Any:
            times.append(site.clock.monotonic())
            return super().delete_item(**request)

    report = site.make_app(Timed(site.store)).cleaner(rate=rate).run()
    assert report.removed == {"runs": 500}
    seconds = site.clock.monotonic() - began
    assert report.write_units <= rate * seconds + 16
    for second in range(int(seconds)):
        assert sum(second <= at - began < second + 1 for at in times) <= rate + 16


def test_the_read_rate_is_kept(site: Site) -> None:
    for number in range(2_500):
        item = {"pk": {"S": f"user#{number}"}, "sk": {"S": "profile"}, "text": {"S": "x" * 1_000}}
        site.client.put_item(TableName="shop", Item=item)
    report = site.clean(read_rate=20.0)
    assert report.read_units > 300
    assert report.seconds >= (report.read_units - 150) / 20.0


def test_a_pass_says_beforehand_what_it_costs(site: Site) -> None:
    for number in range(1_000):
        item = {"pk": {"S": f"user#{number}"}, "sk": {"S": "profile"}, "text": {"S": "x" * 1_000}}
        site.client.put_item(TableName="shop", Item=item)
    told = site.app.cleaner(read_rate=10.0).estimate()
    assert told.items == 1_000
    assert told.read_units == pytest.approx(site.clean(dry_run=True).read_units, rel=0.02)
    assert told.seconds == told.read_units / 10.0
    assert "1,000 items" in str(told)
    assert not told.resumes


def test_a_dry_run_changes_nothing_and_counts_the_same(site: Site) -> None:
    fill(site, 20)
    site.put(pointer(site))
    site.advance(minutes=11)
    before = site.store.items("shop")
    would = site.clean(dry_run=True)
    assert site.store.items("shop") == before
    assert would.write_units == 0
    assert would.removed == {"runs": 20, "marks": 1}
    assert site.clean().removed == would.removed


def test_only_one_cleaner_is_at_work(site: Site) -> None:
    fill(site, 10)
    with site.app.lease(CLEANER_LEASE, ttl=timedelta(minutes=1)), pytest.raises(LeaseBusyError):
        site.make_app().cleaner().run()
    assert len(site.rows("run")) == 10
    assert site.clean().removed == {"runs": 10}


def test_a_pass_that_is_stopped_is_gone_on_with(site: Site) -> None:
    fill(site, 3_500)
    stopping = threading.Event()
    seen: list[CleanReport] = []

    def progress(report: CleanReport) -> None:
        seen.append(report)
        if report.scanned >= 2_000:
            stopping.set()

    first = site.app.cleaner(rate=100.0).run(stopping=stopping, progress=progress)
    assert not first.finished
    assert [report.scanned for report in seen] == [1_000, 2_000]
    assert site.app.cleaner().estimate().resumes
    second = site.clean()
    assert (second.resumed, second.finished) == (True, True)
    assert second.scanned < 1_600  # not again what was looked at before
    assert first.removed_total + second.removed_total == 3_500
    third = site.clean()
    assert not third.resumed


def test_what_a_newer_cleaner_has_noted_is_not_written_over(site: Site) -> None:
    site.clean()
    [noted] = [row for row in site.store.items("shop") if row["sk"]["S"] == "cleaner"]
    newer = {**noted, "dd_v": {"N": "2"}, "dd_places": {"S": "what is this"}}
    site.client.put_item(TableName="shop", Item=newer)
    fill(site, 10)
    assert not site.app.cleaner().estimate().resumes
    assert site.clean().removed == {"runs": 10}
    assert newer in site.store.items("shop")


def test_an_item_of_the_owner_where_the_cleaner_takes_its_notes_is_not_written_over(site: Site) -> None:
    stranger = {"pk": {"S": "workers"}, "sk": {"S": "cleaner"}, "note": {"S": "mine"}, "dd_v": {"S": "1"}}
    site.client.put_item(TableName="shop", Item=stranger)
    fill(site, 10)
    report = site.clean()
    assert (report.removed, report.finished, report.resumed) == ({"runs": 10}, True, False)
    assert stranger in site.store.items("shop")


@pytest.mark.parametrize("rate", [0, -1, float("nan")])
def test_a_rate_that_cannot_be_kept_is_refused(site: Site, rate: float) -> None:
    with pytest.raises(ConfigurationError, match="rate"):
        site.app.cleaner(rate=rate)
    with pytest.raises(ConfigurationError, match="read_rate"):
        site.app.cleaner(read_rate=rate)


def test_two_apps_in_one_table_clean_up_after_themselves_only() -> None:
    store, clock = Site().store, ManualClock()
    names = ("", "a", "a#", "a%23", "7", "70", "run#", "workers", "käfer 🪲/")
    sites = [
        Site(schema=TableSchema(table="shop", ttl=None, prefix=prefix), store=store, clock=clock) for prefix in names
    ]
    for one in sites:
        define(one)
        one.app.enqueue(job(one, "kept"))
        one.app.enqueue(job(one, "bad_for_ever"))
        one.work()
    clock.advance(timedelta(days=8))
    for done, one in enumerate(sites, start=1):
        assert one.clean().removed == {"runs": 1}
        left = [row for row in store.items(NO_TTL.table) if row.get("dd_state", {}).get("S") == "succeeded"]
        assert len(left) == len(sites) - done
    assert [len(one.app.dead.list()) for one in sites] == [1] * len(sites)


# --- where it runs --------------------------------------------------------------------------------


def test_an_event_loop_cleans_as_well(site: Site) -> None:
    fill(site, 10)

    async def main() -> CleanReport:
        estimate = await site.app.aio.cleaner().estimate()
        assert estimate.items == 10
        assert (await site.app.aio.cleaner(dry_run=True).run()).removed == {"runs": 10}
        async with site.app.aio.lease(CLEANER_LEASE, ttl=timedelta(minutes=1)):
            with pytest.raises(LeaseBusyError):
                await site.app.aio.cleaner().run()
        report = await site.app.aio.cleaner(rate=1_000.0).run()
        await site.app.aio.close()
        return report

    report = asyncio.run(main())
    assert (report.removed, report.finished) == ({"runs": 10}, True)
    assert site.rows() == []


def test_a_job_may_clean_up_and_stops_with_its_worker(site: Site) -> None:
    fill(site, 10)
    reports: list[CleanReport] = []

    @site.app.job
    def tidy(ctx: JobContext, stopped: bool) -> None:
        if stopped:
            ctx.stopping.set()
        reports.append(site.app.cleaner().run(stopping=ctx.stopping))

    site.app.enqueue(tidy, stopped=True)
    site.work()
    assert (reports[0].removed, reports[0].finished) == ({}, False)
    site.app.enqueue(tidy, stopped=False)
    site.work()
    assert reports[-1].removed == {"runs": 10}


# --- much to do -----------------------------------------------------------------------------------


def test_memory_does_not_grow_with_what_there_is_to_remove() -> None:
    site = Site()
    peaks = []
    for count in (1_100, 2_600):
        client = Endless(site.store, count)
        app = site.make_app(client)
        tracemalloc.start()
        report = app.cleaner(rate=100.0).run()
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert client.deleted == report.removed["runs"] == count
        assert report.seconds >= (count - 16) / 100.0
    assert peaks[1] < peaks[0] * 1.2
