"""One short text for all failures that have the same cause, so that dead letters can be counted by cause.

What counts: the class of the error, the functions of the user's code it passed through, and the classes of the errors
that led to it. What does not: line numbers, paths, the machine, the depth of a recursion, frames of libraries, and the
message, whose names and numbers differ from run to run. So the fingerprint is the same on two machines and in two
builds with shifted lines, and another one for another function or another exception.

An error without frames of its own (one that was never raised, or that this library raises) has only its message: then
that counts, without numbers, ids, paths and quoted text.
"""

from __future__ import annotations

import hashlib
import os
import re
import sysconfig
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import FrameType

from .trace import chained, frames, is_ours, members, message, module_of, type_name

_DIGITS_KEPT = 16
_CHAIN_LIMIT = 1_000
_LEAF_LIMIT = 1_000
_MESSAGE_CHARACTERS = 2_000

_INLINED = ("<listcomp>", "<dictcomp>", "<setcomp>")  # frames of their own before Python 3.12, and none after
_LIBRARY_FOLDERS = frozenset({"site-packages", "dist-packages"})
_STANDARD_LIBRARY = tuple(
    os.path.normcase(folder) + os.sep
    for folder in {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"), str(Path(os.__file__).parent)}
    if folder
)

_QUOTED = re.compile(r"\"[^\"]*\"|(?<!\w)'[^']*'(?!\w)|`[^`]*`")
_PATH = re.compile(r"(?:\b[A-Za-z]:)?[\\/]+[^\s\"'<>|,;:()\[\]{}]*")
_WORD = re.compile(r"[\w@.:+-]+")
_HEX = re.compile(r"[0-9a-fA-F]{8,}")
_REPEATED = re.compile(r"<\?>(?:[\s,;:]+<\?>)+")


def fingerprint(error: BaseException) -> str:
    """16 hexadecimal digits, the same for errors of the same cause. Never fails.

    >>> fingerprint(LookupError("no order 17")) == fingerprint(LookupError("no order 4711"))
    True
    """
    try:
        parts = sorted({_describe(leaf) for leaf in _leaves(error)})
        return _digest([_describe(error), *parts] if members(error) else parts)
    except BaseException:  # noqa: BLE001 - a failure must be recorded, whatever is wrong with its exception
        return _digest([type_name(error)])


def fingerprint_of(name: str, text: str) -> str:
    """The fingerprint of a failure that is no exception: a type name and a message.

    >>> fingerprint_of("WorkerLost", "worker lost") == fingerprint_of("WorkerLost", "worker lost")
    True
    """
    return _digest([f"{name}\n{normalised(text)}"])


def normalised(text: str) -> str:
    """A message without what differs from run to run.

    >>> normalised("order 17 of 'bob' not in /srv/app/orders.json (0x7f3a2c)")
    'order <?> of <?> not in <?> (<?>)'
    """
    text = _QUOTED.sub("<?>", text[:_MESSAGE_CHARACTERS])
    text = _PATH.sub("<?>", text)
    text = _WORD.sub(_word, text)
    return " ".join(_REPEATED.sub("<?>", text).split())


def _word(match: re.Match[str]) -> str:
    word = match.group()
    varies = "@" in word or any(character.isdigit() for character in word) or _HEX.fullmatch(word)
    return "<?>" if varies else word


def _describe(error: BaseException) -> str:
    """One error without its members: class, functions, classes of what led to it."""
    functions = _functions(error)
    if not functions and not members(error):
        functions = [normalised(message(error))]
    return "\n".join([type_name(error), *functions, "from", *_led_to_by(error)])


def _led_to_by(error: BaseException) -> list[str]:
    """The classes of the causes, each once: how often a retry loop went round does not matter."""
    seen, names = {id(error)}, dict[str, None]()
    link = chained(error)
    while link is not None and id(link[1]) not in seen and len(seen) < _CHAIN_LIMIT:
        seen.add(id(link[1]))
        names[type_name(link[1])] = None
        link = chained(link[1])
    return list(names)


def _leaves(error: BaseException) -> Iterator[BaseException]:
    """The error itself, or the members of its groups."""
    pending, yielded = [error], 0
    while pending and yielded < _LEAF_LIMIT:
        one = pending.pop()
        inner = members(one)
        pending.extend(inner[:_LEAF_LIMIT])
        if not inner:
            yielded += 1
            yield one


# --- frames ---------------------------------------------------------------------------------------


def _functions(error: BaseException) -> list[str]:
    """The user's functions from the outermost to the one that raised, each once.

    Each once, because the depth of a recursion says nothing about the cause. Where no frame is the user's, the
    user's package is installed like a library; then it is the one that the body, the outermost function, belongs to.
    """
    every = [frame for frame, _ in frames(error) if not is_ours(frame)]
    users = [frame for frame in every if not _is_library(frame.f_code.co_filename)]
    if not users and every:
        package = _package(every[0])
        users = [frame for frame in every if _package(frame) == package]
    names = [name for frame in users if not (name := _function(frame)).endswith(_INLINED)]
    if issubclass(type(error), RecursionError):
        return _without_the_last_straw(names)
    return list(dict.fromkeys(names))


def _without_the_last_straw(names: Iterable[str]) -> list[str]:
    """The functions up to and in a runaway recursion; not the one that happened to be called at its end."""
    counts = Counter(names)  # in the order of first calls
    ordered = list(counts)
    first = next((index for index, name in enumerate(ordered) if counts[name] > 1), len(ordered))
    return [name for index, name in enumerate(ordered) if index < first or counts[name] > 1]


def _function(frame: FrameType) -> str:
    return f"{module_of(frame)}.{frame.f_code.co_qualname}"


def _package(frame: FrameType) -> str:
    return module_of(frame).partition(".")[0]


def _is_library(file: str) -> bool:
    if file.startswith("<frozen ") or not _LIBRARY_FOLDERS.isdisjoint(re.split(r"[\\/]", file)):
        return True
    return os.path.normcase(file).startswith(_STANDARD_LIBRARY)


def _digest(parts: Iterable[str]) -> str:
    text = "\x1e".join(parts).encode("utf-8", "backslashreplace")
    return hashlib.sha256(text).hexdigest()[:_DIGITS_KEPT]
