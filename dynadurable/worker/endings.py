"""Carries a verdict out: the plans with which an attempt ends, for a self-contained mark and for a run item."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from pynamodb.expressions.update import Action

from ..errors import InputRefusedError, LeaseLostError, NewerFormatError
from ..model import codec, failure
from ..model.failure import Failure
from ..model.job import Job
from ..model.retention import to_seconds
from ..storage import ends, journal, marks, requests, runs
from ..storage.births import place_of, promoted, ttl_seconds
from ..storage.items import CANCELLED, DEAD, LIVE, SUCCEEDED, DeadLetter, Item, Mark, Run
from ..storage.keys import dead_partition, mark_sort_key, page_sort_key, run_partition
from .engine import Engine
from .held import Held
from .verdict import Bury, Cancel, HandBack, Later, LetGo, Succeed, TryAgain, Verdict

MAX_RESULT_BYTES = 300_000
INLINE_RESULT_BYTES = 4_096
"""A larger result gets an item of its own, so that what else a run item may hold always fits beside it."""
_MILLISECOND = timedelta(milliseconds=1)


@dataclass(kw_only=True, slots=True)
class Attempt:
    """An attempt whose body has ended, or never began. ``run`` is as it was last seen."""

    engine: Engine
    held: Held
    mark: Mark
    run: Run | None
    job: Job[Any, Any] | None
    """``None`` where this process does not know the job: then it can only be handed back or cancelled."""
    facts: dict[str, Any] = field(default_factory=dict)
    """What a workflow has its run note when it dies."""

    @property
    def number(self) -> int:
        """Which start of the body this is; of a workflow, since it last got on."""
        base = 0 if self.run is None else int(self.run.base or 0)
        return int(self.mark.attempt) - base

    @property
    def run_key(self) -> str:
        return run_partition(self.engine.items.schema, self.held.run_id)


async def carry_out(attempt: Attempt, verdict: Verdict) -> str:
    """Write the end of an attempt; gives the event that it was.

    A run that was cancelled before it could be told so is not tried again and does not die: it ends as cancelled.

    Raises:
        LeaseLostError: the run is somebody else's; nothing was written.
    """
    try:
        return await _carry_out(attempt, verdict)
    except LeaseLostError:
        if isinstance(verdict, Cancel) or not await was_cancelled(attempt):
            raise
    if attempt.run is not None and attempt.run.has_undo:  # its compensations come first, by whoever claims it next
        await marks.hand_back(attempt.engine.items, attempt.mark)
        return "handed back"
    await _cancel(attempt)
    return "cancelled"


async def was_cancelled(attempt: Attempt) -> bool:
    """Whether a write of ours was refused for that reason alone: we still hold the mark, and it or the run says so."""
    items, mark = attempt.engine.items, attempt.mark
    stands = await marks.read(items, mark.pk, mark.sk)
    if stands is None or stands.token != mark.token:
        return False
    try:
        run = None if attempt.run is None else await runs.read(items, attempt.held.run_id)
    except NewerFormatError:  # it is a newer version's business now
        return False
    return bool(stands.cancelled or (run is not None and run.cancelled))


async def _carry_out(attempt: Attempt, verdict: Verdict) -> str:
    match verdict:
        case Succeed(value=value):
            return await _succeed(attempt, value)
        case TryAgain(error=error, delay=delay):
            due_ms = attempt.engine.clock.now_ms() + delay // _MILLISECOND
            await _again(attempt, due_ms=due_ms, failed=_captured(attempt, error))
            return "retrying"
        case Later(delay=delay):
            await _again(attempt, due_ms=attempt.engine.clock.now_ms() + delay // _MILLISECOND, failed=None)
            return "snoozed"
        case Bury(error=error, failure=failed):
            await bury(attempt, failed or _captured(attempt, error))
            return "dead"
        case Cancel():
            await _cancel(attempt)
            return "cancelled"
        case HandBack(refund=refund, delay=delay):
            not_before_ms = attempt.engine.clock.latest_ms() + delay // _MILLISECOND if delay else None
            await marks.hand_back(
                attempt.engine.items, attempt.mark, refund=1 if refund else 0, not_before_ms=not_before_ms
            )
            return "handed back"
        case LetGo():
            return "lost"
    return verdict.event


async def _succeed(attempt: Attempt, value: Any) -> str:
    items, run = attempt.engine.items, attempt.run
    if run is None:
        await marks.finish(items, attempt.mark)
        return "succeeded"
    model, now_ms = items.run, attempt.engine.clock.now_ms()
    changes: list[Action] = [model.ended_ms.set(now_ms), model.attempts.set(int(attempt.mark.attempt))]
    ttl = ttl_seconds(now_ms, run)
    if run.keep_seconds is not None:
        try:
            result = codec.encode(value, path="result")
            codec.check_size(result, "the result", MAX_RESULT_BYTES)
        except InputRefusedError as error:  # the same body would return the same again: no further attempt
            await bury(attempt, _captured(attempt, error))
            return "dead"
        changes.append(await _result_kept(attempt, run, result, ttl=ttl))
    changes += [model.ttl.set(ttl), *journal.without_history(items, run)]
    await ends.end(items, attempt.mark, attempt.run_key, changes, state=SUCCEEDED)
    return "succeeded"


async def _result_kept(attempt: Attempt, run: Run, result: bytes, *, ttl: int) -> Action:
    """What the run notes of its result: a small one itself, of a large one the page it was put into.

    The page is put first, under this claim's own fence. Should the end not be recorded it is garbage, and expires.
    """
    items = attempt.engine.items
    if len(result) <= INLINE_RESULT_BYTES:
        return items.run.result.set(result)
    key = page_sort_key(run.generation, int(attempt.mark.fence), "result")
    await requests.put(items.page(pk=attempt.run_key, sk=key, body=result, ttl=ttl))
    return items.run.result_page.set(key)


async def _again(attempt: Attempt, *, due_ms: int, failed: Failure | None) -> None:
    """Retry or snooze: the run moves to another mark. A self-contained mark is turned into a run for that."""
    engine, mark, run = attempt.engine, attempt.mark, attempt.run
    items, model = engine.items, engine.items.run
    attempts = int(mark.attempt) - (1 if failed is None else 0)
    if run is None:
        born = _promoted(attempt, due_ms=due_ms, state=LIVE)
        born.attempts = attempts
        born.snoozes = 1 if failed is None else 0
        born.failures = None if failed is None else encode_failures([failed])
        await _convert(attempt, born, runs.pointer_to(items, born))
        return
    changes: list[Action] = [model.attempts.set(attempts)]
    if failed is None:
        changes.append(model.snoozes.set(model.snoozes + 1))
    else:
        failures: Sequence[Failure] = failure.history(decode_failures(run), failed)
        if run.workflow:  # each of its steps is billed by the whole of its run item
            failures = [one.brief() for one in failures]
        changes.append(model.failures.set(encode_failures(failures)))
    if attempt.held.cursor is not None:
        changes.append(model.cursor.set(attempt.held.cursor))
    sort_key = mark_sort_key(due_ms, attempt.held.run_id, place=place_of(run.generation, int(run.rev) + 1))
    await runs.move(items, mark, attempt.run_key, changes, due_sort_key=sort_key)


async def bury(attempt: Attempt, failed: Failure) -> None:
    """No further attempt: the run ends as a dead letter, with everything that is needed to understand and replay it."""
    engine, run = attempt.engine, attempt.run
    items, now_ms = engine.items, engine.clock.now_ms()
    keep_failed = attempt.job.keep_failed if attempt.job else None
    ttl = None if keep_failed is None else now_ms // 1000 + (to_seconds(keep_failed) or 0)
    ended = run if run is not None else _promoted(attempt, due_ms=now_ms, state=DEAD)
    letter_key = mark_sort_key(now_ms, attempt.held.run_id)
    letter = items.dead_letter(
        pk=dead_partition(items.schema, ended.queue, int(ended.shard)),
        sk=letter_key,
        job=ended.job,
        fingerprint=failed.fingerprint,
        error=_headline(failed),
        build=engine.build,
        attempts=failed.attempt,
        generation=ended.generation,
        ttl=ttl,
    )
    facts: dict[str, Any] = {
        "attempts": failed.attempt,
        "failures": encode_failures(failure.history(decode_failures(ended), failed)),
        "ended_ms": now_ms,
        "dead_letter": letter_key,
        "fingerprint": failed.fingerprint,
        "error": _headline(failed),
        "build": engine.build,
        "cursor": attempt.held.cursor,
        "ttl": ttl,
        **attempt.facts,
    }
    await _end(attempt, ended, facts, state=DEAD, letter=letter)


async def _cancel(attempt: Attempt) -> None:
    now_ms = attempt.engine.clock.now_ms()
    ended = attempt.run if attempt.run is not None else _promoted(attempt, due_ms=now_ms, state=CANCELLED)
    facts = {
        "attempts": int(attempt.mark.attempt),
        "ended_ms": now_ms,
        "cursor": attempt.held.cursor,
        "ttl": ttl_seconds(now_ms, ended),
    }
    await _end(attempt, ended, facts, state=CANCELLED, letter=None)


async def _end(attempt: Attempt, ended: Run, facts: dict[str, Any], *, state: str, letter: DeadLetter | None) -> None:
    items, model = attempt.engine.items, attempt.engine.items.run
    known = {name: value for name, value in facts.items() if value is not None}
    if attempt.run is None:
        for name, value in known.items():
            setattr(ended, name, value)
        await _convert(attempt, ended, *([letter] if letter is not None else []))
        return
    changes = [getattr(model, name).set(value) for name, value in known.items()]
    if state == CANCELLED:
        changes += journal.without_history(items, ended)
    await ends.end(items, attempt.mark, attempt.run_key, changes, state=state, dead_letter=letter)


async def _convert(attempt: Attempt, run: Run, *others: Item) -> None:
    items = attempt.engine.items
    release = marks.held_by(items, attempt.mark)
    if run.state != CANCELLED:
        release = release & items.mark.cancelled.does_not_exist()
    await runs.convert(items, attempt.mark, run, others, release=release, token=run.generation)


def _promoted(attempt: Attempt, *, due_ms: int, state: str) -> Run:
    """The run item that takes over what a self-contained mark held."""
    engine, mark = attempt.engine, attempt.mark
    generation = engine.ids.make(engine.clock.now_ms())
    run = promoted(engine.items, mark, attempt.held.run_id, generation, due_ms, state)
    run.cursor = attempt.held.cursor
    return run


def encode_failures(failures: Sequence[Failure]) -> bytes:
    return codec.encode([one.to_record() for one in failures], path="failures")


def decode_failures(run: Run) -> list[Failure]:
    """The failures of a run so far, oldest first, bounded."""
    if not run.failures:
        return []
    return [Failure.from_record(record) for record in codec.decode(run.failures)]


def _captured(attempt: Attempt, error: BaseException) -> Failure:
    engine = attempt.engine
    return failure.capture(
        error,
        attempt=attempt.number,
        build=engine.build,
        failed_at_ms=engine.clock.now_ms(),
        worker=engine.worker_id,
    )


def _headline(failed: Failure) -> str:
    return f"{failed.type}: {failed.message}"[:200]
