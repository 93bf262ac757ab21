"""``dynadurable workers``: who is at work."""

from __future__ import annotations

import click

from ..app import App
from .target import app_options, json_option
from .text import say, show_json, show_table, when
from .values import now

SHOWN_JOBS = 8


@click.group()
def workers() -> None:
    """Who is at work."""


@workers.command("list", short_help="Those seen within the last three minutes.")
@app_options
@json_option
def list_(app: App, as_json: bool) -> None:
    """The workers that were seen within the last three minutes, as they say of themselves once a minute."""
    live, current = app.workers.list(), now()
    if as_json:
        show_json([worker.to_record() for worker in live])
        return
    if not live:
        say("No worker was seen in the last three minutes.")
        return
    rows = []
    for worker in live:
        more = len(worker.jobs) - SHOWN_JOBS + worker.jobs_left_out
        jobs = ", ".join(worker.jobs[:SHOWN_JOBS]) + (f" and {more} more" if more > 0 else "")
        queues = ", ".join(worker.queues)
        seen = (when(worker.started_at, current), when(worker.seen_at, current))
        rows.append((worker.name, queues, str(worker.concurrency), jobs, worker.build, *seen))
    columns = ("worker", "queues, by priority", "slots", "jobs", "build", "started", "seen")
    show_table(columns, rows, right=("slots",))
