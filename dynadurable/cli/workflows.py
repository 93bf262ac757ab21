"""``dynadurable check``, ``replay``, ``send`` and ``callback``: what is asked of workflows, and told to them."""

from __future__ import annotations

import json
from typing import Any

import click

from ..app import App
from ..workflow.check import check_workflows
from .root import FAILED, Problem
from .target import app_options, json_option, load_app
from .text import say, show_json


@click.command(short_help="Read workflows for what would differ on replay.")
@click.argument("target", metavar="MODULE:APP")
@json_option
@click.pass_context
def check(ctx: click.Context, target: str, as_json: bool) -> None:
    """Read the code of all workflows for clocks, dice, the environment, the network, threads and the order of sets.

    What is inside steps is free to use them. Exit code 1 if anything was found.
    """
    app = load_app(target)
    found = check_workflows(app.registry.jobs())
    if as_json:
        show_json(
            [
                {"file": one.file, "line": one.line, "workflow": one.workflow, "what": one.what, "remedy": one.remedy}
                for one in found
            ]
        )
    else:
        for one in found:
            say(str(one))
        count = sum(job.is_workflow for job in app.registry.jobs())
        say(f"{count} workflow{'' if count == 1 else 's'} read, {len(found) or 'nothing'} found.")
    ctx.exit(FAILED if found else 0)


@click.command(short_help="Replay live workflows against today's code.")
@click.argument("run_ids", metavar="RUN_ID...", nargs=-1)
@click.option("--all", "all_live", is_flag=True, help="All runs under way.")
@app_options
@json_option
@click.pass_context
def replay(ctx: click.Context, /, app: App, run_ids: tuple[str, ...], all_live: bool, as_json: bool) -> None:
    """Would today's code go on with these runs? To be asked before a deploy: nothing is done or written.

    Exit code 1 if it would not with one of them.
    """
    if bool(run_ids) == all_live:
        raise click.UsageError("Name the runs, or say --all.")
    checks = app.workflows.check_live() if all_live else [app.workflows.check(run_id) for run_id in run_ids]
    if as_json:
        show_json(
            [
                {
                    "run_id": one.run_id,
                    "job": one.job,
                    "outcome": one.outcome,
                    "records": one.records,
                    "error": None if one.error is None else str(one.error),
                }
                for one in checks
            ]
        )
    else:
        for one in checks:
            say(str(one))
        say(f"{sum(one.is_good for one in checks)} of {len(checks)} runs fit.")
    ctx.exit(0 if all(one.is_good for one in checks) else FAILED)


@click.command(short_help="Send an event to a workflow.")
@click.argument("run_id")
@click.argument("name")
@click.option("--json", "value", default="null", metavar="JSON", show_default=True, help="The event's value.")
@app_options
def send(app: App, run_id: str, name: str, value: str) -> None:
    """Send an event to a workflow, before or after it waits for it. The first value counts."""
    counts = app.run(run_id).send_event(name, _value(value))
    say("Sent." if counts else "Not counted: another value came first, or the run has ended.")


@click.group(short_help="Complete or fail what a workflow waits for.")
def callback() -> None:
    """Callbacks: tokens that a workflow has given to the outside."""


@callback.command()
@click.argument("token")
@click.option("--json", "value", default="null", metavar="JSON", show_default=True, help="The value to give.")
@app_options
def complete(app: App, token: str, value: str) -> None:
    """Complete a callback: the workflow is given the value."""
    _answered(app.callbacks.complete(token, _value(value)))


@callback.command()
@click.argument("token")
@click.argument("reason")
@app_options
def fail(app: App, token: str, reason: str) -> None:
    """Let a callback fail: the workflow is told the reason."""
    _answered(app.callbacks.fail(token, reason))


@callback.command()
@click.argument("token")
@app_options
def heartbeat(app: App, token: str) -> None:
    """Say that a callback is being worked on, so that it does not time out."""
    _answered(app.callbacks.heartbeat(token))


def _answered(counts: bool) -> None:
    if not counts:
        raise Problem("nobody waits for it any more: it had an outcome first, or its run has ended")
    say("Done.")


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise click.BadParameter(f"this is not JSON: {error}") from error
