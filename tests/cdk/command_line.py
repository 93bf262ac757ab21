"""The CDK's command line, installed once outside the checkout from a locked version."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.servers import ServerMissingError, _node, _npm, _run

HERE = Path(__file__).resolve().parent
LIMIT_SECONDS = 110


def find_cdk() -> list[str]:
    """The command, as a program and its first argument.

    Raises:
        ServerMissingError: it cannot be had here; the message is the reason a test is skipped for.
    """
    node = _node()
    return [str(node), str(_installed(node) / "node_modules" / "aws-cdk" / "bin" / "cdk")]


def _installed(node: Path) -> Path:
    locked = (HERE / "cli" / "package-lock.json").read_bytes()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dynadurable"
    folder = cache / f"cdk-{hashlib.sha256(locked).hexdigest()[:12]}"
    folder.mkdir(parents=True, exist_ok=True)
    done = folder / "installed"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            for name in ("package.json", "package-lock.json"):
                shutil.copy(HERE / "cli" / name, folder / name)
            _run([*_npm(node), "ci", "--ignore-scripts", "--no-audit", "--no-fund"], folder, node)
            done.touch()
    return folder


def run_cdk(command: list[str], folder: Path, *arguments: str, environment: Mapping[str, str] | None = None) -> str:
    """Run it in that folder, with this Python first on the path, and without credentials of the machine's own.

    ``CI=true`` would send its messages to standard output; both are returned together.
    """
    node_folder = Path(command[0]).parent
    python_folder = Path(sys.executable).parent
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "CDK_"))}
    done = subprocess.run(
        [*command, *arguments, "--no-notices"],
        cwd=folder,
        env={
            **kept,
            "PATH": os.pathsep.join([str(python_folder), str(node_folder), kept.get("PATH", "")]),
            "AWS_EC2_METADATA_DISABLED": "true",
            "CDK_DISABLE_CLI_TELEMETRY": "true",
            **(environment or {}),
        },
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
        check=False,
    )
    assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
    return done.stdout + done.stderr


__all__ = ["ServerMissingError", "find_cdk", "run_cdk"]
