"""How long a failed request is tried again: decided here, waited for by the drivers.

The delay before try ``n + 1`` is ``random * min(5, 0.05 * 2**n)`` seconds ("full jitter", Marc Brooker, "Exponential
Backoff And Jitter", AWS Architecture Blog, 2015). Worked: before the fourth try (n = 3) up to 0.4 s.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from ..storage.call import Call, Response
from .outcomes import outcome

FIRST_DELAY_SECONDS = 0.05
MAX_DELAY_SECONDS = 5.0
MAX_TRIES = 10
MAX_TRIES_IN_TIME = 60
"""Where there is a time at which to give up, that decides; this ends what takes no time."""


@dataclass(kw_only=True, slots=True)
class Tries:
    """The tries of one call: 10 of them, or as many as there is time for until ``give_up_at`` (monotonic seconds)."""

    call: Call
    give_up_at: float | None = None
    dice: Callable[[], float] = random.random
    made: int = 0
    maybe_applied: bool = field(default=False)

    def delay_after(self, error: Exception, *, now: float) -> float:
        """Seconds to wait before the next try.

        Raises:
            the mapped error: it is final, or the tries are used up.
        """
        found = outcome(self.call, error, earlier_maybe_applied=self.maybe_applied)
        self.maybe_applied = self.maybe_applied or found.maybe_applied
        delay = self._next_delay()
        late = self.give_up_at is not None and now + delay > self.give_up_at
        final = found.maybe_applied and not self.call.repeatable
        used_up = self.made >= (MAX_TRIES if self.give_up_at is None else MAX_TRIES_IN_TIME)
        if final or not found.transient or used_up or late:
            raise found.error from error
        return delay

    def cut_off(self) -> bool:
        """A try was given up on while its request was under way; whether there may be another."""
        self.maybe_applied = True
        self.made += 1
        return self.call.repeatable and self.made < MAX_TRIES

    def leftovers(self, reply: Response, *, now: float) -> float | None:
        """Seconds to wait before sending what a batch left over; ``None`` when there is nothing (more) to send.

        After it the call holds the leftovers only, and a reply with leftovers is final.
        """
        left = {table: items for table, items in (reply.get("UnprocessedItems") or {}).items() if items}
        if not left or self.call.operation != "BatchWriteItem":
            return None
        delay = self._next_delay()
        if self.made >= MAX_TRIES or (self.give_up_at is not None and now + delay > self.give_up_at):
            return None
        self.call = replace(self.call, params={**self.call.params, "RequestItems": left})
        return delay

    def _next_delay(self) -> float:
        delay: float = self.dice() * min(MAX_DELAY_SECONDS, FIRST_DELAY_SECONDS * 2**self.made)
        self.made += 1
        return delay
