"""``dynadurable leases`` and ``dynadurable schedules``, as a person and as a script use them, on a real server."""

from __future__ import annotations

import importlib
import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dynadurable import App
from dynadurable.cli.root import root
from tests.servers import Store

pytestmark = pytest.mark.server


@dataclass
class Shell:
    """The command, about an app in a module of its own."""

    module: str
    app: App
    ran: list[Any]

    def run(self, *args: str, code: int = 0, answer: str | None = None) -> str:
        result = CliRunner().invoke(root, [*args, "--app", f"{self.module}:app"], input=answer)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == code, result.output
        return result.output

    def ask(self, *args: str) -> Any:
        return json.loads(self.run(*args, "--json"))


SHOP = """
from dynadurable import App, JobContext

app, ran = App({table!r}, endpoint_url={endpoint!r}, region="us-east-1"), []

@app.schedule("30 2 * * *", tz="Europe/Berlin", overlap="skip", arguments={{"shop": "berlin"}})
def nightly(ctx: JobContext, shop: str) -> None:
    ran.append(ctx.slot)
"""


@pytest.fixture
def shell(roto: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shell]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", roto.client_kwargs["aws_access_key_id"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", roto.client_kwargs["aws_secret_access_key"])
    monkeypatch.syspath_prepend(str(tmp_path))
    module = f"shop_{uuid.uuid4().hex[:8]}"
    (tmp_path / f"{module}.py").write_text(SHOP.format(table=roto.table(), endpoint=roto.endpoint_url))
    shop = importlib.import_module(module)
    yield Shell(module, shop.app, shop.ran)
    shop.app.lease_parts.keeper.stop()
    shop.app._clients.get().close()


def test_leases_are_listed_shown_and_broken(shell: Shell) -> None:
    assert "No lease was ever acquired here." in shell.run("leases", "list")
    lease = shell.app.lease("refresher", ttl=timedelta(minutes=10)).acquire()
    with shell.app.lease("sweeper", ttl=timedelta(minutes=10)):
        pass
    assert [(one["name"], one["state"], one["fence"]) for one in shell.ask("leases", "list")] == [
        ("refresher", "held", 1),
        ("sweeper", "free", 1),
    ]
    assert [one["name"] for one in shell.ask("leases", "list", "--held")] == ["refresher"]
    assert "refresher" in shell.run("leases", "list")
    shown = shell.run("leases", "show", "refresher")
    assert "held" in shown
    assert "in 9 min" in shown or "in 10 min" in shown
    assert "last owner" in shell.run("leases", "show", "sweeper")
    shell.run("leases", "break", "refresher", code=1, answer="n\n")
    assert shell.ask("leases", "show", "refresher")["state"] == "held"
    shell.run("leases", "break", "refresher", "--fence", "7", "--yes", code=1)
    assert "is free" in shell.run("leases", "break", "refresher", answer="y\n")
    assert shell.ask("leases", "show", "refresher")["state"] == "free"
    assert "was not held" in shell.run("leases", "break", "refresher")
    assert not lease.release()


def test_a_lease_that_is_not_there_has_an_exit_code_of_its_own(shell: Shell) -> None:
    assert "no lease 'unknown'" in shell.run("leases", "show", "unknown", code=3)
    assert "no lease 'unknown'" in shell.run("leases", "break", "unknown", "--yes", code=3)


def test_schedules_are_listed_paused_resumed_and_triggered(shell: Shell) -> None:
    assert "There is no schedule here" in shell.run("schedules", "list")
    shell.app.worker().drain()
    (told,) = shell.ask("schedules", "list")
    assert (told["name"], told["rule"], told["state"]) == ("nightly", "30 2 * * * Europe/Berlin", "active")
    assert told["arguments"] == '{"shop": "berlin"}'
    assert "nightly" in shell.run("schedules", "list")
    assert "Europe/Berlin" in shell.run("schedules", "show", "nightly")
    assert "is paused" in shell.run("schedules", "pause", "nightly")
    assert shell.ask("schedules", "show", "nightly")["state"] == "paused"
    assert "goes on" in shell.run("schedules", "resume", "nightly")
    run_id = shell.run("schedules", "trigger", "nightly").strip()
    assert shell.app.run(run_id).status() == "pending"
    shell.app.worker().drain()
    assert len(shell.ran) == 1
    assert shell.ask("schedules", "show", "nightly")["last_run_id"] == run_id


def test_what_marks_a_schedule_is_not_listed_as_a_run(shell: Shell) -> None:
    """It lies among the marks of its queue, before the runs that come due later; also on the way to its first slot."""

    @shell.app.job
    def later() -> None: ...

    names = [f"hourly-{number}" for number in range(3)]
    for name in names:
        shell.app.schedules.create(name, later, "0 * * * *")
    assert shell.ask("runs", "list") == []
    assert "Nothing is pending." in shell.run("runs", "list")
    run = shell.app.enqueue(later.using(delay=timedelta(days=2)))
    assert [one["run_id"] for one in shell.ask("runs", "list", "--limit", "1")] == [run.id]
    assert shell.ask("queues", "list")[0]["delayed"] == 1
    triggered = shell.run("schedules", "trigger", "hourly-0").strip()
    assert [told.run_id for told in shell.app.runs.list(queue="default")] == [triggered, run.id]
    assert [told.run_id for told in shell.app.runs.list(job="later")] == [triggered, run.id]


def test_the_next_instants_are_told_in_local_time_and_utc(shell: Shell) -> None:
    shell.app.worker().drain()
    printed = shell.run("schedules", "next", "nightly", "3", "--after", "2027-03-27T00:00Z")
    assert [line.split("  ")[0].strip() for line in printed.splitlines()[2:5]] == [
        "Sat 2027-03-27 02:30:00 +0100",
        "Sun 2027-03-28 03:00:00 +0200",
        "Mon 2027-03-29 02:30:00 +0200",
    ]
    (first,) = shell.ask("schedules", "next", "nightly", "1", "--after", "2027-03-27T12:00Z")
    assert first == {"utc": "2027-03-28T01:00:00+00:00", "local": "2027-03-28T03:00:00+02:00"}
    for command in ("next", "show", "pause", "resume", "trigger"):
        assert "no schedule 'unknown'" in shell.run("schedules", command, "unknown", code=3)


def test_an_expression_is_previewed_without_a_table() -> None:
    arguments = ["schedules", "preview", "0 2 * * *", "2", "--tz", "Europe/Berlin", "--after", "2027-10-30T12:00Z"]
    result = CliRunner().invoke(root, [*arguments, "--json"])
    assert [slot["utc"][:16] for slot in json.loads(result.output)] == ["2027-10-31T00:00", "2027-11-01T01:00"]
    refused = CliRunner().invoke(root, ["schedules", "preview", "61 * * * *"])
    assert refused.exit_code == 1
    assert "'61' is no minute" in refused.output
