"""``dynadurable local``: something to develop against where there is no DynamoDB at hand."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path

import click

from ..local import DEFAULT_ACCOUNT, REGION, LocalStore
from .demo import terminable
from .text import say

DEFAULT_PORT = 8765

EXAMPLES = """\b
dynadurable local
dynadurable local --folder .dynamodb --port 9000"""


@click.command(epilog=EXAMPLES, short_help="Run a DynamoDB look-alike to develop against.")
@click.option("--port", type=click.IntRange(1, 65535), default=DEFAULT_PORT, show_default=True)
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep the tables here between two starts. [default: they are gone at the end]",
)
@click.option("--store", type=click.Choice(["roto", "ministack"]), help="Which one. [default: what is installed]")
def local(port: int, folder: Path | None, store: str | None) -> None:
    """Run a DynamoDB look-alike on this machine until Ctrl-C, and say how to reach it.

    For development: it is reached from this machine only, and knows no permissions.
    """
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    with terminable(), contextlib.suppress(KeyboardInterrupt), LocalStore.find(store, folder=folder, port=port) as made:
        say("It runs until Ctrl-C. In the terminals in which you use it:")
        say(f"export AWS_ENDPOINT_URL_DYNAMODB={made.endpoint_url} AWS_DEFAULT_REGION={REGION}")
        say(f"export AWS_ACCESS_KEY_ID={DEFAULT_ACCOUNT} AWS_SECRET_ACCESS_KEY=local")
        threading.Event().wait()
