"""What workers report for CloudWatch, who of them reports, and what it costs."""

from __future__ import annotations

import json
import logging
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dynadurable import App, Queue, Retry, aws_lambda
from dynadurable.cli.root import root
from dynadurable.errors import ConfigurationError
from dynadurable.locate import locate_app
from dynadurable.storage import figures, marks, workers
from dynadurable.testing.clock import ManualClock
from dynadurable.testing.ledger import ledger
from dynadurable.worker.worker import Worker
from tests import faults
from tests.faults import FaultPlan

PATIENCE_SECONDS = 30
ONE_TRY = Retry(max_attempts=1)
Makes = Callable[..., App]


def reporting(app: App, **options: Any) -> tuple[Worker, list[dict[str, Any]]]:
    """A worker that reports, and what it has reported so far."""
    worker = app.worker(metrics=True, **options)
    told: list[dict[str, Any]] = []
    worker.reporter._write = lambda line: told.append(json.loads(line))
    return worker, told


def report(app: App, **options: Any) -> dict[str, Any]:
    """What a worker that has just started reports of the only queue."""
    worker, told = reporting(app, **options)
    worker.reporter.report()
    (line,) = told
    return line


def hold(app: App, run_id: str, lease: timedelta) -> None:
    """Have somebody work on it."""
    page = app.operations.queue("default").shards
    for shard in range(page):
        plan = marks.poll(app.items, queue="default", shard=shard, limit=100, until_ms=None)
        for seen in app.driver.run(plan).candidates:
            if seen.run_id == run_id:
                now_ms = app.clock.now_ms()
                until_ms = now_ms + lease // timedelta(milliseconds=1)
                claim = marks.claim(
                    app.items,
                    pk=seen.pk,
                    sk=seen.sk,
                    token="t",
                    now_ms=now_ms,
                    lease_until_ms=until_ms,
                    worker="somebody",
                )
                assert app.driver.run(claim) is not None


# --- the figures ----------------------------------------------------------------------------------


def test_what_is_due_is_counted_whether_or_not_somebody_works_on_it(app: App, clock: ManualClock) -> None:
    @app.job
    def work() -> None: ...

    held = app.enqueue(work)
    clock.advance(timedelta(seconds=100))
    app.enqueue(work)
    clock.advance(timedelta(seconds=7.5))
    app.enqueue(work)
    app.enqueue(work.using(delay=timedelta(hours=1)))
    hold(app, held.id, lease=timedelta(hours=1))
    told = report(app)
    assert (told["Backlog"], told["OldestDueSeconds"]) == (3, 7.5)
    assert told["_aws"]["Timestamp"] == clock.now_ms()


def test_what_a_crash_has_left_waits_too(app: App, clock: ManualClock) -> None:
    @app.job
    def work() -> None: ...

    hold(app, app.enqueue(work).id, lease=timedelta(seconds=30))
    clock.advance(timedelta(seconds=29))
    assert report(app)["OldestDueSeconds"] == 0
    clock.advance(timedelta(seconds=2))
    assert report(app)["OldestDueSeconds"] == 31


def test_an_empty_queue_is_reported_as_empty(app: App) -> None:
    @app.job(queue="mail")
    def work() -> None: ...

    told = report(app)
    assert told["Queue"] == "mail"
    assert told["Table"] == app.schema.table
    assert (told["Backlog"], told["OldestDueSeconds"], told["DeadLetters"], told["Workers"]) == (0, 0, 0, 1)


def test_a_paused_queue_has_a_backlog_that_waits(app: App, clock: ManualClock) -> None:
    @app.job
    def work() -> None: ...

    app.enqueue(work)
    app.queues.pause("default")
    clock.advance(timedelta(minutes=1))
    told = report(app)
    assert (told["Backlog"], told["OldestDueSeconds"]) == (1, 60)


