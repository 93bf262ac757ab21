"""Update expressions, parsed: which paths are set, removed, added to and deleted from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from dynadurable.testing.memory.parser import Parser
from dynadurable.testing.memory.syntax import Arithmetic, IfNotExists, ListAppend, Literal, Path, Source, Update

Action = TypeVar("Action")

_FIELDS = {"SET": "sets", "REMOVE": "removes", "ADD": "adds", "DELETE": "deletes"}
_OF_CONDITIONS = ("attribute_exists", "attribute_not_exists", "attribute_type", "begins_with", "contains", "size")


def parse(parser: Parser) -> Update:
    """The update that the whole expression says."""
    sections: dict[str, Any] = {}
    while not parser.at_end():
        word = next((word for word in _FIELDS if parser.at_word(word)), None)
        if word is None:
            raise parser.syntax_error()
        if _FIELDS[word] in sections:
            raise parser.refusal(f'The "{word}" section can only be used once in an update expression;')
        parser.take()
        sections[_FIELDS[word]] = _several(parser, _READERS[word])
    update = Update(**sections)
    parser.paths_apart(update.targets)
    return update


def _several(parser: Parser, read: Callable[[Parser], Action]) -> tuple[Action, ...]:
    actions = [read(parser)]
    while parser.at_mark(","):
        parser.take()
        actions.append(read(parser))
    return tuple(actions)


def _set(parser: Parser) -> tuple[Path, Source]:
    path = parser.path()
    parser.take_mark("=")
    source = _source(parser, nested=False)
    if not parser.at_mark("+", "-"):
        return path, source
    operator = parser.take()
    parser.count_operator()
    right = _source(parser, nested=False)
    if isinstance(source, ListAppend) or isinstance(right, ListAppend):
        raise parser.refusal(f"Incorrect operand type for {operator}; operand type: LIST")
    return path, Arithmetic(operator, source, right)


def _source(parser: Parser, *, nested: bool) -> Source:
    if parser.at_literal():
        return parser.literal()
    if parser.at_call():
        return _call(parser, nested=nested)
    return parser.path()


def _call(parser: Parser, *, nested: bool) -> Source:
    function = parser.take()
    if function in _OF_CONDITIONS or (nested and function == "list_append"):
        raise parser.refusal(f"The function is not allowed to be used this way in an expression; function: {function}")
    if function not in ("if_not_exists", "list_append"):
        raise parser.refusal(f"Invalid function name; function: {function}")
    parser.take_mark("(")
    first = _source(parser, nested=True)
    operands = [first]
    while parser.at_mark(","):
        parser.take()
        operands.append(_source(parser, nested=True))
    parser.take_mark(")")
    if len(operands) != 2:
        raise parser.refusal(f"Incorrect number of operands for {function}; number of operands: {len(operands)}")
    if function == "list_append":
        return ListAppend(first, operands[1])
    if not isinstance(first, Path):
        raise parser.refusal("Operator or function requires a document path; operator or function: if_not_exists")
    return IfNotExists(first, operands[1])


def _with_literal(parser: Parser) -> tuple[Path, Literal]:
    return parser.path(), parser.literal()


_READERS: dict[str, Callable[[Parser], Any]] = {
    "SET": _set,
    "REMOVE": Parser.path,
    "ADD": _with_literal,
    "DELETE": _with_literal,
}
