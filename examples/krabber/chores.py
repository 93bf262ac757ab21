"""Krabber's chores, by the clock: the public timeline is refreshed, and sign-ups that nobody activated expire.

No leader and no extra process: any worker does them, and each slot gets one run however many workers there are.
"""

import functools
from datetime import timedelta
from typing import Any

import boto3

from dynadurable import JobContext

from . import sign_ups, timeline
from .app import app


@app.schedule(every=timedelta(seconds=30), overlap="skip", queue="chores")
def refresh_timeline(ctx: JobContext) -> None:
    """Every half minute. While one run goes on no other begins; a late one replaces nothing newer."""
    assert ctx.slot is not None
    timeline.refresh(client(), slot=ctx.slot)


@app.schedule("17 * * * *", queue="chores")
def expire_sign_ups(ctx: JobContext) -> None:
    """Once an hour. After downtime once for all the hours that were missed: that is enough."""
    assert ctx.slot is not None
    slot_ms = round(ctx.slot.timestamp() * 1000)
    expired = sign_ups.expire(client(), before_ms=slot_ms - sign_ups.DAYS_TO_ACTIVATE * sign_ups.DAY_MS)
    ctx.log.info("%d sign-ups expired: %s", len(expired), ", ".join(expired))


@functools.cache
def client() -> Any:
    """One for the process; boto3's low-level clients are safe to share between threads."""
    return boto3.client("dynamodb")
