"""A mark as it lies in the table, in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..app import App
from ..clock import Clock
from ..model import codec
from ..model.job import Job
from ..storage.items import Mark
from ..storage.keys import queue_partition
from .screen import Row
from .tally import recipients_of


class MarkInTable:
    """The marks of one queue, read with a client of one's own."""

    def __init__(self, app: App, job: Job[Any, Any], client: Any, clock: Clock) -> None:
        self._clock = clock
        self._items = app.items
        self._schema = app.schema
        self._job = job
        self._client = client
        self._shards = app.operations.queue(job.queue).shards

    def rows(self) -> list[Row]:
        """All that lie there now."""
        return [Row(pk=str(mark.pk), sk=str(mark.sk), says=list(self._says(mark))) for mark in self._marks()]

    def _marks(self) -> Iterator[Mark]:
        for shard in range(self._shards):
            reply = self._client.query(
                TableName=self._schema.table,
                KeyConditionExpression="#pk = :queue",
                ExpressionAttributeNames={"#pk": self._schema.partition_key},
                ExpressionAttributeValues={":queue": {"S": queue_partition(self._schema, self._job.queue, shard)}},
                ConsistentRead=True,
            )
            yield from map(self._items.mark.from_raw_data, reply["Items"])

    def _says(self, mark: Mark) -> Iterator[tuple[str, str]]:
        arguments = self._job.from_payload(mark.input or b"").arguments
        yield "job", f"{mark.job}({', '.join(f'{name}={value!r}' for name, value in arguments.items())})"
        yield "attempt", f"{int(mark.attempt)}" if mark.attempt else "0: nobody has started it yet"
        if mark.token is not None:
            remaining = (int(mark.lease_until_ms or 0) - self._clock.now_ms()) / 1000
            yield "lease", f"held by {mark.worker} for another {remaining:.0f} s or so"
        if mark.cursor is not None:
            cursor = codec.decode(mark.cursor)
            yield "cursor", f"{recipients_of(cursor):,} followers done, go on after {last_of(cursor)}"


def last_of(cursor: Any) -> str:
    """The last recipient that a fan-out's cursor covers.

    >>> last_of({"fan_out": {"": {"written": 300, "after": {"sk": {"S": "krab-00299"}}}}})
    'krab-00299'
    """
    return ", ".join(state["after"]["sk"]["S"] for state in cursor["fan_out"].values() if state.get("after"))
