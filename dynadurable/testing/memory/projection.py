"""Projection expressions: which parts of an item a read returns."""

from __future__ import annotations

from dynadurable.testing.memory.parser import Parser
from dynadurable.testing.memory.syntax import Elements


def parse(parser: Parser) -> tuple[Elements, ...]:
    """The paths that the whole expression names."""
    paths = [parser.path()]
    while parser.at_mark(","):
        parser.take()
        paths.append(parser.path())
    parser.take_end()
    parser.paths_apart(paths)
    return tuple(path.elements for path in paths)
