"""Which app or table a command is about, and the options that say so."""

from __future__ import annotations

import functools
import importlib
import os
from collections.abc import Callable
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from ..app import App
from ..errors import ConfigurationError, DynadurableError
from ..locate import locate_app
from ..model.job import Job
from ..storage import environment

Command = TypeVar("Command", bound=Callable[..., Any])


def load_app(name: str) -> App:
    """The app that ``module:app`` names; of a module with a single app its name is enough.

    Raises:
        ConfigurationError: there is none; says what there is.
    """
    try:
        return locate_app(name if ":" in name else f"{name}:{_only_app_of(name)}")
    except ConfigurationError as error:
        raise ConfigurationError(f"{error}{_hint(name)}") from error


def app_options(command: Command) -> Command:
    """Options that name the app or the table; the command gets the ``App`` as its first argument."""

    @functools.wraps(command)
    def with_app(
        *args: Any,
        app_name: str | None,
        table_name: str | None,
        region: str | None,
        endpoint_url: str | None,
        **kwargs: Any,
    ) -> Any:
        return command(_chosen(app_name, table_name, region, endpoint_url), *args, **kwargs)

    options = [
        click.option("--app", "-a", "app_name", envvar=environment.APP, metavar="MODULE:APP", help="Your app."),
        click.option(
            "--table",
            "table_name",
            envvar=environment.TABLE,
            metavar="NAME",
            help="Just the table, where your code is not at hand. [env: DYNADURABLE_PREFIX and the like for its keys]",
        ),
        click.option("--region", metavar="NAME", help="With --table: the AWS region."),
        click.option("--endpoint-url", metavar="URL", help="With --table: another endpoint, such as a local store."),
    ]
    for option in reversed(options):
        with_app = option(with_app)
    return with_app  # type: ignore[return-value]


def json_option(command: Command) -> Command:
    """``--json``: a document for machines instead of a table for people."""
    return click.option("--json", "as_json", is_flag=True, help="For machines: a JSON document.")(command)


def yes_option(command: Command) -> Command:
    """``--yes``: no question is asked."""
    return click.option("--yes", "-y", is_flag=True, help="Do not ask.")(command)


def confirm(question: str, *, yes: bool) -> None:
    """Ask before what cannot be undone. Without a terminal to ask at, ``--yes`` must say so."""
    if yes:
        return
    try:
        click.confirm(question, abort=True, err=True)
    except click.Abort:
        click.echo("Nothing was done. (Say --yes where there is nobody to ask.)", err=True)
        raise


def locate_job(name: str, app_name: str | None) -> tuple[App, Job[Any, Any]]:
    """The job that ``module:job`` names, and its app: that of the same module, unless another is named.

    Raises:
        ConfigurationError: there is no such job or no app that has it; says what there is.
    """
    module_name, colon, attribute = name.partition(":")
    if not (module_name and colon and attribute):
        raise ConfigurationError(f"a job is named as module:job, such as shop.jobs:send_mail, not {name!r}")
    module = _module(module_name)
    apps = [load_app(app_name)] if app_name is not None else _apps_of(module)
    found = getattr(module, attribute, None)
    job_name = found.name if isinstance(found, Job) else attribute
    for app in apps:
        job = app.registry.get(job_name)
        if job is not None:
            return app, job
    if isinstance(found, Job):
        raise ConfigurationError(
            f"module {module_name!r} has no app with job {job_name!r}: name it with --app MODULE:APP"
        )
    known = sorted({job for app in apps for job in app.registry.names()})
    raise ConfigurationError(
        f"there is no job {attribute!r} in {module_name!r}; its jobs are: {', '.join(known) or 'none'}"
    )


# --- completion -----------------------------------------------------------------------------------


def complete_queue(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of queues, for the shell."""
    return [CompletionItem(name) for name in _of_app(ctx, lambda app: app.operations.known_queues(), incomplete)]


def complete_job(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of jobs, for the shell."""
    return [CompletionItem(name) for name in _of_app(ctx, lambda app: list(app.registry.names()), incomplete)]


def _of_app(ctx: click.Context, names: Callable[[App], list[str]], incomplete: str) -> list[str]:
    name = ctx.params.get("app_name") or ctx.params.get("target") or os.environ.get(environment.APP)
    try:
        return [] if name is None else [one for one in names(load_app(name)) if one.startswith(incomplete)]
    except Exception:  # noqa: BLE001 - whatever is wrong with the app, the shell wants names and nothing else
        return []


# --- inside ---------------------------------------------------------------------------------------


def _chosen(app_name: str | None, table_name: str | None, region: str | None, endpoint_url: str | None) -> App:
    if app_name is not None:
        return load_app(app_name)
    if table_name is None:
        raise click.UsageError("Which app? Name it with --app MODULE:APP, or its table with --table NAME.")
    schema = environment.from_environment({**os.environ, environment.TABLE: table_name})
    return App(
        schema.table,
        region=region,
        endpoint_url=endpoint_url,
        partition_key=schema.partition_key,
        sort_key=schema.sort_key,
        ttl=schema.ttl,
        prefix=schema.prefix,
    )


def _module(name: str) -> Any:
    if name.startswith("."):
        raise ConfigurationError(f"a module is named from the top, such as shop.jobs, not {name!r}")
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name == error.name or name.startswith(f"{error.name}.")):
            raise  # the module is there and misses another one: that is what must be seen
        raise ConfigurationError(f"there is no module {name!r} here; is its folder on the import path?") from error


def _apps_of(module: Any) -> list[App]:
    return [value for value in vars(module).values() if isinstance(value, App)]


def _only_app_of(module_name: str) -> str:
    found: list[str] = [name for name, value in vars(_module(module_name)).items() if isinstance(value, App)]
    if len(found) != 1:
        raise ConfigurationError(f"an app is named as module:app, such as shop.jobs:app, not {module_name!r}")
    return found[0]


def _hint(name: str) -> str:
    """Which apps there are in the module that was named."""
    module_name = name.partition(":")[0]
    try:
        found = [one for one, value in vars(_module(module_name)).items() if isinstance(value, App)]
    except (DynadurableError, ImportError, ValueError):
        return ""
    return f"; did you mean {' or '.join(f'{module_name}:{one}' for one in found)}?" if found else ""
