"""The payload codec: what is given to a job, a step or a result, as bytes, and back.

The bytes are JSON text with tags for what JSON lacks, never a pickle::

    1j  {"molt_id":"m1"}                                  JSON as it is
    1t  {"at":{"$datetime":"2027-01-15T12:00:00+00:00"}}  JSON with tags
    1J  1T  the same two, zlib-compressed (when that makes them smaller)

The first byte is the format's version. The promise: a value comes back equal and of the same type, or it is refused
with the path of the part that would not. Kept are None, bool, int and float of any size (NaN and the infinities too),
str, bytes, bytearray, list, tuple, dict (any key that is itself kept), set, frozenset, Decimal, datetime, date, time,
timedelta, UUID, Enums, dataclasses and named tuples. Text is kept to the last code point: lone surrogates are stored as
UTF-8 would write them, so a payload that has some, and only such a one, is not strict UTF-8.

Dataclasses and named tuples are rebuilt once while being written, to prove that their class gives back what it got:
their ``__init__`` and ``__post_init__`` run at that time too. State outside the fields is the class's own to rebuild.

A class may gain fields that have defaults: older payloads then get these. A class that lost a field, or moved without
leaving its old name behind, can no longer read older payloads.
"""

from __future__ import annotations

import hashlib
import zlib
from typing import Any

from dynadurable.errors import PayloadRefusedError, PayloadTooLargeError, PayloadUnreadableError
from dynadurable.model.codec_proof import proven_text
from dynadurable.model.codec_tags import from_plain_text, from_tagged_text, reason_of
from dynadurable.model.codec_tree import TreeWriter, is_plain, to_text

FORMAT_VERSION = b"1"
MAX_TEXT_BYTES = 64 * 1024 * 1024  # of JSON text, before compression; larger is refused both ways
COMPRESS_FROM_BYTES = 256  # below, compressing costs more time than DynamoDB's steps of 1 KB could give back

_PLAIN, _TAGGED = b"j", b"t"
_READERS = {_PLAIN: from_plain_text, _TAGGED: from_tagged_text}
_DIGEST_BYTES = 16
_UNCHANGING = (str, bytes, int, float, bool, type(None))


def encode(value: object, *, path: str = "value") -> bytes:
    """``value`` as bytes to store. ``path`` is what the value is called in errors.

    Raises:
        PayloadRefusedError: a part cannot come back equal and of the same type; names its path.
        PayloadTooLargeError: the value takes more than 64 MiB as text.

    >>> encode({"molt_id": "m1"})
    b'1j{"molt_id":"m1"}'
    >>> encode({"tags": object()}, path="order")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    dynadurable.errors.PayloadRefusedError: order.tags: object cannot come back as what it is; pass plain data, ...
    """
    try:
        if is_plain(value):
            return _pack(_PLAIN, to_text(value), path)
        return _pack(_TAGGED, proven_text(value, path), path)
    except RecursionError:
        raise PayloadRefusedError(path, "its nesting needs more of Python's call stack than is left here") from None


def decode(data: bytes) -> Any:
    """The value that ``encode`` was given.

    Raises:
        PayloadUnreadableError: for whatever cannot be decoded here and now: another format version, damaged bytes, a
            class that is gone or refuses its fields. Carries the bytes; nothing else is ever raised.

    >>> decode(b'1t{"$tuple":[1,2]}')
    (1, 2)
    """
    try:
        return _unpack(data)
    except (Exception, SystemExit) as error:  # classes and the modules they come from may raise anything
        raise PayloadUnreadableError(reason_of(error), raw=data) from error


def roundtrip(value: Any, *, path: str = "value") -> Any:
    """What a later reader will see, so that the first run can go on with the same: ``decode(encode(value))``."""
    return decode(encode(value, path=path))


def own_copy(value: Any) -> Any:
    """A copy, for somebody who may change it: of data, which is what could be stored. Anything else is given as it is.

    >>> order = {"items": [1]}
    >>> own_copy(order)["items"].append(2)
    >>> order
    {'items': [1]}
    """
    if type(value) in _UNCHANGING:
        return value
    try:
        return roundtrip(value)
    except Exception:  # noqa: BLE001 - no data; and what its class does when it is looked at is its own affair
        return value


def canonical_digest(value: object, *, path: str = "value") -> str:
    """32 hexadecimal digits that are equal for equal content: the order of dict keys and sets does not count.

    The order of lists does, and so does every type: ``1``, ``1.0``, ``True`` and ``"1"`` have four digests. The same in
    every process and on every machine. Whether classes give back what they got is for ``encode`` to prove.

    Raises:
        PayloadRefusedError: a part is of a kind that is not kept; names its path.

    >>> canonical_digest({"a": 1, "b": 2}) == canonical_digest({"b": 2, "a": 1})
    True
    """
    try:
        plain = is_plain(value)
        tree = value if plain else TreeWriter(canonical=True).tree(value, path)
        text = to_text(tree, canonical=True)
    except RecursionError:
        raise PayloadRefusedError(path, "its nesting needs more of Python's call stack than is left here") from None
    body = FORMAT_VERSION + (_PLAIN if plain else _TAGGED) + _to_utf8(text)
    return hashlib.blake2b(body, digest_size=_DIGEST_BYTES).hexdigest()


def check_size(data: bytes, what: str, limit_bytes: int) -> None:
    """Refuses ``data`` that takes more than ``limit_bytes``; ``what`` names it in the error.

    Raises:
        PayloadTooLargeError: it does not fit; carries both sizes.
    """
    if len(data) > limit_bytes:
        raise PayloadTooLargeError(what, size_bytes=len(data), limit_bytes=limit_bytes)


def _pack(kind: bytes, text: str, path: str) -> bytes:
    body = _to_utf8(text)
    check_size(body, path, MAX_TEXT_BYTES)
    if len(body) >= COMPRESS_FROM_BYTES:
        packed = zlib.compress(body)
        if len(packed) < len(body):
            return FORMAT_VERSION + kind.upper() + packed
    return FORMAT_VERSION + kind + body


def _unpack(data: bytes) -> Any:
    version, kind, body = data[:1], data[1:2], data[2:]
    if version != FORMAT_VERSION:
        raise ValueError(f"format version {version!r} is not known here; this version reads {FORMAT_VERSION!r}")
    read = _READERS.get(kind.lower())
    if read is None:
        raise ValueError(f"{kind!r} is not a kind of payload")
    if kind.isupper():
        body = _decompress(body)
    if len(body) > MAX_TEXT_BYTES:
        raise ValueError(f"its text takes more than {MAX_TEXT_BYTES:,} bytes")
    return read(body.decode("utf-8", "surrogatepass"))


def _decompress(body: bytes) -> bytes:
    stream = zlib.decompressobj()
    text = stream.decompress(body, MAX_TEXT_BYTES + 1)
    if len(text) <= MAX_TEXT_BYTES and (not stream.eof or stream.unused_data):
        raise ValueError("its compressed text is cut short or has something behind it")
    return text


def _to_utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
