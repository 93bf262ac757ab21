"""A named lease as it is told to people."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

HELD = "held"
LAPSED = "lapsed"
FREE = "free"


@dataclass(frozen=True, kw_only=True, slots=True)
class LeaseInfo:
    """A lease as it stood when it was read."""

    name: str
    state: str
    """``"held"``; ``"lapsed"``: its holder did not renew it; ``"free"``: it was released or broken."""
    fence: int
    """Of the last acquisition."""
    owner: str | None
    """Host and process that hold it, or held it last."""
    since: datetime | None
    """When it was acquired."""
    until: datetime | None
    """When it lapses unless it is renewed."""

    def to_record(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "name": self.name,
            "state": self.state,
            "fence": self.fence,
            "owner": self.owner,
            "since": None if self.since is None else self.since.isoformat(),
            "until": None if self.until is None else self.until.isoformat(),
        }
