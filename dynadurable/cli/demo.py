"""``dynadurable demo``: see it with your own eyes."""

from __future__ import annotations

import contextlib
import json
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

import click
from rich.console import Console

from ..errors import DynadurableError
from ..local import DEFAULT_ACCOUNT, REGION

INTERRUPTED = 130
TERMINATED = 143
MAX_KILLS = 6
"""The delivery is tried eight times, and a kill uses an attempt."""


@click.group(invoke_without_command=True)
@click.option(
    "--followers",
    default=10_000,
    show_default=True,
    type=click.IntRange(100, 200_000),
    metavar="N",
    help="How many followers the most popular krab has at least.",
)
@click.option(
    "--kills",
    default=1,
    show_default=True,
    type=click.IntRange(0, MAX_KILLS),
    metavar="N",
    help="How often a worker is killed on the way.",
)
@click.option("--store", type=click.Choice(["roto", "ministack"]), help="The local store  [default: what is installed]")
@click.option("--keep", is_flag=True, help="Leave the store up at the end, to look around, until Ctrl-C.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON; the story goes to stderr.")
@click.pass_context
def demo(context: click.Context, followers: int, kills: int, store: str | None, keep: bool, as_json: bool) -> None:
    """Kill a worker in the middle of a fan-out and see that nothing is lost.

    A krab with 10,000 followers posts a molt. A worker process delivers it and is killed with SIGKILL on the way,
    another one goes on, and then the table is checked: every follower has the molt exactly once. Exit code 0 if so.
    """
    if context.invoked_subcommand is not None:
        return
    from ..demo.screen import Screen
    from ..demo.stage import Settings, Stage
    from ..demo.story import tell

    console = Console(stderr=as_json, highlight=False)
    screen = Screen(console)

    def leave_up(stage: Stage) -> None:
        screen.say("")
        for line in around(stage.store.endpoint_url, stage.table):
            screen.say(line)
        threading.Event().wait()

    try:
        with terminable():
            report = tell(
                Settings(followers=followers, kills=kills, store=store), screen, before_end=leave_up if keep else None
            )
    except KeyboardInterrupt:
        console.print("\nInterrupted; all processes have been stopped.")
        context.exit(INTERRUPTED)
    except DynadurableError as error:
        raise click.ClickException(str(error)) from error
    if as_json:
        click.echo(json.dumps(report.to_json(), indent=2))
    context.exit(report.exit_code)


def around(endpoint_url: str, table: str) -> list[str]:
    """How to look at the table that was kept."""
    return [
        "The store stays up until you press Ctrl-C. To look around in another terminal:",
        f"  export AWS_ENDPOINT_URL_DYNAMODB={endpoint_url} AWS_DEFAULT_REGION={REGION}",
        f"  export AWS_ACCESS_KEY_ID={DEFAULT_ACCOUNT} AWS_SECRET_ACCESS_KEY=local",
        f"  aws dynamodb scan --table-name {table} --limit 20",
    ]


@contextlib.contextmanager
def terminable() -> Iterator[None]:
    """SIGTERM ends the command as an exception does, so that it leaves no process behind."""

    def leave(_number: int, _frame: FrameType | None) -> Any:
        sys.exit(TERMINATED)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
