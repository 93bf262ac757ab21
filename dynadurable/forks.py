"""Forked children: a lock held by another thread at the fork would never come free, so children begin with new ones."""

from __future__ import annotations

import logging
import os
import weakref
from typing import Protocol

log = logging.getLogger("dynadurable")


class ForkAware(Protocol):
    """Something that must begin anew in a forked child."""

    def after_fork(self) -> None:
        """Called in the child, while it has a single thread."""


_aware: weakref.WeakSet[ForkAware] = weakref.WeakSet()


def renew_after_fork(thing: ForkAware) -> None:
    """Have ``thing.after_fork()`` called in every forked child."""
    _aware.add(thing)


def _in_child() -> None:
    for thing in list(_aware):
        try:
            thing.after_fork()
        except Exception:  # the others must begin anew all the same: one of them may hold a lock for ever
            log.exception("%s could not begin anew in a forked child", type(thing).__name__)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
