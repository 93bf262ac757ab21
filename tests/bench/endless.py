"""A table with so many expired runs that they are made up only when they are looked at."""

from __future__ import annotations

from typing import Any

from dynadurable.testing.memory import MemoryClient, MemoryStore


class Endless(MemoryClient):
    """``count`` expired runs that take no memory; everything else lies in the store. ``deleted`` counts deletes."""

    def __init__(self, store: MemoryStore, count: int) -> None:
        super().__init__(store)
        self.count, self.deleted = count, 0

    def scan(self, **request: Any) -> Any:
        segment, segments = request.get("Segment", 0), request.get("TotalSegments", 1)
        first, last = self.count * segment // segments, self.count * (segment + 1) // segments
        start = int(request["ExclusiveStartKey"]["sk"]["S"]) if "ExclusiveStartKey" in request else first
        end = min(last, start + request["Limit"])
        found = [_expired(number) for number in range(start, end)]
        more = {} if end == last else {"LastEvaluatedKey": {"pk": {"S": "x"}, "sk": {"S": str(end)}}}
        return {"Items": found, "ScannedCount": len(found), "Count": len(found), **more}

    def delete_item(self, **_: Any) -> Any:
        self.deleted += 1
        return {}


def _expired(number: int) -> dict[str, Any]:
    return {
        "pk": {"S": f"run#default~0~0lmkp3s00~{number:022d}"},
        "sk": {"S": "run"},
        "dd_v": {"N": "1"},
        "dd_job": {"S": "kept"},
        "dd_queue": {"S": "default"},
        "dd_shard": {"N": "0"},
        "dd_state": {"S": "succeeded"},
        "dd_gen": {"S": "01hf7yatg00123456789ab"},
        "dd_mark": {"S": "m"},
        "dd_at": {"N": "1700000000000"},
        "dd_ttl": {"N": "1700000000"},
    }
