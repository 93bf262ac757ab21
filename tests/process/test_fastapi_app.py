"""The FastAPI example: asked over HTTP, killed in the middle of its work, and started again."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.process.workshop import LIMIT_SECONDS, REPOSITORY, wait_until
from tests.servers import Store

pytestmark = [pytest.mark.server, pytest.mark.aio]


class WebShop:
    """The example in a process of its own."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.table = f"shop-{os.getpid()}-{time.monotonic_ns()}"
        self.http = httpx.Client(timeout=LIMIT_SECONDS)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *, packing_seconds: float = 0.2) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        kwargs = self.store.client_kwargs
        environment = {
            **os.environ,
            "SHOP_TABLE": self.table,
            "SHOP_ENDPOINT": self.store.endpoint_url,
            "SHOP_PACKING_SECONDS": str(packing_seconds),
            "AWS_ACCESS_KEY_ID": kwargs["aws_access_key_id"],
            "AWS_SECRET_ACCESS_KEY": kwargs["aws_secret_access_key"],
            "AWS_REGION": "us-east-1",
            "PYTHONPATH": f"{REPOSITORY}{os.pathsep}{REPOSITORY / 'examples'}",
        }
        serve = ["-m", "uvicorn", "fastapi_app.app:web", "--port", str(port), "--log-level", "warning"]
        self._process = subprocess.Popen([sys.executable, *serve], env=environment, cwd=REPOSITORY)
        self.http.base_url = httpx.URL(f"http://127.0.0.1:{port}")
        wait_until(self._answers, "the web app")

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, "the web app has ended"
        with contextlib.suppress(httpx.TransportError):
            return self.http.get("/orders/none").status_code == 404
        return False

    def end(self, number: signal.Signals) -> int:
        assert self._process is not None
        self._process.send_signal(number)
        code = self._process.wait(LIMIT_SECONDS)
        self._process = None
        return code

    def order(self, item: str) -> str:
        answer = self.http.post("/orders", json={"item": item})
        assert answer.status_code == 202, answer.text
        order_id: str = answer.json()["order_id"]
        return order_id

    def read(self, order_id: str) -> dict[str, Any]:
        found: dict[str, Any] = self.http.get(f"/orders/{order_id}").json()
        return found

    def rows(self, prefix: str) -> list[dict[str, Any]]:
        pages = self.store.client.get_paginator("scan").paginate(TableName=self.table)
        return [row for page in pages for row in page["Items"] if row["pk"]["S"].startswith(prefix)]

    def close(self) -> None:
        self.http.close()
        if self._process is not None:
            self.end(signal.SIGKILL)
        with contextlib.suppress(self.store.client.exceptions.ResourceNotFoundException):
            self.store.client.delete_table(TableName=self.table)


@pytest.fixture
def shop(ministack: Store) -> Iterator[WebShop]:
    opened = WebShop(ministack)
    yield opened
    opened.close()


def test_an_order_is_shipped(shop: WebShop) -> None:
    shop.start(packing_seconds=0.01)
    order_id = shop.order("teapot")
    shipped = wait_until(lambda: (found := shop.read(order_id))["state"] == "shipped" and found, "the shipping")
    assert (shipped["item"], len(shipped["labels"])) == ("teapot", 1)
    assert shop.http.post("/orders", json={"item": "teapot", "quantity": 0}).status_code == 422
    assert shop.end(signal.SIGTERM) in (0, -signal.SIGTERM)
    assert shop.rows("queue#") == []


def test_what_was_accepted_is_shipped_although_the_process_is_killed(shop: WebShop) -> None:
    """Orders keep coming in while it dies; each is there with its work, or not at all."""
    shop.start(packing_seconds=0.5)
    accepted: list[str] = []

    def customers() -> None:
        with contextlib.suppress(httpx.TransportError, AssertionError):
            while True:
                accepted.append(shop.order("teapot"))

    buying = threading.Thread(target=customers)
    buying.start()
    wait_until(lambda: any(row["state"]["S"] == "packed" for row in shop.rows("order#")), "some work half done")
    assert shop.end(signal.SIGKILL) == -signal.SIGKILL
    buying.join()
    placed = {row["pk"]["S"].removeprefix("order#") for row in shop.rows("order#")}
    assert set(accepted) <= placed
    assert len(placed) <= len(accepted) + 1  # the last answer may have been lost
    assert any(row["state"]["S"] != "shipped" for row in shop.rows("order#"))

    shop.start(packing_seconds=0.01)
    wait_until(lambda: not shop.rows("queue#"), "all the work")
    done = [shop.read(order_id) for order_id in placed]
    assert {order["state"] for order in done} == {"shipped"}
    assert {len(order["labels"]) for order in done} == {1}


def test_a_graceful_end_hands_back_and_the_next_process_goes_on_at_once(shop: WebShop) -> None:
    shop.start(packing_seconds=3600)
    order_id = shop.order("teapot")
    wait_until(lambda: any("dd_token" in row for row in shop.rows("queue#")), "the claim")
    began = time.monotonic()
    shop.end(signal.SIGTERM)
    assert time.monotonic() - began < LIMIT_SECONDS
    (mark,) = shop.rows("queue#")
    assert mark["dd_attempt"]["N"] == "0"
    assert "dd_token" not in mark
    shop.start(packing_seconds=0.01)
    wait_until(lambda: shop.read(order_id)["state"] == "shipped", "the shipping")
