"""The local store: it starts on a free port, keeps what it should, and never outlives its parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from time import sleep

import boto3
import pytest

from dynadurable.errors import ConfigurationError
from dynadurable.local import MINISTACK_PYTHON, LocalStore, LocalStoreError, StoreServer, free_port
from tests.servers import create_plain_table

pytestmark = pytest.mark.server

PARENT = """
import sys, threading
from dynadurable.local import LocalStore
store = LocalStore.find("roto")
if sys.argv[1] == "thread":
    thread = threading.Thread(target=store.start)
    thread.start(), thread.join()
else:
    store.start()
print(store.pid, flush=True)
sys.stdin.readline()
print(store.running, flush=True)
"""


def _gone(pid: int) -> bool:
    for _ in range(500):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        state = Path(f"/proc/{pid}/stat")
        if state.exists() and state.read_text().rsplit(")", 1)[1].split()[0] == "Z":
            return True  # dead; nobody has asked for its exit code yet
        sleep(0.01)
    return False


def _parent(how: str) -> tuple[subprocess.Popen[str], int]:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, how], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    return parent, int(parent.stdout.readline())


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child of its parent's death")
def test_the_server_dies_with_a_parent_that_is_killed() -> None:
    parent, pid = _parent("main")
    with parent:
        parent.send_signal(signal.SIGKILL)
    assert _gone(pid)


def test_the_server_ends_when_its_parent_ends() -> None:
    parent, pid = _parent("main")
    with parent:
        assert parent.communicate("go on\n")[0] == "True\n"
    assert parent.returncode == 0
    assert _gone(pid)


def test_the_server_survives_the_thread_that_started_it() -> None:
    """The kernel's parent is a thread: a server that a short-lived thread started would vanish with it."""
    parent, pid = _parent("thread")
    with parent:
        assert parent.communicate("go on\n")[0] == "True\n"
    assert _gone(pid)


@pytest.mark.parametrize("name", ["roto", "ministack"])
def test_a_reset_forgets_the_tables_of_every_account(name: str) -> None:
    with LocalStore.find(name) as store:
        clients = [boto3.client("dynamodb", **store.client_kwargs(account)) for account in ("0" * 12, "1" * 12)]
        for client in clients:
            create_plain_table(client, "things")
        store.reset()
        assert [client.list_tables()["TableNames"] for client in clients] == [[], []]
        for client in clients:
            client.close()


def test_what_lies_in_a_folder_survives_a_kill_of_the_server(tmp_path: Path) -> None:
    with LocalStore.find("roto", folder=tmp_path / "data") as store:
        before = store.endpoint_url
        client = boto3.client("dynamodb", **store.client_kwargs())
        create_plain_table(client, "things")
        client.put_item(TableName="things", Item={"pk": {"S": "a"}, "sk": {"S": "b"}})
        store.kill()
        assert not store.running
        store.start()
        assert store.endpoint_url == before
        assert client.scan(TableName="things")["Count"] == 1
        client.close()


def test_it_listens_on_the_loopback_address_only() -> None:
    with LocalStore.find("ministack") as store:
        listening = [
            line.split()[1]
            for line in Path("/proc/net/tcp").read_text().splitlines()[1:]
            if line.split()[1].endswith(f":{store.port:04X}") and line.split()[3] == "0A"
        ]
        assert listening == [f"0100007F:{store.port:04X}"]


def test_a_server_that_does_not_start_is_reported_with_its_log() -> None:
    program = [sys.executable, "-c", "raise SystemExit('no disk left')"]
    store = LocalStore(StoreServer(name="broken", command=lambda port, folder: program))
    with pytest.raises(LocalStoreError, match="no disk left"):
        store.start()
    assert not store.running


def test_a_server_that_never_answers_is_given_up_and_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dynadurable.local.PORT_TRIES", 1)
    program = [sys.executable, "-c", "import os, time; print(os.getpid(), flush=True); time.sleep(600)"]
    store = LocalStore(StoreServer(name="mute", command=lambda port, folder: program), ready_seconds=0.5)
    with pytest.raises(LocalStoreError) as refused:
        store.start()
    assert _gone(int(str(refused.value).rsplit("\n", 1)[1]))


def test_a_store_can_be_stopped_twice_and_has_no_address_before_its_start() -> None:
    store = LocalStore.find("roto")
    with pytest.raises(LocalStoreError, match="not been started"):
        _ = store.endpoint_url
    store.start()
    store.stop()
    store.stop()
    assert store.pid is None


def test_a_missing_server_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MINISTACK_PYTHON, "/nowhere/python")
    with pytest.raises(ConfigurationError, match=MINISTACK_PYTHON):
        LocalStore.find("ministack")
    with pytest.raises(ConfigurationError, match="known are roto, ministack"):
        LocalStore.find("sqlite")


def test_a_port_that_is_taken_is_refused_before_another_server_answers_in_its_place() -> None:
    with LocalStore.find("roto") as first, pytest.raises(LocalStoreError, match=str(first.port)):
        LocalStore.find("roto", port=first.port).start()


def test_the_command_says_how_to_reach_it_and_ends_when_told(tmp_path: Path) -> None:
    """What it prints is what a reader of the README pastes into another terminal."""
    port = free_port()
    program = "from dynadurable.cli import main; main()"
    with subprocess.Popen(
        [sys.executable, "-c", program, "local", "--port", str(port), "--folder", "kept"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])},
        stdout=subprocess.PIPE,
        text=True,
    ) as command:
        assert command.stdout is not None
        said = [command.stdout.readline() for _ in range(3)]
        words = [word.partition("=") for line in said[1:] for word in line.split()[1:]]
        exports = {name: value for name, _, value in words}
        client = boto3.client(
            "dynamodb",
            endpoint_url=exports["AWS_ENDPOINT_URL_DYNAMODB"],
            region_name=exports["AWS_DEFAULT_REGION"],
            aws_access_key_id=exports["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=exports["AWS_SECRET_ACCESS_KEY"],
        )
        create_plain_table(client, "things")
        client.close()
        command.send_signal(signal.SIGTERM)
    assert command.returncode == 143
    assert (tmp_path / "kept").is_dir()
    readme = (Path(__file__).resolve().parents[2] / "README.md").read_text(encoding="utf-8")
    for line in said[1:]:
        assert line.replace(str(port), "8765") in readme


def test_threads_may_start_one_store_each() -> None:
    stores = [LocalStore.find("roto") for _ in range(4)]
    threads = [threading.Thread(target=store.start) for store in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({store.port for store in stores if store.running}) == 4
    for store in stores:
        store.stop()
