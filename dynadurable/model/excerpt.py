"""Text cut to size: the head and the tail of what is too long, with a note of what is missing between them."""

from __future__ import annotations

import json

_NOTE_BYTES = 48  # room for "...[1,234,567,890 characters left out]..."


def excerpt(text: str, limit_bytes: int) -> str:
    r"""The text, with at most ``limit_bytes`` bytes as JSON in ASCII, its most costly form in any store.

    What UTF-8 cannot hold (a lone surrogate) is spelled out as ``\udc80``; everything else stays as it is. Costs no
    more than ``limit_bytes``, however long the text.

    >>> excerpt("abcdefghij" * 1000, 64)
    'abcdefghij...[9,984 characters left out]...efghij'
    """
    assert limit_bytes > _NOTE_BYTES
    if len(text) <= limit_bytes:
        whole = _storable(text)
        if _json_bytes(whole) <= limit_bytes:
            return whole
    room = limit_bytes - _NOTE_BYTES  # no character takes less than one byte
    head = _fitting(_storable(text[:room]), room * 2 // 3)
    tail = _fitting(_storable(text[-room:])[::-1], room - room * 2 // 3)[::-1]
    return f"{head}...[{max(len(text) - len(head) - len(tail), 0):,} characters left out]...{tail}"


def _storable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


def _json_bytes(text: str) -> int:
    return len(json.dumps(text)) - 2


def _fitting(text: str, limit_bytes: int) -> str:
    """The longest beginning that takes no more than so many bytes."""
    used = 0
    for index, character in enumerate(text):
        used += 1 if " " <= character <= "~" and character not in '"\\' else _json_bytes(character)
        if used > limit_bytes:
            return text[:index]
    return text
