"""An app for worker processes that tests kill. What its bodies do is written to a log, a line each, as it happens.

Run as ``python -m tests.process.shop``; settings come from the environment, see ``workshop.py``.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from datetime import timedelta

from dynadurable import App, JobContext, Retry

app = App(os.environ["SHOP_TABLE"], endpoint_url=os.environ["SHOP_ENDPOINT"], region="us-east-1")
_log = os.open(os.environ["SHOP_LOG"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)


def note(event: str, ctx: JobContext, **facts: object) -> None:
    """One line in the log; a single small append is atomic."""
    line = {"event": event, "run": ctx.run_id, "attempt": ctx.attempt, "fence": ctx.fence, "pid": os.getpid()}
    os.write(_log, (json.dumps({**line, "at": time.monotonic(), **facts}) + "\n").encode())


@app.job
def quick(ctx: JobContext, number: int) -> None:
    note("start", ctx, number=number)
    ctx.stopping.wait(0.02)
    note("end", ctx, number=number)


@app.job(retry=Retry(max_attempts=200, delay=timedelta(milliseconds=50)))
def steps(ctx: JobContext, number: int, count: int, pause: float) -> None:
    """Counts to ``count`` and records each number."""
    note("start", ctx, number=number, cursor=ctx.cursor)
    for step in range((ctx.cursor or 0) + 1, count + 1):
        if ctx.stopping.is_set():
            note("let go", ctx)  # another body of the run may begin at once
            ctx.raise_if_stopping()
        ctx.stopping.wait(pause)
        ctx.checkpoint(step)
        note("step", ctx, number=number, step=step)
    note("end", ctx, number=number)


@app.job(retry=Retry(max_attempts=3))
def patient(ctx: JobContext, seconds: float, cooperative: bool) -> None:
    """Takes its time; cooperative means that it ends when it is asked to."""
    note("start", ctx)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if cooperative:
            ctx.raise_if_stopping()
            ctx.stopping.wait(0.05)
        else:
            threading.Event().wait(0.05)
    note("end", ctx)


@app.job(retry=Retry(max_attempts=3))
def killer(ctx: JobContext) -> None:
    note("start", ctx)
    os._exit(137)


def main() -> int:
    options = json.loads(sys.argv[1])
    wait_at_claim, drain = options.pop("wait_at_claim", False), options.pop("drain", False)

    def hook(event: str, _job: str, _run: str) -> None:
        if event == "claimed" and wait_at_claim:
            os.write(_log, b'{"event": "claimed"}\n')
            while not worker.engine.stopping.is_set():
                time.sleep(0.01)

    worker = app.worker(
        queues=["default"],
        lease=timedelta(seconds=options.pop("lease", 2.0)),
        grace=timedelta(seconds=options.pop("grace", 10.0)),
        poll=(timedelta(seconds=0.05), timedelta(seconds=0.2)),
        hook=hook,
        **options,
    )
    if drain:
        worker.drain(timeout=timedelta(seconds=60))
        return 0
    return worker.run()


if __name__ == "__main__":
    sys.exit(main())
