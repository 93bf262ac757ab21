"""A file that is touched as long as the worker's loop goes round, so that a health check can tell a hung one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from dynadurable.log import careful_log
from dynadurable.storage.environment import HEARTBEAT_FILE

log = careful_log("dynadurable.worker")


class Heartbeat:
    """Touches its file at each beat; without a file it does nothing.

    A file that cannot be written is reported once. The worker goes on: the health check will speak up.

    >>> Heartbeat(None).beat()
    """

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._failed = False

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> Heartbeat:
        """The one that ``DYNADURABLE_HEARTBEAT_FILE`` asks for."""
        name = environ.get(HEARTBEAT_FILE)
        return cls(Path(name) if name else None)

    def beat(self) -> None:
        """Still here."""
        if self._file is None:
            return
        try:
            self._file.touch()
        except OSError as error:
            if not self._failed:
                self._failed = True
                log.warning("the heartbeat file cannot be written, health checks will fail: %s", error)
