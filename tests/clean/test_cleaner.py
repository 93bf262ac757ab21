"""What the cleaner removes, and what it leaves."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

import pytest

from dynadurable import Fail
from dynadurable.clock import UniqueIds
from dynadurable.storage.items import FORMAT_VERSION
from dynadurable.storage.keys import mark_sort_key, page_sort_key, queue_partition, run_partition
from dynadurable.storage.schema import TableSchema
from dynadurable.testing.memory import MemoryClient
from tests.clean.site import Raw, Site

RUN = "run"


@pytest.fixture
def site() -> Site:
    made = Site()
    define(made)
    return made


def define(site: Site) -> None:
    app = site.app

    @app.job
    def plain() -> None: ...

    @app.job(keep_result=timedelta(days=7))
    def kept(size: int = 0) -> bytes:
        return random.Random(1).randbytes(size)  # cannot be compressed

    @app.job(keep_failed=timedelta(days=3))
    def bad() -> None:
        raise Fail("no")

    @app.job
    def bad_for_ever() -> None:
        raise Fail("no")


def job(site: Site, name: str) -> Any:
    found = site.app.registry.get(name)
    assert found is not None
    return found


# --- what has expired -----------------------------------------------------------------------------


def test_what_has_expired_goes_and_nothing_else(site: Site) -> None:
    for name in ("kept", "bad", "bad_for_ever"):
        site.app.enqueue(job(site, name))
    site.work()
    site.app.enqueue(job(site, "plain").using(delay=timedelta(days=30)))
    before = site.keys()
    assert site.clean().removed == {}
    assert site.keys() == before
    site.advance(days=3, seconds=61)
    assert site.clean().removed == {"runs": 1, "dead letters": 1}
    site.advance(days=4)
    assert site.clean().removed == {"runs": 1}
    site.advance(days=3650)
    assert site.clean().removed == {}
    assert {row["dd_state"]["S"] for row in site.rows("run")} == {"dead"}  # kept until it is replayed or purged
    assert len(site.rows("dead")) == len(site.rows("queue")) == 1


def test_what_has_just_expired_is_left_for_a_minute(site: Site) -> None:
    """Whoever reads it in that very moment is not disturbed."""
    site.app.enqueue(job(site, "kept"))
    site.work()
    site.advance(days=7, seconds=59)
    assert site.clean().removed == {}
    site.advance(seconds=1)
    assert site.clean().removed == {"runs": 1}


@pytest.mark.parametrize(("days", "removed"), [(7 + 6, {}), (7 + 7, {"runs": 1})])
def test_where_native_ttl_is_on_it_has_a_week(days: int, removed: dict[str, int]) -> None:
    site = Site(schema=TableSchema(table="shop"))
    define(site)
    site.client.update_time_to_live(TableName="shop", TimeToLiveSpecification={"Enabled": True, "AttributeName": "ttl"})
    site.app.enqueue(job(site, "kept"))
    site.work()
    site.advance(days=days, seconds=61)
    assert site.clean().removed == removed


def test_native_ttl_on_another_attribute_does_not_count() -> None:
    site = Site(schema=TableSchema(table="shop"))
    define(site)
    site.client.update_time_to_live(
        TableName="shop", TimeToLiveSpecification={"Enabled": True, "AttributeName": "expires"}
    )
    site.app.enqueue(job(site, "kept"))
    site.work()
    site.advance(days=7, seconds=61)
    assert site.clean().removed == {"runs": 1}


def test_a_large_result_goes_with_its_run_and_not_before(site: Site) -> None:
    run = site.app.enqueue(job(site, "kept"), size=20_000)
    site.work()
    assert len(site.rows("run")) == 2
    site.advance(days=6)
    site.clean()
    assert len(run.result()) == 20_000
    site.advance(days=2)
    assert site.clean().removed == {"runs": 1, "pages": 1}
    assert site.rows() == []


def test_a_revived_run_is_not_touched_although_it_was_seen_expired(site: Site) -> None:
    """The run is replayed between the look and the delete."""
    run = site.app.enqueue(job(site, "bad"))
    site.work()
    site.advance(days=2, hours=23)
    site.app.cleaner()
    before_delete(site, lambda: site.app.dead.replay(run.id), advance=timedelta(hours=2))
    report = site.clean()
    assert report.removed == {}
    assert report.left == 2
    assert run.status() == "pending"


def test_a_key_that_is_taken_anew_is_not_touched(site: Site) -> None:
    first = site.app.enqueue(job(site, "kept").using(key="k"))
    site.work()
    site.advance(days=8)
    before_delete(site, lambda: site.app.enqueue(job(site, "kept").using(key="k")))
    report = site.clean()
    assert (report.removed, report.left) == ({}, 1)
    assert first.status() == "pending"


def before_delete(site: Site, act: Any, *, advance: timedelta = timedelta()) -> None:
    """Something happens between the cleaner's look and its first delete. Its clock is ahead of that."""

    class Late(MemoryClient):
        acted = False

        def delete_item(self, **request: Any) -> Any:
            if not Late.acted:
                Late.acted = True
                ahead.advance(-advance)
                act()
                ahead.advance(advance)
            return super().delete_item(**request)

    ahead = site.clock
    ahead.advance(advance)
    late = Late(site.store)
    cleaning = site.make_app(late)
    site.clean = lambda **options: cleaning.cleaner(**options).run()  # type: ignore[method-assign]


