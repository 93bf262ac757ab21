"""Requests of whoever holds a lease are tried again for as long as it stands.

A body that has done its work should not do it again because the table was throttled for a minute when that was to be
recorded. The driver's own retries end after a few seconds: nobody else may wait longer than that. A holder may.
"""

from __future__ import annotations

from typing import TypeVar

from ..clock import Clock
from ..errors import ConditionFailedError, StoreUnavailableError, TransactionFailedError
from ..log import careful_log
from ..storage.call import Call, Pause, Plan, Response
from .tenure import Tenure

Result = TypeVar("Result")

PAUSE_SECONDS = 1.0

log = careful_log("dynadurable.worker")


async def insist(plan: Plan[Result], tenure: Tenure, clock: Clock) -> Result:
    """The plan's result. What it awaits beside requests is passed on as it is.

    Raises:
        whatever the plan raises; ``StoreUnavailableError`` reaches the plan only once the lease is over.
    """
    try:
        step = plan.send(None)
        while True:
            try:
                reply = await (_insisted(step, tenure, clock) if isinstance(step, Call) else step)
            except BaseException as error:  # noqa: BLE001 - the plan decides, as in a driver
                step = plan.throw(error)
            else:
                step = plan.send(reply)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]
    finally:
        plan.close()


async def _insisted(call: Call, tenure: Tenure, clock: Clock) -> Response:
    maybe_applied = False
    while True:
        try:
            return await call
        except StoreUnavailableError as error:
            if not call.repeatable or not tenure.is_valid(clock.monotonic()):
                raise
            log.warning("a request about %s is tried again: %s", tenure.what, error)
        except (ConditionFailedError, TransactionFailedError) as error:
            error.ambiguous = error.ambiguous or maybe_applied
            raise
        maybe_applied = True
        await Pause(PAUSE_SECONDS, clock)
