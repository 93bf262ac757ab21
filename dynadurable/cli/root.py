"""The root command: its subcommands by name, and what an error means to the shell."""

from __future__ import annotations

import importlib
from typing import Any

import click

from ..errors import DynadurableError, RunExpiredError, RunUnknownError, ScheduleUnknownError
from .text import plain

OK = 0
FAILED = 1
NOT_FOUND = 3
STOPPED = 4

COMMANDS = {
    "worker": "work:worker",
    "drain": "work:drain",
    "enqueue": "enqueue:enqueue",
    "runs": "runs:runs",
    "dead": "dead:dead",
    "queues": "queues:queues",
    "workers": "workers:workers",
    "leases": "leases:leases",
    "schedules": "schedules:schedules",
    "table": "table:table",
    "clean": "clean:clean",
    "doctor": "doctor:doctor",
    "cost": "cost:cost",
    "local": "local:local",
    "check": "workflows:check",
    "replay": "workflows:replay",
    "send": "workflows:send",
    "callback": "workflows:callback",
    "demo": "demo:demo",
    "completion": "completion:completion",
}
"""Each command's file beside this one, and its name in there; imported when it is first asked for."""

EPILOG = """\b
Exit codes: 0 done · 1 failed · 2 wrong usage, or a worker left bodies behind
            3 no such run, lease or schedule · 4 a replay was stopped because runs failed again"""


class Problem(click.ClickException):
    """An error as the shell is told of it: one line, no traceback, and an exit code."""

    exit_code = FAILED

    def __init__(self, error: BaseException | str) -> None:
        super().__init__(plain(str(error)))


class NotFound(Problem):
    """There is no such run, lease or schedule."""

    exit_code = NOT_FOUND


class Stopped(Problem):
    """A replay was stopped."""

    exit_code = STOPPED


class Root(click.Group):
    """Imports a command only when it is needed, so that the shell's completion is quick."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*COMMANDS, *(name for name in super().list_commands(ctx) if name not in COMMANDS)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        place = COMMANDS.get(cmd_name)
        if place is None:
            return super().get_command(ctx, cmd_name)
        module, _, name = place.partition(":")
        command: click.Command = getattr(importlib.import_module(f"{__package__}.{module}"), name)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (RunUnknownError, RunExpiredError, ScheduleUnknownError) as error:
            raise NotFound(error) from error
        except DynadurableError as error:
            raise Problem(error) from error


@click.group(
    cls=Root, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(package_name="dynadurable", message="%(version)s")
def root() -> None:
    """Durable background work on one DynamoDB table: run workers, look into queues, bring back the dead.

    Commands that only look at the table need to know which one: name your app with --app MODULE:APP (or set
    DYNADURABLE_APP), or just the table with --table (or DYNADURABLE_TABLE).
    """
