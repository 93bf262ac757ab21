"""What has expired counts as absent, whoever asks and whatever is done to it, until DynamoDB has deleted it."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from dynadurable import Fail, RunExpiredError, WorkflowContext
from dynadurable.clock import SystemClock
from dynadurable.errors import RunError
from dynadurable.testing.memory import MemoryClient, MemoryStore
from tests.clean.site import Site
from tests.terminal import misplaced_ttls


class Shop(Site):
    """Its bodies fail until they are mended."""

    fails = True


@pytest.fixture
def site() -> Shop:
    made = Shop()

    @made.app.job(keep_result=timedelta(days=1))
    def kept() -> int:
        return 1

    @made.app.job(keep_failed=timedelta(days=1), keep_result=timedelta(days=1))
    def bad() -> int:
        if made.fails:
            raise Fail("no")
        return 1

    @made.app.workflow(keep_failed=timedelta(days=1), keep_result=timedelta(days=1))
    def story(ctx: WorkflowContext) -> int:
        return sum(len(ctx.step(big, number)) for number in range(12)) + ctx.step(told)

    def big(number: int) -> bytes:
        return random.Random(number).randbytes(400)

    def told() -> int:
        if made.fails:
            raise Fail("no")
        return 0

    return made


def job(site: Shop, name: str) -> Any:
    return site.app.registry.get(name)


def ended(site: Shop, name: str) -> Any:
    run = site.app.enqueue(job(site, name).using(key="k"))
    site.work()
    site.advance(days=2)
    return run


@pytest.mark.parametrize("name", ["kept", "bad", "story"])
def test_nobody_gets_to_see_it(site: Shop, name: str) -> None:
    run = ended(site, name)
    before = site.rows()
    asks: list[Callable[[], Any]] = [run.status, run.result, run.info, run.cancel, run.run_now]
    asks += [lambda: run.delay_until(site.clock.now()), lambda: site.app.run(run.id).status()]
    for ask in asks:
        with pytest.raises(RunExpiredError):
            ask()
    assert run.explain().code == "expired"
    assert site.app.dead.list(queue="default") == []
    assert site.app.dead.groups(queue="default") == []
    assert site.app.queues.get("default").dead == 0
    assert site.rows() == before


@pytest.mark.parametrize("name", ["bad", "story"])
def test_a_dead_run_that_has_expired_is_not_brought_back(site: Shop, name: str) -> None:
    """Its pages may be gone by now."""
    run = ended(site, name)
    before = site.rows()
    with pytest.raises(RunError):
        site.app.dead.replay(run.id)
    assert site.app.dead.purge(run.id).done == 0
    assert site.app.dead.replay(queue="default", everything=True).done == 0
    assert site.rows() == before


@pytest.mark.parametrize("name", ["kept", "bad", "story"])
@pytest.mark.parametrize("cleaned", [False, True], ids=["still there", "cleaned up"])
def test_its_key_is_free_and_the_new_run_is_its_own(site: Shop, name: str, cleaned: bool) -> None:
    first = ended(site, name)
    if cleaned:
        site.clean()
        assert site.rows() == []
    site.fails = False
    again = site.app.enqueue(job(site, name).using(key="k"))
    assert (again.id, again.status()) == (first.id, "pending")
    assert site.clean().removed.keys() <= {"pages", "dead letters"}  # of the earlier life
    site.work()
    assert again.result() == (1 if name != "story" else 12 * 400)
    assert site.app.dead.list(queue="default") == []
    assert misplaced_ttls(site.store.items("shop"), ttl="dd_ttl") == []


def test_pages_of_a_run_that_is_brought_back_stay_as_long_as_it_lives(site: Shop) -> None:
    """They carried the expiry of the dead run."""
    run = site.app.enqueue(job(site, "story"))
    site.work()
    pages = {row["sk"]["S"] for row in site.rows("run")} - {"run"}
    assert pages
    site.advance(hours=23)
    site.app.dead.replay(run.id)
    assert misplaced_ttls(site.store.items("shop"), ttl="dd_ttl") == []
    site.advance(days=30)  # no worker was there for a month
    assert site.clean().removed == {}
    assert pages <= {row["sk"]["S"] for row in site.rows("run")}
    site.fails = False
    site.work()
    assert run.result() == 12 * 400
    site.advance(days=2)
    site.clean()
    assert site.rows() == []


@pytest.mark.parametrize(("seconds", "removed"), [(50, {}), (70, {"runs": 1})])
def test_the_cleaner_goes_by_the_time_of_dynamodb(seconds: int, removed: dict[str, int]) -> None:
    """The clock of its machine is months off: replies tell it better."""
    site = Site()
    site.store = MemoryStore(site.clock, locked=True)
    site.client = MemoryClient(site.store)
    site.app = site.make_app()
    site.app.create_table()

    @site.app.job(keep_result=timedelta(days=1))
    def kept() -> int:
        return 1

    site.app.enqueue(kept)
    site.work()
    site.advance(days=1, seconds=seconds)
    lost = site.make_app()
    app = type(lost)("shop", client=site.client, ttl=None, clock=SystemClock())
    assert app.cleaner().run().removed == removed
