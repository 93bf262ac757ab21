"""The checkout example with real processes: a worker killed at every boundary, and a payment service that counts."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from dynadurable import App
from tests.servers import Store

pytestmark = [pytest.mark.server, pytest.mark.chaos]

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 60.0
PLACES = (
    "after the charge",
    "after the sleep",
    "after packing",
    "after the approval",
    "after the invoice",
    "after the notice",
)
HONEST = "between the charge and its record"


class Shop:
    """A table, a payment service as a process, and workers as processes."""

    def __init__(self, store: Store, folder: Path) -> None:
        self.ledger, self.order_to_die = folder / "charges.jsonl", folder / "die"
        port = _free_port()
        paths = os.pathsep.join([str(ROOT / "examples"), str(ROOT)])
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("AWS_")},
            "PYTHONPATH": paths,
            "CHECKOUT_TABLE": store.table(),
            "CHECKOUT_PAYMENTS": f"http://127.0.0.1:{port}",
            "CHECKOUT_DIE": str(self.order_to_die),
            "AWS_ENDPOINT_URL_DYNAMODB": store.endpoint_url,
            "AWS_ACCESS_KEY_ID": store.client_kwargs["aws_access_key_id"],
            "AWS_SECRET_ACCESS_KEY": store.client_kwargs["aws_secret_access_key"],
            "AWS_DEFAULT_REGION": store.client_kwargs["region_name"],
            "NO_PROXY": "127.0.0.1",
        }
        self.app = App(self.environment["CHECKOUT_TABLE"], client=store.client)
        command = [sys.executable, "-m", "checkout.payments", str(port), str(self.ledger)]
        self._processes = [subprocess.Popen(command, env=self.environment)]
        _until(lambda: _answers(port))

    def enqueue(self) -> Any:
        code = (
            "from checkout.app import Order, app, checkout\n"
            "print(app.enqueue(checkout, Order('o1', ('hat', 'coat'), 4200)).id)"
        )
        command = [sys.executable, "-c", code]
        done = subprocess.run(
            command, env=self.environment, capture_output=True, text=True, check=True, timeout=PATIENCE
        )
        return self.app.run(done.stdout.strip())

    def worker(self, **extra: str) -> subprocess.Popen[bytes]:
        code = (
            "from datetime import timedelta\nfrom checkout.app import app\n"
            "app.worker(lease=timedelta(seconds=1), poll=(timedelta(seconds=0.05), timedelta(seconds=0.2))).run()"
        )
        process = subprocess.Popen([sys.executable, "-c", code], env={**self.environment, **extra})
        self._processes.append(process)
        return process

    def ended(self, run: Any, *places: str, **extra: str) -> Any:
        """The result; the worker is killed at each of these places, one after the other, and has a successor."""
        run.send_event("approved", "by the boss")
        left = list(places)
        worker, end = None, time.monotonic() + PATIENCE
        while run.status() in ("pending", "running"):
            assert time.monotonic() < end, run.explain()
            if left and not self.order_to_die.exists():
                self.order_to_die.write_text(left.pop(0))
            if worker is None or worker.poll() is not None:
                worker = self.worker(**extra)
            time.sleep(0.02)
        assert not left
        assert not self.order_to_die.exists(), "it was killed at all of these places"
        return run.result(timeout=timedelta(seconds=5))

    def charges(self) -> list[Any]:
        return [json.loads(line) for line in self.ledger.read_text().splitlines()]

    def close(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def _answers(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


def _until(holds: Any) -> None:
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.fixture
def shop(ministack: Store, tmp_path: Path) -> Iterator[Shop]:
    made = Shop(ministack, tmp_path)
    yield made
    made.close()


def test_killed_at_every_boundary_it_charges_once(shop: Shop) -> None:
    result = shop.ended(shop.enqueue(), *PLACES)
    assert result["parcels"] == ["parcel with hat", "parcel with coat"]
    assert result["approval"] == "by the boss"
    assert len(shop.charges()) == 1


@pytest.mark.parametrize(("without_key", "charges"), [("", 1), ("1", 2)], ids=["with the key", "without it"])
def test_killed_between_the_charge_and_its_record(shop: Shop, without_key: str, charges: int) -> None:
    """The honest case: the body is called again, and only the idempotency key makes one charge of two calls."""
    shop.ended(shop.enqueue(), HONEST, CHECKOUT_WITHOUT_KEY=without_key)
    assert len(shop.charges()) == charges
