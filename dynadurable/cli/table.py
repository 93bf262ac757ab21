"""``dynadurable table``: make the table for development, check one that is there."""

from __future__ import annotations

import click

from ..app import App
from .findings import show_findings
from .root import FAILED
from .target import app_options, json_option
from .text import say, show_json


@click.group(short_help="Make the table for development, check one.")
def table() -> None:
    """The DynamoDB table: make it for development, check one that is there."""


@table.command()
@app_options
def create(app: App) -> None:
    """Create the table, on demand, with TTL switched on. Nothing happens if it is there."""
    if app.create_table():
        say(f"Table {app.schema.table} was created.")
    else:
        say(f"Table {app.schema.table} was there already, and fits.")


@table.command()
@app_options
@json_option
@click.pass_context
def check(ctx: click.Context, /, app: App, as_json: bool) -> None:
    """What of the table fits, what does not, and what living in it costs. Exits with 1 if something does not fit.

    Looks at its keys, time to live, indexes, stream and capacity, and reads nothing of what is in it.
    """
    app.check_table()
    found = app.doctor.table()
    if as_json:
        show_json({"table": app.schema.table, "fits": found.healthy, **found.to_record()})
    else:
        say(f"Table {app.schema.table} {'fits' if found.healthy else 'does not fit'}.")
        show_findings(found)
    if not found.healthy:
        ctx.exit(FAILED)
