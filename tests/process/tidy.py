"""Uses event loops in every way there is. What it leaves behind, Python says on stderr; see ``test_tidiness.py``."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
from datetime import timedelta

from dynadurable import App, AsyncJobContext

logging.basicConfig()
logging.getLogger("asyncio").setLevel(logging.ERROR)  # it warns of slow steps, and says errors of what is left behind
logging.getLogger("dynadurable").setLevel(logging.ERROR)

app = App(os.environ["SHOP_TABLE"], endpoint_url=os.environ["SHOP_ENDPOINT"], region="us-east-1")
ran: list[int] = []


@app.job
async def quick(number: int) -> None:
    ran.append(number)


@app.job
async def waits(ctx: AsyncJobContext) -> None:
    started.set()
    await asyncio.sleep(3600)


@app.job
def plain(number: int) -> None:
    ran.append(number)


started = threading.Event()


async def client_only(*, close: bool) -> None:
    await asyncio.gather(*(app.aio.enqueue(quick, number) for number in range(20)))
    if close:
        await app.aio.close()
        await app.aio.close()


async def drains() -> None:
    await app.aio.enqueue(plain, 1)
    await app.aio.worker().drain()


async def serves() -> None:
    async with app.aio.worker():
        run = await app.aio.enqueue(quick, 2)
        with contextlib.suppress(Exception):
            await run.wait(timeout=timedelta(seconds=5))


async def hands_back(*, cancelled: bool) -> None:
    started.clear()
    await app.aio.enqueue(waits)
    running = asyncio.create_task(app.aio.worker(grace=timedelta(0)).run())
    while not started.is_set():  # noqa: ASYNC110 - a threading.Event
        await asyncio.sleep(0.01)
    if cancelled:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
    # else the end of the loop cancels it


async def gives_up_on_a_request() -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(0.001):
            await app.aio.enqueue(quick, 3)


async def fails() -> None:
    await app.aio.enqueue(quick, 4)
    raise LookupError


def main() -> None:
    for close in (False, True):
        asyncio.run(client_only(close=close))
    asyncio.run(drains())
    asyncio.run(serves())
    asyncio.run(gives_up_on_a_request())
    with contextlib.suppress(LookupError):
        asyncio.run(fails())
    for cancelled in (True, False):
        asyncio.run(hands_back(cancelled=cancelled))
    worker = app.worker(grace=timedelta(0))
    started.clear()
    worker.start()
    app.enqueue(quick, 5)
    started.wait()  # the run that was handed back begins again, and is handed back again
    worker.stop()
    left = [thread.name for thread in threading.enumerate() if thread is not threading.main_thread()]
    assert left == [], left


if __name__ == "__main__":
    main()