# --- what crashes leave ---------------------------------------------------------------------------


def pointer(site: Site, *, run_id: str = "kept@x", placed_ms: int | None = None, **more: Any) -> Any:
    """A mark whose enqueue was never acknowledged."""
    now_ms = site.clock.now_ms()
    generation = UniqueIds().make(now_ms)
    return site.items.mark(
        pk=queue_partition(site.schema, "default", 0),
        sk=mark_sort_key(now_ms + 86_400_000, run_id, place="p.0"),
        job="kept",
        generation=generation,
        placed_ms=now_ms if placed_ms is None else placed_ms,
        **more,
    )


@pytest.mark.parametrize(("minutes", "removed"), [(9.9, {}), (10, {"marks": 1})])
def test_a_mark_without_a_run_goes_after_the_grace_time(site: Site, minutes: float, removed: dict[str, int]) -> None:
    site.put(pointer(site))
    site.advance(minutes=minutes)
    assert site.clean().removed == removed


def test_a_mark_that_somebody_holds_is_left(site: Site) -> None:
    now_ms = site.clock.now_ms()
    site.put(pointer(site, token="t", fence=1, lease_until_ms=now_ms + 3_600_000))
    site.advance(minutes=30)
    assert site.clean().removed == {}
    site.advance(minutes=31)
    assert site.clean().removed == {"marks": 1}


def test_a_mark_that_is_vouched_for_meanwhile_is_left(site: Site) -> None:
    """A slow enqueue comes to its end: the run is there, its mark is made sure of. The decision to delete is void."""
    slow = site.app.operations.born(job(site, "kept").using(key="k", delay=timedelta(days=1)), (), {})[1]
    site.put(slow.mark)
    site.advance(minutes=11)

    def goes_on() -> None:
        from dynadurable.storage import runs

        site.put(slow.run)
        assert slow.run is not None
        site.app.driver.run(runs.vouch(site.items, slow.run))

    before_delete(site, goes_on)
    report = site.clean()
    assert (report.removed, report.left) == ({}, 1)
    assert len(site.rows("queue")) == 1


def test_a_mark_that_is_claimed_meanwhile_is_left(site: Site) -> None:
    from dynadurable.storage import marks

    mark = pointer(site)
    site.put(mark)
    site.advance(minutes=11)
    now_ms = site.clock.now_ms()
    before_delete(
        site,
        lambda: site.app.driver.run(
            marks.claim(
                site.items,
                pk=mark.pk,
                sk=mark.sk,
                token="t",
                now_ms=now_ms,
                lease_until_ms=now_ms + 30_000,
                worker="w",
            )
        ),
    )
    report = site.clean()
    assert (report.removed, report.left) == ({}, 1)


