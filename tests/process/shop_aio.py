"""The shop of ``shop.py`` with ``async def`` jobs, and one plain job among them.

Run as ``python -m tests.process.shop_aio``. The option ``host`` says where the bodies run: in a worker with a loop of
its own (``worker``), or in a worker inside the process's own loop (``loop``).
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from datetime import timedelta
from typing import Any

from dynadurable import App, AsyncJobContext, JobContext, Retry

app = App(os.environ["SHOP_TABLE"], endpoint_url=os.environ["SHOP_ENDPOINT"], region="us-east-1")
_log = os.open(os.environ["SHOP_LOG"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
PATIENT = Retry(max_attempts=200, delay=timedelta(milliseconds=50))


def note(event: str, ctx: AsyncJobContext | JobContext, **facts: object) -> None:
    """One line in the log; a single small append is atomic."""
    line = {"event": event, "run": ctx.run_id, "attempt": ctx.attempt, "fence": ctx.fence, "pid": os.getpid()}
    os.write(_log, (json.dumps({**line, "at": time.monotonic(), **facts}) + "\n").encode())


def let_go_if_stopping(ctx: AsyncJobContext | JobContext) -> None:
    """Notes that the run is about to be handed back: another body of it may begin at once."""
    if ctx.stopping.is_set():
        note("let go", ctx)
        ctx.raise_if_stopping()


@app.job
async def quick(ctx: AsyncJobContext, number: int) -> None:
    note("start", ctx, number=number)
    await asyncio.sleep(0.02)
    note("end", ctx, number=number)


@app.job(retry=PATIENT)
async def steps(ctx: AsyncJobContext, number: int, count: int, pause: float) -> None:
    """Counts to ``count`` and records each number."""
    note("start", ctx, number=number, cursor=ctx.cursor)
    for step in range((ctx.cursor or 0) + 1, count + 1):
        let_go_if_stopping(ctx)
        await asyncio.sleep(pause)
        await ctx.checkpoint(step)
        note("step", ctx, number=number, step=step)
    note("end", ctx, number=number)


@app.job(retry=PATIENT)
def plain_steps(ctx: JobContext, number: int, count: int, pause: float) -> None:
    """The same on a thread."""
    note("start", ctx, number=number, cursor=ctx.cursor)
    for step in range((ctx.cursor or 0) + 1, count + 1):
        let_go_if_stopping(ctx)
        ctx.stopping.wait(pause)
        ctx.checkpoint(step)
        note("step", ctx, number=number, step=step)
    note("end", ctx, number=number)


@app.job(retry=Retry(max_attempts=3))
async def patient(ctx: AsyncJobContext, seconds: float, cooperative: bool) -> None:
    """Takes its time; what is not cooperative blocks the loop, and swallows cancellations in between."""
    note("start", ctx)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if cooperative:
            ctx.raise_if_stopping()
            await asyncio.sleep(0.05)
            continue
        try:
            time.sleep(0.2)  # noqa: ASYNC251 - that is the point
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            continue
    note("end", ctx)


@app.job(retry=Retry(max_attempts=3))
async def killer(ctx: AsyncJobContext) -> None:
    note("start", ctx)
    os._exit(137)


def main() -> int:
    options: dict[str, Any] = json.loads(sys.argv[1])
    wait_at_claim = options.pop("wait_at_claim", False)
    host = options.pop("host")

    def hook(event: str, _job: str, _run: str) -> None:
        if event == "claimed" and wait_at_claim:
            os.write(_log, b'{"event": "claimed"}\n')
            while worker.engine.stopping.is_set() is False:
                time.sleep(0.01)

    if "concurrency" in options:
        options["async_concurrency"] = options["concurrency"]
    settings = {
        "queues": ["default"],
        "lease": timedelta(seconds=options.pop("lease", 2.0)),
        "grace": timedelta(seconds=options.pop("grace", 10.0)),
        "poll": (timedelta(seconds=0.05), timedelta(seconds=0.2)),
        "hook": hook,
        **options,
    }
    if host == "worker":
        worker = app.worker(**settings)
        return worker.run()
    in_loop = app.aio.worker(**settings)
    worker = in_loop._worker
    return asyncio.run(in_loop.run())


if __name__ == "__main__":
    sys.exit(main())
