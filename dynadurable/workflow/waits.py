"""Waiting: for a time, for something that the run is told, for a condition to come true."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from ..errors import ConfigurationError
from ..model import codec
from ..model.failure import Failure
from ..model.history import Past
from ..model.instant import clamp_delay
from ..model.outcome import CALLBACK_FAILED, CHILD_ENDED, STEP_FAILED, TIMED_OUT, facts_of, failures_value, kinds_of
from ..model.record import BEGAN, DONE, FAILED, Record
from ..model.retry import Retry
from ..storage.signals import BEAT, OK, Signal, topic
from .execution import SOON_MS, Execution
from .steps import StepBody, StepCall, captured, encoded, until

_MILLISECOND = timedelta(milliseconds=1)
STATE_PARAMETER = "state"


def milliseconds(duration: timedelta, what: str) -> int:
    """A duration as given at the API, in whole milliseconds, rounded up."""
    return -(-clamp_delay(duration, what) // _MILLISECOND)


# --- time -----------------------------------------------------------------------------------------


async def sleep(execution: Execution, past: Past, wake_ms: Callable[[], int]) -> Record:
    """Until that time. It is asked for and recorded when the sleep is first come to, and holds from then on."""
    if past.progress is None:
        execution.note(execution.entry(past, BEGAN, facts={"wake": wake_ms()}))
    assert past.progress is not None
    recorded_ms = int(past.progress.facts["wake"])
    await until(execution, recorded_ms)
    end = execution.entry(past, DONE, at_ms=recorded_ms)
    execution.note(end)  # nothing depends on it: the wake time is recorded
    return end


# --- what the run is told -------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class Awaited:
    """What is waited for: ``topic`` as it stands in the run, ``what`` as a reader calls it."""

    topic: str
    what: str
    timeout_ms: int | None = None
    heartbeat_ms: int | None = None
    beats: str = ""
    """Where the heartbeats of a callback lie."""


def begun(execution: Execution, past: Past, awaited: Awaited) -> Record:
    """Note when the wait began, and so when it will be over; gives that record."""
    if past.progress is None:
        now_ms = execution.now_ms()
        facts: dict[str, Any] = {}
        if awaited.timeout_ms is not None:
            facts["until"] = now_ms + awaited.timeout_ms
        if awaited.heartbeat_ms is not None:
            facts["beat"] = awaited.heartbeat_ms
        execution.note(execution.entry(past, BEGAN, facts=facts))
    assert past.progress is not None
    return past.progress


async def told(execution: Execution, past: Past, awaited: Awaited) -> Record:
    """Until the run is told this, or the time is over; gives the record of the outcome."""
    progress = begun(execution, past, awaited)
    signal = await execution.signal(awaited.topic)
    if signal is not None:
        end = outcome_of(execution, past, awaited, signal)
        await execution.record(end)
        return end
    until_ms, what = await _deadline(execution, progress, awaited)
    if until_ms is None or until_ms > execution.now_ms():
        execution.park(wake_ms=until_ms, topics=[awaited.topic])
    end = execution.entry(past, FAILED, facts=facts_of(TIMED_OUT, what=what))
    await execution.record(end)  # before anything is done about it: a signal may still come
    return end


def outcome_of(execution: Execution, past: Past, awaited: Awaited, signal: Signal) -> Record:
    """What the signal means to the operation that waited for it."""
    if signal.outcome == OK:
        return execution.told(past, awaited.topic, signal, DONE, {})
    if awaited.beats:
        return execution.told(past, awaited.topic, signal, FAILED, facts_of(CALLBACK_FAILED))
    facts = facts_of(CHILD_ENDED, run=awaited.what, state=signal.outcome)
    return execution.told(past, awaited.topic, signal, FAILED, facts)


async def _deadline(execution: Execution, progress: Record, awaited: Awaited) -> tuple[int | None, str]:
    """When the wait is over, and what did not come by then."""
    facts = progress.facts
    until_ms: int | None = facts.get("until")
    if "beat" not in facts:
        return until_ms, awaited.what
    last = await execution.signal(awaited.beats)
    beat_ms = (progress.at_ms if last is None else last.at_ms) + int(facts["beat"])
    if until_ms is None or beat_ms < until_ms:
        return beat_ms, f"a heartbeat of {awaited.what}"
    return until_ms, awaited.what


def beat_topic(name: str) -> str:
    """Where a callback's heartbeats lie."""
    return topic(BEAT, name)