def test_a_mark_whose_late_holder_renews_it_meanwhile_is_left(site: Site) -> None:
    from dynadurable.storage import marks

    now_ms = site.clock.now_ms()
    mark = pointer(site, token="t", fence=1, lease_until_ms=now_ms + 1_000)
    site.put(mark)
    site.advance(minutes=11)
    later_ms = site.clock.now_ms() + 30_000
    before_delete(site, lambda: site.app.driver.run(marks.renew(site.items, mark, lease_until_ms=later_ms)))
    report = site.clean()
    assert (report.removed, report.left) == ({}, 1)


def test_pending_runs_of_every_kind_stay(site: Site) -> None:
    later = timedelta(days=30)
    runs = [
        site.app.enqueue(job(site, "plain").using(delay=later)),
        site.app.enqueue(job(site, "plain").using(delay=later, key="k")),
        site.app.enqueue(job(site, "kept").using(delay=later), size=3),
    ]
    site.advance(days=20)
    before = site.rows()
    assert site.clean().removed == {}
    assert site.rows() == before
    assert {run.status() for run in runs} == {"pending"}


def test_the_mark_of_an_ended_run_goes_and_what_its_end_owes_is_paid(site: Site) -> None:
    """A worker died between the end of the run and the delete of its mark, and no other serves its queue."""
    site.app.enqueue(job(site, "bad_for_ever"))
    [mark] = site.rows("queue")
    site.work()
    [run] = site.rows("run")
    [letter] = site.rows("dead")
    site.client.delete_item(TableName="shop", Key={"pk": letter["pk"], "sk": letter["sk"]})
    pointer_raw = {
        **mark,
        "sk": run["dd_mark"],
        "dd_gen": run["dd_gen"],
        "dd_at": {"N": str(site.clock.now_ms())},
    }
    site.client.put_item(TableName="shop", Item=pointer_raw)
    site.advance(minutes=11)
    assert site.clean().removed == {"marks": 1}
    assert site.rows("queue") == []
    assert site.rows("dead") == [letter]


def test_a_live_run_whose_mark_is_gone_gets_it_back(site: Site) -> None:
    """As after a restore of the table from a backup that was not made at one instant."""
    run = site.app.enqueue(job(site, "kept"))
    site.edit(lambda _: None, kind="queue")
    site.advance(minutes=61)
    assert site.clean(dry_run=True).restored == 1
    assert site.rows("queue") == []
    assert site.clean().restored == 1
    assert site.clean().restored == 0
    site.work()
    assert run.status() == "succeeded"


def test_pages_without_a_run_go_after_a_day(site: Site) -> None:
    """The large input of a workflow is put before its run."""
    site.put(page(site, "kept@x", UniqueIds().make(site.clock.now_ms()), body=b"x"))
    site.advance(hours=23)
    assert site.clean().removed == {}
    site.advance(hours=2)
    assert site.clean().removed == {"pages": 1}


