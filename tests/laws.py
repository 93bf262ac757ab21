"""What holds of every single write, and of a table at rest: for whoever watches a table, simulated or real.

Each function tells what is wrong, or nothing. Items are as DynamoDB's JSON has them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

from dynadurable.storage.keys import SETTINGS_SORT_KEY

Raw = Mapping[str, Any]
Item = TypeVar("Item", bound=Raw)


def number(item: Raw, name: str) -> int:
    """A number attribute; 0 where there is none."""
    return int(item.get(name, {"N": "0"})["N"])


def text(item: Raw, name: str) -> str | None:
    """A string attribute."""
    value: str | None = item.get(name, {}).get("S")
    return value


# --- a write --------------------------------------------------------------------------------------


def wrong_with_mark(old: Raw | None, new: Raw | None) -> Iterator[str]:
    """A mark is whole, carries no expiry, and its fence never goes back."""
    if new is None:
        return
    if old is None and "dd_job" not in new:
        yield f"planted a ghost: {new}"
    if old is not None and number(new, "dd_fence") < number(old, "dd_fence"):
        yield "lowered its fence"
    if "ttl" in new:
        yield f"a mark carries a TTL: {new}"


def is_claim(old: Raw | None, new: Raw | None) -> bool:
    """Whether the write gave the mark to somebody else than before."""
    token = None if new is None else text(new, "dd_token")
    return token is not None and token != text(old or {}, "dd_token")


def milliseconds_too_early(old: Raw | None, *, now_ms: int) -> int:
    """How long the lease still stood, by the store's own time, when somebody took the mark over."""
    return max(0, number(old or {}, "dd_lease") - now_ms)


def wrong_with_run(old: Raw | None, new: Raw | None) -> Iterator[str]:
    """What has ended stays ended, and carries an expiry; what lives is nobody's to write over."""
    if new is None:
        yield "deleted a run item"
        return
    state = text(new, "dd_state")
    if (state == "live") == ("ttl" in new) and state != "dead":
        yield f"a run in state {state} {'has' if 'ttl' in new else 'lacks'} a TTL"
    if old is None:
        return
    was, same = text(old, "dd_state"), text(old, "dd_gen") == text(new, "dd_gen")
    if was != "live" and same and state != was:
        yield f"changed the end from {was} to {state}"
    elif was != "live" and same and old != new:
        yield "changed a run after its end"
    if was == "live" and not same:
        yield "wrote over a live run"
    if number(new, "dd_fence") < number(old, "dd_fence"):
        yield "lowered its fence"


def ends_a_life(old: Raw | None, new: Raw | None) -> bool:
    """Whether a life of the run came to its end by this write."""
    if new is None or text(new, "dd_state") == "live":
        return False
    return old is None or text(old, "dd_state") == "live" or text(old, "dd_gen") != text(new, "dd_gen")


# --- a table at rest ------------------------------------------------------------------------------


def marks_in(items: Iterable[Item]) -> list[Item]:
    """The marks, without the settings of queues."""
    return [item for item in items if item["pk"]["S"].startswith("queue#") and item["sk"]["S"] != SETTINGS_SORT_KEY]


def runs_in(items: Iterable[Item]) -> dict[str, Item]:
    """The run items by the ids of their runs."""
    return {item["pk"]["S"][4:]: item for item in items if item["sk"]["S"] == "run" and item["pk"]["S"][:4] == "run#"}


def letters_in(items: Iterable[Raw]) -> set[tuple[str, str | None]]:
    """The dead letters: of which run, and of which life of it."""
    return {
        (item["sk"]["S"].partition("#")[2], text(item, "dd_gen"))
        for item in items
        if item["pk"]["S"].startswith("dead#")
    }


def live_without_mark(items: Iterable[Raw]) -> list[str]:
    """Runs that live and have no mark in a table without marks: nobody will ever look at them."""
    return [run_id for run_id, run in runs_in(items).items() if text(run, "dd_state") == "live"]


def dead_in(items: Iterable[Raw]) -> set[tuple[str, str | None]]:
    """The dead runs, with the lives that ended so."""
    return {(run_id, text(run, "dd_gen")) for run_id, run in runs_in(items).items() if text(run, "dd_state") == "dead"}
