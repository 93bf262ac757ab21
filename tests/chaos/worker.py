"""A worker process of a round, run as ``python -m tests.chaos.worker '<site>' work|drain``."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from datetime import timedelta
from typing import Any

from dynadurable import App
from dynadurable.storage import runs
from tests.chaos import jobs
from tests.chaos.jobs import Site


def main() -> int:
    site, mode = Site.from_text(sys.argv[1]), sys.argv[2]
    logging.basicConfig(level=logging.WARNING, format="%(relativeCreated)d %(name)s %(threadName)s %(message)s")
    runs.GRACE_MS = jobs.GRACE_MS
    app = site.app()
    jobs.define(app, site)
    site.log().note("worker", mode=mode)
    with _left_out(site.without):
        return _work(app, site, mode)


def _left_out(clause: str) -> contextlib.AbstractContextManager[Any]:
    if not clause:
        return contextlib.nullcontext()
    from tests.simulation.mutants import Without  # takes its time

    return Without(*clause.split(": ", 1))()


def _work(app: App, site: Site, mode: str) -> int:
    worker = app.worker(
        queues=[jobs.QUEUE],
        concurrency=6,
        async_concurrency=6,
        lease=jobs.LEASE,
        grace=timedelta(seconds=3),
        poll=(timedelta(seconds=0.05), timedelta(seconds=0.3)),
    )
    site.sign_of_life(os.getpid()).touch()
    if mode == "drain":
        worker.drain(timeout=timedelta(seconds=20))
        return 0
    return worker.run()


if __name__ == "__main__":
    sys.exit(main())
