"""Each command of ``dynadurable`` against a real server, as a person and as a script uses it."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from dynadurable import App
from dynadurable.cli.root import COMMANDS, root
from dynadurable.cli.target import load_app
from tests.process.workshop import LIMIT_SECONDS, REPOSITORY
from tests.servers import Store

pytestmark = pytest.mark.server

SHOP = """
import os
from datetime import datetime, timedelta
from dynadurable import App, JobContext, Retry

app = App({table!r}, endpoint_url={endpoint!r}, region="us-east-1", build=os.environ.get("BUILD", "v1"))

@app.job(keep_result=timedelta(days=1))
def add(a: int, b: int = 1) -> int:
    return a + b

@app.job(retry=Retry.none())
def mail(to: str) -> None:
    if "@" not in to:
        raise ValueError(f"{{to}} is no address")

@app.job(queue="slow")
def wait(ctx: JobContext, seconds: float, at: datetime | None = None) -> None:
    print("begun", flush=True)
    ctx.stopping.wait(seconds)
    if seconds > 100:
        ctx.raise_if_stopping()
"""


@dataclass(kw_only=True)
class Shell:
    """A folder with a module in it, and the command run there."""

    folder: Path
    module: str
    environment: dict[str, str]

    @property
    def target(self) -> str:
        return f"{self.module}:app"

    @property
    def app(self) -> App:
        return load_app(self.target)

    def run(self, *args: str, code: int = 0, answer: str | None = None) -> Result:
        """The command in this process, as if typed; ``answer`` is typed at its question."""
        result = CliRunner(env=self.environment).invoke(root, args, input=answer, prog_name="dynadurable")
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == code, result.output
        return result

    def ask(self, *args: str, code: int = 0) -> Any:
        """What the command prints with ``--json``."""
        return json.loads(self.run(*args, "--json", "--app", self.target, code=code).stdout)

    def enqueue(self, job: str, *options: str) -> str:
        return self.run("enqueue", f"{self.module}:{job}", *options).stdout.strip()

    def drain(self) -> Result:
        return self.run("drain", self.target, "--log-level", "error")

    def start(self, *args: str, **environment: str) -> subprocess.Popen[str]:
        """The command as a process of its own."""
        return subprocess.Popen(
            [sys.executable, "-c", "from dynadurable.cli import main; main()", *args],
            env={**self.environment, "PYTHONPATH": str(REPOSITORY), **environment},
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


@pytest.fixture
def shell(ministack: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shell]:
    module = f"shop_{uuid.uuid4().hex[:12]}"
    source = SHOP.format(table=ministack.table(), endpoint=ministack.endpoint_url)
    (tmp_path / f"{module}.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delenv("DYNADURABLE_APP", raising=False)
    kwargs = ministack.client_kwargs
    environment = {
        "AWS_ACCESS_KEY_ID": kwargs["aws_access_key_id"],
        "AWS_SECRET_ACCESS_KEY": kwargs["aws_secret_access_key"],
        "PATH": "/usr/bin:/bin",
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    yield Shell(folder=tmp_path, module=module, environment=environment)
    sys.modules.pop(module, None)


def words(result: Result) -> str:
    """What was printed, with its wrapping undone."""
    return " ".join(result.stdout.split())


# --- enqueue, drain, worker -----------------------------------------------------------------------


def test_a_run_is_enqueued_drained_and_shown(shell: Shell) -> None:
    run_id = shell.enqueue("add", "--json", '{"a": 2, "b": 3}', "--key", "k1")
    assert "pending" in words(shell.run("runs", "show", run_id, "--app", shell.target))
    assert words(shell.drain()) == "Nothing is pending."
    shown = words(shell.run("runs", "show", run_id, "--app", shell.target))
    assert "succeeded" in shown
    assert '{"a": 2, "b": 3}' in shown
    assert shell.app.run(run_id).result() == 5
    told = shell.ask("runs", "show", run_id)
    assert (told["state"], told["job"], told["key"], told["has_result"]) == ("succeeded", "add", "k1", True)


def test_a_drain_says_when_to_come_again(shell: Shell) -> None:
    shell.enqueue("add", "--json", "[1]", "--delay", "1h30m")
    assert "The next run is due" in words(shell.drain())
    assert re.search(r"\(in 1 h (30|2\d)", words(shell.drain()))
    told = json.loads(shell.run("drain", shell.target, "--json", "--log-level", "error").stdout)
    assert told["next_due_at"].endswith("+00:00")


def test_values_that_json_lacks_are_written_with_tags(shell: Shell) -> None:
    at = '{"seconds": 0, "at": {"$datetime": "2027-01-15T12:00:00+00:00"}}'
    run_id = shell.enqueue("wait", "--json", at, "--at", "2999-01-01T00:00:00Z", "--queue", "other")
    told = shell.ask("runs", "show", run_id)
    assert told["due_at"] == "2999-01-01T00:00:00+00:00"
    assert told["queue"] == "other"
    assert "$datetime" in told["arguments"]


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--json", "{a: 2}"], 2, "not JSON"),
        (["--json", "7"], 2, "an object or an array"),
        (["--json", '{"c": 7}'], 1, "missing a required argument: 'a'"),
        (["--json", "[1]", "--delay", "soon"], 2, "no length of time"),
        (["--json", "[1]", "--at", "2027-01-15T12:00:00"], 2, "no time zone"),
        (["--json", "[1]", "--unique-for", "5m"], 1, "needs key="),
    ],
)
def test_what_cannot_be_enqueued_is_refused_in_one_line(
    shell: Shell, options: list[str], code: int, message: str
) -> None:
    result = shell.run("enqueue", f"{shell.module}:add", *options, code=code)
    assert message in result.output
    assert "Traceback" not in result.output


@pytest.mark.slow
def test_a_worker_runs_until_it_is_told_to_stop_and_its_code_says_how(shell: Shell) -> None:
    shell.enqueue("wait", "--json", "[0.1]")
    worker = shell.start("worker", shell.target, "-q", "slow", "--name", "pod-0")
    assert worker.stdout is not None
    assert worker.stdout.readline() == "begun\n"
    worker.send_signal(signal.SIGTERM)
    _, log = worker.communicate(timeout=LIMIT_SECONDS)
    assert worker.returncode == 0
    assert "worker pod-0 serves slow of table" in log
    shell.enqueue("wait", "--json", "[50]")
    stubborn = shell.start("worker", shell.target, "--grace", "0.2", "--lease", "5")
    assert stubborn.stdout is not None
    assert stubborn.stdout.readline() == "begun\n"
    stubborn.send_signal(signal.SIGINT)
    stubborn.communicate(timeout=LIMIT_SECONDS)
    assert stubborn.returncode in (0, 2)  # 0: the body ended when it was told, within the grace period


@pytest.mark.slow
def test_a_folder_of_ones_own_is_found_and_a_missing_app_is_told(shell: Shell) -> None:
    process = shell.start("drain", shell.target, "--log-level", "error")
    out, err = process.communicate(timeout=LIMIT_SECONDS)
    assert (process.returncode, out.strip()) == (0, "Nothing is pending."), err
    (shell.folder / "broken.py").write_text("import nowhere_to_be_found\n")
    process = shell.start("drain", "broken:app")
    _, err = process.communicate(timeout=LIMIT_SECONDS)
    assert process.returncode == 1
    assert "nowhere_to_be_found" in err


def test_without_its_extra_the_command_says_what_to_install(shell: Shell) -> None:
    (shell.folder / "blocked.py").write_text(
        "import importlib.util as u, sys\n"
        "find = u.find_spec\n"
        "u.find_spec = lambda name, package=None: None if name == 'rich' else find(name, package)\n"
        "from dynadurable.cli import main\n"
        "main()\n"
    )
    environment = {**shell.environment, "PYTHONPATH": str(REPOSITORY)}
    result = subprocess.run(
        [sys.executable, "blocked.py"], cwd=shell.folder, env=environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == 1
    assert 'install it with: pip install "dynadurable[cli]"' in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("{module}:nothing", "did you mean {module}:app?"),
        ("nowhere:app", "there is no module 'nowhere'"),
        (":app", "module:a"),
    ],
)
def test_an_app_that_is_not_found_is_told_with_what_there_is(shell: Shell, target: str, message: str) -> None:
    result = shell.run("drain", target.format(module=shell.module), code=1)
    assert message.format(module=shell.module) in result.output
    result = shell.run("runs", "list", "--app", target.format(module=shell.module), code=1)
    assert message.format(module=shell.module) in result.output


def test_a_job_that_is_not_found_is_told_with_those_there_are(shell: Shell) -> None:
    result = shell.run("enqueue", f"{shell.module}:ad", code=1)
    assert "its jobs are: add, mail, wait" in result.output
    assert "named as module:job" in shell.run("enqueue", "add", code=1).output


# --- runs -----------------------------------------------------------------------------------------


def test_runs_are_listed_explained_hurried_and_cancelled(shell: Shell) -> None:
    assert "Nothing is pending." in shell.run("runs", "list", "--app", shell.target).output
    late = shell.enqueue("add", "--json", "[1]", "--delay", "1h")
    due = shell.enqueue("mail", "--json", '["ada@example.com"]')
    listed = shell.run("runs", "list", "--app", shell.target).stdout
    assert late in listed
    assert due in listed
    assert [run["run_id"] for run in shell.ask("runs", "list", "--job", "add")] == [late]
    why = words(shell.run("runs", "explain", late, "--app", shell.target))
    assert "It is not due until" in why
    assert "Also: No live worker was seen" in why
    assert shell.ask("runs", "explain", due)["code"] == "no worker"
    assert shell.run("runs", "retry", late, "--app", shell.target).stdout == f"{late}: due\n"
    assert shell.ask("runs", "explain", late)["code"] == "no worker"
    refused = shell.run("runs", "cancel", late, "--app", shell.target, answer="n\n", code=1)
    assert "Nothing was done" in refused.output
    assert shell.run("runs", "cancel", late, "--app", shell.target, answer="y\n").stdout == f"{late}: cancelled\n"
    assert shell.ask("runs", "cancel", due, "--yes") == [{"run_id": due, "outcome": "cancelled"}]


def test_an_unknown_run_has_an_exit_code_of_its_own(shell: Shell) -> None:
    for command in ("show", "retry", "explain"):
        assert shell.run("runs", command, "nothing", "--app", shell.target, code=3).output
    assert "there is no such run" in shell.run("runs", "cancel", "-y", "nothing", "--app", shell.target, code=3).output


def test_one_of_several_that_is_unknown_does_not_keep_the_others(shell: Shell) -> None:
    run_id = shell.enqueue("add", "--json", "[1]", "--delay", "1h")
    result = shell.run("runs", "cancel", "--yes", "nothing", run_id, "--app", shell.target, code=1)
    assert f"{run_id}: cancelled" in result.stdout
    assert "there is no such run" in result.output


# --- dead -----------------------------------------------------------------------------------------


@pytest.fixture
def dead(shell: Shell) -> list[str]:
    """Three dead letters of one cause."""
    run_ids = [shell.enqueue("mail", "--json", f'["krab-{number}"]') for number in range(3)]
    shell.drain()
    return run_ids


def test_dead_letters_are_listed_grouped_and_shown(shell: Shell, dead: list[str]) -> None:
    listed = shell.run("dead", "list", "--app", shell.target).stdout
    assert all(run_id in listed for run_id in dead)
    assert "krab-0 is no address" in listed
    assert {letter["run_id"] for letter in shell.ask("dead", "list", "--since", "1h", "--job", "mail")} == set(dead)
    assert shell.ask("dead", "list", "--until", "1h") == []
    (group,) = shell.ask("dead", "groups")
    assert (group["count"], group["builds"]) == (3, ["v1"])
    assert group["fingerprint"][:8] in shell.run("dead", "groups", "--app", shell.target).stdout
    shown = shell.run("dead", "show", dead[0], "--app", shell.target).stdout
    assert '{"to": "krab-0"}' in shown
    assert "ValueError: krab-0 is no address" in shown
    assert "in mail" in shown
    told = shell.ask("dead", "show", dead[0])
    assert told["failures"][0]["build"] == "v1"
    assert json.loads(told["arguments"]) == {"to": "krab-0"}


def test_dead_letters_are_replayed_once_edited_and_all(shell: Shell, dead: list[str]) -> None:
    one, *others = dead
    assert "3 would be replayed" in shell.run("dead", "replay", "--all", "--dry-run", "--app", shell.target).stdout
    edited = ["dead", "replay", one, "--input", '{"to": "krab@example.com"}', "--app", shell.target]
    assert shell.run(*edited).stdout == "1 replayed.\n"
    assert (
        shell.run("dead", "replay", one, "--app", shell.target).stdout == "0 replayed; 1 skipped: not dead any more.\n"
    )
    (group,) = shell.ask("dead", "groups")
    assert group["count"] == 2
    by_cause = ["dead", "replay", "--cause", group["fingerprint"][:6], "--app", shell.target]
    assert "Replay 2 dead letters?" in shell.run(*by_cause, answer="\n", code=1).output
    assert "2 replayed." in shell.run(*by_cause, "--yes", "--rate", "100").output
    shell.drain()
    assert {letter["run_id"] for letter in shell.ask("dead", "list")} == set(others)
    assert shell.ask("runs", "show", one)["state"] == "succeeded"
    assert shell.ask("dead", "replay", "--before-build", "v2", "--yes")["done"] == 2


def test_what_takes_long_shows_how_far_it_has_come(shell: Shell, dead: list[str]) -> None:
    """On standard error, where that is a terminal; never for machines."""
    shell.environment = {**shell.environment, "FORCE_COLOR": "1", "TERM": "xterm"}
    for command, word in (("groups", "looking"), ("replay", "replaying"), ("purge", "purging")):
        told = [*("--all", "--yes"), "--app", shell.target] if command != "groups" else ["--app", shell.target]
        assert word in shell.run("dead", command, *told).stderr
        assert shell.run("dead", command, *told, "--json").stderr == ""
        shell.drain()


def test_a_replay_that_was_stopped_has_an_exit_code_of_its_own(shell: Shell, dead: list[str]) -> None:
    options = ["dead", "replay", "--all", "--yes", "--stop-after", "2", "--app", shell.target]
    worker = shell.app.worker(concurrency=1)
    worker.start()
    try:
        result = shell.run(*options, code=4)
    finally:
        worker.stop()
    assert "2 replayed; 2 seen to fail again." in result.output
    assert "Stopped: 2 runs in a row have failed again." in result.output


def test_dead_letters_are_purged_after_a_question(shell: Shell, dead: list[str]) -> None:
    assert "would be purged" in shell.run("dead", "purge", dead[0], "--dry-run", "--app", shell.target).stdout
    refused = shell.run("dead", "purge", "--all", "--app", shell.target, answer="n\n", code=1)
    assert "Delete 3 dead letters for good?" in refused.output
    assert shell.run("dead", "purge", dead[0], "--yes", "--app", shell.target).stdout == "1 purged.\n"
    assert shell.ask("dead", "purge", "--job", "mail", "--yes")["done"] == 2
    assert "No dead letter fits." in shell.run("dead", "list", "--app", shell.target).stdout


@pytest.mark.parametrize("command", ["replay", "purge"])
@pytest.mark.parametrize("choice", [[], ["--all", "--job", "mail"], ["some-id", "--all"]])
def test_what_is_meant_must_be_said_in_one_way(shell: Shell, command: str, choice: list[str]) -> None:
    assert "one of the three" in shell.run("dead", command, *choice, "--app", shell.target, code=2).output


# --- queues, workers, table -----------------------------------------------------------------------


def test_queues_are_counted_paused_and_resumed(shell: Shell) -> None:
    run_id = shell.enqueue("add", "--json", "[1]")
    listed = words(shell.run("queues", "list", "--app", shell.target))
    assert "default" in listed
    assert "slow" in listed
    (told,) = shell.ask("queues", "list", "--queue", "default")
    assert (told["waiting"], told["paused"]) == (1, False)
    shell.run("queues", "pause", "default", "--reason", "the provider is down", "--app", shell.target)
    listed = words(shell.run("queues", "list", "--app", shell.target))
    assert re.search(r"paused (now|\d+ s ago): the provider is down", listed)
    assert "the provider is down" in shell.run("runs", "explain", run_id, "--app", shell.target).stdout
    shell.drain()
    assert shell.ask("runs", "show", run_id)["state"] == "pending"
    assert shell.ask("queues", "resume", "default") == {"queue": "default", "paused": False}
    shell.drain()
    assert shell.ask("runs", "show", run_id)["state"] == "succeeded"


def test_workers_are_listed(shell: Shell) -> None:
    assert "No worker was seen" in shell.run("workers", "list", "--app", shell.target).stdout
    registrar = shell.app.worker(name="pod-0").registrar
    registrar.beat()
    assert "pod-0" in shell.run("workers", "list", "--app", shell.target).stdout
    (told,) = shell.ask("workers", "list")
    assert (told["name"], told["queues"], told["jobs"]) == ("pod-0", ["default", "slow"], ["add", "mail", "wait"])
    registrar.stop()


def test_a_table_alone_is_enough_to_look_at_it(shell: Shell, ministack: Store) -> None:
    table = shell.app.schema.table
    only_table = ["--table", table, "--endpoint-url", ministack.endpoint_url, "--region", "us-east-1"]
    shell.enqueue("add", "--json", "[1]")
    assert "no queue is known" in shell.run("dead", "list", *only_table, code=1).output
    assert "add" in shell.run("runs", "list", "--queue", "default", *only_table).stdout
    assert "fits" in shell.run("table", "check", *only_table).stdout
    assert "Which app?" in shell.run("runs", "list", code=2).output


def test_the_table_is_created_and_checked(shell: Shell, ministack: Store) -> None:
    name = f"made-{uuid.uuid4().hex[:8]}"
    there = ["--table", name, "--endpoint-url", ministack.endpoint_url, "--region", "us-east-1"]
    assert "dynadurable table create" in shell.run("table", "check", *there, code=1).output
    assert "was created" in shell.run("table", "create", *there).stdout
    assert "was there already" in shell.run("table", "create", *there).stdout
    assert "fits" in shell.run("table", "check", *there).stdout
    ministack.tables.append(name)


# --- help, completion -----------------------------------------------------------------------------


def commands() -> list[list[str]]:
    """Every command there is, with its groups."""
    found: list[list[str]] = [[]]
    for name in COMMANDS:
        found.append([name])
        command = root.get_command(None, name)  # type: ignore[arg-type]
        found.extend([name, inner] for inner in getattr(command, "commands", {}))
    return found


@pytest.mark.parametrize("path", commands(), ids=" ".join)
def test_every_command_has_help_that_says_what_it_is_for(path: list[str]) -> None:
    result = CliRunner().invoke(root, [*path, "--help"], prog_name="dynadurable")
    assert result.exit_code == 0
    assert result.output.startswith("Usage: dynadurable")
    assert all(len(line) <= 100 for line in result.output.splitlines())
    about = result.output.split("\n\n")[1].strip()
    assert about
    assert about[0].isupper()


@pytest.mark.parametrize("shell_name", ["bash", "zsh", "fish"])
def test_completion_is_had_for_every_shell(shell: Shell, shell_name: str) -> None:
    assert "_DYNADURABLE_COMPLETE" in shell.run("completion", shell_name).stdout


def test_commands_queues_and_jobs_are_completed(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    def complete(*words_so_far: str) -> set[str]:
        environment = {
            **shell.environment,
            "_DYNADURABLE_COMPLETE": "bash_complete",
            "COMP_WORDS": " ".join(["dynadurable", *words_so_far]),
            "COMP_CWORD": str(len(words_so_far)),
            "DYNADURABLE_APP": shell.target,
        }
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        result = CliRunner().invoke(root, [], prog_name="dynadurable", complete_var="_DYNADURABLE_COMPLETE")
        return {line.partition(",")[2] for line in result.stdout.splitlines()}

    assert complete("q") == {"queues"}
    assert complete("queues", "pause", "") >= {"default", "slow"}
    assert complete("dead", "list", "--job", "m") == {"mail"}


def test_what_a_terminal_would_obey_is_spelled_out(shell: Shell) -> None:
    shell.enqueue("mail", "--json", '["\\u001b[31mred\\u0007"]')
    shell.drain()
    listed = shell.run("dead", "list", "--app", shell.target).stdout
    assert "\x1b" not in listed
    assert "\\x1b[31mred\\x07 is no address" in listed
