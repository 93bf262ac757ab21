"""Where tests keep their table: in memory, on moto, or on a server that is running."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import boto3
import botocore.session

from dynadurable.errors import ConfigurationError, ExtraMissingError
from dynadurable.storage.items import bind
from dynadurable.storage.schema import TableSchema
from dynadurable.storage.table import create_request
from dynadurable.testing.memory import MemoryClient, MemoryStore
from dynadurable.testing.moto import serialised_moto

DUMMY: dict[str, Any] = {"region_name": "us-east-1", "aws_access_key_id": "testing", "aws_secret_access_key": "testing"}
BACKENDS = ("moto", "memory")


@dataclass(frozen=True, kw_only=True)
class Backend:
    """A DynamoDB for one test: its client, and the name of an empty table in it."""

    client: Any
    table: str
    name: str


@contextmanager
def backend(
    name: str = "moto", *, endpoint_url: str | None = None, schema: TableSchema | None = None
) -> Iterator[Backend]:
    """A fresh table: on ``"moto"`` in this process, in ``"memory"``, or on the server at ``endpoint_url``.

    On moto the AWS SDK's clients made inside reach the same tables, as with ``mock_aws``; in memory only the backend's
    own client does, and everything is many times faster. No credentials and no network are needed.

    Raises:
        ExtraMissingError: moto is not installed.
        ConfigurationError: no such backend.
    """
    with ExitStack() as stack:
        if endpoint_url is not None:
            name, client = "server", _server_client(endpoint_url)
        elif name == "memory":
            client = MemoryClient(MemoryStore(locked=True))
        elif name == "moto":
            client = _moto_client(stack)
        else:
            raise ConfigurationError(f"there is no backend {name!r}: take one of {', '.join(BACKENDS)}, or an endpoint")
        table = f"test-{uuid.uuid4().hex[:12]}"
        keys = {} if schema is None else {"partition_key": schema.partition_key, "sort_key": schema.sort_key}
        client.create_table(**create_request(bind(TableSchema(table=table, **keys))).params)
        client.get_waiter("table_exists").wait(TableName=table)
        try:
            yield Backend(client=client, table=table, name=name)
        finally:
            client.delete_table(TableName=table)


def _moto_client(stack: ExitStack) -> Any:
    try:
        from moto import mock_aws
    except ImportError as error:
        raise ExtraMissingError("moto", extra="testing") from error
    stack.enter_context(mock_aws())
    stack.enter_context(serialised_moto())
    return _session().client("dynamodb", **DUMMY)


def _server_client(endpoint_url: str) -> Any:
    return _session().client("dynamodb", endpoint_url=endpoint_url, **DUMMY)


def _session() -> Any:
    """A session that knows no profile and no file of this machine: a broken one must not break a test."""
    nothing = dict.fromkeys(("config_file", "credentials_file"), (None, None, os.devnull, None))
    alone = botocore.session.Session(session_vars={"profile": (None, None, None, None), **nothing})
    return boto3.session.Session(botocore_session=alone)
