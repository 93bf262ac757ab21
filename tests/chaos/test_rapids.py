"""Each fault is what its name says: what reaches the store, and what the sender hears."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from dynadurable.local import HOST
from tests.chaos import rapids
from tests.chaos.rapids import CALM, Rapids, Sky, Weather
from tests.patience import until

ITEM = {"pk": {"S": "run#a"}, "sk": {"S": "run"}, "body": {"B": "AAAA"}}
REPLY = json.dumps({"Attributes": ITEM}).encode()


class Store(ThreadingHTTPServer):
    """Counts what arrives, and says yes to everything."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__((HOST, 0), _Yes)
        self.arrived: list[bytes] = []


class _Yes(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        assert isinstance(self.server, Store)
        self.server.arrived.append(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.send_header("Content-Length", str(len(REPLY)))
        self.end_headers()
        self.wfile.write(REPLY)

    def log_message(self, format: str, *args: Any) -> None: ...  # noqa: A002 - the name that the base class gives


@pytest.fixture
def counting() -> Iterator[Store]:
    with Store() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def ask(door: Rapids) -> tuple[int, bytes]:
    """One request as a client makes it."""
    connection = http.client.HTTPConnection(HOST, int(door.endpoint_url.rpartition(":")[2]), timeout=10)
    try:
        headers = {"X-Amz-Target": "DynamoDB_20120810.UpdateItem"}
        connection.request("POST", "/", json.dumps({"TableName": "t", "Key": ITEM}), headers)
        reply = connection.getresponse()
        return reply.status, reply.read()
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("kind", "arrivals", "status"),
    [
        (rapids.LOST_REQUEST, 0, None),
        (rapids.LOST_REPLY, 1, None),
        (rapids.CUT_REPLY, 1, None),
        (rapids.TWICE, 2, 200),
        (rapids.TWICE_LATE, 2, 200),
        (rapids.SLOW_REQUEST, 1, 200),
        (rapids.SLOW_REPLY, 1, 200),
        (rapids.FAILING, 0, 500),
        (rapids.UNAVAILABLE, 0, 503),
        (rapids.THROTTLED, 0, 400),
    ],
)
def test_a_fault_is_what_its_name_says(counting: Store, kind: str, arrivals: int, status: int | None) -> None:
    noted: list[dict[str, Any]] = []
    sky = Sky(1, lambda event, **facts: noted.append(facts))
    sky.weather = Weather(shares=((kind, 1.0),), longest_delay_seconds=0.05, longest_hang_seconds=0.05)
    with Rapids(counting.server_address[1], sky) as door:
        if status is None:
            with pytest.raises((ConnectionError, http.client.HTTPException)):
                ask(door)
        else:
            assert ask(door)[0] == status
        until(lambda: sky.is_clear, "what comes late")
    assert len(counting.arrived) == arrivals
    assert sky.met == {kind: 1}
    assert [(one["kind"], one["keys"]) for one in noted] == [(kind, ["run#a run"])]


def test_nothing_happens_in_calm_weather(counting: Store) -> None:
    sky = Sky(1, lambda event, **facts: None)
    with Rapids(counting.server_address[1], sky) as door:
        assert [ask(door) for _ in range(3)] == [(200, REPLY)] * 3
    assert len(counting.arrived) == 3
    assert sky.met == {}


def test_the_same_seed_throws_the_same_faults() -> None:
    def thrown(seed: int) -> list[str | None]:
        sky = Sky(seed, lambda event, **facts: None)
        sky.weather = Weather(shares=((rapids.TWICE, 0.2), (rapids.FAILING, 0.3)))
        blows = [sky.next("GetItem", b"{}") for _ in range(200)]
        return [None if blow is None else blow.kind for blow in blows]

    assert thrown(3) == thrown(3) != thrown(4)
    assert 60 < sum(kind is not None for kind in thrown(3)) < 140
    assert CALM.kind_at(0.0) is None
