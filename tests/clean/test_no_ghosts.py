"""What was deleted is not brought back by whoever holds it: each write of a holder demands that it is there."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from dynadurable import App, Fail, JobContext, LeaseLostError, Retry, Snooze, WorkflowContext
from dynadurable.storage import marks
from dynadurable.worker.held import Held
from tests.clean.site import Site

RETRY = Retry(max_attempts=3, delay=timedelta(seconds=1), jitter=0.0)


def vanish(site: Site) -> None:
    """Everything is deleted, by the owner of the table or by a restore."""
    for row in site.store.items("shop"):
        site.client.delete_item(TableName="shop", Key={"pk": row["pk"], "sk": row["sk"]})


def finish(_ctx: JobContext) -> str:
    return "done"


def checkpoint(ctx: JobContext) -> None:
    ctx.checkpoint(1)


def fail(_ctx: JobContext) -> None:
    raise ValueError("again")


def die(_ctx: JobContext) -> None:
    raise Fail("for good")


def snooze(_ctx: JobContext) -> None:
    raise Snooze(timedelta(minutes=1))


ENDS = [finish, checkpoint, fail, die, snooze]


@pytest.mark.parametrize("tier", ["mark", "run"])
@pytest.mark.parametrize("act", ENDS, ids=lambda act: act.__name__)
def test_a_worker_whose_run_was_deleted_leaves_nothing_behind(act: Callable[[JobContext], Any], tier: str) -> None:
    """PUB-51, for every way in which an attempt can end."""
    site = Site()

    @site.app.job(retry=RETRY, keep_result=timedelta(days=1) if tier == "run" else None)
    def work(ctx: JobContext) -> Any:
        vanish(site)
        return act(ctx)

    site.app.enqueue(work)
    site.work()
    assert site.store.items("shop") == []


def test_a_workflow_whose_run_was_deleted_leaves_nothing_behind() -> None:
    site = Site()

    def gone(number: int) -> int:
        vanish(site)
        return number

    @site.app.workflow(retry=RETRY)
    def story(ctx: WorkflowContext) -> int:
        return ctx.step(gone, 1) + ctx.step(gone, 2)

    site.app.enqueue(story)
    site.work()
    assert site.store.items("shop") == []


def test_a_late_renewal_and_a_late_hand_back_plant_nothing() -> None:
    site = Site()

    @site.app.job
    def work() -> None: ...

    site.app.enqueue(work)
    now_ms = site.clock.now_ms()
    [seen] = site.app.driver.run(marks.poll(site.items, queue="default", shard=0, limit=9, until_ms=now_ms)).candidates
    times = {"now_ms": now_ms, "lease_until_ms": now_ms + 30_000}
    mark = site.app.driver.run(marks.claim(site.items, pk=seen.pk, sk=seen.sk, token="t", worker="w", **times))
    assert mark is not None
    vanish(site)
    held = Held(mark, run_id=seen.run_id, lease_seconds=30, sent=0.0)
    with pytest.raises(LeaseLostError):
        site.app.driver.run(held.renewal(site.items, lease_until_ms=now_ms + 60_000))
    site.app.driver.run(marks.hand_back(site.items, mark))
    with pytest.raises(LeaseLostError):
        site.app.driver.run(marks.finish(site.items, mark))
    assert site.store.items("shop") == []


def test_what_is_done_to_a_run_that_was_deleted_plants_nothing() -> None:
    site = Site()

    @site.app.job(keep_result=timedelta(days=1))
    def work() -> None: ...

    run = site.app.enqueue(work.using(delay=timedelta(hours=1)))
    vanish(site)
    for act in (run.cancel, run.run_now, lambda: run.send_event("said", 1), lambda: site.app.dead.replay(run.id)):
        with pytest.raises(Exception, match="there is no such"):
            act()
    assert site.store.items("shop") == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_an_app_on_a_stand_in_client_survives_a_fork() -> None:
    """A stand-in has no connections that would have to be left alone."""
    app: App = Site().app
    child = os.fork()
    if child == 0:
        os._exit(0 if app.queues.get("default").waiting == 0 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_after_a_fork_a_stand_in_client_is_kept(capsys: pytest.CaptureFixture[str]) -> None:
    app = Site().app
    client = app._clients.get()
    app._clients.after_fork()
    assert app._clients.get() is client
    assert capsys.readouterr().err == ""
