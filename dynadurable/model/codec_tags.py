"""Reading: what a tagged JSON object stands for.

A JSON object with exactly one key that begins with ``$`` is a tag; any other object is a dict with string keys. A dict
of the user's that would look like a tag is itself written as ``$dict``.
"""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Callable
from datetime import date, timedelta
from decimal import Decimal
from typing import Any, NoReturn

from dynadurable.model import codec_class, codec_time

MARK = "$"


def is_tag(item: dict[str, Any]) -> bool:
    """Whether a JSON object would be read as a tag."""
    return len(item) == 1 and next(iter(item))[:1] == MARK


def revive(item: dict[str, Any]) -> Any:
    """The value that a JSON object stands for; its own parts have been revived before.

    Raises:
        ValueError: no such tag, or data that does not belong to it.
        Exception: whatever a class raises when it is called.
    """
    if not is_tag(item):
        return item
    ((tag, data),) = item.items()
    if tag not in _READERS:
        raise ValueError(f"the tag {tag[:40]!r} is not known to this version")
    kinds, read = _READERS[tag]
    if type(data) not in kinds:
        raise ValueError(f"the tag {tag} has data of the wrong kind")
    return read(data)


def _bytes(data: str) -> bytes:
    return base64.b64decode(data, validate=True)


def _float(data: str) -> float:
    if data not in ("nan", "inf", "-inf"):
        raise ValueError(f"{data[:40]!r} is not a special number")
    return float(data)


def _dict(data: list[Any]) -> dict[Any, Any]:
    found = dict(zip(data[::2], data[1::2], strict=True))
    if len(found) * 2 != len(data):
        raise ValueError("a dict has the same key twice")
    return found


_TEXT, _LIST, _BOTH = (str,), (list,), (str, list)

_READERS: dict[str, tuple[tuple[type, ...], Callable[[Any], Any]]] = {
    "$bytes": (_TEXT, _bytes),
    "$bytearray": (_TEXT, lambda data: bytearray(_bytes(data))),
    "$float": (_TEXT, _float),
    "$int": (_TEXT, lambda data: int(data, 16)),
    "$decimal": (_TEXT, Decimal),
    "$uuid": (_TEXT, uuid.UUID),
    "$date": (_TEXT, date.fromisoformat),
    "$datetime": (_BOTH, codec_time.datetime_from_json),
    "$time": (_BOTH, codec_time.time_from_json),
    "$timedelta": (_LIST, lambda data: timedelta(*data)),
    "$tuple": (_LIST, tuple),
    "$set": (_LIST, set),
    "$frozenset": (_LIST, frozenset),
    "$dict": (_LIST, _dict),
    "$enum": (_LIST, lambda data: codec_class.build_member(*data)),
    "$flag": (_LIST, lambda data: codec_class.build_flag(*data)),
    "$instance": (_LIST, lambda data: codec_class.build_instance(*data)),
}


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_plain = json.JSONDecoder(parse_constant=_no_constant)
_tagged = json.JSONDecoder(parse_constant=_no_constant, object_hook=revive)


def from_plain_text(text: str) -> Any:
    """JSON without tags. Raises ValueError or RecursionError."""
    return _plain.decode(text)


def from_tagged_text(text: str) -> Any:
    """JSON with tags. Raises as ``revive`` does."""
    return _tagged.decode(text)


def reason_of(error: BaseException) -> str:
    """Why reading failed, in one short line, for whatever a class may have raised."""
    try:
        text = str(error)[:300]
    except Exception:  # noqa: BLE001 - an error's own __str__ may raise
        text = ""
    return text if type(error) is ValueError and text else f"{type(error).__name__}: {text}".rstrip(": ")
