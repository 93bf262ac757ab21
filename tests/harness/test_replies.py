"""A reply that was cut short is none: botocore takes it for an empty one, and we made "no such item" of that."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
import zlib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import boto3
import pytest
from botocore.config import Config

from dynadurable import App, JobContext, fan_out, query_pages
from dynadurable.drivers.replies import is_whole, whole_replies_only
from dynadurable.local import HOST
from dynadurable.storage import runs
from dynadurable.testing.memory import MemoryClient, MemoryStore
from tests.unit.scripted import RUN_ID, a_run

RUN = a_run().serialize()
RUN["dd_input"] = {"B": base64.b64encode(RUN["dd_input"]["B"]).decode()}
ITEM = json.dumps({"Item": RUN}).encode()


class Cutting(ThreadingHTTPServer):
    """Cuts its first ``cuts`` replies short, or damages them; gives the rest whole."""

    daemon_threads = True

    def __init__(self, *, cuts: int, damage: bool = False) -> None:
        super().__init__((HOST, 0), _Cutter)
        self.cuts, self.damage, self.asked = cuts, damage, 0

    @property
    def settings(self) -> dict[str, Any]:
        """Of a client of it."""
        return {
            "endpoint_url": f"http://{HOST}:{self.server_address[1]}",
            "region_name": "us-east-1",
            "aws_access_key_id": "000000000000",
            "aws_secret_access_key": "local",
        }


class _Cutter(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        assert isinstance(self.server, Cutting)
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.asked += 1
        bad = self.server.asked <= self.server.cuts
        self.send_response(200)
        self.send_header("Content-Length", str(len(ITEM)))
        self.send_header("x-amz-crc32", str(zlib.crc32(ITEM)))
        self.end_headers()
        if bad and self.server.damage:
            self.wfile.write(ITEM.replace(b'"live"', b'"dead"'))
        else:
            self.wfile.write(ITEM[: len(ITEM) // 2] if bad else ITEM)
        self.close_connection = bad

    def log_message(self, format: str, *args: Any) -> None: ...  # noqa: A002 - the name that the base class gives


@pytest.fixture(params=[False, True], ids=["cut short", "damaged"])
def cutting(request: pytest.FixtureRequest) -> Iterator[Cutting]:
    with Cutting(cuts=2, damage=request.param) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_a_run_is_not_absent_because_a_reply_was_cut_short(cutting: Cutting, monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by the chaos: whoever took it for absent would have deleted its mark as abandoned."""
    monkeypatch.setattr("dynadurable.drivers.retries.FIRST_DELAY_SECONDS", 0.001)
    settings = cutting.settings
    for name in ("aws_access_key_id", "aws_secret_access_key"):
        monkeypatch.setenv(name.upper(), settings[name])
    app = App("shop", endpoint_url=settings["endpoint_url"], region=settings["region_name"])
    run = app.driver.run(runs.read(app.items, RUN_ID))
    assert run is not None
    assert cutting.asked == 3
    app._clients.get().close()


@pytest.mark.parametrize("attempts", [1, 3])
def test_a_client_of_the_users_own_is_made_careful_too(cutting: Cutting, attempts: int) -> None:
    """With retries of its own, botocore asks again by itself only for a checksum."""
    retries: Any = {"total_max_attempts": attempts, "mode": "standard"}
    session: Any = boto3.session.Session()
    client = session.client("dynamodb", config=Config(retries=retries), **cutting.settings)
    app = App("shop", client=client)
    assert app.driver.run(runs.read(app.items, RUN_ID)) is not None
    assert cutting.asked == 3
    client.close()


def test_a_fan_out_does_not_end_early_because_a_page_was_cut_short(cutting: Cutting) -> None:
    """An empty page without a cursor would be the last one."""
    session: Any = boto3.session.Session()
    client = session.client("dynamodb", config=Config(retries={"total_max_attempts": 1}), **cutting.settings)
    app = App("shop", client=MemoryClient(MemoryStore()))
    app.create_table()

    followers = query_pages(
        TableName="shop", KeyConditionExpression="pk = :a", ExpressionAttributeValues={":a": {"S": "a"}}
    )

    @app.job
    def deliver(ctx: JobContext) -> None:
        fan_out(ctx, followers, lambda item: None, client=client)

    app.enqueue(deliver)
    app.worker(queues=["default"]).drain()
    assert cutting.asked == 3
    client.close()


@pytest.mark.aio
def test_an_event_loop_is_not_told_so_either(cutting: Cutting, monkeypatch: pytest.MonkeyPatch) -> None:
    import aioboto3

    class Session(aioboto3.Session):  # type: ignore[misc]
        def client(self, service: str, **options: Any) -> Any:
            return super().client(service, **{**options, **cutting.settings})

    monkeypatch.setattr("dynadurable.drivers.retries.FIRST_DELAY_SECONDS", 0.001)
    app = App("shop", aio_session=Session())

    async def read() -> Any:
        return await app.loops.run(runs.read(app.items, RUN_ID))

    assert asyncio.run(read()) is not None
    assert cutting.asked == 3


def test_what_headers_say_of_a_body() -> None:
    crc = str(zlib.crc32(b"{}"))
    assert is_whole({}, b"")
    assert is_whole({"content-length": "2", "x-amz-crc32": crc}, b"{}")
    assert not is_whole({"content-length": "3"}, b"{}")
    assert not is_whole({"content-length": "2", "x-amz-crc32": crc}, b"[]")
    assert is_whole({"content-length": "9", "content-encoding": "gzip"}, b"{}")
    assert whole_replies_only(stand_in := object()) is stand_in
