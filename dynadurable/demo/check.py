"""Whether every follower has the molt exactly once: read from the table, and from nothing else.

All entries are read with a Scan and counted by the molt that they hold, not by their keys. So an entry that is there
twice under different keys is found, and one that a stranger has too. (The library itself never scans.)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True, slots=True)
class Delivered:
    """Who has the molt and who should."""

    followers: int
    missing: list[str]
    twice: list[str]
    strangers: list[str]
    molt_is_there: bool
    marks_left: int

    @property
    def once(self) -> int:
        """Followers who have it exactly once."""
        return self.followers - len(self.missing) - len(self.twice)

    @property
    def complete(self) -> bool:
        """Whether all is as promised."""
        wrong = self.missing or self.twice or self.strangers or self.marks_left
        return self.molt_is_there and self.followers > 0 and not wrong


def delivered(client: Any, *, table: str, author: str, molt_id: str) -> Delivered:
    """What the table says about a molt. Strongly consistent."""
    followers = {item["sk"]["S"] for item in _partition(client, table, f"followers#{author}")}
    got: Counter[str] = Counter()
    marks = 0
    for item in _entries_and_marks(client, table):
        kind, _, rest = item["pk"]["S"].partition("#")
        if kind == "trench" and molt_id in _texts(item):
            got[rest] += 1
        marks += kind == "queue" and "dd_job" in item
    return Delivered(
        followers=len(followers),
        missing=sorted(followers - got.keys()),
        twice=sorted(krab for krab in followers if got[krab] > 1),
        strangers=sorted(got.keys() - followers),
        molt_is_there=any(item["sk"]["S"] == molt_id for item in _partition(client, table, f"molts#{author}")),
        marks_left=marks,
    )


def _partition(client: Any, table: str, key: str) -> Iterator[dict[str, Any]]:
    pages = client.get_paginator("query").paginate(
        TableName=table,
        KeyConditionExpression="pk = :pk",
        ExpressionAttributeValues={":pk": {"S": key}},
        ConsistentRead=True,
    )
    for page in pages:
        yield from page["Items"]


def _entries_and_marks(client: Any, table: str) -> Iterator[dict[str, Any]]:
    pages = client.get_paginator("scan").paginate(
        TableName=table,
        FilterExpression="begins_with(pk, :trench) OR begins_with(pk, :queue)",
        ExpressionAttributeValues={":trench": {"S": "trench#"}, ":queue": {"S": "queue#"}},
        ConsistentRead=True,
    )
    for page in pages:
        yield from page["Items"]


def _texts(item: dict[str, Any]) -> set[str]:
    return {value["S"] for name, value in item.items() if name != "pk" and "S" in value}
