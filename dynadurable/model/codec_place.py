"""Where a part of a payload lies, told as a reader would write it: ``order.lines[3].price``."""

from __future__ import annotations

import reprlib
from typing import Literal, NamedTuple

from dynadurable.errors import PayloadRefusedError

LONGEST_NAME = 60  # characters of one key that a path shows

Style = Literal["field", "item", "key", "element"]


class Place(NamedTuple):
    """One step down from ``parent``: a field, a list item or dict value, a dict key itself, or an element of a set."""

    parent: Place | str
    style: Style
    part: object


def render(place: Place | str) -> str:
    """The path as text.

    >>> render(Place(Place(Place("order", "field", "lines"), "item", 3), "item", "price"))
    'order.lines[3].price'
    >>> render(Place("order", "item", "unit price"))
    "order['unit price']"
    """
    steps: list[str] = []
    while not isinstance(place, str):
        steps.append(_step(place.style, place.part))
        place = place.parent
    return place + "".join(reversed(steps))


def refuse(place: Place | str, reason: str) -> PayloadRefusedError:
    """The error to raise for what lies at ``place``; says so when that is inside a dict key rather than a value."""
    step = place
    while not isinstance(step, str):
        if step.style == "key":
            reason = f"the dict key: {reason}"
            break
        step = step.parent
    return PayloadRefusedError(render(place), reason)


def _step(style: Style, part: object) -> str:
    if style == "field":
        return f".{part}"
    if style == "element":
        return f"{{{_short(part)}}}"
    if style == "item" and type(part) is str and part.isidentifier() and len(part) <= LONGEST_NAME:
        return f".{part}"
    return f"[{_short(part)}]"


_representation = reprlib.Repr()
_representation.maxstring = _representation.maxother = _representation.maxlong = LONGEST_NAME


def _short(part: object) -> str:
    try:
        return _representation.repr(part)
    except Exception:  # noqa: BLE001 - a class's own __repr__ may raise anything, and a path must not
        return f"<{type(part).__name__}>"