def test_pages_of_an_earlier_life_go_and_those_of_a_live_run_stay(site: Site) -> None:
    run = site.app.enqueue(job(site, "kept").using(key="k", delay=timedelta(days=30)))
    [stored] = site.rows("run")
    site.put(page(site, run.id, UniqueIds().make(site.clock.now_ms()), body=b"earlier"))
    site.put(page(site, run.id, stored["dd_gen"]["S"], body=b"its own"))
    site.put(page(site, run.id, stored["dd_gen"]["S"], name="2", body=b"x", ttl=site.clock.now_ms() // 1000))
    site.advance(days=2)
    assert site.clean().removed == {"pages": 1}
    assert {row["dd_body"]["B"] for row in site.rows("run") if "dd_body" in row} == {b"its own", b"x"}


def test_pages_that_an_ender_could_not_stamp_get_the_expiry_of_their_run(site: Site) -> None:
    run = site.app.enqueue(job(site, "kept").using(key="k"))
    site.work()
    [stored] = site.rows("run")
    site.put(page(site, run.id, stored["dd_gen"]["S"], body=b"sealed"))
    assert site.clean().stamped == 0  # its ender may still be at it
    site.advance(hours=2)
    report = site.clean()
    assert (report.stamped, report.removed) == (1, {})
    assert {row["dd_ttl"]["N"] for row in site.rows("run")} == {stored["dd_ttl"]["N"]}


def test_pages_of_a_dead_run_stay_as_long_as_it_may_be_brought_back(site: Site) -> None:
    run = site.app.enqueue(job(site, "bad").using(key="k"))
    site.work()
    [stored] = site.rows("run")
    early = site.clock.now_ms() // 1000
    site.put(page(site, run.id, stored["dd_gen"]["S"], body=b"sealed", ttl=early))
    site.advance(days=2)
    assert site.clean().removed == {}
    site.advance(days=2)
    assert site.clean().removed == {"runs": 1, "pages": 1, "dead letters": 1}


def page(site: Site, run_id: str, journal: str, *, name: str = "1", **attributes: Any) -> Any:
    return site.items.page(pk=run_partition(site.schema, run_id), sk=page_sort_key(journal, 1, name), **attributes)


def test_letters_of_runs_that_are_not_dead_go(site: Site) -> None:
    run = site.app.enqueue(job(site, "bad_for_ever"))
    site.work()
    [letter] = site.rows("dead")
    site.app.dead.replay(run.id)
    site.client.put_item(TableName="shop", Item=letter)  # a slow ender puts it after the replay
    site.advance(minutes=11)
    assert site.clean().removed == {"dead letters": 1}
    site.work()
    [again] = site.rows("dead")
    site.client.put_item(TableName="shop", Item={**letter, "sk": {"S": mark_sort_key(1, "nobody~0~0mywy3k00~x")}})
    site.advance(minutes=11)
    assert site.clean().removed == {"dead letters": 1}
    assert site.rows("dead") == [again]


def test_records_of_workers_that_are_long_gone_go(site: Site) -> None:
    worker = site.app.worker(queues=["default"])
    worker.registrar.beat()
    assert site.clean().removed == {}
    site.advance(minutes=61)
    assert site.clean().removed == {"workers": 1}
    worker.registrar.beat()
    assert [live.queues for live in site.app.workers.list()] == [("default",)]


def test_settings_leases_and_what_only_looks_like_ours_stay(site: Site) -> None:
    site.app.queues.pause("default")
    with site.app.lease("refresher", ttl=timedelta(seconds=15)):
        pass
    old = {"N": "1"}
    strangers: list[Raw] = [
        {"pk": {"S": "run#x"}, "sk": {"S": "run"}, "ttl": old, "dd_ttl": old},
        {"pk": {"S": "run#x"}, "sk": {"S": "page#1#2#3"}, "dd_v": {"S": "1"}, "dd_ttl": old},
        {"pk": {"S": "customers#1"}, "sk": {"S": "run"}, "dd_v": {"N": "1"}, "dd_ttl": old},
        {"pk": {"S": "other/run#x"}, "sk": {"S": "run"}, "dd_v": {"N": "1"}, "dd_state": {"S": "dead"}, "dd_ttl": old},
        {"pk": {"S": "workers"}, "sk": {"S": "worker#mine"}, "dd_seen": {"N": "1"}},
    ]
    for stranger in strangers:
        site.client.put_item(TableName="shop", Item=stranger)
    before = site.rows()
    site.advance(days=4_000)
    report = site.clean()
    assert (report.removed, report.left) == ({}, 0)
    assert site.rows() == before


def test_what_is_newer_is_left_and_told_of(site: Site) -> None:
    """Its parts too: only its own version knows what they are."""
    run = site.app.enqueue(job(site, "kept").using(key="k"))
    site.work()
    site.put(page(site, run.id, UniqueIds().make(site.clock.now_ms()), body=b"x"))
    site.edit(lambda row: {**row, "dd_v": {"N": str(FORMAT_VERSION + 1)}}, kind="run", sort_key="run")
    before = site.rows()
    site.advance(days=400)
    report = site.clean()
    assert (report.removed, report.newer) == ({}, 1)
    assert site.rows() == before
