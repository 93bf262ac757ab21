"""A door in front of the store: every request goes through it, and is told to an observer before its reply is given.

What passes the door has reached the store, whoever sent it, and whatever became of the sender since. So a count at the
door is right where a process that may be killed cannot count for itself.
"""

from __future__ import annotations

import base64
import http
import http.client
import json
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from ..local import HOST, free_port

REPLY_SECONDS = 30.0
_OF_THE_CONNECTION = frozenset({"connection", "keep-alive", "content-length", "transfer-encoding", "host"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Passage:
    """A request that the store has answered. ``params`` and ``reply`` are as boto3's low-level client has them."""

    operation: str
    params: dict[str, Any]
    reply: dict[str, Any]
    error: str | None
    """The code of the error that the store answered with, such as ``ConditionalCheckFailedException``."""


Observer = Callable[[Passage], None]


class Door:
    """Listens on a loopback port of its own and passes everything on to the store at ``store_port``.

    >>> with Door(store.port, print) as door:  # doctest: +SKIP
    ...     client = boto3.client("dynamodb", endpoint_url=door.endpoint_url)
    """

    def __init__(self, store_port: int, observe: Observer, *, handler: Callable[..., Handler] | None = None) -> None:
        self._server = _Server(store_port, observe, handler or Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, name="dynadurable-door", daemon=True)

    @property
    def endpoint_url(self) -> str:
        """Where clients find the store behind the door."""
        return f"http://{HOST}:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, store_port: int, observe: Observer, handler: Callable[..., Handler]) -> None:
        super().__init__((HOST, free_port()), handler)
        self.store_port = store_port
        self.observe = observe

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that is killed leaves broken connections; that is what the demo is about."""
        if not isinstance(sys.exception(), OSError | http.client.HTTPException):
            super().handle_error(request, client_address)


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """What the store says to a request."""

    status: int
    headers: dict[str, str]
    body: bytes


class Handler(BaseHTTPRequestHandler):
    """Serves one connection: takes each request in, passes it on, gives the answer."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = 65_536

    def setup(self) -> None:
        super().setup()
        assert isinstance(self.server, _Server)
        self._observe = self.server.observe
        self._store = http.client.HTTPConnection(HOST, self.server.store_port, timeout=REPLY_SECONDS)

    def finish(self) -> None:
        super().finish()
        self._store.close()

    def do_POST(self) -> None:
        body = self.take()
        if body is not None:
            self.serve(body)

    def serve(self, body: bytes) -> None:
        """One request."""
        self.give(self.pass_on(body))

    def take(self) -> bytes | None:
        """The request's body; ``None`` if its sender was killed while it sent: such a request reaches no store."""
        length = int(self.headers.get("Content-Length", "0"))
        body = self.rfile.read(length)
        if len(body) < length:
            self.close_connection = True
            return None
        return body

    def pass_on(self, body: bytes) -> Answer:
        """Have the store do it, and tell the observer."""
        self._store.request("POST", self.path, body, _passed_on(self.headers))
        answer = self._store.getresponse()
        reply = answer.read()
        self._tell(body, answer.status, reply)
        return Answer(status=answer.status, headers=_passed_on(answer.headers), body=reply)

    def give(self, answer: Answer) -> None:
        """Send the answer to whoever asked."""
        self.send_response_only(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body)

    def _tell(self, body: bytes, status: int, reply: bytes) -> None:
        target = self.headers.get("X-Amz-Target", "")
        if not target.startswith("DynamoDB_"):
            return
        answer = json.loads(reply, object_hook=_binary)
        error = None if status == http.HTTPStatus.OK else str(answer.get("__type", status)).rpartition("#")[2]
        operation, params = target.partition(".")[2], json.loads(body, object_hook=_binary)
        self._observe(Passage(operation=operation, params=params, reply=answer, error=error))

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name that the base class gives
        """Nothing: the observer knows."""


def _passed_on(headers: Any) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in _OF_THE_CONNECTION}


def _binary(value: dict[str, Any]) -> dict[str, Any]:
    """Binary values are base64 on the wire and bytes in boto3."""
    if value.keys() == {"B"} and isinstance(value["B"], str):
        return {"B": base64.b64decode(value["B"])}
    return value
