"""What all expressions have in common: tokens, names, values, document paths and the limits on them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from dynadurable.testing.memory.refusal import RefusalError, invalid
from dynadurable.testing.memory.reserved import is_reserved
from dynadurable.testing.memory.syntax import Elements, Literal, Path

EXPRESSION_BYTES = 4096
OPERATORS = 300
PATH_ELEMENTS = 32

_TOKEN = re.compile(
    r"\s*(?:(?P<word>[A-Za-z][A-Za-z0-9_]*)|(?P<alias>#[A-Za-z0-9_]+)|(?P<ref>:[A-Za-z0-9_]+)"
    r"|(?P<index>[0-9]+)|(?P<mark><>|<=|>=|[=<>()\[\],.+-]))"
)
_END = ("end", "")


class Parser:
    """A cursor over one expression; keeps the aliases and values that it met.

    ``slot`` is the request parameter that the expression stands in, ``names`` the request's aliases.
    """

    def __init__(self, slot: str, text: str, names: Mapping[str, str]) -> None:
        self.slot = slot
        self.used_names: set[str] = set()
        self.used_values: set[str] = set()
        self._names = names
        self._tokens = self._to_tokens(text)
        self._at = 0
        self._operators = 0

    def refusal(self, reason: str) -> RefusalError:
        """The refusal of this expression, for the caller to raise."""
        return invalid(f"Invalid {self.slot}: {reason}")

    def syntax_error(self) -> RefusalError:
        """The refusal of the token at the cursor."""
        near = " ".join(text for _, text in self._tokens[max(0, self._at - 1) : self._at + 2])
        return self.refusal(f'Syntax error; token: "{self._tokens[self._at][1] or "<EOF>"}", near: "{near}"')

    def at_mark(self, *marks: str) -> bool:
        """Whether the next token is one of these."""
        kind, text = self._tokens[self._at]
        return kind == "mark" and text in marks

    def at_word(self, word: str, offset: int = 0) -> bool:
        """Whether the next token is this word, in any case of letters."""
        kind, text = self._tokens[min(self._at + offset, len(self._tokens) - 1)]
        return kind == "word" and text.upper() == word

    def at_call(self) -> bool:
        """Whether a function call comes next."""
        return self._tokens[self._at][0] == "word" and self._tokens[self._at + 1] == ("mark", "(")

    def at_end(self) -> bool:
        """Whether nothing comes next."""
        return self._tokens[self._at] is _END

    def take(self) -> str:
        """The next token's text."""
        text = self._tokens[self._at][1]
        if not self.at_end():
            self._at += 1
        return text

    def take_mark(self, mark: str) -> None:
        """Pass over this token, which must come next."""
        if not self.at_mark(mark):
            raise self.syntax_error()
        self._at += 1

    def take_word(self, word: str) -> None:
        """Pass over this word, which must come next."""
        if not self.at_word(word):
            raise self.syntax_error()
        self._at += 1

    def take_end(self) -> None:
        """Nothing may come next."""
        if not self.at_end():
            raise self.syntax_error()

    def count_operator(self) -> None:
        """One more operator; more than 300 are refused."""
        self._operators += 1
        if self._operators > OPERATORS:
            raise self.refusal(f"The expression contains too many operators; operator count: {self._operators}")

    def literal(self) -> Literal:
        """A value given with the request, such as ``:limit``."""
        kind, text = self._tokens[self._at]
        if kind != "ref":
            raise self.syntax_error()
        self._at += 1
        self.used_values.add(text)
        return Literal(text)

    def at_literal(self) -> bool:
        """Whether a value given with the request comes next."""
        return self._tokens[self._at][0] == "ref"

    def path(self) -> Path:
        """A document path."""
        elements: list[str | int] = [self._name()]
        while self.at_mark(".", "["):
            if self.take() == ".":
                elements.append(self._name())
            else:
                elements.append(self._index())
        if len(elements) > PATH_ELEMENTS:
            raise self.refusal(f"The document path has too many nesting elements; nesting levels: {len(elements)}")
        return Path(tuple(elements))

    def paths_apart(self, paths: Sequence[Path]) -> None:
        """No two paths may overlap, or be a list for one and a map for the other."""
        seen: list[Elements] = []
        for path in paths:
            for other in seen:
                self._apart(other, path.elements)
            seen.append(path.elements)

    def _apart(self, left: Elements, right: Elements) -> None:
        for one, two in zip(left, right, strict=False):
            if type(one) is not type(two):
                raise self.refusal(f"Two document paths conflict with each other: {left} and {right}")
            if one != two:
                return
        raise self.refusal(f"Two document paths overlap with each other: {left} and {right}")

    def _name(self) -> str:
        kind, text = self._tokens[self._at]
        if kind == "word":
            if is_reserved(text):
                raise self.refusal(f"Attribute name is a reserved keyword; reserved keyword: {text}")
            self._at += 1
            return text
        if kind != "alias":
            raise self.syntax_error()
        self._at += 1
        self.used_names.add(text)
        if text not in self._names:
            raise self.refusal(f"An expression attribute name used in the document path is not defined: {text}")
        return self._names[text]

    def _index(self) -> int:
        kind, text = self._tokens[self._at]
        if kind != "index":
            raise self.syntax_error()
        self._at += 1
        self.take_mark("]")
        return int(text)

    def _to_tokens(self, text: str) -> list[tuple[str, str]]:
        if type(text) is not str or not text.strip():
            raise self.refusal("The expression can not be empty;")
        if len(text.encode("utf-8", "surrogatepass")) > EXPRESSION_BYTES:
            raise self.refusal("Expression size has exceeded the maximum allowed size;")
        tokens: list[tuple[str, str]] = []
        at = 0
        end = len(text.rstrip())
        while at < end:
            match = _TOKEN.match(text, at)
            if match is None:
                raise self.refusal(f'Syntax error; token: "{text[at:end].lstrip()[:1]}"')
            tokens.append((str(match.lastgroup), match[0].lstrip()))
            at = match.end()
        tokens.append(_END)
        return tokens
