"""A DynamoDB-compatible store on this machine, as a process of its own on a loopback port.

For the demo, for local development and for tests. Two servers are known:

* ``roto`` (extra ``local``): one wheel without Python dependencies; starts at once; keeps its data in a folder when it
  is given one, and then survives a kill of the server itself.
* ``ministack``: the more faithful one (transactions with tokens, items of failed conditions, consumed capacity), in
  memory. It pins botocore, so it wants a virtual environment of its own.

The server never outlives the process that started it: it is stopped at exit, and on Linux the kernel kills it when its
parent dies in any other way.
"""

from __future__ import annotations

import atexit
import contextlib
import http
import http.client
import importlib.metadata
import importlib.util
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from time import sleep
from types import TracebackType
from typing import Any, Self

from dynadurable.errors import ConfigurationError, ExtraMissingError

HOST = "127.0.0.1"
REGION = "us-east-1"
DEFAULT_ACCOUNT = "000000000000"
READY_SECONDS = 30.0
STOP_SECONDS = 10.0
POLL_SECONDS = 0.02
REPLY_SECONDS = 5.0
PORT_TRIES = 5
MINISTACK_PYTHON = "DYNADURABLE_MINISTACK_PYTHON"

# The server replaces this small program, and the wish to die with the parent stays. A hook between fork and exec could
# do the same, but is not safe where threads run. The second look at the parent closes the gap in which it dies.
_LAUNCHER = """
import os, sys
if sys.platform == "linux":
    import ctypes, signal
    ctypes.CDLL(None).prctl(1, int(signal.SIGKILL), 0, 0, 0)  # 1 = PR_SET_PDEATHSIG
    if os.getppid() != int(sys.argv[1]):
        os._exit(1)
os.execv(sys.argv[2], sys.argv[2:])
"""


class LocalStoreError(ConfigurationError):
    """The local store did not start, or ended unasked; the message holds the end of its log."""


@dataclass(frozen=True, kw_only=True)
class StoreServer:
    """How one kind of server is started and emptied.

    ``command`` gets the port and the data folder (``None``: keep nothing) and gives the program and its arguments.
    """

    name: str
    command: Callable[[int, Path | None], list[str]]
    environment: Callable[[int, Path | None], Mapping[str, str]] = field(default=lambda _port, _folder: {})
    reset_path: str | None = None


