"""A worker process with ten schedules that tests kill; each body notes its slot.

Run as ``python -m tests.process.ticker``; settings come from the environment, see ``workshop.py``.
"""

from __future__ import annotations

import json
import os
import sys
from datetime import timedelta

from dynadurable import App, JobContext
from tests.process.ticker_facts import INTERVAL, SCHEDULES

app = App(os.environ["SHOP_TABLE"], endpoint_url=os.environ["SHOP_ENDPOINT"], region="us-east-1")
_log = os.open(os.environ["SHOP_LOG"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)


@app.job
def tick(ctx: JobContext, number: int) -> None:
    assert ctx.slot is not None
    line = {"event": "ran", "number": number, "slot": ctx.slot.isoformat(), "run": ctx.run_id, "pid": os.getpid()}
    os.write(_log, (json.dumps(line) + "\n").encode())


for _number in range(SCHEDULES):
    app.schedule(every=INTERVAL, name=f"ticker-{_number}", arguments={"number": _number}, catch_up="all")(tick)


def main() -> int:
    poll = (timedelta(seconds=0.05), timedelta(seconds=0.2))
    return app.worker(lease=timedelta(seconds=1.5), concurrency=4, poll=poll).run()


if __name__ == "__main__":
    sys.exit(main())
