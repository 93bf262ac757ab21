"""``dynadurable dead``: list, group, show, replay and purge dead letters."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from ..app import App
from ..control.dead_letters import Where
from ..model.replay import ReplayReport
from .root import Stopped
from .run_view import show_run
from .target import app_options, complete_job, complete_queue, confirm, json_option, yes_option
from .text import say, show_json, show_table, when
from .values import Instant, Json, now

Command = TypeVar("Command", bound=Callable[..., Any])

REPLAY_EXAMPLES = """\b
dynadurable dead replay default~2~0mywy3k00~01mcckg2g01taej5e4z1by
dynadurable dead replay --cause 5f6c46 --before-build v42 --rate 10 --stop-after 3"""


@click.group(short_help="Dead letters: list, group, show, replay, purge.")
def dead() -> None:
    """Dead letters: runs whose attempts are used up. Look at them, bring them back, forget them."""


def _where_options(command: Command) -> Command:
    """Which letters are meant; the command gets a ``Where``."""

    @functools.wraps(command)
    def with_where(*args: Any, **kwargs: Any) -> Any:
        names = ("queue", "job", "since", "until", "fingerprint", "build", "before_build")
        where = {name: kwargs.pop(name) for name in names}
        given: Where = {name: value for name, value in where.items() if value is not None}  # type: ignore[assignment]
        return command(*args, where=given, **kwargs)

    options = [
        click.option("--queue", "-q", shell_complete=complete_queue, help="Of this queue."),
        click.option("--job", shell_complete=complete_job, help="Of this job."),
        click.option("--since", type=Instant(past=True), help="That died since then: an instant, or such as 2h."),
        click.option("--until", type=Instant(past=True), help="That died until then."),
        click.option("--cause", "fingerprint", help="Of this cause, as `dead groups` shows it; its beginning will do."),
        click.option("--build", help="That died of this build of your code."),
        click.option("--before-build", help="That died of a build that was started before this one."),
    ]
    for option in reversed(options):
        with_where = option(with_where)
    return with_where  # type: ignore[return-value]


# --- look -----------------------------------------------------------------------------------------


@dead.command("list")
@_where_options
@click.option("--limit", type=click.IntRange(1, 10_000), default=100, show_default=True)
@app_options
@json_option
def list_(app: App, where: Where, limit: int, as_json: bool) -> None:
    """The latest dead letters that fit."""
    letters, current = app.dead.list(limit=limit, **where), now()
    if as_json:
        show_json([letter.to_record() for letter in letters])
        return
    if not letters:
        say("No dead letter fits.")
        return
    rows = [
        (one.run_id, one.job, when(one.died_at, current), str(one.attempts), one.build, one.fingerprint[:8], one.error)
        for one in letters
    ]
    show_table(("run", "job", "died", "attempts", "build", "cause", "error"), rows, right=("attempts",))
    if len(letters) == limit:
        say(f"These are the latest {limit}; more with --limit, all by cause with `dynadurable dead groups`.")


@dead.command()
@_where_options
@app_options
@json_option
def groups(app: App, where: Where, as_json: bool) -> None:
    """Those that fit by their cause, the largest group first.

    A cause is the kind of error and the place in the code it came from, whatever its message says.
    """
    with _progress("looking", None, hidden=as_json) as advance:
        found = app.dead.groups(progress=advance, **where)
    current = now()
    if as_json:
        show_json([group.to_record() for group in found])
        return
    if not found:
        say("No dead letter fits.")
        return
    rows = [
        (
            one.fingerprint[:8],
            f"{one.count:,}",
            ", ".join(one.jobs),
            ", ".join(one.builds),
            when(one.first_at, current),
            when(one.last_at, current),
            one.error,
        )
        for one in found
    ]
    columns = ("cause", "count", "jobs", "builds", "first", "last", "latest error")
    show_table(columns, rows, right=("count",))


@dead.command(short_help="All that is known of one.")
@click.argument("run_id")
@app_options
@json_option
def show(app: App, run_id: str, as_json: bool) -> None:
    """All that is known of one: its arguments, and every kept attempt with its traceback."""
    show_run(app.dead.get(run_id), as_json=as_json)


# --- bring back, forget ---------------------------------------------------------------------------


@dead.command(epilog=REPLAY_EXAMPLES, short_help="Bring runs back.")
@click.argument("run_ids", metavar="[RUN_ID]...", nargs=-1)
@_where_options
@click.option("--all", "everything", is_flag=True, help="All there are.")
@click.option("--input", "arguments", type=Json(), help="Other arguments for one run: a JSON object.")
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@click.option("--rate", type=click.FloatRange(0, min_open=True), metavar="N", help="At most N runs per second.")
@click.option("--stop-after", type=click.IntRange(1), metavar="N", help="Stop once N in a row have failed again.")
@app_options
@yes_option
@json_option
def replay(
    app: App,
    run_ids: tuple[str, ...],
    where: Where,
    everything: bool,
    arguments: Any,
    dry_run: bool,
    rate: float | None,
    stop_after: int | None,
    yes: bool,
    as_json: bool,
) -> None:
    """Bring runs back from the dead: those named, or all that fit.

    Each keeps its id, its options, its input and what it had recorded; its attempts begin anew. Replaying one twice is
    harmless: the second time there is nothing to do.
    """
    _check_choice(run_ids, where, everything)
    if arguments is not None and (len(run_ids) != 1 or not isinstance(arguments, dict)):
        raise click.UsageError("--input takes an object, for one run id.")
    if run_ids:
        reports = [app.dead.replay(run_id, arguments=arguments, dry_run=dry_run) for run_id in run_ids]
        _tell(_sum(reports), "replayed", as_json=as_json)
        return
    count = app.dead.count(**where)
    if count > 1 and not dry_run:
        confirm(f"Replay {count:,} dead letters?", yes=yes)
    with _progress("replaying", count, hidden=as_json) as advance:
        report = app.dead.replay(
            dry_run=dry_run, rate=rate, stop_after=stop_after, progress=advance, everything=everything, **where
        )
    _tell(report, "replayed", as_json=as_json)
    if report.stopped:
        raise Stopped(f"Stopped: {report.stopped}.")


@dead.command(short_help="Forget dead runs for good.")
@click.argument("run_ids", metavar="[RUN_ID]...", nargs=-1)
@_where_options
@click.option("--all", "everything", is_flag=True, help="All there are.")
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@app_options
@yes_option
@json_option
def purge(
    app: App,
    run_ids: tuple[str, ...],
    where: Where,
    everything: bool,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Forget dead runs for good: those named, or all that fit."""
    _check_choice(run_ids, where, everything)
    count = len(run_ids) or app.dead.count(**where)
    if count and not dry_run:
        confirm(f"Delete {count:,} dead letter{'' if count == 1 else 's'} for good?", yes=yes)
    if run_ids:
        reports = [app.dead.purge(run_id, dry_run=dry_run) for run_id in run_ids]
        _tell(_sum(reports), "purged", as_json=as_json)
        return
    with _progress("purging", count, hidden=as_json) as advance:
        report = app.dead.purge(dry_run=dry_run, progress=advance, everything=everything, **where)
    _tell(report, "purged", as_json=as_json)


