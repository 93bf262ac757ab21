"""``dynadurable demo``: see it with your own eyes."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from ..local import DEFAULT_ACCOUNT, REGION
from .text import show_json

if TYPE_CHECKING:
    from ..demo.report import Report
    from ..demo.stage import Stage

INTERRUPTED = 130
TERMINATED = 143
MAX_KILLS = 6
"""The delivery is tried eight times, and a kill uses an attempt."""

EXAMPLES = """\b
dynadurable demo
dynadurable demo --kills 3 --followers 50000
dynadurable demo --keep"""


@click.group(invoke_without_command=True, epilog=EXAMPLES, short_help="Kill a worker and see that nothing is lost.")
@click.option(
    "--followers",
    default=10_000,
    show_default=True,
    type=click.IntRange(2_000, 200_000),
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
@click.option("--store", type=click.Choice(["roto", "ministack"]), help="The local store. [default: what is installed]")
@click.option("--keep", is_flag=True, help="Leave the store up at the end, to look around, until Ctrl-C.")
@click.option("--json", "as_json", is_flag=True, help="The result as a JSON document; the story goes to stderr.")
@click.pass_context
def demo(ctx: click.Context, followers: int, kills: int, store: str | None, keep: bool, as_json: bool) -> None:
    """Kill a worker in the middle of a fan-out and see that nothing is lost.

    A krab with 10,000 followers posts a molt. A worker process delivers it and is killed with SIGKILL on the way,
    another one goes on, and then the table is checked: every follower has the molt exactly once. Exit code 0 if so.
    """
    if ctx.invoked_subcommand is not None:
        return
    from ..demo.screen import Screen
    from ..demo.stage import Settings
    from ..demo.story import tell

    console = Console(stderr=as_json, highlight=False, markup=False, emoji=False)
    screen = Screen(console)
    settings = Settings(followers=followers, kills=kills, store=store)

    def at_end(stage: Stage, report: Report) -> None:
        if as_json:
            show_json(report.to_json())
        if keep:
            leave_up(stage)

    try:
        with terminable():
            report = tell(settings, screen, at_end=at_end)
    except KeyboardInterrupt:
        console.print("\nInterrupted. The store and all workers have been stopped.")
        ctx.exit(INTERRUPTED)
    ctx.exit(report.exit_code)


def leave_up(stage: Stage) -> None:
    """Say how to look at the table, and wait for Ctrl-C."""
    say = stage.screen.say
    say("")
    say("The store stays up until Ctrl-C. To look around, in another terminal:", style="bold")
    say(f"export AWS_ENDPOINT_URL_DYNAMODB={stage.store.endpoint_url} AWS_DEFAULT_REGION={REGION}")
    say(f"export AWS_ACCESS_KEY_ID={DEFAULT_ACCOUNT} AWS_SECRET_ACCESS_KEY=local")
    say(f"dynadurable queues list --table {stage.table}")
    say(f"aws dynamodb scan --table-name {stage.table} --max-items 20")
    with contextlib.suppress(KeyboardInterrupt):
        threading.Event().wait()


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


@demo.command("workflow")
@click.option("--store", type=click.Choice(["roto", "ministack"]), help="The local store. [default: what is installed]")
@click.option("--json", "as_json", is_flag=True, help="The result as a JSON document; the story goes to stderr.")
@click.pass_context
def workflow(ctx: click.Context, store: str | None, as_json: bool) -> None:
    """Kill a checkout at every boundary and count the charges.

    A fake payment service counts them in a process of its own. Also the honest case: killed between the charge and its
    record, with the step's idempotency key and without it. Exit code 0 if the counts are right.
    """
    from ..demo.checkout import tell
    from ..demo.screen import Screen

    console = Console(stderr=as_json, highlight=False, markup=False, emoji=False)
    with terminable():
        played = tell(Screen(console), store=store)
    if as_json:
        show_json([one.to_json() for one in played])
    ctx.exit(0 if all(one.is_good for one in played) else 1)
