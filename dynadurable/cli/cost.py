"""``dynadurable cost``: the cost budget, measured here and now."""

from __future__ import annotations

import logging
import os
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from ..app import App
from ..clock import SystemClock, to_datetime
from ..drivers.clients import Clients, ClientSettings
from ..errors import TableMissingError
from ..storage import environment
from ..testing.budget import MakeApp, Row, in_memory, on_table, play
from .root import FAILED
from .target import confirm, json_option, yes_option
from .text import say, show_json, show_table

EXAMPLES = """\b
dynadurable cost
dynadurable cost --json
dynadurable cost --table shop
dynadurable cost --table scratch --endpoint-url http://127.0.0.1:8765"""


@click.command(epilog=EXAMPLES, short_help="Measure what everything costs in request units.")
@click.option("--table", "name", metavar="NAME", help="On this table instead of in memory; made if it is not there.")
@click.option("--region", metavar="NAME", help="With --table: the AWS region.")
@click.option("--endpoint-url", metavar="URL", help="With --table: another endpoint, such as a local store.")
@yes_option
@json_option
@click.pass_context
def cost(
    ctx: click.Context, name: str | None, region: str | None, endpoint_url: str | None, yes: bool, as_json: bool
) -> None:
    """Play each scenario of the cost budget and hold what it costs against what it may cost.

    In memory, in a few seconds, without AWS; units are counted by item sizes. On a table of yours with --table: there
    everything happens under key prefixes of its own, at a price of less than a cent, and is deleted at the end. Exits
    with 1 if any scenario costs something else than it may.
    """
    if name is None and (region or endpoint_url):
        raise click.UsageError("Which table? --region and --endpoint-url go with --table NAME.")
    logging.getLogger("dynadurable").addHandler(logging.NullHandler())  # scenarios fail on purpose
    if name is None:
        rows = play(in_memory())
    else:
        confirm(f"Write 1,100 items to table {name}, under prefixes of their own, and delete them again?", yes=yes)
        with _on(name, region, endpoint_url) as make:
            rows = play(make, start=to_datetime(SystemClock().now_ms()))
    _show(rows, as_json=as_json)
    if not all(row.holds for row in rows):
        ctx.exit(FAILED)


@contextmanager
def _on(name: str, region: str | None, endpoint_url: str | None) -> Iterator[MakeApp]:
    schema = environment.from_environment({**os.environ, environment.TABLE: name})
    keys: dict[str, Any] = {"partition_key": schema.partition_key, "sort_key": schema.sort_key, "ttl": schema.ttl}
    app = App(name, region=region, endpoint_url=endpoint_url, **keys)
    try:
        app.check_table()
        made = False
    except TableMissingError:
        made = app.create_table()
    client = Clients(ClientSettings(region=region, endpoint_url=endpoint_url)).get()
    try:
        with on_table(schema, client, prefix=f"{schema.prefix}cost-{uuid.uuid4().hex[:8]}/") as make:
            yield make
    finally:
        if made:
            client.delete_table(TableName=name)


def _show(rows: Sequence[Row], *, as_json: bool) -> None:
    if as_json:
        show_json({"holds": all(row.holds for row in rows), "rows": [row.to_record() for row in rows]})
        return
    columns = ("scenario", "may cost", "costs", "unit", "", "note")
    show_table(columns, [_shown(row) for row in rows], right=("may cost", "costs"))
    wrong = sum(not row.holds for row in rows)
    say(f"{wrong} of {len(rows)} figures differ." if wrong else f"All {len(rows)} figures are as they should be.")


def _shown(row: Row) -> tuple[str, ...]:
    budget = f"{'≤ ' if row.is_limit else ''}{row.budget:g}"
    return (row.scenario, budget, f"{row.measured:g}", row.unit, "ok" if row.holds else "DIFFERS", row.note)
