"""Waiting in tests for what other threads do: by looking often and briefly, never for a fixed time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

from dynadurable import App
from dynadurable.testing.clock import ManualClock
from dynadurable.worker.keeper import Keeper

LOOKS = 3_000
LOOK_SECONDS = 0.005

Value = TypeVar("Value")


def until(condition: Callable[[], Value], what: str) -> Value:
    """The condition's first true value; fails after about fifteen seconds."""
    idle = threading.Event()
    for _ in range(LOOKS):
        value = condition()
        if value:
            return value
        idle.wait(LOOK_SECONDS)
    raise AssertionError(f"waited in vain: {what}")


def crash(app: App) -> None:
    """What is left of a process that was killed: its leases, and nobody to renew them."""
    app.lease_parts.keeper.stop()


def settled(keeper: Keeper, clock: ManualClock) -> None:
    """Wait until the keeper has done what is due by now."""

    def is_settled() -> bool:
        kept = list(keeper._kept.values())
        return all(not one.sending and one.wake_at > clock.monotonic() for one in kept)

    until(is_settled, "the keeper's renewals")


def pass_time(keeper: Keeper, clock: ManualClock, seconds: float, *, step: float = 0.25) -> None:
    """Let manual time pass in small steps, with the keeper doing at each what is due."""
    for _ in range(round(seconds / step)):
        clock.advance(timedelta(seconds=step))
        settled(keeper, clock)
