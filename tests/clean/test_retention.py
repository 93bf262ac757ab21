"""How long what has ended stays: by job, by app, and for workflows their history."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

import pytest

from dynadurable import ConfigurationError, Fail, Retry, RunExpiredError, RunUnknownError, WorkflowContext
from dynadurable.storage.schema import TableSchema
from tests.clean.site import Site

DAY = 86_400
ENDED_AT = 1_800_014_400
SCHEMAS = [
    TableSchema(table="shop"),
    TableSchema(table="own-keys", partition_key="PK", sort_key="SK", ttl="expires", prefix="7/"),
    TableSchema(table="shop", ttl=None),
]


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda schema: schema.ttl_attribute)
def test_ttl_is_a_whole_number_of_seconds_on_what_has_ended(schema: TableSchema) -> None:
    """PUB-50: also under the table's own name for it, or our own where the table's belongs to something else."""
    site = Site(schema=schema)

    @site.app.job(keep_result=timedelta(days=7))
    def kept() -> int:
        return 1

    run = site.app.enqueue(kept.using(key="sync-7"))
    assert all(schema.ttl_attribute not in row for row in site.rows())
    site.work()
    [row] = site.rows("run")
    assert row[schema.ttl_attribute] == {"N": "1800619200"}
    site.advance(days=8)
    for ask in (run.status, run.result, run.info):
        with pytest.raises(RunExpiredError):
            ask()
    again = site.app.enqueue(kept.using(key="sync-7"))
    assert again.status() == "pending"
    site.work()
    assert again.result() == 1


def ttl_of(site: Site, kind: str) -> list[int | None]:
    return [int(row["dd_ttl"]["N"]) - ENDED_AT if "dd_ttl" in row else None for row in site.rows(kind)]


def test_what_the_app_says_holds_where_the_job_says_nothing() -> None:
    site = Site(options={"keep_result": timedelta(days=2), "keep_failed": timedelta(days=5)})

    @site.app.job
    def quiet() -> None: ...

    @site.app.job(keep_result=timedelta(days=1))
    def own() -> None: ...

    site.app.enqueue(quiet)
    site.work()
    assert ttl_of(site, "run") == [2 * DAY]
    site.edit(lambda _: None, kind="run")
    site.app.enqueue(own)
    site.work()
    assert ttl_of(site, "run") == [DAY]


def test_a_job_may_keep_no_result_although_the_app_says_so() -> None:
    site = Site(options={"keep_result": timedelta(days=2)})

    @site.app.job(keep_result=timedelta())
    def nothing() -> None: ...

    run = site.app.enqueue(nothing)
    site.work()
    assert site.rows() == []
    with pytest.raises(RunUnknownError):
        run.status()


@pytest.mark.parametrize(("keep_failed", "ttl"), [(None, 5 * DAY), (timedelta(hours=1), 3_600)])
def test_dead_letters_and_their_runs_expire_together(keep_failed: timedelta | None, ttl: int) -> None:
    site = Site(options={"keep_failed": timedelta(days=5)})

    @site.app.job(retry=Retry.none(), keep_failed=keep_failed)
    def bad() -> None:
        raise Fail("no")

    site.app.enqueue(bad)
    site.work()
    assert ttl_of(site, "run") == ttl_of(site, "dead") == [ttl]


def test_without_a_word_dead_letters_stay() -> None:
    site = Site()

    @site.app.job(retry=Retry.none())
    def bad() -> None:
        raise Fail("no")

    site.app.enqueue(bad)
    site.work()
    assert ttl_of(site, "run") == ttl_of(site, "dead") == [None]


def test_a_part_of_a_second_is_kept_as_a_whole_one() -> None:
    site = Site()

    @site.app.job(keep_result=timedelta(milliseconds=300))
    def brief() -> None: ...

    site.app.enqueue(brief)
    site.work()
    assert ttl_of(site, "run") == [1]


@pytest.mark.parametrize("option", ["keep_result", "keep_failed", "keep_history"])
def test_times_that_make_no_sense_are_refused(option: str) -> None:
    with pytest.raises(ConfigurationError, match=option):
        Site(options={option: timedelta(seconds=-1)})


# --- history --------------------------------------------------------------------------------------


def long_one(site: Site, **options: Any) -> Any:
    """A workflow whose journal needs pages."""

    def big(number: int) -> str:
        return random.Random(number).randbytes(400).hex()

    @site.app.workflow(retry=Retry.none(), **options)
    def count(ctx: WorkflowContext, fail: bool = False) -> int:
        for number in range(12):
            ctx.step(big, number)
        if fail:
            raise Fail("no")
        return 12

    return count


def ttls(site: Site) -> tuple[int | None, set[int | None]]:
    """Of the run, and of its pages."""
    run, pages = None, set()
    for row in site.rows("run"):
        ttl = int(row["dd_ttl"]["N"]) - ENDED_AT if "dd_ttl" in row else None
        if row["sk"]["S"] == "run":
            run = ttl
        else:
            pages.add(ttl)
    return run, pages


@pytest.mark.parametrize(
    ("options", "run", "pages"),
    [
        ({}, DAY, DAY),
        ({"keep_result": timedelta(days=7)}, 7 * DAY, 7 * DAY),
        ({"keep_result": timedelta(days=7), "keep_history": timedelta(days=2)}, 7 * DAY, 2 * DAY),
        ({"keep_result": timedelta(days=7), "keep_history": timedelta(days=30)}, 30 * DAY, 30 * DAY),
        ({"keep_history": timedelta()}, DAY, 0),
    ],
)
def test_history_stays_as_long_as_it_should(options: dict[str, Any], run: int, pages: int) -> None:
    site = Site()
    site.app.enqueue(long_one(site, **options))
    site.work()
    assert len(site.rows("run")) > 2
    assert ttls(site) == (run, {pages})


def test_the_app_says_how_long_history_stays() -> None:
    site = Site(options={"keep_history": timedelta(days=3)})
    site.app.enqueue(long_one(site))
    site.work()
    assert ttls(site) == (3 * DAY, {3 * DAY})


def test_without_history_nothing_recorded_is_left_in_the_run() -> None:
    site = Site(options={"keep_history": timedelta(), "keep_result": timedelta(days=1)})
    run = site.app.enqueue(long_one(site))
    site.work()
    [row] = [row for row in site.rows("run") if row["sk"]["S"] == "run"]
    assert not {"dd_tail", "dd_page"} & row.keys()
    site.advance(minutes=2)
    assert set(site.clean().removed) == {"pages"}
    assert len(site.rows("run")) == 1
    assert run.result() == 12


def test_the_history_of_a_dead_run_stays_for_its_replay() -> None:
    site = Site(options={"keep_history": timedelta(), "keep_failed": timedelta(days=3)})
    run = site.app.enqueue(long_one(site), fail=True)
    site.work()
    assert ttls(site) == (3 * DAY, {3 * DAY})
    site.advance(days=2)
    assert site.clean().removed == {}
    site.app.dead.replay(run.id)
    site.work()
    assert run.status() == "dead"  # it got as far again: nothing was missing
    assert "page" not in (run.info().error or "")
