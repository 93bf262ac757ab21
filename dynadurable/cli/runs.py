"""``dynadurable runs``: list, show, explain, cancel, retry."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from ..app import App
from ..errors import DynadurableError
from .root import Problem
from .run_view import show_run
from .target import app_options, complete_job, complete_queue, confirm, json_option, yes_option
from .text import say, show_json, show_table, when
from .values import now


@click.group(short_help="List, show, explain, cancel, retry.")
def runs() -> None:
    """Runs: what is pending and running, how one stands, why it is not running."""


@runs.command("list")
@click.option("--queue", "-q", shell_complete=complete_queue, help="Only of this queue.")
@click.option("--state", type=click.Choice(["pending", "running"]), help="Only these.")
@click.option("--job", shell_complete=complete_job, help="Only of this job.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=100, show_default=True)
@app_options
@json_option
def list_(app: App, queue: str | None, state: str | None, job: str | None, limit: int, as_json: bool) -> None:
    """Pending and running runs, in due order.

    They are read from the queues themselves; the table is never scanned. Ended runs lie in no queue: ask for one by its
    id, and for dead ones with `dynadurable dead list`.
    """
    found, current = app.runs.list(queue=queue, state=state, job=job, limit=limit), now()
    if as_json:
        show_json([run.to_record() for run in found])
        return
    if not found:
        say("Nothing is pending.")
        return
    rows = [(run.run_id, run.job, run.queue, run.state, when(run.due_at, current), str(run.attempts)) for run in found]
    show_table(("run", "job", "queue", "state", "due", "attempt"), rows, right=("attempt",))


@runs.command()
@click.argument("run_id")
@app_options
@json_option
def show(app: App, run_id: str, as_json: bool) -> None:
    """All that the table tells of a run: its arguments, its attempts, how each failed; of a workflow its timeline."""
    run = app.run(run_id).info()
    events = list(app.workflows.timeline(run_id)) if run.is_workflow else None
    show_run(run, events, as_json=as_json)


@runs.command()
@click.argument("run_id")
@app_options
@json_option
@click.pass_context
def explain(ctx: click.Context, /, app: App, run_id: str, as_json: bool) -> None:
    """Why a run is not running, and what to do about it."""
    explanation = app.run(run_id).explain()
    if as_json:
        show_json(explanation.to_record())
    else:
        say(explanation.why)
        say(explanation.next)
        for one in explanation.also:
            say(f"Also: {one}")
    ctx.exit(3 if explanation.code == "unknown" else 0)


@runs.command()
@click.argument("run_ids", metavar="RUN_ID...", nargs=-1, required=True)
@app_options
@yes_option
@json_option
def cancel(app: App, run_ids: tuple[str, ...], yes: bool, as_json: bool) -> None:
    """Let runs not happen. Pending ones are gone at once; the workers of running ones are told."""
    confirm(f"Cancel {'this run' if len(run_ids) == 1 else f'these {len(run_ids)} runs'}?", yes=yes)
    _each(run_ids, lambda run_id: app.run(run_id).cancel(), as_json=as_json)


@runs.command()
@click.argument("run_ids", metavar="RUN_ID...", nargs=-1, required=True)
@app_options
@json_option
def retry(app: App, run_ids: tuple[str, ...], as_json: bool) -> None:
    """Let runs start now: a waiting one comes due, a dead one is replayed."""
    _each(run_ids, lambda run_id: app.driver.run(app.run_plans.retry(run_id)), as_json=as_json)


def _each(run_ids: tuple[str, ...], change: Callable[[str], str], *, as_json: bool) -> None:
    """Change one after the other; what is wrong with one does not keep the others from it."""
    outcomes: dict[str, Any] = {}
    errors: dict[str, DynadurableError] = {}
    for run_id in run_ids:
        try:
            outcomes[run_id] = change(run_id)
        except DynadurableError as error:
            errors[run_id] = error
    if as_json:
        done = [{"run_id": run_id, "outcome": outcome} for run_id, outcome in outcomes.items()]
        show_json([*done, *({"run_id": run_id, "error": str(error)} for run_id, error in errors.items())])
    else:
        for run_id, outcome in outcomes.items():
            say(f"{run_id}: {outcome}")
    if len(errors) == 1 and len(run_ids) == 1:
        raise next(iter(errors.values()))
    if errors:
        raise Problem("; ".join(map(str, errors.values())))
