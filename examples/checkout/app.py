"""A checkout that is never charged twice: charge, reserve, wait for an approval, invoice, notify.

The table, the payment service and the place to die at come from the environment, so that a demo can set them.
"""

from __future__ import annotations

import json
import os
import urllib.request
from dataclasses import dataclass
from datetime import timedelta

from dynadurable import App, Retry, WorkflowContext

app = App(os.environ.get("CHECKOUT_TABLE", "checkout"))


@dataclass(frozen=True)
class Order:
    id: str
    lines: tuple[str, ...]
    amount: int


def charge_card(order: Order, *, idempotency_key: str) -> str:
    """Called at least once. The key, the same in every attempt, makes one charge of it."""
    headers = {"Content-Type": "application/json"}
    if os.environ.get("CHECKOUT_WITHOUT_KEY") != "1":
        headers["Idempotency-Key"] = idempotency_key
    body = json.dumps({"order": order.id, "amount": order.amount}).encode()
    url = os.environ["CHECKOUT_PAYMENTS"] + "/charge"
    request = urllib.request.Request(url, data=body, headers=headers, method="POST")  # noqa: S310 - our own service
    with urllib.request.urlopen(request, timeout=10) as reply:  # noqa: S310 - likewise
        charge = str(json.load(reply)["charge"])
    die_at("between the charge and its record")
    return charge


def pack(line: str) -> str:
    return f"parcel with {line}"


def notify(order: Order, charge: str) -> str:
    return f"{order.id} paid with {charge}"


@app.workflow
def invoice(ctx: WorkflowContext, order: Order, charge: str) -> str:
    return ctx.step(lambda: f"invoice for {order.id}, {charge}", name="write invoice")


@app.workflow(keep_result=timedelta(days=1), retry=Retry(max_attempts=10))
def checkout(ctx: WorkflowContext, order: Order) -> dict[str, object]:
    charge = ctx.step(charge_card, order, retry=Retry(max_attempts=5, delay=timedelta(milliseconds=200)))
    die_at("after the charge")
    ctx.sleep(timedelta(milliseconds=300))
    die_at("after the sleep")
    parcels = ctx.map(pack, order.lines, max_concurrency=2)
    die_at("after packing")
    approval = ctx.wait_event("approved", timeout=timedelta(hours=48), default=None)
    die_at("after the approval")
    paper = ctx.call(invoice, order, charge)
    die_at("after the invoice")
    note = ctx.step(notify, order, charge)
    die_at("after the notice")
    return {"note": note, "parcels": list(parcels), "approval": approval, "invoice": paper}


PLACES = (
    "after the charge",
    "after the sleep",
    "after packing",
    "after the approval",
    "after the invoice",
    "after the notice",
)
"""Every boundary between two operations of the workflow."""


def die_at(place: str) -> None:
    """As if by kill -9, once: the file that orders it is taken away first."""
    order = os.environ.get("CHECKOUT_DIE", "")
    if order and os.path.exists(order):  # noqa: PTH110 - the plainest way to say it
        with open(order) as file:  # noqa: PTH123 - likewise
            wanted = file.read()
        if wanted == place:
            os.unlink(order)  # noqa: PTH108 - likewise
            os._exit(137)
