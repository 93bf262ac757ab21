"""``dynadurable clean``: a pass of the cleaner, for a cron job or a scheduled container."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from ..app import App
from ..cleaner import Cleaner
from ..control.cleaning import DEFAULT_RATE, DEFAULT_READ_RATE
from ..errors import LeaseBusyError, PermissionMissingError
from ..model.clean_report import CleanEstimate, CleanReport
from .target import app_options, json_option
from .text import say, show_json

EXAMPLES = """\b
dynadurable clean --app shop.jobs:app --dry-run
dynadurable clean --table shop --rate 50"""
RATE = click.FloatRange(0, min_open=True)


@click.command(epilog=EXAMPLES, short_help="Remove what has expired and what crashes have left.")
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@click.option("--rate", type=RATE, default=DEFAULT_RATE, show_default=True, metavar="N", help="Write units a second.")
@click.option(
    "--read-rate", type=RATE, default=DEFAULT_READ_RATE, show_default=True, metavar="N", help="Read units a second."
)
@app_options
@json_option
def clean(app: App, dry_run: bool, rate: float, read_rate: float, as_json: bool) -> None:
    """Remove what has expired and what crashes have left. Reads the whole table, once, and says first what that costs.

    It may be stopped or killed at any time: the next pass goes on from there. While another one is at work it does
    nothing. It never touches a live run, or what is not dynadurable's.
    """
    cleaner = app.cleaner(rate=rate, read_rate=read_rate, dry_run=dry_run)
    estimate = _estimate(cleaner)
    if not as_json and estimate is not None:
        say(str(estimate))
        if estimate.resumes:
            say("It goes on with a pass that was stopped.")
    try:
        with _stopping() as stopping, _progress(estimate) as advance:
            report = cleaner.run(stopping=stopping, progress=advance)
    except LeaseBusyError:
        if as_json:
            show_json({"busy": True})
        else:
            say("Another cleaner is at work; nothing was done.")
        return
    if as_json:
        show_json({"busy": False, "estimate": None if estimate is None else estimate.to_record(), **report.to_record()})
    else:
        _tell(report)


def _estimate(cleaner: Cleaner) -> CleanEstimate | None:
    try:
        return cleaner.estimate()
    except PermissionMissingError:
        return None


def _tell(report: CleanReport) -> None:
    would = "Would remove" if report.dry_run else "Removed"
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in report.removed.items()) or "nothing"
    say(f"{would} {kinds}, among {report.scanned:,} items of which {report.ours:,} are dynadurable's.")
    if report.stamped:
        say(f"Gave {report.stamped:,} pages of ended runs the expiry they lacked.")
    if report.restored:
        say(f"Put back the marks of {report.restored:,} live runs that had lost them.")
    if report.left:
        say(f"Left {report.left:,} that had changed meanwhile.")
    if report.newer:
        say(f"Left alone {report.newer:,} that a newer version of dynadurable has written: upgrade this one.")
    if report.damaged:
        say(f"Left alone {report.damaged:,} that something else has changed; the log names them.")
    say(f"It took {report.seconds:.0f} s, {report.read_units:,.1f} read and {report.write_units:,.0f} write units.")
    if not report.finished:
        say("It was stopped before the end; the next pass goes on from there.")


@contextmanager
def _stopping() -> Iterator[threading.Event]:
    """Set by SIGTERM and Ctrl-C: then it ends at its next step, and notes how far it has come."""
    stopping = threading.Event()

    def told(_number: int, _frame: FrameType | None) -> None:
        stopping.set()

    if threading.current_thread() is not threading.main_thread():
        yield stopping
        return
    before = {number: signal.signal(number, told) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stopping
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _progress(estimate: CleanEstimate | None) -> Iterator[Callable[[CleanReport], None]]:
    """A bar on standard error, where that is a terminal."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("cleaning", total=estimate.items if estimate is not None and estimate.items else None)

        def advance(report: CleanReport) -> None:
            bar.update(task, completed=report.scanned, description=f"{report.removed_total:,} removed")

        yield advance
