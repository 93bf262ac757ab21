"""Where in the user's code a call was made."""

from __future__ import annotations

import linecache
import sys
from dataclasses import dataclass

from ..model.trace import is_ours


@dataclass(frozen=True, slots=True)
class Place:
    """A file and a line; as text with the source, which is looked up only then."""

    file: str
    line: int

    def __str__(self) -> str:
        source = linecache.getline(self.file, self.line).strip()
        return f"{self.file}:{self.line}" + (f": {source}" if source else "")


NOWHERE = Place("", 0)


def caller() -> Place:
    """The innermost frame that is not the library's own."""
    frame = sys._getframe(1)  # noqa: SLF001 - the documented way to look at the calling frame
    while frame is not None and is_ours(frame):
        if frame.f_back is None:
            return NOWHERE
        frame = frame.f_back
    return Place(frame.f_code.co_filename, frame.f_lineno)