def _check_choice(run_ids: tuple[str, ...], where: Where, everything: bool) -> None:
    if bool(run_ids) + bool(where) + everything != 1:
        raise click.UsageError("Name run ids, or a filter such as --cause, or say --all; one of the three.")


def _sum(reports: list[ReplayReport]) -> ReplayReport:
    return ReplayReport(
        matched=sum(one.matched for one in reports),
        done=sum(one.done for one in reports),
        skipped=sum(one.skipped for one in reports),
        run_ids=tuple(run_id for one in reports for run_id in one.run_ids),
        dry_run=any(one.dry_run for one in reports),
    )


def _tell(report: ReplayReport, done: str, *, as_json: bool) -> None:
    if as_json:
        show_json(report.to_record())
        return
    if report.dry_run:
        for run_id in report.run_ids:
            say(run_id)
        say(f"{report.done:,} would be {done}.")
        return
    parts = [f"{report.done:,} {done}"]
    if report.skipped:
        parts.append(f"{report.skipped:,} skipped: not dead any more")
    if report.failed_again:
        parts.append(f"{report.failed_again:,} seen to fail again")
    say("; ".join(parts) + ".")


@contextmanager
def _progress(what: str, total: int | None, *, hidden: bool) -> Iterator[Callable[[int], None]]:
    """A bar on standard error, where that is a terminal."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=hidden or not console.is_terminal) as bar:
        task = bar.add_task(what, total=total)
        yield lambda done: bar.update(task, completed=done)
