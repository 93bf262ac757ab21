"""A mark that this worker holds."""

from __future__ import annotations

from datetime import datetime

from ..storage import marks
from ..storage.items import Items, Mark
from .tenure import CANCELLED, LOST, STOPPING, Tenure

__all__ = ["CANCELLED", "LOST", "STOPPING", "Held"]


class Held(Tenure):
    """One claim of a mark."""

    def __init__(self, mark: Mark, *, run_id: str, lease_seconds: float, sent: float) -> None:
        super().__init__(f"the lease on run {run_id}", lease_seconds=lease_seconds, sent=sent)
        self.mark = mark
        self.run_id = run_id
        self.cursor = mark.cursor
        self.slot: datetime | None = None
        """Of a schedule, that the run is for."""

    async def renewal(self, items: Items, *, lease_until_ms: int) -> bool:
        mark = await marks.renew(items, self.mark, lease_until_ms=lease_until_ms)
        return bool(mark.cancelled)
