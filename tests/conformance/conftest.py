"""The stores that every behaviour is tried on. What a store is known to get wrong is listed in ``faults.txt``."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from moto import mock_aws

from dynadurable.testing.memory import MemoryStore
from dynadurable.testing.moto import serialised_moto
from tests.conformance.driven import DRIVERS, OF_LOOPS, OF_OLDER_BOTO3, Driven, drive
from tests.conformance.faults import Fault, find_fault
from tests.conformance.subject import (
    MEMORY_ABILITIES,
    MISSING,
    RefusedError,
    Send,
    Subject,
    memory_client,
    send_to_client,
    send_to_memory,
)
from tests.servers import ABILITIES, Store

if TYPE_CHECKING:
    from tests.conftest import Servers

IN_PROCESS = ("memory", "memory-client", "moto")
STORES = (*IN_PROCESS, "ministack", "dynalite", "roto")

HERE = Path(__file__).parent
MOST_LOOKS = 500  # at a table that is being made or deleted

_numbers = itertools.count()


def _drivers() -> Iterator[Any]:
    """Each driver in turn. The leg with aioboto3 has an older boto3, which goes through the same."""
    for name in DRIVERS:
        marks = [pytest.mark.server] if DRIVERS[name] != "moto" else []
        yield pytest.param(name, marks=[*marks, pytest.mark.aio] if name in OF_LOOPS else marks)
        if name in OF_OLDER_BOTO3:
            yield pytest.param(name, marks=[*marks, pytest.mark.aio], id=f"older-{name}")


@pytest.fixture(params=_drivers())
def driven(request: pytest.FixtureRequest, open_store: Callable[[str], Store]) -> Iterator[Driven]:
    """Each driver in turn, with an app on a fresh table."""
    with drive(request.param, open_store(DRIVERS[request.param])) as opened:
        yield opened


@pytest.fixture(
    scope="module",
    params=[pytest.param(name, marks=[] if name in IN_PROCESS else [pytest.mark.server]) for name in STORES],
)
def module_subject(request: pytest.FixtureRequest, servers: Servers) -> Iterator[Subject]:
    """Each store in turn, with a table for all tests of a module."""
    name: str = request.param
    with ExitStack() as stack:
        send = _open(name, servers, stack)
        table = make_table(send, f"conformance-{next(_numbers)}-{name}")
        abilities = ABILITIES.get(name, MEMORY_ABILITIES)
        subject = Subject(name=name, send=send, abilities=abilities, table=table, pk="", made_tables=[table])
        yield subject
        for made in subject.made_tables:
            drop_table(send, made)


@pytest.fixture
def subject(module_subject: Subject) -> Subject:
    """A store with a partition that only this test uses."""
    return Subject(
        name=module_subject.name,
        send=module_subject.send,
        abilities=module_subject.abilities,
        table=module_subject.table,
        pk=f"partition-{next(_numbers)}",
        made_tables=module_subject.made_tables,
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what ``faults.txt`` lists; or, where that is asked for, see each of it fail."""
    known = {item: fault for item in items if HERE in item.path.parents and (fault := _fault(item))}
    if os.environ.get("PROVE_FAULTS"):
        for item, fault in known.items():
            item.add_marker(pytest.mark.xfail(reason=fault.reason, strict=not fault.is_family))
    else:
        config.hook.pytest_deselected(items=list(known))
        items[:] = [item for item in items if item not in known]


def _fault(item: Any) -> Fault | None:
    """What is known about this behaviour of this store: ``test_a_condition_holds[n = :v]`` and the like."""
    parameters = getattr(item, "callspec", None)
    if parameters is None or "module_subject" not in parameters.params:
        return None
    store = parameters.params["module_subject"]
    case = parameters.id.removeprefix(store).removeprefix("-")
    return find_fault(store, item.originalname, case)


def _open(name: str, servers: Servers, stack: ExitStack) -> Send:
    if name == "memory":
        return send_to_memory(MemoryStore())
    if name == "memory-client":
        return send_to_client(memory_client())
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
    client = boto3.session.Session().client("dynamodb", **kwargs)
    stack.callback(client.close)
    return send_to_client(client)


def make_table(send: Send, name: str, *, pk: str = "S", sk: str | None = "S") -> str:
    """A new table with keys ``pk`` and ``sk`` of these types."""
    keys = [("pk", "HASH", pk)] if sk is None else [("pk", "HASH", pk), ("sk", "RANGE", sk)]
    send(
        "CreateTable",
        {
            "TableName": name,
            "BillingMode": "PAY_PER_REQUEST",
            "KeySchema": [{"AttributeName": key, "KeyType": kind} for key, kind, _ in keys],
            "AttributeDefinitions": [{"AttributeName": key, "AttributeType": kind} for key, _, kind in keys],
        },
    )
    for _ in range(MOST_LOOKS):
        if send("DescribeTable", {"TableName": name})["Table"]["TableStatus"] == "ACTIVE":
            return name
    raise AssertionError(f"{name} was not made")


def drop_table(send: Send, name: str) -> None:
    """Delete a table and see it gone; servers take a moment."""
    send("DeleteTable", {"TableName": name})
    for _ in range(MOST_LOOKS):
        try:
            send("DescribeTable", {"TableName": name})
        except RefusedError as error:
            if error.code == MISSING:
                return
            raise
    raise AssertionError(f"{name} was not deleted")
