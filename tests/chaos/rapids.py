"""A door in front of the store through which requests and replies get lost, come late, or come twice."""

from __future__ import annotations

import http.client
import json
import random
import socket
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from dynadurable.demo.door import REPLY_SECONDS, Answer, Door, Handler
from dynadurable.local import HOST

LOST_REQUEST, LOST_REPLY, CUT_REPLY = "request lost", "reply lost", "reply cut short"
TWICE, TWICE_LATE, SLOW_REQUEST, SLOW_REPLY = "delivered twice", "delivered again later", "slow request", "slow reply"
FAILING, THROTTLED, UNAVAILABLE = "500", "throttled", "503"
OF_THE_CONNECTION = frozenset({"connection", "keep-alive", "content-length", "transfer-encoding", "host"})
RESET = struct.pack("ii", 1, 0)  # SO_LINGER with no time at all: closing sends a reset

REFUSALS = {
    FAILING: (500, "com.amazonaws.dynamodb.v20120810#InternalServerError"),
    UNAVAILABLE: (503, "com.amazonaws.dynamodb.v20120810#ServiceUnavailable"),
    THROTTLED: (400, "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException"),
}


@dataclass(frozen=True, kw_only=True)
class Weather:
    """What share of the requests meets each fault."""

    shares: tuple[tuple[str, float], ...] = ()
    longest_delay_seconds: float = 2.0
    longest_hang_seconds: float = 3.0

    def kind_at(self, thrown: float) -> str | None:
        """What a number in [0, 1) stands for."""
        end = 0.0
        for kind, share in self.shares:
            end += share
            if thrown < end:
                return kind
        return None


CALM = Weather()
ROUGH = Weather(
    shares=(
        (LOST_REQUEST, 0.015),
        (LOST_REPLY, 0.02),
        (CUT_REPLY, 0.01),
        (TWICE, 0.01),
        (TWICE_LATE, 0.01),
        (SLOW_REQUEST, 0.02),
        (SLOW_REPLY, 0.02),
        (FAILING, 0.01),
        (UNAVAILABLE, 0.005),
        (THROTTLED, 0.01),
    )
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Blow:
    """A fault that one request meets, and how long it takes."""

    kind: str
    seconds: float


class Sky:
    """Throws the dice for each request in turn."""

    def __init__(self, seed: int, note: Callable[..., None]) -> None:
        self.weather = CALM
        self.met: dict[str, int] = {}
        self._dice = random.Random(seed)
        self._note = note
        self._under_way = 0
        self._lock = threading.Lock()

    def next(self, operation: str, body: bytes) -> Blow | None:
        """What the request meets."""
        with self._lock:
            thrown, time_thrown = self._dice.random(), self._dice.random()
            weather = self.weather
            kind = weather.kind_at(thrown)
            if kind is None:
                return None
            self.met[kind] = self.met.get(kind, 0) + 1
        hang = kind in (LOST_REQUEST, LOST_REPLY)
        longest = weather.longest_hang_seconds if hang else weather.longest_delay_seconds
        blow = Blow(kind=kind, seconds=longest * time_thrown**3)  # mostly short
        self._note("fault", kind=kind, seconds=round(blow.seconds, 2), operation=operation, keys=_keys(body))
        return blow

    def later(self, seconds: float, deed: Callable[[], None]) -> None:
        """Have something done after a while."""

        def wait() -> None:
            time.sleep(seconds)
            try:
                deed()
            finally:
                with self._lock:
                    self._under_way -= 1

        with self._lock:
            self._under_way += 1
        threading.Thread(target=wait, daemon=True).start()

    @property
    def is_clear(self) -> bool:
        """Whether nothing is on its way any more."""
        return self._under_way == 0


class RoughHandler(Handler):
    """Serves one connection, in all weathers."""

    def __init__(self, sky: Sky, *args: Any) -> None:
        self._sky = sky
        super().__init__(*args)

    def serve(self, body: bytes) -> None:
        blow = self._sky.next(self.headers.get("X-Amz-Target", "").partition(".")[2], body)
        if blow is None:
            self.give(self.pass_on(body))
        elif blow.kind in REFUSALS:
            self.give(_refusal(*REFUSALS[blow.kind]))
        else:
            self._meet(blow, body)

    def _meet(self, blow: Blow, body: bytes) -> None:
        if blow.kind in (SLOW_REQUEST, LOST_REQUEST):
            time.sleep(blow.seconds)
        if blow.kind == LOST_REQUEST:
            self._reset()
            return
        answer = self.pass_on(body)
        if blow.kind == TWICE:
            answer = self.pass_on(body)  # the client hears of the second
        elif blow.kind == TWICE_LATE:
            self._again_later(blow.seconds, body)
        elif blow.kind in (SLOW_REPLY, LOST_REPLY):
            time.sleep(blow.seconds)
        if blow.kind == LOST_REPLY:
            self._reset()
        elif blow.kind == CUT_REPLY:
            self._cut(answer)
        else:
            self.give(answer)

    def _tell(self, body: bytes, status: int, reply: bytes) -> None:
        """Nobody: what reached the table stands in its stream."""

    def _again_later(self, seconds: float, body: bytes) -> None:
        """As when a sender gives up on a request that is still on its way, and sends it again."""
        headers = {name: value for name, value in self.headers.items() if name.lower() not in OF_THE_CONNECTION}
        self._sky.later(seconds, partial(_send, self._store.port, self.path, body, headers))

    def _cut(self, answer: Answer) -> None:
        self.send_response_only(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body[: len(answer.body) // 2])
        self.wfile.flush()
        self._reset()

    def _reset(self) -> None:
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)


class Rapids(Door):
    """The door itself; ``sky`` says what the weather is."""

    def __init__(self, store_port: int, sky: Sky) -> None:
        super().__init__(store_port, lambda _: None, handler=partial(RoughHandler, sky))


def _send(port: int, path: str, body: bytes, headers: dict[str, str]) -> None:
    connection = http.client.HTTPConnection(HOST, port, timeout=REPLY_SECONDS)
    try:
        connection.request("POST", path, body, headers)
        connection.getresponse().read()
    finally:
        connection.close()


def _refusal(status: int, kind: str) -> Answer:
    body = json.dumps({"__type": kind, "message": "bad weather"}).encode()
    return Answer(status=status, headers={"Content-Type": "application/x-amz-json-1.0"}, body=body)


def _keys(body: bytes) -> list[str]:
    """The sort keys in a request: they hold the ids of runs."""
    found: list[str] = []

    def look(value: Any) -> None:
        if isinstance(value, dict):
            found.extend(f"{value['pk']['S']} {value['sk']['S']}" for _ in [0] if _is_key(value))
            for inner in value.values():
                look(inner)
        elif isinstance(value, list):
            for inner in value:
                look(inner)

    look(json.loads(body))
    return found


def _is_key(value: dict[str, Any]) -> bool:
    return all(isinstance(value.get(name), dict) and "S" in value[name] for name in ("pk", "sk"))
