"""The known faults of the look-alikes, as ``faults.txt`` lists them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

_TABLE = Path(__file__).with_name("faults.txt")
_ANY_CASE = "[*]"


@dataclass(frozen=True, kw_only=True, slots=True)
class Fault:
    """Why a behaviour is not expected; ``is_family`` if that is said of all cases of a test together."""

    reason: str
    is_family: bool


def find_fault(store: str, function: str, case: str) -> Fault | None:
    """What is known about a test on a store, if anything is."""
    known = _faults(store)
    behaviour = f"{function}[{case}]" if case else function
    if behaviour in known:
        return Fault(reason=known[behaviour], is_family=False)
    family = known.get(function + _ANY_CASE)
    return None if family is None else Fault(reason=family, is_family=True)


@cache
def _faults(store: str) -> dict[str, str]:
    found: dict[str, str] = {}
    reason = ""
    for line in _TABLE.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            reason = line.strip("[]")
        elif line and not line.startswith("#"):
            stores, behaviour = line.split(": ", 1)
            if store in stores.split():
                found[behaviour] = reason
    return found
