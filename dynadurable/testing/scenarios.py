"""The scenarios of the cost budget, one function each, in its order."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from datetime import timedelta
from typing import Any, cast

from dynadurable.app import App
from dynadurable.errors import DynadurableError
from dynadurable.fan_out.fan_out import fan_out
from dynadurable.fan_out.sources import iterable_pages
from dynadurable.ledger.charges import READS
from dynadurable.model.queue import MAX_SHARDS
from dynadurable.model.retry import Retry
from dynadurable.storage import marks
from dynadurable.storage.call import Call, Plan
from dynadurable.testing.budget import READ, Stage
from dynadurable.worker.context import JobContext
from dynadurable.worker.crew import DEFAULT_POLL
from dynadurable.worker.poller import EXTRA_SHARDS_SECONDS, Poller
from dynadurable.workflow.context import WorkflowContext

SECOND = timedelta(seconds=1)
DAY = timedelta(days=1)
LEASE_MS = 30_000
WAIT_SECONDS = 30
STEPS = (6, 50)
RECIPIENTS, PAGE_ITEMS = 1_000, 100
SHARDS = 4
HOUR_SECONDS, LONGEST_POLL_SECONDS, EARLY_POLLS = 3_600, 18, 10
"""An idle worker looks every 20 s, give or take a tenth, after some looks in quicker succession."""


def plain_job(stage: Stage) -> None:
    job = _work(stage.app)
    with stage.spending() as spent:
        stage.app.enqueue(job)
        stage.drain()
    stage.row("plain job: enqueue, claim, finish", 3, spent.write_units)


def eager_start(stage: Stage) -> None:
    job = _work(stage.app)
    stage.row("the same, begun in the process that enqueues it", 2, _eagerly(stage, job))


def remembered_run(stage: Stage) -> None:
    job, kept = _work(stage.app), stage.app.job(name="kept", keep_result=DAY)(_nothing)
    both = kept.using(key="both")
    for what, asked in (("with a key", job.using(key="k")), ("with a kept result", kept), ("with both", both)):
        with stage.spending() as spent:
            stage.app.enqueue(asked)
            stage.drain()
        stage.row(f"job {what}", 5, spent.write_units)


def duplicate(stage: Stage) -> None:
    job = _work(stage.app).using(key="k")
    stage.app.enqueue(job)
    with stage.spending() as spent:
        stage.app.enqueue(job)
    stage.row("a duplicate of a live run", 1, spent.write_units, note="it vouches")
    stage.row("a duplicate of a live run", 1, spent.read_units, unit=READ, note="it looks first")


def duplicate_in_a_race(stage: Stage) -> None:
    """It looks, sees nothing, and is overtaken before its first write."""
    app, others = stage.app, 0.0
    job = _work(app).using(key="k")

    def overtake() -> None:
        nonlocal others
        with app.ledger() as spent:
            app.enqueue(job)
        others = spent.write_units

    with stage.spending(contended=True) as spent:
        app.driver.run(cast("Plan[Any]", _overtaken(app.operations.enqueue(job, (), {}), overtake)))
    note = "the other wrote between its look and its writes"
    stage.row("a duplicate, in the worst race", 4, spent.write_units - others, note=note)


def workflow(stage: Stage) -> None:
    @stage.app.workflow
    def flow(ctx: WorkflowContext, count: int) -> None:
        for number in range(count):
            ctx.step(abs, number)

    note = "n + 5, and at most 1 for each 8 steps"
    for count in STEPS:
        with stage.spending() as spent:
            stage.app.enqueue(flow, count)
            stage.drain()
        budget = count + 5 + count // 8
        stage.row(f"workflow of {count} small steps", budget, spent.write_units, is_limit=count >= 8, note=note)
    what = f"workflow of {STEPS[0]}, begun in the process that enqueues it"
    stage.row(what, STEPS[0] + 4, _eagerly(stage, flow, STEPS[0]))


def failures(stage: Stage) -> None:
    @stage.app.job(retry=Retry(max_attempts=9, delay=SECOND, backoff=1.0, jitter=0.0))
    def fails(ctx: JobContext) -> None:
        if ctx.attempt <= 2:
            raise ConnectionError("on purpose")

    stage.app.enqueue(fails)
    for what, budget in (("first failure of a plain job", 6), ("each later retry", 3)):
        with stage.spending() as spent:
            stage.drain()
        stage.row(what, budget, spent.write_units - 1, note="its claim apart, which is 1")
        stage.clock.advance(SECOND)


def delivery(stage: Stage) -> None:
    def after(cursor: int | None) -> range:
        return range(cursor or 0, RECIPIENTS)

    source = iterable_pages(after, cursor_of=lambda number: number + 1, page_items=PAGE_ITEMS)
    schema = stage.app.schema

    def entry(number: int) -> dict[str, Any]:
        return {schema.partition_key: f"{schema.prefix}feed-{number}", schema.sort_key: "post"}

    @stage.app.job
    def deliver(ctx: JobContext) -> None:
        fan_out(ctx, source, entry)

    with stage.spending() as spent:
        stage.app.enqueue(deliver)
        stage.drain()
    yours = spent.write_units_by["BatchWriteItem"]
    what, pages = f"fan-out to {RECIPIENTS:,} in pages of {PAGE_ITEMS}", -(-RECIPIENTS // PAGE_ITEMS)
    note = "ceil(N / P) + 3; the last checkpoint may ride with the finish"
    stage.row(what, pages + 3, spent.write_units - yours, is_limit=True, note=note)
    stage.row("the items that it writes", RECIPIENTS, yours)


def take_over(stage: Stage) -> None:
    job = _work(stage.app)
    cases = (("plain job", job, 3 + 1), ("job with a key", job.using(key="k"), 5 + 2))
    for what, asked, budget in cases:
        with stage.spending() as spent:
            stage.app.enqueue(asked)
            _claim_and_die(stage)
            stage.clock.advance(timedelta(minutes=1))
            stage.drain()
        stage.row(f"{what}, taken over after a crash", budget, spent.write_units)


def cron_slot(stage: Stage) -> None:
    stage.app.schedule(every=timedelta(minutes=5))(_work(stage.app))
    stage.drain()
    with stage.spending() as between:
        stage.clock.advance(SECOND)
        stage.drain()
    stage.clock.advance(timedelta(minutes=5))
    with stage.spending() as spent:
        stage.drain()
    stage.row("cron slot", 3 + 5, spent.write_units, note="3, and its run, which has a key")
    stage.row("cron, between its slots", 0, between.write_units)


def idle_worker(stage: Stage) -> None:
    """An hour of polls by a clock that is turned from one to the next."""
    app, clock = stage.app, stage.clock
    _work(app)
    poller = Poller(app.worker(metrics=False).engine, [app.operations.queue("default")], intervals=DEFAULT_POLL)
    poller.poll()  # the first looks beyond the shards as well, and then every quarter of an hour
    with stage.spending() as one:
        poller.poll()
    stage.row("idle worker: a shard and poll", 0.5, one.read_units / SHARDS, unit=READ, is_limit=True)
    end = clock.monotonic() + HOUR_SECONDS
    with stage.spending() as hour:
        while clock.monotonic() < end:
            clock.sleep(poller.next_poll_at - clock.monotonic())
            poller.poll()
    polls = HOUR_SECONDS // LONGEST_POLL_SECONDS + EARLY_POLLS
    beyond = HOUR_SECONDS / EXTRA_SHARDS_SECONDS * (MAX_SHARDS - SHARDS)
    budget = (polls * SHARDS + beyond) * 0.5
    note = "polls back off from 0.2 s to 20 s; each quarter of an hour a look for shards beyond those set"
    stage.row("idle worker: an hour of polls", budget, hour.read_units, unit=READ, is_limit=True, note=note)
    stage.row("idle worker: an hour of polls", 0, hour.write_units)


SCENARIOS: tuple[Callable[[Stage], None], ...] = (
    plain_job,
    eager_start,
    remembered_run,
    duplicate,
    duplicate_in_a_race,
    workflow,
    failures,
    delivery,
    take_over,
    cron_slot,
    idle_worker,
)


# --- inside ---------------------------------------------------------------------------------------


def _nothing() -> None:
    """A body."""


def _work(app: App) -> Any:
    return app.job(name="work")(_nothing)


def _eagerly(stage: Stage, job: Any, *args: Any) -> float:
    ended = threading.Event()

    def hook(event: str, _name: str, _run_id: str) -> None:
        if event in ("succeeded", "dead"):
            ended.set()

    worker = stage.app.worker(concurrency=1, metrics=False, hook=hook)
    worker.start()
    try:
        with stage.spending() as spent:
            stage.app.enqueue(job, *args)
            if not ended.wait(WAIT_SECONDS):
                raise DynadurableError(f"a run that was to begin at once did not end within {WAIT_SECONDS} s")
    finally:
        worker.stop()
    return spent.write_units


def _overtaken(plan: Any, overtake: Callable[[], None]) -> Generator[Any, Any, Any]:
    """The plan, with something else done just before its first write; a generator is stepped like one."""
    overtaken = False
    try:
        step = plan.send(None)
        while True:
            if isinstance(step, Call) and step.operation not in READS and not overtaken:
                overtaken = True
                overtake()
            try:
                reply = yield step
            except BaseException as error:  # noqa: BLE001 - the plan decides
                step = plan.throw(error)
            else:
                step = plan.send(reply)
    except StopIteration as stop:
        return stop.value


def _claim_and_die(stage: Stage) -> None:
    """A worker takes what is due, and is gone."""
    app = stage.app
    for shard in range(SHARDS):
        page = app.driver.run(marks.poll(app.items, queue="default", shard=shard, limit=1, until_ms=None))
        for seen in page.candidates:
            token, now_ms = app.operations.ids.make(stage.clock.now_ms()), stage.clock.now_ms()
            lease_until_ms = now_ms + LEASE_MS
            claim = marks.claim(
                app.items, pk=seen.pk, sk=seen.sk, token=token, now_ms=now_ms, lease_until_ms=lease_until_ms, worker=""
            )
            if app.driver.run(claim) is None:
                raise DynadurableError("a mark that nobody holds could not be claimed")
