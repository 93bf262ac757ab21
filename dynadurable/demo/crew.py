"""The demo's worker processes: ordinary programs that get everything from their environment, and may be killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Self

from ..local import DEFAULT_ACCOUNT, HOST, REGION, tied_to_this_process
from .place import examples_folder

APP = "krabber.app:app"
STOP_SECONDS = 20.0
LOG_CHARACTERS = 2_000


class WorkerProcess:
    """``dynadurable worker krabber.app:app`` on the store at ``endpoint_url``. Its output goes to a file."""

    def __init__(self, endpoint_url: str, *, lease_seconds: float, log: Path) -> None:
        self._log = log
        command = [sys.executable, "-m", "dynadurable", "worker", APP, "--lease", f"{lease_seconds:g}s"]
        with log.open("wb") as output:
            self._process = subprocess.Popen(  # noqa: S603 - our own example
                tied_to_this_process(command),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment(endpoint_url),
                start_new_session=True,  # Ctrl-C is for the demo, which then stops its workers
            )

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def ended(self) -> bool:
        """Whether the process is gone."""
        return self._process.poll() is not None

    def kill(self) -> None:
        """``kill -9``: it cannot say goodbye."""
        self._process.kill()

    def stop(self) -> int:
        """SIGTERM: it stops gracefully. The exit code; negative if it had to be killed after all."""
        self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            return self._process.wait()

    def log(self) -> str:
        """The end of what it has written."""
        return self._log.read_text(errors="replace")[-LOG_CHARACTERS:].strip()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()


def environment(endpoint_url: str) -> dict[str, str]:
    """What a process needs to find the store: nothing that may be set on this machine, no proxy."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "DYNADURABLE_"))}
    path = [str(examples_folder()), os.environ.get("PYTHONPATH", "")]
    return {
        **kept,
        "AWS_ENDPOINT_URL_DYNAMODB": endpoint_url,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_ACCESS_KEY_ID": DEFAULT_ACCOUNT,
        "AWS_SECRET_ACCESS_KEY": "local",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_EC2_METADATA_DISABLED": "true",
        "NO_PROXY": HOST,
        "no_proxy": HOST,
        "PYTHONPATH": os.pathsep.join(filter(None, path)),
    }
