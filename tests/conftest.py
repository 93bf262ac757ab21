"""Fixtures for the whole suite: the stores that tests run on. ``tests/servers.py`` says what each can do.

A server is started once per test process, when the first test asks for it. Tests share it and take fresh tables.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from moto import mock_aws

from dynadurable.errors import ConfigurationError
from dynadurable.local import LocalStore, StoreServer, find_ministack, find_roto
from dynadurable.testing.moto import serialised_moto
from tests.servers import ABILITIES, ServerMissingError, Store, find_dynalite, make_client
from tests.watch import Watch, watching

SERVER_FINDERS: dict[str, Callable[[], StoreServer]] = {
    "ministack": find_ministack,
    "roto": find_roto,
    "dynalite": find_dynalite,
}
SERVERS = tuple(SERVER_FINDERS)
STORES = ("moto", *SERVERS)


@pytest.fixture(scope="session", autouse=True)
def watch() -> Iterator[Watch]:
    """What the product sends in this process."""
    with watching() as watched:
        yield watched


@pytest.fixture(autouse=True)
def _grants_suffice(watch: Watch) -> Iterator[None]:
    """Whatever a test does, nothing is sent that the sender's grant does not allow."""
    yield
    refused, watch.refused = watch.refused, []
    assert refused == [], "see dynadurable/storage/permissions.py, or tests/roles.py for who sends it"


class Servers:
    """The servers of this test process, each started when it is first asked for."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._started: dict[str, LocalStore] = {}

    def __getitem__(self, name: str) -> LocalStore:
        if name not in self._started:
            try:
                server = SERVER_FINDERS[name]()
            except (ConfigurationError, ServerMissingError) as error:
                if os.environ.get("CI"):
                    raise  # there, a server that is missing is a failure
                pytest.skip(str(error))
            self._started[name] = self._stack.enter_context(LocalStore(server))
        return self._started[name]


@pytest.fixture(scope="session")
def servers() -> Iterator[Servers]:
    """The servers by name: ``servers["ministack"]`` is a started ``LocalStore``."""
    with ExitStack() as stack:
        yield Servers(stack)


@pytest.fixture
def open_store(servers: Servers) -> Iterator[Callable[[str], Store]]:
    """Opens a store by name, as often as wanted; its tables are dropped after the test."""
    with ExitStack() as stack:

        def opened(name: str) -> Store:
            if name == "moto":
                stack.enter_context(mock_aws())
                stack.enter_context(serialised_moto())
                kwargs: dict[str, Any] = {
                    "region_name": "us-east-1",
                    "aws_access_key_id": "testing",
                    "aws_secret_access_key": "testing",
                }
            else:
                kwargs = servers[name].client_kwargs()
            store = Store(name=name, client=make_client(kwargs), client_kwargs=kwargs, abilities=ABILITIES[name])
            stack.callback(store.close)
            return store

        yield opened


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that takes ``store`` or ``server_store`` on each store that has what the test needs."""
    needs = [ability for mark in metafunc.definition.iter_markers("needs") for ability in mark.args]
    for fixture, names in (("store", STORES), ("server_store", SERVERS)):
        if fixture in metafunc.fixturenames:
            able = [name for name in names if all(getattr(ABILITIES[name], ability) for ability in needs)]
            params = [pytest.param(name, marks=[] if name == "moto" else [pytest.mark.server]) for name in able]
            metafunc.parametrize(fixture, params, indirect=True)


@pytest.fixture
def store(request: pytest.FixtureRequest, open_store: Callable[[str], Store]) -> Store:
    """Every store in turn, or those with the abilities that ``@pytest.mark.needs("transactions")`` names."""
    return open_store(request.param)


@pytest.fixture
def server_store(request: pytest.FixtureRequest, open_store: Callable[[str], Store]) -> Store:
    """Every store that is a process of its own, in turn; choose by ability as with ``store``."""
    return open_store(request.param)


@pytest.fixture
def ministack(open_store: Callable[[str], Store]) -> Store:
    """The most faithful store; use it for races, crashes, transactions and write units. Mark the test ``server``."""
    return open_store("ministack")


@pytest.fixture
def roto(open_store: Callable[[str], Store]) -> Store:
    """The store that is truly parallel inside. Mark the test ``server``."""
    return open_store("roto")


@pytest.fixture
def dynalite(open_store: Callable[[str], Store]) -> Store:
    """The strictest parser, and right about read units; it has no transactions. Mark the test ``server``."""
    return open_store("dynalite")


@pytest.fixture
def moto_store(open_store: Callable[[str], Store]) -> Store:
    """The in-process moto, one request at a time."""
    return open_store("moto")


@pytest.fixture
def moto_client(moto_store: Store) -> Any:
    """A boto3 low-level client on moto in this process."""
    return moto_store.client
