"""``dynadurable demo workflow``: a checkout killed at every boundary, and a payment service that counts.

Everything is a process of its own: the store, the payment service, each worker. What is claimed at the end is read from
the payment service's own ledger and from the table.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from ..app import App
from ..clock import SystemClock
from ..errors import DynadurableError
from ..handle import RunHandle
from ..local import LocalStore, free_port, tied_to_this_process
from ..model.timeline import Event
from .crew import environment
from .place import examples_folder
from .screen import Screen
from .stage import client_of

TABLE = "checkout"
HONEST = "between the charge and its record"
PATIENCE_SECONDS = 60.0
LOOK_SECONDS = 0.05
WORKER = (
    "from datetime import timedelta\n"
    "from checkout.app import app\n"
    "app.worker(lease=timedelta(seconds=1), poll=(timedelta(seconds=0.05), timedelta(seconds=0.2))).run()\n"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Played:
    """One checkout: where its workers were killed, and what the payment service says of it."""

    title: str
    kills: Sequence[str]
    charges: int
    expected: int
    result: Any
    timeline: Sequence[Event]

    @property
    def is_good(self) -> bool:
        return self.charges == self.expected

    def to_json(self) -> dict[str, Any]:
        return {
            "title": self.title,
            "killed": list(self.kills),
            "charges": self.charges,
            "expected": self.expected,
            "result": self.result,
            "timeline": [event.to_record() for event in self.timeline],
        }


class Checkout:
    """The store and the payment service while they are up."""

    def __init__(self, stack: ExitStack, store: str | None) -> None:
        sys.path.insert(0, str(examples_folder()))
        self._stack = stack
        self._folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dynadurable-demo-")))
        self._store = stack.enter_context(LocalStore.find(store))
        self._ledger, self._die = self._folder / "charges", self._folder / "die"
        self._clock = SystemClock()
        client = client_of(self._store, self._store.endpoint_url)
        stack.callback(client.close)
        self._app = App(TABLE, client=client)
        self._app.create_table()
        port = free_port()
        self._environment = {
            **environment(self._store.endpoint_url),
            "CHECKOUT_TABLE": TABLE,
            "CHECKOUT_PAYMENTS": f"http://127.0.0.1:{port}",
            "CHECKOUT_DIE": str(self._die),
        }
        self._spawn([sys.executable, "-m", "checkout.payments", str(port), str(self._ledger)])

    def play(self, title: str, places: Sequence[str], *, expected: int, with_key: bool = True) -> Played:
        """One checkout from its order to its end."""
        before = self._charges()
        run = self._order()
        run.send_event("approved", "by the boss")
        left, worker = list(places), None
        end = self._clock.monotonic() + PATIENCE_SECONDS
        while run.status() in ("pending", "running"):
            if self._clock.monotonic() > end:
                raise DynadurableError(f"the checkout did not end: {run.explain()}")
            if left and not self._die.exists():
                self._die.write_text(left.pop(0))
            if worker is None or worker.poll() is not None:
                worker = self._worker(with_key=with_key)
            self._clock.sleep(LOOK_SECONDS)
        if worker is not None:
            worker.kill()
            worker.wait()
        return Played(
            title=title,
            kills=places,
            charges=self._charges() - before,
            expected=expected,
            result=run.result(timeout=timedelta(seconds=5)),
            timeline=self._app.workflows.timeline(run.id),
        )

    def _order(self) -> RunHandle[Any]:
        from checkout.app import Order, checkout

        self._app.registry.add(checkout)
        return self._app.enqueue(checkout, Order("o1", ("hat", "coat"), 4200))

    def _worker(self, *, with_key: bool) -> subprocess.Popen[bytes]:
        extra = {} if with_key else {"CHECKOUT_WITHOUT_KEY": "1"}
        return self._spawn([sys.executable, "-c", WORKER], **extra)

    def _spawn(self, command: Sequence[str], **extra: str) -> subprocess.Popen[bytes]:
        log = (self._folder / "log").open("ab")
        process = subprocess.Popen(  # noqa: S603 - our own example
            tied_to_this_process(command),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**self._environment, **extra},
            start_new_session=True,
        )
        log.close()
        self._stack.callback(process.wait)
        self._stack.callback(process.kill)
        return process

    def _charges(self) -> int:
        return len(self._ledger.read_text().splitlines()) if self._ledger.exists() else 0


def tell(screen: Screen, *, store: str | None) -> list[Played]:
    """Tell the story; gives what was seen."""
    screen.title("A checkout that charges once", "each part is a process of its own, and workers die by exit 137")
    with ExitStack() as stack:
        checkout = Checkout(stack, store)
        from checkout.app import PLACES

        screen.step(1, f"One order; its worker is killed at each of the {len(PLACES)} boundaries between operations.")
        played = [checkout.play("killed at every boundary", PLACES, expected=1)]
        _show(screen, played[-1])
        screen.step(2, "The honest case: killed after the service has charged and before that is recorded.")
        played.append(checkout.play("with the idempotency key", [HONEST], expected=1))
        _show(screen, played[-1])
        screen.step(3, "The same without the step's idempotency key: the body is called again, and charges again.")
        played.append(checkout.play("without the idempotency key", [HONEST], expected=2, with_key=False))
        _show(screen, played[-1])
    good = all(one.is_good for one in played)
    screen.verdict(
        "Charged once each; twice only where the key was left out." if good else "Not as expected.", good=good
    )
    return played


def _show(screen: Screen, played: Played) -> None:
    lines = [f"{event.kind:<9}{event.label:<20}{event.state:<8}{event.worker}" for event in played.timeline]
    screen.note("\n".join(lines))
    killed = f"killed {len(played.kills)} time{'' if len(played.kills) == 1 else 's'}"
    screen.say(f"{killed}, charged {played.charges}: {json.dumps(played.result)}")
