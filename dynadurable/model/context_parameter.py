"""Whether a function's first parameter is its context: by its annotation, however that is spelled, else by its name."""

from __future__ import annotations

import inspect
import sys
import types
import typing
from collections.abc import Callable, Iterator
from typing import Any

CONVENTIONAL_NAME = "ctx"
_MISSING = inspect.Parameter.empty
_MAX_DEPTH = 8


def first_parameter(signature: inspect.Signature) -> inspect.Parameter | None:
    """The first parameter, if it can be given by position."""
    first = next(iter(signature.parameters.values()), None)
    if first is None or first.kind not in (first.POSITIONAL_ONLY, first.POSITIONAL_OR_KEYWORD):
        return None
    return first


def is_annotated_as(function: Callable[..., Any], signature: inspect.Signature, kinds: tuple[type, ...]) -> bool:
    """Whether the first parameter is annotated with one of these classes.

    Aliases, ``Annotated``, ``| None`` and annotations that are strings are seen through.
    """
    first = first_parameter(signature)
    if first is None or first.annotation is _MISSING:
        return False
    return any(_is_one(kind, kinds) for kind in _meanings(first.annotation, _namespace(function), _MAX_DEPTH))


def takes_a_context(function: Callable[..., Any], signature: inspect.Signature, kinds: tuple[type, ...]) -> bool:
    """Whether the first parameter is a context of one of these classes: it is annotated so, or just called ``ctx``.

    An annotation that cannot be looked up here, such as one for type checkers only, tells nothing: the name decides.
    """
    first = first_parameter(signature)
    if first is None:
        return False
    if first.annotation is _MISSING:
        return first.name == CONVENTIONAL_NAME
    meanings = list(_meanings(first.annotation, _namespace(function), _MAX_DEPTH))
    is_known = any(not isinstance(meaning, str) for meaning in meanings)
    return any(_is_one(meaning, kinds) for meaning in meanings) or (not is_known and first.name == CONVENTIONAL_NAME)


def _is_one(meaning: object, kinds: tuple[type, ...]) -> bool:
    if isinstance(meaning, str):  # not to be looked up here: its last name is enough
        return meaning.rpartition(".")[2] in {kind.__name__ for kind in kinds}
    return isinstance(meaning, type) and issubclass(meaning, kinds)


def _meanings(annotation: Any, names: dict[str, Any], depth: int) -> Iterator[object]:
    """The classes that an annotation stands for; a string where it cannot be looked up."""
    if depth == 0:
        return
    if isinstance(annotation, str):
        yield from _looked_up(annotation, names, depth)
    elif isinstance(annotation, typing.ForwardRef):
        yield from _meanings(annotation.__forward_arg__, names, depth - 1)
    elif typing.get_origin(annotation) is typing.Annotated:
        yield from _meanings(annotation.__origin__, names, depth - 1)
    elif typing.get_origin(annotation) in (typing.Union, types.UnionType):
        for member in typing.get_args(annotation):
            yield from _meanings(member, names, depth - 1)
    elif sys.version_info >= (3, 12) and isinstance(annotation, typing.TypeAliasType):
        yield from _meanings(annotation.__value__, names, depth - 1)
    else:
        yield annotation


def _looked_up(annotation: str, names: dict[str, Any], depth: int) -> Iterator[object]:
    try:
        found = eval(annotation, names)  # noqa: S307 - the user's own source, as `inspect.signature(eval_str=True)` has it
    except Exception:  # noqa: BLE001 - whatever an annotation for type checkers only does here
        yield annotation
        return
    yield from _meanings(found, names, depth - 1)


def _namespace(function: Callable[..., Any]) -> dict[str, Any]:
    """What names mean where the function was written."""
    inner = inspect.unwrap(function)
    inner = getattr(inner, "__func__", inner)
    names = dict(getattr(inner, "__globals__", {}))
    code, cells = getattr(inner, "__code__", None), getattr(inner, "__closure__", None) or ()
    for name, cell in zip(code.co_freevars if code is not None else (), cells, strict=False):
        try:
            names[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    return names
