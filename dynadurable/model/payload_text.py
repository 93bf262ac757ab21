"""Stored payloads as text for people, without making the values of them: their classes may not be at hand."""

from __future__ import annotations

import json
import zlib

MAX_TEXT_BYTES = 64 * 1024 * 1024


def payload_text(data: bytes) -> str:
    """The JSON text of a payload, indented; for what is no payload of ours, its bytes.

    >>> payload_text(b'1j{"molt_id":"m1"}')
    '{"molt_id": "m1"}'
    """
    try:
        return _text(data)
    except (ValueError, zlib.error, RecursionError):
        return repr(data[:2_000]) + ("..." if len(data) > 2_000 else "")


def _text(data: bytes) -> str:
    kind, body = data[1:2], data[2:]
    if data[:1] != b"1" or kind not in (b"j", b"t", b"J", b"T"):
        raise ValueError("another format")
    if kind.isupper():
        body = zlib.decompressobj().decompress(body, MAX_TEXT_BYTES)
    text = body.decode("utf-8", "surrogatepass")
    value = json.loads(text)
    short = json.dumps(value, ensure_ascii=False)
    return short if len(short) <= 100 else json.dumps(value, ensure_ascii=False, indent=2)
