"""What aiobotocore says of a broken connection: whether the request may have been applied must not get lost in it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import botocore.exceptions as aws
import pytest

from dynadurable.drivers.outcomes import outcome
from dynadurable.storage.call import Call

pytestmark = pytest.mark.aio

CALL = Call(operation="UpdateItem", params={"TableName": "t"})


def maybe_applied(behind: Exception, kind: Any = aws.EndpointConnectionError) -> bool:
    found = outcome(CALL, kind(endpoint_url="http://x", error=behind), earlier_maybe_applied=False)
    assert found.transient
    return found.maybe_applied


def test_a_connection_that_did_not_come_about_has_applied_nothing() -> None:
    import aiohttp

    key: Any = SimpleNamespace(host="x", port=1, ssl=None, is_ssl=False)
    assert not maybe_applied(aiohttp.ClientConnectorError(key, OSError(111, "refused")))
    assert not maybe_applied(aiohttp.ConnectionTimeoutError(), aws.ConnectTimeoutError)
    assert not maybe_applied(OSError("no such host"))


def test_a_connection_that_broke_after_it_stood_may_have_applied_the_request() -> None:
    import aiohttp

    assert maybe_applied(aiohttp.ClientOSError(104, "reset by peer"))
    assert maybe_applied(aiohttp.ClientConnectionResetError("cannot write to closing transport"))
    assert maybe_applied(aiohttp.ServerDisconnectedError(), aws.ConnectionClosedError)
