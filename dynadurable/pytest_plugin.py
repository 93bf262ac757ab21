"""The pytest plugin: fixtures for tests of durable code. Installed with dynadurable, active where pytest is.

* ``durable``: a ``Kit`` on a fresh table and a clock that stands still; see ``dynadurable.testing.kit``
* ``durable_app``: its app: the one that the ini option ``durable_app = shop.jobs:app`` names, else an empty one
* ``durable_table``: the name of its table

A test that takes ``durable`` and is marked ``@pytest.mark.crash_everywhere`` is run once for every write that it makes
and every way in which that write can fail; it fails if any crash leads to another end.

The table is on moto in this process; ``--dynadurable-backend memory`` takes the faster store of our own, and
``--dynadurable-endpoint http://127.0.0.1:8000`` a server that is running.
"""

from __future__ import annotations

import importlib
import inspect
import os
from collections.abc import Iterator
from typing import Any

import pytest

from .app import App
from .errors import ConfigurationError
from .testing.backend import BACKENDS, DUMMY, backend
from .testing.clock import ManualClock
from .testing.crash import crash_points
from .testing.kit import Kit, kit


def pytest_configure(config: pytest.Config) -> None:
    """Our marker."""
    config.addinivalue_line("markers", "crash_everywhere: run the test once for every write and every way it can fail")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Crash a marked test everywhere."""
    if pyfuncitem.get_closest_marker("crash_everywhere") is None:
        return None
    names = pyfuncitem._fixtureinfo.argnames  # noqa: SLF001 - how pytest's own call finds them
    arguments: dict[str, Any] = {name: pyfuncitem.funcargs[name] for name in names}
    if "durable" not in arguments:
        raise ConfigurationError(f"{pyfuncitem.name} is marked crash_everywhere: let it take the fixture durable")
    if inspect.iscoroutinefunction(pyfuncitem.obj):
        raise ConfigurationError(f"{pyfuncitem.name} is marked crash_everywhere: make it a def, not an async def")
    app = arguments["durable"].app
    report = crash_points(lambda tools: pyfuncitem.obj(**{**arguments, "durable": tools}), app)
    pyfuncitem.add_report_section("call", "crash_everywhere", str(report))
    report.assert_same_end()
    report.assert_no_effect_twice()
    return True


def pytest_addoption(parser: pytest.Parser) -> None:
    """Our options."""
    group = parser.getgroup("dynadurable")
    group.addoption("--dynadurable-endpoint", help="run durable tests on the DynamoDB server at this URL")
    group.addoption("--dynadurable-backend", choices=BACKENDS, default="moto", help="where durable tests keep tables")
    parser.addini("durable_app", "the app that the durable fixtures use, as module:name", default="")


@pytest.fixture
def durable(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kit]:
    """Run and assert on an app with a table and a clock of its own."""
    _leave_aws_alone(monkeypatch)
    app = _app(request.config.getini("durable_app"))
    where: str = request.config.getoption("dynadurable_backend") or "moto"
    endpoint_url = request.config.getoption("dynadurable_endpoint")
    with backend(where, endpoint_url=endpoint_url, schema=app.schema) as made, kit(app, made, ManualClock()) as tools:
        yield tools


@pytest.fixture
def durable_app(durable: Kit) -> App:
    """The app of ``durable``."""
    return durable.app


@pytest.fixture
def durable_table(durable: Kit) -> str:
    """The name of the table of ``durable``."""
    return durable.backend.table


def _leave_aws_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients that code under test makes need no set-up of this machine, and find no account of its owner."""
    for name in ("AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL_DYNAMODB"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, os.devnull)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_DEFAULT_REGION", os.environ.get("AWS_DEFAULT_REGION") or DUMMY["region_name"])


def _app(named: str) -> App:
    if not named:
        return App("durable-test")
    module, _, name = named.partition(":")
    app = getattr(importlib.import_module(module), name or "app", None)
    if not isinstance(app, App):
        raise ConfigurationError(f"durable_app = {named}: there is no App of that name; say it as module:name")
    return app