def test_dead_letters_are_counted_until_they_are_replayed_or_have_expired(app: App, clock: ManualClock) -> None:
    @app.job(retry=ONE_TRY)
    def fail() -> None:
        raise ValueError

    @app.job(retry=ONE_TRY, keep_failed=timedelta(days=1))
    def fail_and_be_forgotten() -> None:
        raise ValueError

    app.enqueue(fail)
    app.enqueue(fail)
    app.enqueue(fail_and_be_forgotten)
    app.worker(concurrency=1).drain()
    assert report(app)["DeadLetters"] == 3
    clock.advance(timedelta(days=2))
    assert report(app)["DeadLetters"] == app.queues.get("default").dead == 2
    app.dead.replay(job="fail")
    assert report(app)["DeadLetters"] == 0


def test_counting_ends_at_the_limits(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that what a report costs does not grow with the backlog."""
    monkeypatch.setattr(figures, "MAX_BACKLOG", 5)
    monkeypatch.setattr(figures, "MAX_DEAD_LETTERS", 3)

    @app.job(retry=ONE_TRY)
    def fail() -> None:
        raise ValueError

    for _ in range(8):
        app.enqueue(fail)
    assert report(app)["Backlog"] == 5
    app.worker(concurrency=1).drain()
    told = report(app)
    assert (told["Backlog"], told["DeadLetters"]) == (0, 3)


def test_marks_and_letters_in_shards_beyond_the_number_set_are_counted(make_app: Makes, clock: ManualClock) -> None:
    """The number was lowered, or whoever enqueues knows a higher one."""
    many, few = (make_app(queues=[Queue(name="default", shards=shards)]) for shards in (32, 1))
    for app in (many, few):
        app.job(retry=ONE_TRY)(fail)
    for _ in range(20):
        many.enqueue(many.registry.get("fail"))  # type: ignore[arg-type]
    many.worker(concurrency=1).drain()
    for _ in range(20):
        many.enqueue(many.registry.get("fail"))  # type: ignore[arg-type]
    worker, told = reporting(few)
    worker._poller.poll()
    worker.reporter.report()
    assert (told[0]["Backlog"], told[0]["DeadLetters"]) == (20, 20)


def fail() -> None:
    raise ValueError


def test_apps_that_share_a_table_report_apart(make_app: Makes) -> None:
    told = []
    for prefix in ("a/", "b/"):
        app = make_app(prefix=prefix)
        app.job(fail)
        app.enqueue(app.registry.get("fail"))  # type: ignore[arg-type]
        told.append(report(app))
    assert [line["Backlog"] for line in told] == [1, 1]
    assert told[0]["Table"] != told[1]["Table"]


# --- what it costs --------------------------------------------------------------------------------


def test_an_empty_queue_costs_half_a_unit_for_the_marks_and_for_the_letters_of_each_shard(
    app: App, moto_client: Any
) -> None:
    @app.job
    def work() -> None: ...

    worker, told = reporting(app)
    worker.reporter.report()
    with ledger(moto_client) as cost:
        worker.reporter.report()
    assert len(told) == 2
    assert cost.by_operation == {"Query": 9}
    assert cost.read_units == 4 * (0.5 + 0.5) + 0.5  # and the list of workers


# --- who reports ----------------------------------------------------------------------------------


def test_of_the_workers_of_a_queue_two_report_and_a_third_takes_the_place_of_one_that_crashed(
    make_app: Makes, clock: ManualClock
) -> None:
    apps = [make_app() for _ in range(3)]
    for app in apps:
        app.job(fail)
    pairs = [reporting(app, name=f"pod-{number}") for number, app in enumerate(apps)]
    for worker, _ in pairs:
        worker.registrar.beat()
    for worker, _ in pairs:
        worker.reporter.report()
    assert [len(told) for _, told in pairs] == [1, 1, 0]
    assert pairs[0][1][0]["Workers"] == 3
    clock.advance(timedelta(milliseconds=workers.LIVE_MS - 1))
    for worker, _ in pairs[1:]:
        worker.registrar.beat()
    clock.advance(timedelta(milliseconds=2))
    for worker, _ in pairs[1:]:
        worker.reporter.report()
    assert [len(told) for _, told in pairs] == [1, 2, 1]
    assert pairs[2][1][0]["Workers"] == 2


def test_workers_that_do_not_report_leave_it_to_those_that_do(make_app: Makes) -> None:
    silent = make_app()
    silent.job(fail)
    for number in range(3):
        silent.worker(name=f"a-{number}").registrar.beat()
    app = make_app()
    app.job(fail)
    worker, told = reporting(app, name="z")
    worker.registrar.beat()
    worker.reporter.report()
    assert [line["Workers"] for line in told] == [4]


def test_a_worker_reports_each_of_its_queues_once_a_minute_from_a_thread_of_its_own(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    enough = threading.Event()
    app.job(queue="mail")(fail)
    app.job(queue="billing", name="other")(lambda: None)
    worker, told = reporting(app)
    write = worker.reporter._write

    def note(line: str) -> None:
        assert write is not None
        write(line)
        if len(told) == 4:
            enough.set()

    worker.reporter._write = note
    assert worker.reporter._chore._every_seconds == 60
    worker.reporter._chore._every_seconds = 0.01
    monkeypatch.setattr("dynadurable.worker.worker.REPORT_SECONDS", 0.0)
    worker.start()
    assert enough.wait(PATIENCE_SECONDS)
    worker.stop()
    assert {line["Queue"] for line in told} == {"mail", "billing"}
    assert not [thread for thread in threading.enumerate() if thread.name == "dynadurable-reporter"]


def test_a_drain_reports_once_at_its_end(app: App) -> None:
    @app.job
    def work() -> None: ...

    app.enqueue(work)
    worker, told = reporting(app)
    worker.drain()
    (line,) = told
    assert (line["Backlog"], line["Workers"]) == (0, 1)


def test_a_report_that_fails_is_said_and_stops_nothing(
    app: App, moto_client: Any, caplog: pytest.LogCaptureFixture
) -> None:
    @app.job
    def work() -> None: ...

    app.enqueue(work)
    worker, told = reporting(app)
    with FaultPlan(moto_client) as plan, caplog.at_level(logging.WARNING, "dynadurable.worker"):
        refused = faults.refused("AccessDeniedException")
        plan.on("Query", refused, when=lambda call: call.params.get("Select") == "COUNT")
        assert worker.drain() is None
    assert told == []
    assert ["cannot report the figures" in record.getMessage() for record in caplog.records] == [True]


# --- who asks for it ------------------------------------------------------------------------------

MODULE = """
from dynadurable import App

app = App("work", region="us-east-1")


@app.job(queue="mail")
def note() -> None: ...
"""


@pytest.fixture
def named_app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moto_client: Any) -> Iterator[str]:
    """An app in a module of the user's, on a table that exists."""
    (tmp_path / "reported_jobs.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    app = locate_app("reported_jobs:app")
    app.create_table()
    app.enqueue(app.registry.get("note"))  # type: ignore[arg-type]
    yield "reported_jobs:app"
    moto_client.delete_table(TableName="work")
    del sys.modules["reported_jobs"]


def lines_of(output: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.splitlines() if line.startswith('{"_aws"')]


def test_the_command_line_takes_an_option(named_app: str) -> None:
    done = CliRunner().invoke(root, ["drain", named_app, "--metrics"])
    assert done.exit_code == 0, done.output
    (line,) = lines_of(done.stdout)
    assert (line["Table"], line["Queue"]) == ("work", "mail")


def test_the_environment_can_ask_too(named_app: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DYNADURABLE_METRICS", "emf")
    assert len(lines_of(CliRunner().invoke(root, ["drain", named_app]).stdout)) == 1


def test_a_lambda_function_reports_where_the_environment_asks(
    named_app: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Context:
        def get_remaining_time_in_millis(self) -> int:
            return 60_000

    monkeypatch.setenv("DYNADURABLE_METRICS", "emf")
    monkeypatch.setenv("DYNADURABLE_APP", named_app)
    aws_lambda._app.cache_clear()
    aws_lambda.handler({}, Context())
    aws_lambda._app.cache_clear()
    assert len(lines_of(capsys.readouterr().out)) == 1


def test_nothing_is_printed_where_nobody_asks(named_app: str) -> None:
    assert lines_of(CliRunner().invoke(root, ["drain", named_app]).stdout) == []


def test_a_format_that_does_not_exist_is_refused(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    app.job(fail)
    monkeypatch.setenv("DYNADURABLE_METRICS", "prometheus")
    with pytest.raises(ConfigurationError, match="DYNADURABLE_METRICS"):
        app.worker()
