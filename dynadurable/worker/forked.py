"""A body that forks: its child is no worker.

Were the child to return into the worker's code, it would go on as a second worker with the claim of the first: it would
end or hand back the run while its parent is still at it. So it ends where the body ends in it.
"""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from collections.abc import Iterator


@contextlib.contextmanager
def the_worker_only() -> Iterator[None]:
    """Lets only the process that came in come out. A forked child exits here, as a program of its own would."""
    came_in = os.getpid()
    try:
        yield
    except BaseException as error:
        if os.getpid() != came_in:
            _leave(error)
        raise
    if os.getpid() != came_in:
        _leave(None)


def _leave(error: BaseException | None) -> None:
    """End the process without what would run at its exit: that is the parent's, too."""
    code = _exit_code(error)
    with contextlib.suppress(Exception):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


def _exit_code(error: BaseException | None) -> int:
    """As Python has it: 0 for a return, what ``SystemExit`` carries, and 1 with the traceback for anything else."""
    if error is None:
        return 0
    if isinstance(error, SystemExit) and (error.code is None or isinstance(error.code, int)):
        return (error.code or 0) & 0xFF
    with contextlib.suppress(Exception):
        if isinstance(error, SystemExit):
            sys.stderr.write(f"{error.code}\n")
        else:
            traceback.print_exception(error)
    return 1
