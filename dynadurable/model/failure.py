"""What is kept of a failed attempt: enough to understand it a week later, and bounded whatever was raised."""

from __future__ import annotations

import contextlib
import linecache
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from itertools import chain, dropwhile
from types import FrameType
from typing import Any, Self

from .excerpt import excerpt
from .fingerprint import fingerprint, fingerprint_of
from .trace import Relative, frames, is_ours, message, notes, relatives, type_name

MAX_RECORD_BYTES = 8_192
"""No record takes more as JSON; the limits below add up to less."""
MAX_HISTORY = 8
"""Failures that are kept of one run, the first two and the latest six."""

_FIRST_KEPT = 2
_TYPE_BYTES = 200
_MESSAGE_BYTES = 1_200
_TRACEBACK_BYTES = 3_600
_SECTION_BYTES = 2_400  # of the error itself, so that there is room for its causes
_MAX_NOTES = 3
_NOTE_BYTES = 150
_MAX_CAUSES = 6
_CAUSE_BYTES = 110
_LABEL_BYTES = 128
_BRIEF_BYTES = 240
_HEAD_FRAMES = 4
_TAIL_FRAMES = 10
_PATH_BYTES = 160
_SOURCE_BYTES = 120

_HEADINGS = {"cause": "Caused by:", "context": "While handling:", "member": "Member {index} of {of}:"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

WORKER_LOST = "WorkerLost"
WORKER_LOST_MESSAGE = "worker lost: the lease expired before the attempt ended"


@dataclass(frozen=True, kw_only=True, slots=True)
class Cause:
    """An error behind another one."""

    relation: str
    """``"cause"`` (raise ... from), ``"context"`` (raised while handling it) or ``"member"`` (of a group)."""
    depth: int
    """1: of the failure itself, 2: of such a cause, and so on."""
    type: str
    message: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """One failed attempt.

    >>> print(capture(KeyError("id"), attempt=1, build="v7", failed_at_ms=1_800_014_400_000, worker="pod-0"))
    KeyError: 'id'
    """

    type: str
    """Module and qualified name of the exception class; without the module for built-in ones."""
    message: str
    traceback: str = ""
    """The stack, the outermost call first, and below it the stacks of its causes. Empty in all but the telling ones."""
    causes: tuple[Cause, ...] = ()
    causes_left_out: int = 0
    """At least so many more causes and group members there were."""
    notes: tuple[str, ...] = ()
    """What was added with ``add_note``."""
    fingerprint: str = ""
    """The same for failures of the same cause."""
    build: str | None = None
    """The version of the user's code."""
    attempt: int = 0
    """Which start of the body this was, from 1."""
    failed_at_ms: int = 0
    worker: str | None = None
    dropped_before: int = 0
    """So many failures between the previous one in the history and this one were not kept."""

    @property
    def failed_at(self) -> datetime:
        """When it failed, aware, in UTC."""
        return _EPOCH + timedelta(milliseconds=self.failed_at_ms)

    def __str__(self) -> str:
        return f"{self.type}: {self.message}" if self.message else self.type

    def brief(self) -> Self:
        """The same without traceback, causes and notes: under 1 KB."""
        return replace(
            self, message=excerpt(self.message, _BRIEF_BYTES), traceback="", causes=(), causes_left_out=0, notes=()
        )

    def to_record(self) -> dict[str, Any]:
        """A dict of plain JSON values; what is empty is left out."""
        record = {field.name: getattr(self, field.name) for field in fields(self)}
        record["notes"] = list(self.notes)
        record["causes"] = [[cause.relation, cause.depth, cause.type, cause.message] for cause in self.causes]
        return {name: value for name, value in record.items() if value not in (None, "", 0, [])}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """The failure of a record, also of one that another version wrote: unknown fields and broken ones are skipped.

        A dead letter must be readable before all else, so this does not raise.
        """
        return cls(
            type=_text(record, "type") or "unknown",
            message=_text(record, "message"),
            traceback=_text(record, "traceback"),
            causes=tuple(cause for entry in _list(record, "causes") if (cause := _cause(entry)) is not None),
            causes_left_out=_count(record, "causes_left_out"),
            notes=tuple(note for note in _list(record, "notes") if isinstance(note, str)),
            fingerprint=_text(record, "fingerprint"),
            build=_text(record, "build") or None,
            attempt=_count(record, "attempt"),
            failed_at_ms=_count(record, "failed_at_ms"),
            worker=_text(record, "worker") or None,
            dropped_before=_count(record, "dropped_before"),
        )


# --- making them ----------------------------------------------------------------------------------


def capture(error: BaseException, *, attempt: int, build: str | None, failed_at_ms: int, worker: str | None) -> Failure:
    """What is kept of this error. Never fails, whatever the exception's class does, and takes ``MAX_RECORD_BYTES``.

    Keeps no reference to the error or to its frames.
    """
    failure = Failure(
        type=excerpt(type_name(error), _TYPE_BYTES),
        message="<the error cannot be described>",
        fingerprint=fingerprint(error),
        build=_label(build),
        attempt=attempt,
        failed_at_ms=failed_at_ms,
        worker=_label(worker),
    )
    with contextlib.suppress(BaseException):  # the failure must be recorded, whatever is wrong with its exception
        failure = replace(failure, message=excerpt(message(error), _MESSAGE_BYTES))
        found, left_out = relatives(error, limit=_MAX_CAUSES)
        remarks, _ = notes(error, _MAX_NOTES)
        failure = replace(
            failure,
            causes=tuple(_cause_of(relative) for relative in found),
            causes_left_out=left_out,
            notes=tuple(excerpt(remark, _NOTE_BYTES) for remark in remarks),
        )
        failure = replace(failure, traceback=_traceback(error, found))
    return failure


def worker_lost(*, attempt: int, build: str | None, failed_at_ms: int, worker: str | None) -> Failure:
    """The failure of an attempt whose worker vanished. ``worker`` is the lost one, if it is known.

    >>> str(worker_lost(attempt=3, build=None, failed_at_ms=0, worker="pod-0"))
    'WorkerLost: worker lost: the lease expired before the attempt ended'
    """
    return Failure(
        type=WORKER_LOST,
        message=WORKER_LOST_MESSAGE,
        fingerprint=fingerprint_of(WORKER_LOST, WORKER_LOST_MESSAGE),
        build=_label(build),
        attempt=attempt,
        failed_at_ms=failed_at_ms,
        worker=_label(worker),
    )


def history(previous: Sequence[Failure], new: Failure) -> tuple[Failure, ...]:
    """The run's failures with the new one, oldest first, at most ``MAX_HISTORY`` of them.

    The first two and the latest six stay; ``dropped_before`` counts what is missing between them. The new one is kept
    in full, the first one too while its cause is another one; of the rest the brief form is kept. So the history of a
    run with any number of attempts takes at most 22 KB, and usually under 5 KB.
    """
    kept = [
        failure if index == 0 and failure.fingerprint != new.fingerprint else failure.brief()
        for index, failure in enumerate(previous)
    ]
    kept.append(new)
    while len(kept) > MAX_HISTORY:
        dropped = kept.pop(_FIRST_KEPT)
        following = kept[_FIRST_KEPT]
        missing = following.dropped_before + dropped.dropped_before + 1
        kept[_FIRST_KEPT] = replace(following, dropped_before=missing)
    return tuple(kept)


def count(failures: Sequence[Failure]) -> int:
    """How many failures a history stands for, those that were not kept included."""
    return sum(1 + failure.dropped_before for failure in failures)


# --- the stack as text ----------------------------------------------------------------------------


def _traceback(error: BaseException, found: Sequence[Relative]) -> str:
    text = excerpt(_section(error), _SECTION_BYTES if found else _TRACEBACK_BYTES)
    for place, relative in enumerate(found):
        heading = _HEADINGS[relative.relation].format(index=relative.index, of=relative.of)
        section = f"\n\n{heading}\n{excerpt(_section(relative.error), _SECTION_BYTES // 2)}"
        if len(text) + len(section) > _TRACEBACK_BYTES - 100:
            text += f"\n\n[the stacks of {len(found) - place} more errors are left out]"
            break
        text += section
    return excerpt(text, _TRACEBACK_BYTES)


def _section(error: BaseException) -> str:
    """One error's stack: its outermost and its innermost frames."""
    head: list[tuple[FrameType, int]] = []
    tail: deque[tuple[FrameType, int]] = deque(maxlen=_TAIL_FRAMES)
    total = 0
    for place in _outside_the_library(error):
        total += 1
        (head if len(head) < _HEAD_FRAMES else tail).append(place)
    lines = ["Traceback (most recent call last):"] if total else []
    lines += [_frame(frame, line) for frame, line in head]
    if total > len(head) + len(tail):
        lines.append(f"  [{total - len(head) - len(tail):,} frames left out]")
    lines += [_frame(frame, line) for frame, line in tail]
    lines.append(f"{excerpt(type_name(error), _TYPE_BYTES)}: {excerpt(message(error), _BRIEF_BYTES)}")
    return "\n".join(lines)


def _outside_the_library(error: BaseException) -> Iterator[tuple[FrameType, int]]:
    """The frames from the body on: how the worker called it is no news. All of them for an error of the library."""
    from_the_body = dropwhile(lambda place: is_ours(place[0]), frames(error))
    first = next(from_the_body, None)
    return frames(error) if first is None else chain([first], from_the_body)


def _frame(frame: FrameType, line: int) -> str:
    code = frame.f_code
    file, function = excerpt(code.co_filename, _PATH_BYTES), excerpt(code.co_qualname, _PATH_BYTES)
    where = f'  File "{file}", line {line}, in {function}'
    source = ""
    with contextlib.suppress(Exception):  # the source may be gone, or come from a loader that fails
        source = linecache.getline(code.co_filename, line, frame.f_globals).strip()
    return f"{where}\n    {excerpt(source, _SOURCE_BYTES)}" if source else where


def _cause_of(relative: Relative) -> Cause:
    return Cause(
        relation=relative.relation,
        depth=relative.depth,
        type=excerpt(type_name(relative.error), _CAUSE_BYTES),
        message=excerpt(message(relative.error), _CAUSE_BYTES),
    )


def _label(text: str | None) -> str | None:
    return excerpt(text, _LABEL_BYTES) if text else None


# --- reading records ------------------------------------------------------------------------------


def _text(record: Mapping[str, Any], name: str) -> str:
    value = record.get(name)
    return value if isinstance(value, str) else ""


def _count(record: Mapping[str, Any], name: str) -> int:
    value = record.get(name)
    return int(value) if isinstance(value, int | float) and value == value // 1 else 0


def _list(record: Mapping[str, Any], name: str) -> list[Any]:
    value = record.get(name)
    return value if isinstance(value, list) else []


def _cause(entry: Any) -> Cause | None:
    match entry:
        case [str(relation), int(depth), str(kind), str(text)]:
            return Cause(relation=relation, depth=depth, type=kind, message=text)
        case _:
            return None
