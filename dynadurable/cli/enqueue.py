"""``dynadurable enqueue``: ask for a run from the shell."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import click

from ..storage import environment
from .target import complete_queue, locate_job
from .text import show_json
from .values import Instant, Json, Length

EXAMPLES = """\b
dynadurable enqueue shop.jobs:send_mail --json '{"to": "ada@example.com"}' --delay 5m"""


@click.command(epilog=EXAMPLES)
@click.argument("job", metavar="MODULE:JOB")
@click.option("--json", "arguments", type=Json(), default="{}", help="The arguments: an object by name, or an array.")
@click.option("--key", help="One live run per job and key.")
@click.option("--unique-for", type=Length(), help="With --key: it stays taken so long.")
@click.option("--delay", type=Length(), help="Due after so long, such as 5m.")
@click.option("--at", type=Instant(), help="Due at that instant, such as 2027-01-15T12:00:00Z.")
@click.option("--queue", "-q", shell_complete=complete_queue, help="Another queue than the job's own.")
@click.option(
    "--app", "-a", "app_name", envvar=environment.APP, metavar="MODULE:APP", help="Where the app is elsewhere."
)
@click.option("--output", type=click.Choice(["id", "json"]), default="id", show_default=True)
def enqueue(
    job: str,
    arguments: Any,
    key: str | None,
    unique_for: timedelta | None,
    delay: timedelta | None,
    at: datetime | None,
    queue: str | None,
    app_name: str | None,
    output: str,
) -> None:
    """Ask for a run of MODULE:JOB, and print its id."""
    app, known = locate_job(job, app_name)
    if not isinstance(arguments, (dict, list)):
        raise click.BadParameter("arguments are an object or an array", param_hint="--json")
    args, kwargs = ((), arguments) if isinstance(arguments, dict) else (arguments, {})
    asked = known.using(key=key, unique_for=unique_for, delay=delay, at=at, queue=queue)
    run = app.enqueue(asked, *args, **kwargs)
    if output == "json":
        show_json({"run_id": run.id, "job": known.name})
    else:
        click.echo(run.id)
