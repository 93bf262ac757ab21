"""The library's own log lines, which never disturb its work.

A log line is written in the middle of things: between a lost lease and telling the body of it, or in the thread that
renews. What a filter or handler of the app's logging raises there must end neither.
"""

from __future__ import annotations

import contextlib
import logging
from typing import Any


class CarefulLog(logging.LoggerAdapter[logging.Logger]):
    """A logger from which no ``Exception`` comes."""

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        """Write a line, if that works."""
        with contextlib.suppress(Exception):
            self.logger.log(level, msg, *args, **{"stacklevel": 2, **kwargs})


def careful_log(name: str) -> CarefulLog:
    """The logger of that name, made careful.

    >>> careful_log("dynadurable.worker").name
    'dynadurable.worker'
    """
    return CarefulLog(logging.getLogger(name), None)
