"""``dynadurable table``: make the table for development, check one that is there."""

from __future__ import annotations

import click

from ..app import App
from .target import app_options
from .text import say


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
def check(app: App) -> None:
    """Whether the table is there, has the right keys, and may be read."""
    app.check_table()
    say(f"Table {app.schema.table} is there, has the right keys, and may be read.")
