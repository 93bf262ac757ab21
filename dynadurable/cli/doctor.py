"""``dynadurable doctor``: what is the matter, and putting it right."""

from __future__ import annotations

import click

from ..app import App
from ..storage.permissions import Role
from .findings import show_findings
from .root import FAILED
from .target import app_options, complete_queue, json_option
from .text import say, show_json


@click.command(short_help="What is the matter; --repair puts it right.")
@click.option(
    "--queue", "-q", "queues", multiple=True, shell_complete=complete_queue, help="Only this one; repeatable."
)
@click.option("--role", "roles", multiple=True, type=click.Choice(list(Role)), help="It must be allowed; repeatable.")
@click.option("--repair", is_flag=True, help="Put right marks and dead letters that crashes have left.")
@app_options
@json_option
@click.pass_context
def doctor(
    ctx: click.Context,
    /,
    app: App,
    queues: tuple[str, ...],
    roles: tuple[str, ...],
    repair: bool,
    as_json: bool,
) -> None:
    """Examine the table and what is in it: keys, TTL, permissions, clock, format, marks and runs that disagree.

    Permissions are found out by harmless requests. Exits with 1 if there is a problem (that was not repaired).
    """
    found = app.doctor.examine(queues=queues, repair=repair, roles=roles)
    if as_json:
        show_json(found.to_record())
    else:
        show_findings(found)
        say("There is a problem." if not found.healthy else "There is no problem.")
    if not found.healthy:
        ctx.exit(FAILED)
