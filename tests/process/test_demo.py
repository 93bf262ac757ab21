"""The demo as a newcomer runs it: a process of its own that leaves none behind."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from click.testing import CliRunner
from rich.console import Console

from dynadurable.cli.demo import INTERRUPTED, TERMINATED, demo
from dynadurable.demo import screen
from dynadurable.demo.report import REPEATED_AT_MOST
from dynadurable.fan_out.sources import PAGE_ITEMS
from dynadurable.local import DEFAULT_ACCOUNT, REGION
from tests.process.workshop import wait_until

pytest.importorskip("networkx")
pytestmark = [pytest.mark.server, pytest.mark.slow, pytest.mark.chaos]

COMMAND = [sys.executable, "-m", "dynadurable", "demo", "--followers", "2000"]


def test_killed_twice_it_is_complete_and_says_what_it_cost() -> None:
    result = subprocess.run([*COMMAND, "--kills", "2", "--json"], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert report["complete"] is True
    assert report["have_it_once"] == report["followers"] >= 2000
    assert report["missing"] == report["twice"] == report["strangers"] == []
    assert report["writes"] - report["repeated"] == report["followers"]
    for kill in report["kills"]:
        assert 0 < kill["repeated"] <= REPEATED_AT_MOST
        assert kill["take_over_seconds"] >= report["lease_seconds"] - 1.0
    pages = -(-report["followers"] // PAGE_ITEMS)
    writes = {kind: spent["writes"] for kind, spent in report["mark_writes"].items()}
    assert writes.pop("checkpoint") <= pages + 2
    assert writes.pop("renewal", 0) <= 5
    assert writes == {"post": 1, "claim": 3, "finish": 1}
    assert "kill -9" in result.stderr
    assert "nothing is lost" in result.stderr


class Sabotage(screen.Screen):
    """Takes an entry out of the table just before it is checked."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._endpoint_url = ""

    def say(self, text: str, *, style: str = "") -> None:
        found = re.search(r"http://127\.0\.0\.1:\d+", text)
        self._endpoint_url = found.group() if found else self._endpoint_url
        super().say(text, style=style)

    def step(self, number: int, text: str) -> None:
        super().step(number, text)
        if number == 4:
            client = boto3.Session(DEFAULT_ACCOUNT, "local", region_name=REGION).client(
                "dynamodb", endpoint_url=self._endpoint_url
            )
            entry = next(_entries(client))
            client.delete_item(TableName="krabber", Key={"pk": entry["pk"], "sk": entry["sk"]})
            client.close()


def _entries(client: Any) -> Iterator[dict[str, Any]]:
    for page in client.get_paginator("scan").paginate(TableName="krabber"):
        yield from (item for item in page["Items"] if item["pk"]["S"].startswith("trench#"))


def test_an_entry_that_is_missing_makes_it_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(screen, "Screen", Sabotage)
    result = CliRunner().invoke(demo, ["--followers", "2000", "--kills", "0"])
    assert result.exit_code == 1, result.output
    assert "not what was promised: 1 followers without it" in result.output


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, INTERRUPTED), (signal.SIGTERM, TERMINATED)])
def test_an_interrupted_demo_leaves_no_process_behind(tmp_path: Path, number: signal.Signals, code: int) -> None:
    told = tmp_path / "told"
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell lets its background jobs ignore it
    with told.open("wb") as output:
        process = subprocess.Popen([*COMMAND, "--kills", "0"], stdout=output, stderr=output)
    try:
        worker = wait_until(lambda: re.search(r"worker 1 starts: process (\d+)", told.read_text()), "the worker")
        children = _descendants(process.pid)
        assert int(worker.group(1)) in children
        assert len(children) >= 2  # the worker and the store
        process.send_signal(number)
        assert process.wait(30) == code, told.read_text()
    finally:
        process.kill()
        process.wait()
    wait_until(lambda: not [child for child in children if _lives(child)], "every child has ended")


def test_a_killed_demo_leaves_no_process_behind(tmp_path: Path) -> None:
    """On Linux the kernel sees to it."""
    if sys.platform != "linux":
        pytest.skip("only Linux can do that")
    told = tmp_path / "told"
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell lets its background jobs ignore it
    with told.open("wb") as output:
        process = subprocess.Popen([*COMMAND, "--kills", "0"], stdout=output, stderr=output)
    try:
        wait_until(lambda: "worker 1 starts" in told.read_text(), "the worker")
        children = _descendants(process.pid)
        assert len(children) >= 2
    finally:
        process.kill()
        process.wait()
    wait_until(lambda: not [child for child in children if _lives(child)], "every child has ended")


def _descendants(pid: int) -> list[int]:
    if sys.platform != "linux":
        pytest.skip("reads /proc")
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in map(int, (task / "children").read_text().split()):
            found += [child, *_descendants(child)]
    return found


def _lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"
