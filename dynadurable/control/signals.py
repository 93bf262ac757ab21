"""Telling live workflows something from outside, events and callbacks: the plans, and the two shells over them."""

from __future__ import annotations

from typing import Any

from ..errors import InputRefusedError, RunUnknownError
from ..model import codec
from ..model.token import CallbackToken
from ..operations import Operations
from ..storage import requests, runs, signals
from ..storage.items import Run
from ..storage.keys import check_name, run_partition
from ..storage.signals import BAD, BEAT, CALLBACK, EVENT, OK, Signal, topic
from .steppers import AioStepper, Stepper

MAX_VALUE_BYTES = 300_000
MAX_REASON_CHARACTERS = 2_000


class SignalPlans:
    """What can be told to a run."""

    def __init__(self, operations: Operations) -> None:
        self._operations = operations
        self._items = operations.items
        self._clock = operations.clock

    async def send_event(self, run_id: str, name: str, value: Any) -> bool:
        """Tell a run of an event; whether this value is the one that counts.

        Raises:
            RunUnknownError: there is no such run, or it is no workflow.
            InputRefusedError: the value cannot be stored.
        """
        data = _encoded(value, f"the value of event {name!r}")
        check_name("an event's name", name)
        run = await self._workflow(run_id)
        return await self._tell(run_id, run, topic(EVENT, name), data, OK)

    async def complete(self, token: str, value: Any) -> bool:
        """Complete a callback; whether this outcome is the one that counts."""
        data = _encoded(value, "the value of the callback")
        return await self._answer(token, data, OK)

    async def fail(self, token: str, reason: str) -> bool:
        """Report that what the callback stands for has failed; whether this outcome is the one that counts."""
        if not isinstance(reason, str):
            raise InputRefusedError(f"the reason of a failure is a text, not {reason!r:.100}")
        return await self._answer(token, codec.encode(reason[:MAX_REASON_CHARACTERS], path="reason"), BAD)

    async def heartbeat(self, token: str) -> bool:
        """Say that the callback is being worked on; false if nobody waits for it any more."""
        said = CallbackToken.from_text(token)
        run = await self._of_token(said)
        if run is None or await signals.read(self._items, run, [topic(CALLBACK, said.name)]):
            return False
        beat = self._items.page(
            pk=run_partition(self._items.schema, said.run_id),
            sk=signals.sort_key(said.journal_id, topic(BEAT, said.name)),
            outcome=OK,
            at_ms=self._clock.now_ms(),
        )
        await requests.put(beat)
        return True

    async def _answer(self, token: str, data: bytes, outcome: str) -> bool:
        said = CallbackToken.from_text(token)
        run = await self._of_token(said)
        return run is not None and await self._tell(said.run_id, run, topic(CALLBACK, said.name), data, outcome)

    async def _tell(self, run_id: str, run: Run, topic_: str, data: bytes, outcome: str) -> bool:
        if not run.is_live:
            return False
        now_ms = self._clock.now_ms()
        signal = Signal(value=data, outcome=outcome, at_ms=now_ms)
        counts = await signals.tell(self._items, run_id, run.journal_id, topic_, signal, now_ms=now_ms)
        self._operations.wake()
        return counts

    async def _workflow(self, run_id: str) -> Run:
        run = await runs.read(self._items, run_id)
        if run is None or runs.is_expired(run, self._clock.now_ms()):
            raise RunUnknownError(run_id, "there is no such workflow, or it has ended and the time to keep it is over")
        if not run.workflow:
            raise RunUnknownError(run_id, f"{run.job!r} is no workflow, so nothing in it waits for events")
        return run

    async def _of_token(self, said: CallbackToken) -> Run | None:
        """The live run that made the token; ``None`` if it has ended."""
        run = await runs.read(self._items, said.run_id)
        return run if run is not None and run.is_live and run.journal_id == said.journal_id else None


def _encoded(value: Any, what: str) -> bytes:
    data = codec.encode(value, path="value")
    codec.check_size(data, what, MAX_VALUE_BYTES)
    return data


class Callbacks:
    """``app.callbacks``: for the outside systems that a workflow has given a token (``ctx.callback``)."""

    def __init__(self, plans: SignalPlans, run: Stepper) -> None:
        self._plans = plans
        self._run = run

    def complete(self, token: str, value: Any = None) -> bool:
        """Complete it; the workflow is given the value. False if it had another outcome first, or nobody waits.

        >>> app.callbacks.complete(token, {"approved": True})  # doctest: +SKIP

        Raises:
            InputRefusedError: not a token, or a value that cannot be stored.
        """
        return self._run(self._plans.complete(token, value))

    def fail(self, token: str, reason: str) -> bool:
        """Let it fail; the workflow is given a ``CallbackFailedError``. Returns and raises as ``complete``."""
        return self._run(self._plans.fail(token, reason))

    def heartbeat(self, token: str) -> bool:
        """Say that it is being worked on: its ``heartbeat`` time begins anew; false if nobody waits any more."""
        return self._run(self._plans.heartbeat(token))


class AioCallbacks:
    """``app.aio.callbacks``: ``Callbacks`` for event loops."""

    def __init__(self, plans: SignalPlans, run: AioStepper) -> None:
        self._plans = plans
        self._run = run

    async def complete(self, token: str, value: Any = None) -> bool:
        """Complete it; see ``Callbacks.complete``."""
        return await self._run(self._plans.complete(token, value))

    async def fail(self, token: str, reason: str) -> bool:
        """Let it fail; see ``Callbacks.fail``."""
        return await self._run(self._plans.fail(token, reason))

    async def heartbeat(self, token: str) -> bool:
        """Say that it is being worked on; see ``Callbacks.heartbeat``."""
        return await self._run(self._plans.heartbeat(token))
