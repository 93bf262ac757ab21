"""Condition and filter expressions: parsed into a tree, with the checks that need no item."""

from __future__ import annotations

from dynadurable.testing.memory.parser import Parser
from dynadurable.testing.memory.syntax import (
    Between,
    Both,
    Compare,
    Condition,
    Either,
    Literal,
    Negation,
    Operand,
    Path,
    SizeOf,
    Test,
    Within,
)

COMPARATORS = ("=", "<>", "<", "<=", ">", ">=")
CHOICES = 99  # documented as 100, which counts the operand before IN too

_ARGUMENTS = {"attribute_exists": 1, "attribute_not_exists": 1, "attribute_type": 2, "begins_with": 2, "contains": 2}
_OF_UPDATES = ("if_not_exists", "list_append")


def parse(parser: Parser) -> Condition:
    """The condition that the whole expression says."""
    condition, _ = _either(parser)
    parser.take_end()
    return condition


def _either(parser: Parser) -> tuple[Condition, bool]:
    left, wrapped = _both(parser)
    while parser.at_word("OR"):
        parser.take()
        parser.count_operator()
        left, wrapped = Either(left, _both(parser)[0]), False
    return left, wrapped


def _both(parser: Parser) -> tuple[Condition, bool]:
    left, wrapped = _negation(parser)
    while parser.at_word("AND"):
        parser.take()
        parser.count_operator()
        left, wrapped = Both(left, _negation(parser)[0]), False
    return left, wrapped


def _negation(parser: Parser) -> tuple[Condition, bool]:
    if parser.at_word("NOT"):
        parser.take()
        parser.count_operator()
        return Negation(_negation(parser)[0]), False
    if parser.at_mark("("):
        return _group(parser), True
    return _primary(parser), False


def _group(parser: Parser) -> Condition:
    """A condition in parentheses; a second pair around the same condition is refused."""
    parser.take()
    condition, wrapped = _either(parser)
    parser.take_mark(")")
    if wrapped:
        raise parser.refusal("The expression has redundant parentheses;")
    return condition


def _primary(parser: Parser) -> Condition:
    if parser.at_call() and not parser.at_word("SIZE"):
        return _test(parser)
    operand = _operand(parser)
    if parser.at_mark(*COMPARATORS):
        operator = parser.take()
        parser.count_operator()
        right = _operand(parser)
        _distinct(parser, operator, operand, right)
        return Compare(operator, operand, right)
    if parser.at_word("BETWEEN"):
        return _between(parser, operand)
    if parser.at_word("IN"):
        return _within(parser, operand)
    if isinstance(operand, SizeOf):
        raise parser.refusal("The function is not allowed to be used this way in an expression; function: size")
    raise parser.syntax_error()


def _between(parser: Parser, operand: Operand) -> Between:
    parser.take()
    parser.count_operator()
    low = _operand(parser)
    parser.take_word("AND")
    high = _operand(parser)
    _distinct(parser, "BETWEEN", operand, low, high)
    return Between(operand, low, high)


def _within(parser: Parser, operand: Operand) -> Within:
    parser.take()
    parser.count_operator()
    parser.take_mark("(")
    choices = [_operand(parser)]
    while parser.at_mark(","):
        parser.take()
        choices.append(_operand(parser))
    parser.take_mark(")")
    if len(choices) > CHOICES:
        raise parser.refusal(f"Too many operands for IN; number of operands: {len(choices) + 1}")
    _distinct(parser, "IN", operand, *choices)
    return Within(operand, tuple(choices))


def _test(parser: Parser) -> Test:
    function = parser.take()
    _known(parser, function)
    arguments = _arguments(parser)
    if len(arguments) != _ARGUMENTS[function]:
        raise parser.refusal(f"Incorrect number of operands for {function}; number of operands: {len(arguments)}")
    first = arguments[0]
    if function in ("attribute_exists", "attribute_not_exists") and not isinstance(first, Path):
        raise parser.refusal(f"Operator or function requires a document path; operator or function: {function}")
    if function == "attribute_type" and not isinstance(arguments[1], Literal):
        raise parser.refusal("The type that attribute_type looks for must be given as a value")
    _distinct(parser, function, *arguments)
    return Test(function, tuple(arguments))


def _known(parser: Parser, function: str) -> None:
    if function in _OF_UPDATES:
        raise parser.refusal(f"The function is not allowed in a {parser.slot}; function: {function}")
    if function not in _ARGUMENTS:
        raise parser.refusal(f"Invalid function name; function: {function}")


def _arguments(parser: Parser) -> list[Operand]:
    parser.take_mark("(")
    arguments = [_operand(parser)]
    while parser.at_mark(","):
        parser.take()
        arguments.append(_operand(parser))
    parser.take_mark(")")
    return arguments


def _operand(parser: Parser) -> Operand:
    if parser.at_literal():
        return parser.literal()
    if not parser.at_call():
        return parser.path()
    function = parser.take()
    if function != "size":
        _known(parser, function)
        raise parser.refusal(f"The function is not allowed to be used this way in an expression; function: {function}")
    arguments = _arguments(parser)
    if len(arguments) != 1:
        raise parser.refusal(f"Incorrect number of operands for size; number of operands: {len(arguments)}")
    if not isinstance(arguments[0], Path):
        raise parser.refusal("Operator or function requires a document path; operator or function: size")
    return SizeOf(arguments[0])


def _distinct(parser: Parser, operator: str, first: Operand, *others: Operand) -> None:
    if first in others:
        raise parser.refusal(f"The first operand must be distinct from the remaining operands; operator: {operator}")
