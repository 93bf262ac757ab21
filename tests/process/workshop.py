"""Worker processes on a real server, and what tests want to know of them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dynadurable import App
from tests.servers import Store

LIMIT_SECONDS = 60.0
REPOSITORY = Path(__file__).resolve().parents[2]


def wait_until(condition: Callable[[], Any], what: str, *, limit: float = LIMIT_SECONDS) -> Any:
    """The condition's first true value. Fails after the limit."""
    end = time.monotonic() + limit
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError(f"waited {limit} s in vain: {what}")


@dataclass(kw_only=True)
class Workshop:
    """A table, an app on it in this process, and worker processes that a test starts and kills."""

    store: Store
    folder: Path
    module: str = "tests.process.shop"
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.table = self.store.table()
        self.log = self.folder / "log"
        self.log.touch()
        self.app = App(self.table, client=self.store.client)

    def environment(self) -> dict[str, str]:
        kwargs = self.store.client_kwargs
        return {
            **os.environ,
            "SHOP_TABLE": self.table,
            "SHOP_ENDPOINT": self.store.endpoint_url,
            "SHOP_LOG": str(self.log),
            "AWS_ACCESS_KEY_ID": kwargs["aws_access_key_id"],
            "AWS_SECRET_ACCESS_KEY": kwargs["aws_secret_access_key"],
            "AWS_DEFAULT_REGION": "us-east-1",
            "PYTHONPATH": str(REPOSITORY),
        }

    def start(self, **options: Any) -> subprocess.Popen[bytes]:
        """A worker process; options as in ``shop.main``."""
        process = subprocess.Popen(
            [sys.executable, "-m", self.module, json.dumps(options)], env=self.environment(), cwd=REPOSITORY
        )
        self.processes.append(process)
        return process

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        process.kill()
        process.wait(LIMIT_SECONDS)

    def stop(self, process: subprocess.Popen[bytes]) -> int:
        """SIGTERM once the process is up, and the exit code."""
        wait_until(lambda: process.poll() is not None or is_up(process.pid), "the worker is up")
        process.send_signal(signal.SIGTERM)
        return process.wait(LIMIT_SECONDS)

    def events(self, event: str | None = None) -> list[dict[str, Any]]:
        """What bodies have written so far, in order."""
        lines = [json.loads(line) for line in self.log.read_text().splitlines()]
        return [line for line in lines if event is None or line["event"] == event]

    def items(self) -> list[dict[str, Any]]:
        """Everything in the table."""
        found: list[dict[str, Any]] = []
        for page in self.store.client.get_paginator("scan").paginate(TableName=self.table):
            found.extend(page["Items"])
        return found

    def marks(self) -> list[dict[str, Any]]:
        return [item for item in self.items() if item["pk"]["S"].startswith("queue#")]

    def close(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                self.kill(process)


def is_up(pid: int) -> bool:
    """Whether the process has its handler for SIGTERM; before that the signal would end the interpreter itself."""
    status = Path(f"/proc/{pid}/status")
    if not status.exists():
        return True
    caught = next(line for line in status.read_text().splitlines() if line.startswith("SigCgt:"))
    return bool(int(caught.split()[1], 16) >> (signal.SIGTERM - 1) & 1)
