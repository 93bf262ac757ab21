"""An app for worker processes whose jobs succeed, fail for a while, or fail for good until a build fixes them."""

from __future__ import annotations

import json
import os
from datetime import timedelta

from dynadurable import App, Fail, JobContext, Queue, Retry

BUILD = os.environ.get("MIXED_BUILD", "broken")
LEASE = timedelta(seconds=1.5)

app = App(
    os.environ["SHOP_TABLE"],
    endpoint_url=os.environ["SHOP_ENDPOINT"],
    region="us-east-1",
    build=BUILD,
    queues=[Queue(name="mixed", shards=2)],
)
_log = os.open(os.environ["SHOP_LOG"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
TOUGH = Retry(max_attempts=100, delay=timedelta(milliseconds=50))


def note(event: str, number: int) -> None:
    os.write(_log, (json.dumps({"event": event, "number": number, "build": BUILD}) + "\n").encode())


@app.job(queue="mixed", retry=TOUGH)
def plain(number: int) -> None:
    note("plain", number)


@app.job(queue="mixed", retry=TOUGH)
def flaky(ctx: JobContext, number: int) -> None:
    if ctx.attempt == 1:
        raise ValueError(f"number {number} not yet")
    note("flaky", number)


@app.job(queue="mixed", retry=TOUGH)
def poison(number: int) -> None:
    if BUILD == "broken":
        CAUSES[number % 3](number)
    note("poison", number)


def no_card(number: int) -> None:
    raise Fail(f"customer {number} has no card")


def no_stock(number: int) -> None:
    raise Fail(f"order {number} is out of stock")


def no_route(number: int) -> None:
    try:
        raise ConnectionError(f"host-{number} is unreachable")
    except ConnectionError as error:
        raise Fail("no route") from error


CAUSES = (no_card, no_stock, no_route)


def main() -> int:
    fast = (timedelta(seconds=0.05), timedelta(seconds=0.2))
    worker = app.worker(queues=["mixed"], concurrency=4, lease=LEASE, poll=fast)
    worker.registrar.beat()
    return worker.run()


if __name__ == "__main__":
    raise SystemExit(main())
