"""Reading what an exception says about itself, without trusting it.

Exception classes are user code: ``__str__`` may raise, ``__module__`` may be a number, ``__traceback__`` a property
that fails, causes may form a circle, and a group may have ten thousand members. So everything here goes past
overridden attributes to what the interpreter itself stores, and everything has a limit.
"""

from __future__ import annotations

import reprlib
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from types import FrameType, TracebackType

MAX_FRAMES = 100_000
MEMBERS_SHOWN = 5
_MAX_CARRIED = 10
_LIBRARY = __name__.partition(".")[0]
_NOT_PRINTABLE = "<its message cannot be printed>"

_TRACEBACK = BaseException.__dict__["__traceback__"]
_CAUSE = BaseException.__dict__["__cause__"]
_CONTEXT = BaseException.__dict__["__context__"]
_SUPPRESS_CONTEXT = BaseException.__dict__["__suppress_context__"]
_MEMBERS = BaseExceptionGroup.__dict__["exceptions"]
_QUALNAME = type.__dict__["__qualname__"]
_MODULE = type.__dict__["__module__"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Relative:
    """An error that belongs to another one."""

    error: BaseException
    relation: str
    """``"cause"`` (raise ... from), ``"context"`` (raised while handling it) or ``"member"`` (of a group)."""
    depth: int
    """1 for the relatives of the error itself, 2 for theirs, and so on."""
    index: int = 0
    """A member's place in its group, from 1."""
    of: int = 0
    """How many members its group has."""


def type_name(error: BaseException) -> str:
    """Module and qualified name of the error's class; without the module for built-in ones.

    >>> type_name(KeyError()), type_name(__import__("json").JSONDecodeError("no", "", 0))
    ('KeyError', 'json.decoder.JSONDecodeError')
    """
    return class_name(type(error))


def class_name(kind: type[BaseException]) -> str:
    """The same for a class."""
    name = plain_text(_QUALNAME.__get__(kind))
    try:
        module = module_name(_MODULE.__get__(kind))
    except Exception:  # noqa: BLE001 - a class whose __module__ was deleted, a main module that is no module
        module = ""
    return name if module in {"", "builtins"} else f"{module}.{name}"


def message(error: BaseException) -> str:
    """``str(error)``, or what the error carries where that is empty, or a remark in its place if it fails."""
    try:
        return plain_text(str(error)) or _carried(error)
    except BaseException as failure:  # noqa: BLE001 - whatever a stranger's __str__ raises, the failure must be told
        return f"{_NOT_PRINTABLE}: __str__ raised {type_name(failure)}"


def _carried(error: BaseException) -> str:
    """The attributes of an error that has no text, as one with keyword-only arguments has none.

    >>> error = LookupError(); error.order_id = 17
    >>> _carried(error)
    'order_id=17'
    """
    carried = [(name, value) for name, value in vars(error).items() if not name.startswith("_")]
    return plain_text(", ".join(f"{name}={reprlib.repr(value)}" for name, value in carried[:_MAX_CARRIED]))


def notes(error: BaseException, limit: int) -> tuple[tuple[str, ...], int]:
    """At most ``limit`` of the notes added with ``add_note``, and how many more there are."""
    try:
        found = getattr(error, "__notes__", ())
        if not isinstance(found, list | tuple):
            return (), 0
        return tuple(plain_text(note) for note in found[:limit] if isinstance(note, str)), max(len(found) - limit, 0)
    except BaseException:  # noqa: BLE001 - notes are an extra; an error that hides them is told without
        return (), 0


def frames(error: BaseException) -> Iterator[tuple[FrameType, int]]:
    """Frame and line number from the outermost caller to the place where the error was raised."""
    place: TracebackType | None = _TRACEBACK.__get__(error)
    for _ in range(MAX_FRAMES):
        if place is None:
            return
        yield place.tb_frame, place.tb_lineno
        place = place.tb_next


def chained(error: BaseException) -> tuple[str, BaseException] | None:
    """What led to the error: its cause, or the error it was raised while handling, unless that was suppressed."""
    if (cause := _CAUSE.__get__(error)) is not None:
        return "cause", cause
    if (context := _CONTEXT.__get__(error)) is not None and not _SUPPRESS_CONTEXT.__get__(error):
        return "context", context
    return None


def members(error: BaseException) -> Sequence[BaseException]:
    """The members of an exception group; nothing for any other error."""
    if not issubclass(type(error), BaseExceptionGroup):
        return ()
    found: Sequence[BaseException] = _MEMBERS.__get__(error)
    return found


def relatives(error: BaseException, *, limit: int) -> tuple[tuple[Relative, ...], int]:
    """Causes, contexts and group members, the nearest first; at most ``limit``, and how many more there are at least.

    Breadth first and each error once, so that a circle ends; a few members of each group only, so that the members of
    a wide group leave room for what caused them.
    """
    seen = {id(error)}
    found: list[Relative] = []
    more = 0
    queue = [Relative(error=error, relation="", depth=0)]
    for one in queue:
        for relative in _nearest(one):
            if id(relative.error) in seen:
                continue
            if len(found) >= limit or relative.index > MEMBERS_SHOWN:
                more += 1
                continue
            seen.add(id(relative.error))
            queue.append(relative)
            found.append(relative)
    return tuple(found), more


def _nearest(one: Relative) -> Iterator[Relative]:
    link = chained(one.error)
    if link is not None:
        yield Relative(error=link[1], relation=link[0], depth=one.depth + 1)
    group = members(one.error)
    for index, member in enumerate(group, start=1):
        yield Relative(error=member, relation="member", depth=one.depth + 1, index=index, of=len(group))


def is_ours(frame: FrameType) -> bool:
    """Whether the code is this library's own."""
    return module_of(frame).partition(".")[0] == _LIBRARY


def module_of(frame: FrameType) -> str:
    """The name of the module whose code the frame runs; the file's name if it does not say."""
    return module_name(dict.get(frame.f_globals, "__name__")) or PurePath(frame.f_code.co_filename).stem


def module_name(name: object) -> str:
    """A module's name; for the program's main module the one it has when it is imported.

    The same code is ``__main__`` in one process and ``shop.jobs`` in another, and should look the same from both.
    """
    if not isinstance(name, str):
        return ""
    if name not in {"__main__", "__mp_main__"}:
        return plain_text(name)
    main = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    if spec is not None and isinstance(spec.name, str):
        return spec.name
    file = getattr(main, "__file__", None)
    return PurePath(file).stem if isinstance(file, str) else name


def plain_text(value: object) -> str:
    """An exact ``str``: a subclass may have overridden what we are about to do with it."""
    assert isinstance(value, str)
    return str.__str__(value)
