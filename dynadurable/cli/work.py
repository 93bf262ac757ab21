"""``dynadurable worker`` and ``dynadurable drain``."""

from __future__ import annotations

import logging
import os
from datetime import timedelta
from typing import Any

import click

from ..errors import ConfigurationError
from ..storage import environment
from ..worker.crew import DEFAULT_ASYNC_CONCURRENCY, DEFAULT_CONCURRENCY
from ..worker.engine import DEFAULT_GRACE, DEFAULT_LEASE
from .target import complete_queue, json_option, load_app
from .text import exactly, say, show_json
from .values import Length, now

WORKER_EXAMPLES = """\b
dynadurable worker shop.jobs:app
dynadurable worker shop.jobs:app -q urgent -q default --concurrency 32"""
DRAIN_EXAMPLES = """\b
dynadurable drain shop.jobs:app --timeout 10m"""
LEVELS = ("debug", "info", "warning", "error", "critical")


def _worker_options(command: Any) -> Any:
    options = [
        click.argument("target", metavar="MODULE:APP", envvar=environment.APP),
        click.option(
            "--queue",
            "-q",
            "queues",
            multiple=True,
            shell_complete=complete_queue,
            help="Serve this queue; repeat it for more, in order of priority. [default: those of all jobs]",
        ),
        click.option("--concurrency", "-c", type=click.IntRange(1), default=DEFAULT_CONCURRENCY, show_default=True),
        click.option(
            "--async-concurrency",
            type=click.IntRange(1),
            default=DEFAULT_ASYNC_CONCURRENCY,
            show_default=True,
            help="The same for `async def` jobs.",
        ),
        click.option(
            "--lease",
            type=Length(),
            default=DEFAULT_LEASE,
            show_default="30s",
            help="How soon after a crash others take over.",
        ),
        click.option(
            "--grace",
            type=Length(),
            default=DEFAULT_GRACE,
            show_default="25s",
            help="How long bodies may go on once it is to stop.",
        ),
        click.option(
            "--metrics",
            is_flag=True,
            help="Print the queues' figures once a minute, in CloudWatch's format. [env: DYNADURABLE_METRICS=emf]",
        ),
        click.option("--name", help="What others see as its name. [default: host and process id]"),
        click.option("--log-level", type=click.Choice(LEVELS), default="info", show_default=True),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def _worker_of(target: str, queues: tuple[str, ...], log_level: str, options: dict[str, Any]) -> Any:
    logging.basicConfig(
        level=log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s", datefmt="%H:%M:%S"
    )
    if log_level == "info":  # botocore's is about itself: where it found credentials, and where the endpoint
        logging.getLogger("botocore").setLevel(logging.WARNING)
    app = load_app(target)
    if not queues and not list(app.registry.jobs()):
        raise ConfigurationError(f"{target} defines no job; import the modules that do where the app is made")
    metrics = options.pop("metrics") or None  # without the option it is for the environment to say
    return app, app.worker(queues=list(queues) or None, metrics=metrics, **options)


@click.command(epilog=WORKER_EXAMPLES, short_help="Work until SIGTERM or Ctrl-C.")
@_worker_options
@click.pass_context
def worker(ctx: click.Context, /, target: str, queues: tuple[str, ...], log_level: str, **options: Any) -> None:
    """Work until SIGTERM or Ctrl-C, then stop gracefully; a second signal stops at once.

    Exits with 0, or with 2 if a body would not end within the grace period: its run was handed back.
    """
    app, made = _worker_of(target, queues, log_level, options)
    served = ", ".join(queues) or ", ".join(sorted({job.queue for job in app.registry.jobs()}))
    logging.getLogger("dynadurable.worker").info(
        "worker %s serves %s of table %s", options["name"] or os.getpid(), served, app.schema.table
    )
    ctx.exit(made.run())


@click.command(epilog=DRAIN_EXAMPLES, short_help="Work until nothing is due, then exit.")
@_worker_options
@click.option("--timeout", type=Length(), help="Claim nothing more after so long. [default: when nothing is due]")
@json_option
@click.pass_context
def drain(
    ctx: click.Context,
    /,
    target: str,
    queues: tuple[str, ...],
    log_level: str,
    timeout: timedelta | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Work until nothing is due, then exit: for a scheduled container. Says when to come again."""
    _, made = _worker_of(target, queues, log_level, options)
    due_at = made.drain(timeout=timeout)
    if as_json:
        show_json({"next_due_at": None if due_at is None else due_at.isoformat()})
    elif due_at is None:
        say("Nothing is pending.")
    else:
        say(f"The next run is due {exactly(due_at, now())}.")
    report = made.stop()
    if report.abandoned:
        click.echo(f"These runs would not end and were handed back: {', '.join(report.abandoned)}", err=True)
    ctx.exit(report.exit_code)
