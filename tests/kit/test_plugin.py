"""The pytest plugin as its users run it: in a pytest of its own, on a machine without, or with broken, AWS set-up."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers import Store

pytestmark = pytest.mark.timeout(300)  # a busy machine takes its time for a pytest in a pytest

SHOP = '''
"""The code under test: it makes a client of its own."""
import functools
from datetime import timedelta

import boto3
from dynadurable import App, Retry

app = App("shop")


@functools.cache
def client():
    return boto3.client("dynamodb")


def put(number):
    client().put_item(TableName=app.schema.table, Item={"pk": {"S": f"mine-{number}"}, "sk": {"S": "1"}})


@app.job(retry=Retry(max_attempts=2, delay=timedelta(days=1), jitter=0.0))
def work(number):
    put(number)
    if number < 0:
        raise ValueError("negative")
'''
NO_NETWORK = """
import socket

import pytest


@pytest.fixture(autouse=True)
def _no_network(monkeypatch):
    def refuse(self, address):
        assert address[0] in ("127.0.0.1", "localhost"), f"{address} is the network"
        return connect(self, address)

    connect = socket.socket.connect
    monkeypatch.setattr(socket.socket, "connect", refuse)
"""
TESTS = """
import threading

import pytest
import shop
from dynadurable import App


def test_each_test_is_clean(durable, durable_table):
    assert durable.all_items() == []
    assert durable.clock.now().year == 2027
    assert durable_table == durable.backend.table == shop.app.schema.table


@pytest.mark.parametrize("number", range(4))
def test_run_and_assert(durable, number):
    shop.app.enqueue(shop.work, number)
    durable.assert_enqueued(shop.work, number=number)
    assert len(durable.enqueued) == 1
    durable.run_until_idle()
    assert durable.own_items() == [{"pk": {"S": f"mine-{number}"}, "sk": {"S": "1"}}]


def test_threads_may_work_side_by_side(durable, durable_app):
    threads = [threading.Thread(target=durable_app.enqueue, args=(shop.work, number)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    durable.run_until_idle(concurrency=8)
    assert len(durable.own_items()) == 20
    assert durable.body_starts(shop.work) == 20


def test_dead_letters(durable):
    shop.app.enqueue(shop.work, -1)
    durable.run_until_idle(skip_time=True)
    (letter,) = durable.dead_letters
    assert "negative" in letter.error


def test_the_app_is_back_to_itself():
    assert shop.app.schema.table == "shop"
"""
BROKEN = {
    "AWS_PROFILE": "no-such-profile",
    "AWS_CONFIG_FILE": "broken.ini",
    "AWS_SHARED_CREDENTIALS_FILE": "broken.ini",
}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(SHOP)
    (tmp_path / "conftest.py").write_text(NO_NETWORK)
    (tmp_path / "test_shop.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\ndurable_app = shop:app\npythonpath = .\n")
    (tmp_path / "broken.ini").write_text("[[[ this is no configuration\n")
    (tmp_path / ".aws").mkdir()
    for name in ("config", "credentials"):
        (tmp_path / ".aws" / name).write_text("[[[ this is no configuration\n")
    return tmp_path


def pytest_run(place: Path, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """A pytest of its own, in an environment that knows nothing of AWS but what is given."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "PYTEST_"))}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(
        command,
        cwd=place,
        env={**kept, "HOME": str(place), **environ},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )


@pytest.mark.parametrize(
    ("arguments", "environ"),
    [((), {}), (("-n", "2"), BROKEN), (("--dynadurable-backend", "memory", "-k", "clean or dead"), BROKEN)],
    ids=["nothing is set up", "broken set-up, two processes", "in memory"],
)
def test_no_credentials_and_no_network_are_needed(
    place: Path, arguments: tuple[str, ...], environ: dict[str, str]
) -> None:
    if "memory" in arguments:
        (place / "shop.py").write_text(SHOP.replace("    put(number)\n", ""))
    done = pytest_run(place, *arguments, **environ)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"\d passed", done.stdout)
    assert "warning" not in done.stdout


@pytest.mark.server
def test_a_server_that_is_running_can_be_used(place: Path, ministack: Store) -> None:
    before = ministack.client.list_tables()["TableNames"]
    (place / "shop.py").write_text(SHOP.replace("    put(number)\n", ""))
    done = pytest_run(place, "--dynadurable-endpoint", ministack.endpoint_url, "-k", "clean or dead")
    assert done.returncode == 0, done.stdout + done.stderr
    assert ministack.client.list_tables()["TableNames"] == before


def test_a_missing_extra_is_named(place: Path) -> None:
    (place / "moto.py").write_text("raise ModuleNotFoundError(\"No module named 'moto'\", name='moto')\n")
    done = pytest_run(place, "-k", "clean")
    assert done.returncode == 1
    assert "dynadurable[testing]" in done.stdout + done.stderr


CRASHES = """
import pytest
import shop


@pytest.mark.crash_everywhere
def test_sound(durable):
    shop.app.enqueue(shop.sound, 1)
    durable.run_until_idle()


@pytest.mark.crash_everywhere
def test_found_out(durable, monkeypatch):
    monkeypatch.setattr(shop, "charge", lambda: durable.effect("charge"))
    shop.app.enqueue(shop.careless, 1)
    durable.run_until_idle()


@pytest.mark.crash_everywhere
def test_without_the_fixture():
    pass


@pytest.mark.crash_everywhere
async def test_async(durable):
    pass
"""
CAREFUL_AND_NOT = """
from dynadurable import App

app = App("shop")


def charge():
    raise AssertionError("the test replaces it")


@app.job
def sound(number):
    return number


@app.job
def careless(number):
    charge()
"""


def test_the_marker_crashes_a_test_everywhere_and_says_what_it_found(place: Path) -> None:
    (place / "shop.py").write_text(CAREFUL_AND_NOT)
    (place / "test_shop.py").write_text(CRASHES)
    done = pytest_run(place, "--strict-markers", "--dynadurable-backend", "memory")
    assert "3 failed, 1 passed" in done.stdout
    assert "1 of 12 crashes made a side effect happen twice:" in done.stdout
    found = "write 3 (DeleteItem of a mark, at careless), died before it: same end; called again: careless; SEEN TWICE"
    assert found in done.stdout
    assert "test_without_the_fixture is marked crash_everywhere: let it take the fixture durable" in done.stdout
    assert "test_async is marked crash_everywhere: make it a def, not an async def" in done.stdout
