"""Make moto's in-process DynamoDB safe for threads.

moto handles requests in the calling thread, and its DynamoDB checks a condition and applies the write in two steps: two
threads can both pass the same check. ``serialised_moto`` puts one lock around its request handler, so that each request
is atomic, as it is on the service.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from dynadurable.errors import ExtraMissingError

_installing = threading.Lock()
_installed = 0
_handling = threading.RLock()  # re-entrant: a handler may come back in, for example through a stream's consumer


@contextmanager
def serialised_moto() -> Iterator[None]:
    """While inside, moto's DynamoDB handles one request at a time.

    Goes beside ``mock_aws``, in either order, and may be nested. Raises ``ExtraMissingError`` without moto.

    >>> with mock_aws(), serialised_moto():  # doctest: +SKIP
    ...     client = boto3.client("dynamodb", region_name="us-east-1")
    """
    handler = _dynamo_handler()
    _install(handler)
    try:
        yield
    finally:
        _uninstall(handler)


def _dynamo_handler() -> Any:
    try:
        from moto.dynamodb.responses import DynamoHandler
    except ImportError as error:
        raise ExtraMissingError("moto", extra="testing") from error
    return DynamoHandler


def _install(handler: Any) -> None:
    global _installed  # noqa: PLW0603 - the patched class is global too
    with _installing:
        if _installed == 0:
            handler.call_action = _one_at_a_time(handler.call_action)
        _installed += 1


def _uninstall(handler: Any) -> None:
    global _installed  # noqa: PLW0603 - the patched class is global too
    with _installing:
        _installed -= 1
        if _installed == 0:
            handler.call_action = handler.call_action.__wrapped__


def _one_at_a_time(call_action: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(call_action)
    def locked(self: Any) -> Any:
        with _handling:
            return call_action(self)

    return locked
