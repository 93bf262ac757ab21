"""Forked children: a lock held by another thread at the fork would never come free, so children begin with new ones."""

from __future__ import annotations

import os
import weakref
from typing import Protocol


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
        thing.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
