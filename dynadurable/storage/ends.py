"""Plans about a run's end: record it, then do what it owes, then let its mark go.

What an end owes follows from the run item alone, and is harmless when done twice: whoever finds the mark of an ended
run does it again (``settle.py``).
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from pynamodb.expressions.update import Action

from ..errors import ConditionFailedError, ItemUnreadableError
from ..model import codec
from ..model.failure import Failure
from . import formats, journal, lookup, marks, requests, runs, signals
from .items import DEAD, SUCCEEDED, DeadLetter, Items, Mark, Run
from .keys import dead_partition, parse_mark_sort_key
from .signals import CHILD, OK, Signal, topic


async def end(
    items: Items,
    mark: Mark,
    run_key: str,
    changes: Sequence[Action],
    *,
    state: str,
    dead_letter: DeadLetter | None = None,
) -> Run:
    """End the run, then do what its end owes, then delete its mark.

    Raises:
        LeaseLostError: the run has another holder, or is to die and was cancelled meanwhile; nothing was changed.
    """
    model = items.run
    actions = [*changes, model.state.set(state), model.fence.set(mark.fence), model.rev.set(model.rev + 1)]
    only_if = model.cancelled.does_not_exist() if state == DEAD else None
    run = await runs.update_held(
        items, mark, run_key, actions, applied=lambda stands: stands.state == state, only_if=only_if
    )
    if dead_letter is not None:
        await requests.put(dead_letter)
    try:
        await _pay_the_rest(items, run)
    except ItemUnreadableError as error:  # a parent, or pages: whoever claims the mark next sees to it
        formats.warn(error)
        return run
    await marks.drop(items, mark)
    return run


async def pay(items: Items, run: Run) -> None:
    """Everything that an end owes, again or for the first time."""
    if run.state == DEAD and run.dead_letter is not None:
        with contextlib.suppress(ConditionFailedError):  # it is there
            await requests.put(letter_of(items, run), items.dead_letter.pk.does_not_exist())
    await _pay_the_rest(items, run)


async def _pay_the_rest(items: Items, run: Run) -> None:
    if run.parent:
        await _tell_parent(items, run)
    if run.workflow and run.ttl:
        await journal.expire(items, run)


async def _tell_parent(items: Items, run: Run) -> None:
    run_id = run_id_of(run)
    ended_ms = int(run.ended_ms or 0)
    value = await lookup.result_of(items, run, run_id) if run.state == SUCCEEDED else _reason(run)
    outcome = OK if run.state == SUCCEEDED else run.state
    news = Signal(value=value, outcome=outcome, at_ms=ended_ms)
    await signals.tell(items, run.parent, run.parent_journal, child_topic(run_id), news, now_ms=ended_ms)


def child_topic(run_id: str) -> str:
    """What a parent waits for: the end of that child. Short, for it stands in the parent's item."""
    return topic(CHILD, run_id.rpartition("@")[2])


def _reason(run: Run) -> bytes | None:
    """Why it died, without the tracebacks: those stay with the child."""
    records = codec.decode(run.failures) if run.failures else []
    return codec.encode(Failure.from_record(records[-1]).brief().to_record()) if records else None


def run_id_of(run: Run) -> str:
    """The id of a run, which its mark names too."""
    key = parse_mark_sort_key(run.mark)
    assert key is not None, f"{run.mark!r} is no mark's sort key"
    return key.run_id


def letter_of(items: Items, run: Run) -> DeadLetter:
    """The dead letter that a dead run names."""
    return items.dead_letter(
        pk=dead_partition(items.schema, run.queue, int(run.shard)),
        sk=run.dead_letter,
        job=run.job,
        attempts=run.attempts,
        generation=run.generation,
        build=run.build,
        fingerprint=run.fingerprint,
        error=run.error,
        ttl=run.ttl,
    )