# --- a condition ----------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class NotYet:
    """Returned by the function of ``ctx.wait_for``: not yet true; ``state`` is given to its next call."""

    state: Any = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Polling:
    """How often a condition is looked at, and for how long."""

    every: Callable[[int], timedelta]
    timeout_ms: int | None

    @classmethod
    def of(cls, every: timedelta | Retry, timeout: timedelta | None) -> Polling:
        """``every``: always the same wait, or growing ones as a ``Retry`` says.

        Raises:
            ConfigurationError: neither.
        """
        timeout_ms = None if timeout is None else milliseconds(timeout, "timeout")
        if isinstance(every, Retry):
            return cls(every=lambda polls: every.delay_before(polls, random=0.0), timeout_ms=timeout_ms)
        wait = clamp_delay(every, "every", error=ConfigurationError)
        return cls(every=lambda _: wait, timeout_ms=timeout_ms)


@dataclass(frozen=True, kw_only=True, slots=True)
class Polled:
    """How far polling has come: the state for the next call, and what it failed with since it last did not."""

    state: Mapping[str, Any]
    failures: Sequence[Failure] = ()

    def to_value(self, name: str) -> bytes:
        return encoded([dict(self.state), [one.brief().to_record() for one in self.failures]], name)

    @classmethod
    def from_value(cls, value: bytes | None) -> Polled:
        state, failures = codec.decode(value) if value else ({}, [])
        return cls(state=state, failures=[Failure.from_record(one) for one in failures])


async def condition(
    execution: Execution, past: Past, call: StepCall, polling: Polling, initial: Mapping[str, Any]
) -> Record:
    """Call the function until what it returns is true; parks in between. Errors are retried as those of a step."""
    if past.progress is None:
        facts: dict[str, Any] = {"next": 0}
        if polling.timeout_ms is not None:
            facts["until"] = execution.now_ms() + polling.timeout_ms
        value = Polled(state=initial).to_value(call.name)
        execution.note(execution.entry(past, BEGAN, facts=facts, value=value))
    while True:
        assert past.progress is not None
        await until(execution, int(past.progress.facts["next"]))
        execution.check()
        await execution.settle_waits()
        record = await _polled(execution, past, past.progress, call, polling)
        if record.is_end:
            await execution.record(record)
            return record
        await _pause(execution, record)


async def _polled(execution: Execution, past: Past, before: Record, call: StepCall, polling: Polling) -> Record:
    """Call it once; the record of what came of it."""
    polled, polls = Polled.from_value(before.value), before.tries + 1
    try:
        value = await StepBody(execution, call.bound(**polled.state), call.name, call.timeout)
        if value and not isinstance(value, NotYet):
            return execution.entry(past, DONE, tries=polls, value=encoded(value, call.name))
        state = {STATE_PARAMETER: value.state} if isinstance(value, NotYet) else polled.state
        after, delay = Polled(state=state), polling.every(polls)
        data = after.to_value(call.name)
    except Exception as error:  # noqa: BLE001 - whatever a body raises is an outcome of the operation
        failures = captured(execution, polled.failures, error, polls)
        retry_after = call.retry.delay_after(error, len(polled.failures) + 1, random=execution.engine.dice())
        if retry_after is None:
            facts = facts_of(STEP_FAILED, kinds=kinds_of(error))
            return execution.entry(past, FAILED, tries=polls, value=failures_value(failures), facts=facts)
        after, delay = Polled(state=polled.state, failures=failures), retry_after
        data = after.to_value(call.name)
    now_ms, until_ms = execution.now_ms(), before.facts.get("until")
    if until_ms is not None and now_ms >= until_ms:
        facts = facts_of(TIMED_OUT, what=f"condition {call.name!r}")
        return execution.entry(past, FAILED, tries=polls, facts=facts)
    next_ms = now_ms + delay // _MILLISECOND
    next_ms = next_ms if until_ms is None else min(next_ms, until_ms)
    return execution.entry(past, BEGAN, tries=polls, facts={**before.facts, "next": next_ms}, value=data)


async def _pause(execution: Execution, record: Record) -> None:
    """Record when it is looked at next: with the write that parks, or at once if that is in a moment."""
    if int(record.facts["next"]) - execution.now_ms() > SOON_MS:
        execution.note(record)
    else:
        await execution.record(record)
