"""What bodies, operators and the weather do, a line each as it happens, from all processes into one file."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any


class Log:
    """Lines of JSON; a single small append is atomic, so no process cuts into another's line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def note(self, event: str, **facts: Any) -> None:
        """One line; ``at`` is the machine's monotonic clock, which all processes share."""
        line = {"event": event, "at": time.monotonic(), "pid": os.getpid(), **facts}
        os.write(self._file, (json.dumps(line) + "\n").encode())

    def lines(self, event: str | None = None) -> list[dict[str, Any]]:
        """What was noted so far, in order."""
        found = [json.loads(line) for line in self.path.read_text().splitlines()]
        return [line for line in found if event is None or line["event"] == event]
