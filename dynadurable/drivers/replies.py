"""Refuses replies that did not arrive whole.

botocore takes a reply that was cut short for an empty one: it compares neither the length nor, where it does not retry
itself, the checksum; what cannot be parsed it passes on as a reply without content. To a plan that means "there is no
such item", and a connection that broke at the wrong moment would make a run vanish. So the length and the checksum are
compared here, of every reply, and one that is not whole is the same as none: the request may have been applied.
"""

from __future__ import annotations

import inspect
import zlib
from collections.abc import Awaitable, Mapping
from typing import Any

from botocore.exceptions import ConnectionClosedError

EVENT = "needs-retry.dynamodb"
"""Sent once a reply has been read, before anything is made of it; by aiobotocore too."""


def whole_replies_only(client: Any) -> Any:
    """The low-level client itself, of boto3 or aiobotocore, which from now on raises for a reply that is not whole.

    A stand-in without events is left as it is. May be done twice.
    """
    events = getattr(getattr(client, "meta", None), "events", None)
    if events is not None:
        events.register(EVENT, _check, unique_id="dynadurable-whole-replies")
    return client


def is_whole(headers: Mapping[str, str], body: bytes) -> bool:
    """Whether the body is what the headers say of it; true where they say nothing."""
    length, checksum = headers.get("content-length"), headers.get("x-amz-crc32")
    if headers.get("content-encoding", "identity") != "identity":
        return True  # it was decoded on the way, which fails by itself where a part is missing
    if length is not None and length.isdigit() and int(length) != len(body):
        return False
    return checksum is None or not checksum.isdigit() or int(checksum) == zlib.crc32(body)


def _check(response: Any = None, request_dict: Any = None, **_: Any) -> Awaitable[None] | None:
    """Handles the event. Returns nothing, which leaves botocore's own retries to it."""
    if response is None:
        return None
    received, url = response[0], (request_dict or {}).get("url", "")
    content = received.content
    if inspect.isawaitable(content):
        return _check_later(received.headers, content, url)
    _raise_unless_whole(received.headers, content, url)
    return None


async def _check_later(headers: Mapping[str, str], content: Awaitable[bytes], url: str) -> None:
    _raise_unless_whole(headers, await content, url)


def _raise_unless_whole(headers: Mapping[str, str], body: bytes, url: str) -> None:
    if not is_whole(headers, body):
        raise ConnectionClosedError(endpoint_url=url)
