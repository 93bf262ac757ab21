"""Time to live stands on what has ended, and on nothing else: checked over every item of a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from dynadurable.storage.keys import journal_of_page

Raw = Mapping[str, Any]
LATEST = 10_000_000_000
"""In seconds that is the year 2286; in milliseconds it was 1970."""


def misplaced_ttls(items: Iterable[Raw], *, ttl: str = "ttl") -> list[str]:
    """What carries an expiry and must not, lacks one and should not, or has it in another unit than whole seconds."""
    found = list(items)
    runs = {item["pk"]["S"]: item for item in found if item["sk"]["S"] == "run"}
    wrong = []
    for item in found:
        if "dd_v" not in item:
            continue
        place = f"{item['pk']['S']} {item['sk']['S']}"
        if ttl in item and not _is_in_seconds(item[ttl]):
            wrong.append(f"{place}: {item[ttl]} is no whole number of seconds")
        if (reason := _misplaced(item, runs, ttl)) is not None:
            wrong.append(f"{place}: {reason}")
    return wrong


def _is_in_seconds(value: Mapping[str, str]) -> bool:
    number = value.get("N", "")
    return number.isdigit() and 1_000_000_000 < int(number) < LATEST


def _misplaced(item: Raw, runs: Mapping[str, Raw], ttl: str) -> str | None:
    pk, sk, has = item["pk"]["S"], item["sk"]["S"], ttl in item
    if pk.startswith(("queue#", "lease#")):
        return "a mark, a setting or a lease with an expiry" if has else None
    if pk.startswith("run#") and sk == "run":
        state = item["dd_state"]["S"]
        if state == "live":
            return "a live run with an expiry" if has else None
        return f"a run that ended as {state} without an expiry" if state != "dead" and not has else None
    if pk.startswith("run#"):
        return _of_page(sk, runs.get(pk), has)
    return None  # letters go with their runs; records of workers and builds are renewed as long as they count


def _of_page(sort_key: str, run: Raw | None, has_ttl: bool) -> str | None:
    """A result that was put for an end that was not recorded carries an expiry, and is of no use to anybody."""
    is_of_it = run is not None and journal_of_page(sort_key) in {
        run.get(name, {}).get("S") for name in ("dd_gen", "dd_journal")
    }
    if run is None or not is_of_it or sort_key.endswith("#result"):
        return None
    return "a page of a live run with an expiry" if run["dd_state"]["S"] == "live" and has_ttl else None
