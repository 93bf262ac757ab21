"""What each role is for, acted out: together the scenes of a role need all of its grant, and nothing else."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from dynadurable import Fail, JobContext, Snooze
from dynadurable.control.doctor import Asked, DoctorPlans
from dynadurable.errors import LeaseBusyError, LeaseLostError, RunDeadError
from dynadurable.storage import marks, runs
from dynadurable.storage.keys import unescape
from dynadurable.storage.permissions import Role
from dynadurable.testing.memory import MemoryClient
from tests.grants.site import DAY, HOUR, MINUTE, TABLE, Site

Scene = Callable[[Site], None]
SCENES: dict[Role, list[Scene]] = {role: [] for role in Role}
AFTER_CRASHES: dict[Role, list[Scene]] = {role: [] for role in Role}
"""Those that are played on many tables, on each of which a worker died in another place."""
CRASHING = ("die", "kept", "fail", "parent")


def scene(*roles: Role, plays: dict[Role, list[Scene]] = SCENES) -> Callable[[Scene], Scene]:
    """These roles play it."""

    def add(play: Scene) -> Scene:
        for role in roles:
            plays[role].append(play)
        return play

    return add


# --- enqueue; what runs in a worker may do that too -----------------------------------------------


@scene(Role.ENQUEUE, Role.WORK)
def enqueue_in_every_way(site: Site) -> None:
    with site.acting():
        site.app.check_table()
        site.enqueue("plain")
        site.enqueue("plain", delay=HOUR)
        for _ in range(2):
            site.enqueue("kept", key="k")
        site.enqueue("take", b"\x00" * 100_000)
        site.enqueue("wait")
        site.app.enqueue_many([site.job("plain").call(), site.job("kept").call(1), site.job("wait").call()])
        site.app.enqueue_many([site.job("take").call(b"\x01" * 100_000)])
        site.app.enqueue_many([site.job("kept").using(key="k2").call(1)])


@scene(Role.ENQUEUE, Role.WORK)
def use_the_key_of_a_dead_run_again(site: Site) -> None:
    site.enqueue("die", key="k")
    site.work()
    with site.acting():
        site.enqueue("die", key="k")


@scene(Role.ENQUEUE, Role.WORK)
def enqueue_where_somebody_else_is_quicker(site: Site) -> None:
    other = site.make_app()
    site.client.before("put_item", lambda: other.enqueue(site.job("kept").using(key="k"), 1))
    with site.acting():
        site.enqueue("kept", key="k")


@scene(Role.ENQUEUE, Role.OBSERVE, Role.WORK)
def ask_what_became_of_it(site: Site) -> None:
    kept, large, dead = site.enqueue("kept"), site.enqueue("kept", 100_000), site.enqueue("die")
    site.enqueue("plain", delay=HOUR)
    site.work()
    with site.acting():
        assert kept.status() == "succeeded"
        assert len(large.result()) == 100_000
        assert dead.wait(timeout=MINUTE) == "dead"
        assert dead.info().failures
        with contextlib.suppress(RunDeadError):
            dead.result()


@scene(Role.ENQUEUE, Role.WORK)
def tell_a_workflow_something(site: Site) -> None:
    callbacks = site.app.callbacks
    for answer in (callbacks.complete, lambda token: callbacks.fail(token, "no")):
        run = site.enqueue("wait")
        site.work()
        with site.acting():
            assert callbacks.heartbeat(site.tokens["approval"])
            for _ in range(2):
                assert run.send_event("go", 1)
        site.work()
        with site.acting():
            assert answer(site.tokens["approval"])
        site.work()


# --- work -----------------------------------------------------------------------------------------


@scene(Role.WORK)
def work_on_jobs_that_end_in_every_way(site: Site) -> None:
    for name in ("plain", "kept", "fail", "die", "call"):
        site.enqueue(name)
        site.enqueue(name, key="k")
    site.enqueue("kept", 100_000)

    def body(ctx: JobContext) -> None:
        ctx.checkpoint(ctx.attempt)
        if not ctx.run_id.startswith("default") and ctx.attempt == 1:
            raise Fail("enough")
        raise Snooze(MINUTE)

    site.during = body
    with site.acting():
        site.work_through()


@scene(Role.WORK)
def work_on_what_is_cancelled_meanwhile(site: Site) -> None:
    for key in (None, "k"):
        run = site.enqueue("call", key=key)

        def body(ctx: JobContext, run: Any = run) -> None:
            run.cancel()
            ctx.checkpoint(1)

        site.during = body
        with site.acting():
            site.work()


@scene(Role.WORK, plays=AFTER_CRASHES)
def repair_what_crashes_have_left(site: Site) -> None:
    for left in site.crashes(*CRASHING):
        left.clock.advance(MINUTE)
        with left.acting():
            left.work_through()


@scene(Role.WORK)
def repair_what_enqueuers_have_left(site: Site) -> None:
    """A mark without its run, and one that its run does not name any more."""
    items, app = site.app.items, site.make_app()
    _, born = app.operations.born(site.job("kept"), (1,), {})
    app.driver.run(marks.place(items, born.mark))
    moved = site.enqueue("kept", key="moved")
    before = app.driver.run(runs.read(items, moved.id))
    assert before is not None
    moved.delay_until(site.clock.now() + HOUR)
    app.driver.run(marks.place(items, runs.pointer_to(items, before)))
    with site.acting():
        site.work()
        site.clock.advance(HOUR)
        site.work()


@scene(Role.WORK)
def work_on_workflows(site: Site) -> None:
    for name in ("wait", "parent", "guarded", "wait_for_two"):
        site.enqueue(name)
    undone = site.enqueue("undo")
    with site.acting():
        site.work()
    undone.cancel()
    with site.acting():
        site.work_through()


@scene(Role.WORK)
def hold_leases(site: Site) -> None:
    other = site.make_app(client=site.client)
    with site.acting(), site.app.lease("l", ttl=MINUTE) as lease:
        with contextlib.suppress(LeaseBusyError), other.lease("l", ttl=MINUTE):
            raise AssertionError("two hold it")
        assert lease.fence


@scene(Role.WORK)
def say_that_one_is_there(site: Site) -> None:
    site.enqueue("plain")
    worker = site.app.worker(metrics=True)
    worker.reporter._write = lambda _line: None
    with site.acting():
        worker.registrar.beat()
        worker.reporter.report()
        worker.registrar.stop()


@scene(Role.WORK)
def keep_schedules(site: Site) -> None:
    with site.acting():
        for cron in ("0 * * * *", "30 * * * *", "0 * * * *"):
            app = site.make_scheduled_app(cron)
            for _ in range(3):
                site.work(app)
                site.clock.advance(HOUR)


# --- observe --------------------------------------------------------------------------------------


@scene(Role.OBSERVE, Role.REPLAY)
def look_at_everything(site: Site) -> None:
    app = site.app
    app.worker().registrar.beat()
    for name in ("plain", "kept", "die", "fail", "wait"):
        site.enqueue(name)
    later = site.enqueue("plain", delay=HOUR)
    site.work()
    app.schedules.create("s", site.job("plain"), "0 * * * *")
    with app.lease("l", ttl=MINUTE), site.acting():
        app.check_table()
        dead = app.dead.list()
        for run_id in [*(run.run_id for run in app.runs.list(job="wait")), *(letter.run_id for letter in dead)]:
            app.run(run_id).info()
            app.run(run_id).explain()
        later.explain()
        app.dead.get(dead[0].run_id)
        app.dead.groups()
        app.dead.count()
        app.dead.replay(dry_run=True, everything=True)
        app.queues.list()
        app.queues.get("default")
        app.workers.list()
        app.leases.list()
        app.leases.get("l")
        app.schedules.list()
        app.schedules.get("s")
        app.schedules.next("s")


@scene(Role.OBSERVE, Role.REPLAY)
def ask_the_doctor(site: Site) -> None:
    """But for what it tries in order to find out what is allowed."""
    for name in ("kept", "wait"):
        site.enqueue(name)
    for _ in range(2):
        site.enqueue("die")
    site.work()
    site.enqueue("kept")
    examine(site, repair=False)


def examine(site: Site, *, repair: bool) -> None:
    plans, run = DoctorPlans(site.app.operations), site.app.driver.run
    with site.acting():
        run(plans.table())
        run(plans._contents(Asked(queues=["default"], repair=repair)))
        run(plans._cleaner())


# --- replay ---------------------------------------------------------------------------------------


@scene(Role.REPLAY)
def bring_back_and_forget(site: Site) -> None:
    for _ in range(3):
        site.enqueue("die")
    site.enqueue("die", key="k")
    site.work()
    dead = site.app.dead
    with site.acting():
        dead.replay(run_id=dead.list()[0].run_id)
        site.app.driver.run(site.app.run_plans.retry(dead.list()[0].run_id))
        dead.purge(run_id=dead.list()[0].run_id)
        dead.replay(everything=True)


@scene(Role.REPLAY)
def change_runs(site: Site) -> None:
    for name in ("plain", "kept", "wait"):
        run = site.enqueue(name)
        with site.acting():
            run.delay_until(site.clock.now() + 2 * HOUR)
            run.run_now()
            run.cancel()
    for name in ("wait", "parent", "undo"):
        run = site.enqueue(name)
        site.work()
        with site.acting():
            run.cancel()


@scene(Role.REPLAY)
def cancel_what_runs(site: Site) -> None:
    for key in (None, "k"):
        run = site.enqueue("call", key=key)

        def body(_ctx: JobContext, run: Any = run) -> None:
            with site.acting():
                run.cancel()

        site.during = body
        site.work()


@scene(Role.REPLAY, plays=AFTER_CRASHES)
def cancel_what_crashes_have_left(site: Site) -> None:
    for left in site.crashes(*CRASHING):
        left.clock.advance(MINUTE)
        run_ids = {unescape(row["pk"]["S"].partition("#")[2]) for row in left.rows("run")}
        with left.acting():
            for run_id in run_ids:
                left.app.run(run_id).cancel()


@scene(Role.OBSERVE, plays=AFTER_CRASHES)
def examine_what_crashes_have_left(site: Site) -> None:
    for left in site.crashes(*CRASHING):
        left.clock.advance(MINUTE)
        examine(left, repair=False)


@scene(Role.REPLAY, plays=AFTER_CRASHES)
def have_the_doctor_repair_what_crashes_have_left(site: Site) -> None:
    for left in site.crashes(*CRASHING):
        left.clock.advance(MINUTE)
        examine(left, repair=True)


@scene(Role.REPLAY)
def turn_the_switches(site: Site) -> None:
    app = site.app
    with contextlib.suppress(LeaseLostError), app.lease("l", ttl=MINUTE), site.acting():
        app.queues.pause("default", reason="r")
        app.queues.resume("default")
        app.leases.break_("l")
        app.schedules.create("s", site.job("plain"), "0 * * * *")
        app.schedules.change("s", "30 * * * *")
        app.schedules.pause("s")
        app.schedules.resume("s")
        app.schedules.trigger("s")
        app.schedules.delete("s")


# --- clean ----------------------------------------------------------------------------------------


def clean(site: Site, *, after: timedelta) -> None:
    site.clock.advance(after)
    with site.acting():
        site.app.cleaner(dry_run=True).run()
        site.app.cleaner().run()


@scene(Role.CLEAN)
def clean_what_has_expired(site: Site) -> None:
    app = site.app
    app.worker().registrar.beat()
    for name in ("plain", "kept", "die", "wait", "parent"):
        site.enqueue(name)
    app.schedules.create("s", site.job("plain"), "0 * * * *")
    app.schedules.delete("s")
    site.work()
    with site.acting():
        app.cleaner().estimate()
    for _ in range(5):
        clean(site, after=10 * DAY)


@scene(Role.CLEAN, plays=AFTER_CRASHES)
def clean_what_crashes_have_left(site: Site) -> None:
    for left in site.crashes(*CRASHING):
        clean(left, after=2 * HOUR)
        clean(left, after=10 * DAY)


@scene(Role.CLEAN)
def put_back_a_mark_that_was_lost(site: Site) -> None:
    site.enqueue("kept")
    for item in site.rows("queue"):
        MemoryClient(site.store).delete_item(TableName=TABLE, Key={"pk": item["pk"], "sk": item["sk"]})
    clean(site, after=2 * HOUR)
