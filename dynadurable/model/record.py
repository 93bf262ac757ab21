"""The entries of a workflow's journal, and how a page of them is written as bytes.

A page is one JSON head, a line feed, and the recorded values one after the other, as the payload codec wrote them::

    1{"w":["pod-0"],"r":[["step","charge_card",1,"",1,1800014400123,41,1,0,17]]}
    1j{"id":"ch_1"}

The first byte is the format: ``1`` as it is, ``z`` zlib-compressed, which it is where that makes it smaller. A row's
trailing defaults are left out. Nothing here decodes a user's value: a journal can be shown where the user's classes are
not known.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..errors import PayloadUnreadableError

STEP = "step"
SLEEP = "sleep"
EVENT = "event"
CALLBACK = "callback"
CHILD = "child"
POLL = "poll"
COMMIT = "commit"
BATCH = "batch"
GROUP = "group"
UNDO = "undo"
REWIND = "rewind"
AGAIN = "again"

BEGAN, DONE, FAILED = 0, 1, 2
PHASES = ("began", "done", "failed")

MAX_PAGE_TEXT_BYTES = 8 * 1024 * 1024
_PLAIN, _PACKED = b"1", b"z"
_NO_VALUE = -1


class Identity(NamedTuple):
    """Which operation of a workflow: its scope, kind and name, and the how manyeth of these it is there."""

    scope: str
    kind: str
    name: str
    number: int

    def __str__(self) -> str:
        place = f"{self.scope}/" if self.scope else ""
        repeat = f"#{self.number}" if self.number > 1 else ""
        return f"{self.kind} {place}{self.name}{repeat}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """What was recorded of one operation at one moment.

    ``phase``: it *began* (a wait, a retry to come, an at-most-once step), it is *done*, or it *failed* for good. A
    later record of the same operation says more than an earlier one.
    """

    identity: Identity
    phase: int
    at_ms: int
    took_ms: int = 0
    tries: int = 0
    """Starts of its body so far, failed ones included."""
    worker: str = ""
    value: bytes | None = None
    """A result or a failure, encoded. ``None`` also where it lies in an item of its own: see ``page``."""
    page: str = ""
    """The sort key of the item that holds the value."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Plain JSON: when it wakes, which run is its child."""

    @property
    def is_end(self) -> bool:
        """Whether the operation has its outcome."""
        return self.phase != BEGAN


def is_delivery(record: Record) -> bool:
    """Whether the workflow's code is given something by it: an outcome, or that a child was started."""
    kind = record.identity.kind
    if kind in (BATCH, GROUP, REWIND, AGAIN):
        return False
    return record.is_end or kind == CHILD


def pack(records: Sequence[Record]) -> bytes:
    """A page as bytes."""
    workers: list[str] = []
    rows = [_row(record, workers) for record in records]
    head = json.dumps({"w": workers, "r": rows}, separators=(",", ":"), ensure_ascii=True).encode()
    body = b"\n".join((head, b"".join(record.value or b"" for record in records)))
    packed = zlib.compress(body)
    return _PACKED + packed if len(packed) < len(body) else _PLAIN + body


def unpack(data: bytes) -> tuple[Record, ...]:
    """The records of a page, in order.

    Raises:
        PayloadUnreadableError: for whatever is not a page of a version that is known here.
    """
    try:
        return _unpacked(data)
    except Exception as error:
        raise PayloadUnreadableError(
            f"this is no page of a journal ({type(error).__name__}: {error})", raw=data
        ) from error


def _row(record: Record, workers: list[str]) -> list[Any]:
    if record.worker not in workers:
        workers.append(record.worker)
    one = record.identity
    size = _NO_VALUE if record.value is None else len(record.value)
    row = [
        one.kind,
        one.name,
        one.number,
        one.scope,
        record.phase,
        record.at_ms,
        record.took_ms,
        record.tries,
        workers.index(record.worker),
        size,
        record.page,
        dict(record.facts),
    ]
    while row[-1] == _DEFAULTS[len(row) - 1]:
        row.pop()
    return row


_DEFAULTS: list[Any] = [None, None, None, None, None, None, 0, 0, 0, _NO_VALUE, "", {}]


def _unpacked(data: bytes) -> tuple[Record, ...]:
    kind, body = data[:1], data[1:]
    if kind == _PACKED:
        stream = zlib.decompressobj()
        body = stream.decompress(body, MAX_PAGE_TEXT_BYTES)
        if not stream.eof or stream.unused_data:
            raise ValueError("its compressed text is cut short, too long, or has something behind it")
    elif kind != _PLAIN:
        raise ValueError(f"its format {kind!r} is not known to this version")
    text, _, values = body.partition(b"\n")
    head = json.loads(text)
    records, at = [], 0
    for row in head["r"]:
        full = [*row, *_DEFAULTS[len(row) :]]
        size = full[9]
        value = None if size == _NO_VALUE else values[at : at + size]
        if value is not None and len(value) != size:
            raise ValueError("a value is cut short")
        at += max(0, size)
        records.append(_record(full, head["w"], value))
    if at != len(values):
        raise ValueError("there is something behind its values")
    return tuple(records)


def _record(row: Sequence[Any], workers: Sequence[str], value: bytes | None) -> Record:
    kind, name, number, scope, phase, at_ms, took_ms, tries, worker, _, page, facts = row[: len(_DEFAULTS)]
    if phase not in (BEGAN, DONE, FAILED):
        raise ValueError(f"phase {phase!r} is not known to this version")
    return Record(
        identity=Identity(scope, kind, name, number),
        phase=phase,
        at_ms=at_ms,
        took_ms=took_ms,
        tries=tries,
        worker=workers[int(worker)],
        value=value,
        page=page,
        facts=facts,
    )
