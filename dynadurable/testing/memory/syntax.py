"""What an expression says, once it is parsed and its names are resolved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Elements = tuple[Any, ...]  # of a document path: names of attributes and map members, indexes of list members


@dataclass(frozen=True, slots=True)
class Path:
    """A document path such as ``a.b[1]``."""

    elements: Elements


@dataclass(frozen=True, slots=True)
class Literal:
    """A value given with the request, such as ``:limit``."""

    ref: str


@dataclass(frozen=True, slots=True)
class SizeOf:
    """``size(path)``."""

    path: Path


Operand = Path | Literal | SizeOf


@dataclass(frozen=True, slots=True)
class Compare:
    """``left <op> right``."""

    operator: str
    left: Operand
    right: Operand


@dataclass(frozen=True, slots=True)
class Between:
    """``operand BETWEEN low AND high``, both included."""

    operand: Operand
    low: Operand
    high: Operand


@dataclass(frozen=True, slots=True)
class Within:
    """``operand IN (choice, ...)``."""

    operand: Operand
    choices: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Test:
    """A function that is a condition, such as ``attribute_exists(path)``."""

    function: str
    arguments: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Both:
    """``left AND right``."""

    left: Condition
    right: Condition


@dataclass(frozen=True, slots=True)
class Either:
    """``left OR right``."""

    left: Condition
    right: Condition


@dataclass(frozen=True, slots=True)
class Negation:
    """``NOT condition``."""

    condition: Condition


Condition = Compare | Between | Within | Test | Both | Either | Negation


@dataclass(frozen=True, slots=True)
class IfNotExists:
    """``if_not_exists(path, fallback)``."""

    path: Path
    fallback: Source


@dataclass(frozen=True, slots=True)
class ListAppend:
    """``list_append(left, right)``."""

    left: Source
    right: Source


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """``left + right`` or ``left - right``."""

    operator: str
    left: Source
    right: Source


Source = Path | Literal | IfNotExists | ListAppend | Arithmetic


@dataclass(frozen=True, slots=True)
class Update:
    """The actions of an update expression, each in the order in which it stands there."""

    sets: tuple[tuple[Path, Source], ...] = ()
    removes: tuple[Path, ...] = ()
    adds: tuple[tuple[Path, Literal], ...] = ()
    deletes: tuple[tuple[Path, Literal], ...] = ()

    @property
    def targets(self) -> tuple[Path, ...]:
        """Every path that the update writes."""
        written = (*self.sets, *self.adds, *self.deletes)
        return (*(path for path, _ in written), *self.removes)
