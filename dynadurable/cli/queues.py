"""``dynadurable queues``: how much lies in them; pause and resume."""

from __future__ import annotations

import click

from ..app import App
from ..model.queue_info import QueueInfo
from .target import app_options, complete_queue, json_option
from .text import say, show_json, show_table, when
from .values import now


@click.group()
def queues() -> None:
    """How much lies in queues; pause and resume them."""


@queues.command("list")
@click.option("--queue", "-q", "names", multiple=True, shell_complete=complete_queue, help="Only this one; repeatable.")
@app_options
@json_option
def list_(app: App, names: tuple[str, ...], as_json: bool) -> None:
    """The queues that the app or a live worker knows, counted without scanning the table."""
    found = [app.queues.get(name) for name in names] if names else app.queues.list()
    if as_json:
        show_json([queue.to_record() for queue in found])
        return
    if not found:
        say("No queue is known here: define a job, start a worker, or name one with --queue.")
        return
    columns = ("queue", "waiting", "oldest due", "in flight", "delayed", "dead", "workers", "state")
    show_table(columns, [_row(queue) for queue in found], right=("waiting", "in flight", "delayed", "dead", "workers"))


@queues.command()
@click.argument("queue", shell_complete=complete_queue)
@click.option("--reason", help="Shown to whoever asks why a run is not running.")
@app_options
@json_option
def pause(app: App, queue: str, reason: str | None, as_json: bool) -> None:
    """Let no worker start anything from QUEUE, within seconds. What runs goes on; enqueueing goes on."""
    app.queues.pause(queue, reason=reason)
    if as_json:
        show_json({"queue": queue, "paused": True, "reason": reason})
    else:
        say(f"Queue {queue} is paused. Resume it with: dynadurable queues resume {queue}")


@queues.command()
@click.argument("queue", shell_complete=complete_queue)
@app_options
@json_option
def resume(app: App, queue: str, as_json: bool) -> None:
    """Let workers go on with QUEUE, within seconds."""
    app.queues.resume(queue)
    if as_json:
        show_json({"queue": queue, "paused": False})
    else:
        say(f"Queue {queue} goes on.")


def _row(queue: QueueInfo) -> tuple[str | None, ...]:
    current = now()
    more = "+" if queue.more else ""
    state = "open"
    if queue.paused:
        since = "" if queue.paused_at is None else f" {when(queue.paused_at, current)}"
        state = f"paused{since}" + (f": {queue.reason}" if queue.reason else "")
    counts = [f"{count:,}{more}" for count in (queue.waiting, queue.in_flight, queue.delayed, queue.dead)]
    oldest = when(queue.oldest_due_at, current)
    return (queue.name, counts[0], oldest, *counts[1:], str(queue.workers), state)
