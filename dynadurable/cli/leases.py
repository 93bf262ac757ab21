"""``dynadurable leases``: who holds what; take one from its holder."""

from __future__ import annotations

import click

from ..app import App
from ..model.lease_info import HELD, LeaseInfo
from .root import NotFound
from .target import app_options, confirm, json_option, yes_option
from .text import exactly, say, show_facts, show_json, show_table, when
from .values import now


@click.group()
def leases() -> None:
    """Named leases: who holds what."""


@leases.command("list")
@click.option("--held", "only_held", is_flag=True, help="Only those that are held.")
@click.option("--limit", type=click.IntRange(1), default=1_000, show_default=True)
@app_options
@json_option
def list_(app: App, only_held: bool, limit: int, as_json: bool) -> None:
    """Every lease that was ever acquired, by name, read without scanning the table."""
    found = [lease for lease in app.leases.list(limit=limit) if lease.state == HELD or not only_held]
    if as_json:
        show_json([lease.to_record() for lease in found])
        return
    if not found:
        say("No lease is held." if only_held else "No lease was ever acquired here.")
        return
    current = now()
    rows = [
        (lease.name, lease.state, str(lease.fence), lease.owner, when(lease.since, current), when(lease.until, current))
        for lease in found
    ]
    show_table(("lease", "state", "fence", "owner", "acquired", "lapses"), rows, right=("fence",))


@leases.command()
@click.argument("name")
@app_options
@json_option
def show(app: App, name: str, as_json: bool) -> None:
    """The lease NAME as it stands."""
    lease = _existing(app, name)
    if as_json:
        show_json(lease.to_record())
        return
    current = now()
    show_facts(
        {
            "lease": lease.name,
            "state": lease.state,
            "fence": str(lease.fence),
            "owner" if lease.state == HELD else "last owner": lease.owner,
            "acquired": exactly(lease.since, current),
            "lapses" if lease.state == HELD else "lapsed": exactly(lease.until, current),
        }
    )


@leases.command("break")
@click.argument("name")
@click.option("--fence", type=int, help="Only if it is still at this fence.")
@yes_option
@app_options
@json_option
def break_(app: App, name: str, fence: int | None, yes: bool, as_json: bool) -> None:
    """Take the lease NAME from its holder, who learns of it at its next renewal.

    What the holder writes with the lease's condition fails from now on. What it writes without does not: make sure
    that it is dead, or that this does not matter.
    """
    seen = _existing(app, name)
    if seen.state == HELD:
        confirm(f"Take {name!r} (fence {seen.fence}) from {seen.owner}?", yes=yes)
    app.leases.break_(name, fence=seen.fence if fence is None else fence)
    if as_json:
        show_json({**seen.to_record(), "broken": seen.state == HELD})
    else:
        say(f"The lease {name} is free." if seen.state == HELD else f"The lease {name} was not held.")


def _existing(app: App, name: str) -> LeaseInfo:
    lease = app.leases.get(name)
    if lease is None:
        raise NotFound(f"there is no lease {name!r}: it was never acquired")
    return lease
