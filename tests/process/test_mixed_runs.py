"""A thousand runs of every kind, three workers, kills: the counts are exact in the end, and a fix drains the dead."""

from __future__ import annotations

import random
import subprocess
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from dynadurable import App, Queue
from tests.process.workshop import LIMIT_SECONDS, Workshop, wait_until
from tests.terminal import misplaced_ttls

PLAIN, FLAKY, POISON, CANCELLED, KEYS, COPIES = 400, 200, 150, 100, 50, 3
KILLS = 6


def jobs(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The jobs of ``mixed.py``, on an app in this process that only enqueues."""
    for name, value in workshop.environment().items():
        if name.startswith("SHOP_"):
            monkeypatch.setenv(name, value)
    from tests.process import mixed

    workshop.app = App(
        workshop.table, client=workshop.store.client, queues=[Queue(name="mixed", shards=2)], build="operator"
    )
    for job in mixed.app.registry.jobs():
        workshop.app.registry.add(job)
    return mixed


def enqueue_all(app: App, mixed: Any) -> list[Any]:
    """A thousand calls of ``enqueue``; gives the runs that are cancelled."""
    keyed = [mixed.plain.using(key=f"k{key}").call(10_000 + key) for key in range(KEYS)]
    calls = [mixed.plain.call(number) for number in range(PLAIN)]
    calls += [mixed.flaky.call(number) for number in range(FLAKY)]
    calls += [mixed.poison.call(number) for number in range(POISON)]
    calls += keyed * COPIES
    late = [mixed.plain.using(delay=timedelta(hours=1)).call(20_000 + number) for number in range(CANCELLED)]
    assert len(calls) + len(late) == 1000
    random.Random(1).shuffle(calls)
    app.enqueue_many(calls)
    return app.enqueue_many(late)


def still_pending(workshop: Workshop) -> int:
    """Marks in the queue's two shards."""
    found = 0
    for shard in range(2):
        key = {":pk": {"S": f"queue#mixed#{shard}"}}
        reply = workshop.store.client.query(
            TableName=workshop.table,
            KeyConditionExpression="pk = :pk",
            ExpressionAttributeValues=key,
            Select="COUNT",
        )
        found += reply["Count"]
    return found


def numbers(workshop: Workshop, event: str) -> set[int]:
    return {line["number"] for line in workshop.events(event)}


@pytest.mark.server
@pytest.mark.slow
@pytest.mark.chaos
@pytest.mark.timeout(240)
def test_a_thousand_mixed_runs_end_as_they_must_and_a_fixed_build_drains_the_dead(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    mixed = jobs(workshop, monkeypatch)
    workshop.module = "tests.process.mixed"
    app = workshop.app
    cancelled = enqueue_all(app, mixed)
    workers = [workshop.start() for _ in range(3)]
    with ThreadPoolExecutor(1) as beside:  # of the log's 650 events enough must be left for every kill
        answers = beside.submit(lambda: {run.cancel() for run in cancelled})
        kill_now_and_then(workshop, workers)
    assert answers.result() == {"cancelled"}
    wait_until(lambda: still_pending(workshop) == 0, "all runs have ended", limit=LIMIT_SECONDS * 2)

    assert numbers(workshop, "plain") == {*range(PLAIN), *range(10_000, 10_000 + KEYS)}
    assert numbers(workshop, "flaky") == set(range(FLAKY))
    assert numbers(workshop, "poison") == set()
    assert {run.status() for run in cancelled} == {"cancelled"}
    assert sorted((group.count, group.builds) for group in app.dead.groups()) == [(POISON // 3, ("broken",))] * 3
    assert misplaced_ttls(workshop.items()) == []
    told = app.queues.get("mixed")
    assert (told.waiting, told.in_flight, told.delayed, told.dead) == (0, 0, 0, POISON)

    for worker in workers:
        workshop.stop(worker)
    monkeypatch.setenv("MIXED_BUILD", "fixed")
    fixed = workshop.start()
    wait_until(lambda: any(worker.build == "fixed" for worker in app.workers.list()), "the fixed build is up")
    report = app.dead.replay(before_build="fixed", stop_after=20)
    assert (report.matched, report.done, report.failed_again, report.stopped) == (POISON, POISON, 0, None)
    wait_until(lambda: still_pending(workshop) == 0, "the replayed runs have ended")
    assert numbers(workshop, "poison") == set(range(POISON))
    assert app.dead.list() == []
    assert misplaced_ttls(workshop.items()) == []
    assert workshop.stop(fixed) == 0


def kill_now_and_then(workshop: Workshop, workers: list[subprocess.Popen[bytes]]) -> None:
    """Every time that some more was done, one worker is killed and another one started."""
    dice = random.Random(2)
    for _ in range(KILLS):
        seen = len(workshop.events())
        wait_until(lambda seen=seen: len(workshop.events()) >= seen + 40, "work goes on")  # type: ignore[misc]
        victim = dice.randrange(len(workers))
        workshop.kill(workers[victim])
        workers[victim] = workshop.start()