class LocalStore:
    """A server process and its address.

    ``folder`` keeps the data between starts, if the server can; without it the data end with the process. ``port``: by
    default any that is free.

    Raises ``LocalStoreError`` if the server is not ready within ``ready_seconds``.

    >>> with LocalStore.find() as store:  # doctest: +SKIP
    ...     client = boto3.client("dynamodb", **store.client_kwargs())
    """

    def __init__(
        self, server: StoreServer, *, folder: Path | None = None, port: int = 0, ready_seconds: float = READY_SECONDS
    ) -> None:
        self.server = server
        self.folder = folder
        self.port = port
        self._ready_seconds = ready_seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._owner_pid = 0
        self._scratch: tempfile.TemporaryDirectory[str] | None = None

    @classmethod
    def find(cls, name: str | None = None, *, folder: Path | None = None, port: int = 0) -> LocalStore:
        """A store, not yet started, on an installed server: ``"roto"``, ``"ministack"``, or the first of the two.

        Raises ``ExtraMissingError`` that names what to install.
        """
        finders = {"roto": find_roto, "ministack": find_ministack}
        if name is not None:
            if name not in finders:
                raise ConfigurationError(f"there is no local store {name!r}; known are {', '.join(finders)}")
            return cls(finders[name](), folder=folder, port=port)
        for finder in finders.values():
            with contextlib.suppress(ConfigurationError):
                return cls(finder(), folder=folder, port=port)
        raise ExtraMissingError("a local store", extra="local")

    # --- its life ---------------------------------------------------------------------------------

    def start(self) -> Self:
        """Start the server and wait until it answers. A second start comes back on the same port and folder."""
        if self.running:
            return self
        tries = 1 if self.port else PORT_TRIES
        if self.port:
            _check_free(self.port)
        for remaining in reversed(range(tries)):
            port = self.port or free_port()
            self._launch(port)
            if self._wait_until_ready(port):
                self.port = port
                return self
            report = self._give_up()
            if not remaining:
                raise LocalStoreError(f"the local store {self.server.name} did not start on port {port}:\n{report}")
        raise AssertionError("unreachable: the last try returns or raises")

    def stop(self) -> None:
        """End the server as politely as it allows, and wait for that."""
        self._end(lambda process: process.terminate())

    def kill(self) -> None:
        """End the server as a crash would; what it keeps in a folder stays for the next ``start``."""
        self._end(lambda process: process.kill())

    def reset(self) -> None:
        """Forget every table of every account. A server that cannot is started anew on the same port."""
        if self.server.reset_path is None:
            self.kill()
            if self.folder is not None:
                shutil.rmtree(self.folder)
            self.start()
            return
        status, reply = self._request("POST", self.server.reset_path, b"", {})
        if status != http.HTTPStatus.OK:
            raise LocalStoreError(f"the local store {self.server.name} refused to be emptied: {reply!r}")

    @property
    def running(self) -> bool:
        """Whether the process lives."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int | None:
        """The server's process id, for tests that stop or kill it."""
        return self._process.pid if self._process else None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # --- talking to it ----------------------------------------------------------------------------

    @property
    def endpoint_url(self) -> str:
        """``http://127.0.0.1:<port>``."""
        if not self.port:
            raise LocalStoreError(f"the local store {self.server.name} has not been started")
        return f"http://{HOST}:{self.port}"

    def client_kwargs(self, account: str = DEFAULT_ACCOUNT) -> dict[str, Any]:
        """What ``boto3.client("dynamodb", **...)`` needs: address, region, and keys that stand for nobody.

        The tables of each 12-digit ``account`` are kept apart.
        """
        return {
            "endpoint_url": self.endpoint_url,
            "region_name": REGION,
            "aws_access_key_id": account,
            "aws_secret_access_key": "local",
        }

    def call(self, operation: str, params: Mapping[str, Any], *, account: str = DEFAULT_ACCOUNT) -> dict[str, Any]:
        """One request in DynamoDB's own JSON, without an SDK. Raises ``LocalStoreError`` on any refusal."""
        credential = f"Credential={account}/20000101/{REGION}/dynamodb/aws4_request"
        headers = {
            "X-Amz-Target": f"DynamoDB_20120810.{operation}",
            "X-Amz-Date": "20000101T000000Z",
            "Content-Type": "application/x-amz-json-1.0",
            "Authorization": f"AWS4-HMAC-SHA256 {credential}, SignedHeaders=host, Signature=00",
        }
        status, reply = self._request("POST", "/", json.dumps(params).encode(), headers)
        if status != http.HTTPStatus.OK:
            raise LocalStoreError(f"{operation} was refused with status {status}: {reply.decode(errors='replace')}")
        result: dict[str, Any] = json.loads(reply)
        return result

    def _request(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(HOST, self.port, timeout=REPLY_SECONDS)
        try:
            connection.request(method, path, body, dict(headers))
            reply = connection.getresponse()
            return reply.status, reply.read()
        finally:
            connection.close()

    # --- the process ------------------------------------------------------------------------------

    def _launch(self, port: int) -> None:
        scratch = self._scratch or tempfile.TemporaryDirectory(prefix="dynadurable-store-")
        self._scratch = scratch
        command = self.server.command(port, self.folder)
        environment = {**os.environ, **self.server.environment(port, self.folder)}
        launcher = tied_to_this_process(command)

        def spawn() -> subprocess.Popen[bytes]:
            with self._log.open("wb") as log:
                return subprocess.Popen(
                    launcher,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env=environment,
                    cwd=scratch.name,
                    start_new_session=True,  # Ctrl-C is for the workers; they need the store while they stop
                )

        self._process = _from_a_lasting_thread(spawn)
        self._owner_pid = os.getpid()
        atexit.register(self._stop_at_exit)

    def _wait_until_ready(self, port: int) -> bool:
        known, self.port = self.port, port
        try:
            for _ in range(int(self._ready_seconds / POLL_SECONDS)):
                if not self.running:
                    return False
                with contextlib.suppress(OSError, http.client.HTTPException, LocalStoreError, ValueError):
                    self.call("ListTables", {})
                    return self.running
                sleep(POLL_SECONDS)
            return False
        finally:
            self.port = known

    @property
    def _log(self) -> Path:
        assert self._scratch is not None
        return Path(self._scratch.name) / "server.log"

    def _give_up(self) -> str:
        report = self._log.read_text(errors="replace")[-2000:].strip() or "(its log is empty)"
        self.kill()
        return report

    def _stop_at_exit(self) -> None:
        if os.getpid() == self._owner_pid:  # not in a fork: the server belongs to the one who started it
            self.kill() if self.folder is None else self.stop()

    def _end(self, signal_it: Callable[[subprocess.Popen[bytes]], None]) -> None:
        atexit.unregister(self._stop_at_exit)
        process, self._process = self._process, None
        if process is not None:
            signal_it(process)
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if self._scratch is not None:
            self._scratch.cleanup()
            self._scratch = None


# --- the servers ----------------------------------------------------------------------------------


def find_roto() -> StoreServer:
    """The server of the ``roto-aws`` wheel. Raises ``ExtraMissingError``."""
    program = _roto_program()

    def command(port: int, folder: Path | None) -> list[str]:
        data = ["--ephemeral"] if folder is None else ["--data-dir", str(folder.resolve())]
        return [program, "--host", HOST, "--port", str(port), *data]

    return StoreServer(name="roto", command=command)


def find_ministack() -> StoreServer:
    """The server of the ``ministack`` package. Raises ``ConfigurationError`` that says where to install it.

    Looked for in the environment of the Python that ``DYNADURABLE_MINISTACK_PYTHON`` names, then in ``.venv-store``
    beside a checkout of this package, then in this environment.
    """
    python = _ministack_python()

    def environment(port: int, folder: Path | None) -> dict[str, str]:
        kept = {} if folder is None else {"PERSIST_STATE": "1", "STATE_DIR": str(folder.resolve())}
        return {"GATEWAY_PORT": str(port), "BIND_HOST": HOST, "LOG_LEVEL": "WARNING", **kept}

    return StoreServer(
        name="ministack",
        command=lambda _port, _folder: [python, "-m", "ministack"],
        environment=environment,
        reset_path="/_ministack/reset",
    )


def _roto_program() -> str:
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        for path in importlib.metadata.files("roto-aws") or ():
            if path.stem == "roto-server":
                return str(Path(str(path.locate())).resolve())
    if (on_path := shutil.which("roto-server")) is not None:
        return on_path
    raise ExtraMissingError("roto-aws", extra="local")


def _ministack_python() -> str:
    named = os.environ.get(MINISTACK_PYTHON)
    if named:
        if not Path(named).exists():
            raise ConfigurationError(f"{MINISTACK_PYTHON} names {named}, which does not exist")
        return str(Path(named).absolute())
    beside = Path(__file__).resolve().parents[1] / ".venv-store"
    for python in (beside / "bin" / "python", beside / "Scripts" / "python.exe"):
        if python.exists():
            return str(python)
    if importlib.util.find_spec("ministack") is not None:
        return sys.executable
    raise ConfigurationError(
        "ministack is not installed; it pins botocore, so give it an environment of its own: "
        f"python3 -m venv .venv-store && .venv-store/bin/pip install ministack, and let {MINISTACK_PYTHON} name "
        "the Python in it"
    )


def tied_to_this_process(command: Sequence[str]) -> list[str]:
    """The command, so that on Linux the kernel kills it when this process dies. Start it from a thread that lasts."""
    return [sys.executable, "-I", "-S", "-c", _LAUNCHER, str(os.getpid()), *command]


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def _check_free(port: int) -> None:
    """Another server there would answer in place of ours."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise LocalStoreError(f"the local store cannot have port {port}: {error}") from error


_spawners: dict[int, ThreadPoolExecutor] = {}


def _from_a_lasting_thread(spawn: Callable[[], subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
    """Spawn from a thread that lives as long as this process.

    The kernel sends the parent's death signal when the *thread* ends that made the child, so a store that some
    short-lived thread starts would vanish under everybody else.
    """
    if threading.current_thread() is threading.main_thread():
        return spawn()
    spawner = _spawners.get(os.getpid())  # per process: a fork inherits the pool, but not its thread
    if spawner is None:
        spawner = _spawners.setdefault(os.getpid(), ThreadPoolExecutor(1, thread_name_prefix="dynadurable-spawn"))
    return spawner.submit(spawn).result()
