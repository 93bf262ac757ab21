"""The workflow's own DynamoDB writes, their record and the fence check, in one transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import (
    InputRefusedError,
    Interrupted,
    RequestRefusedError,
    StoreUnavailableError,
    TransactionFailedError,
)
from ..model import codec, failure
from ..model.history import Past
from ..model.outcome import REFUSED, STEP_FAILED, facts_of, failures_value, kinds_of, reasons_value
from ..model.record import DONE, FAILED, Record, pack
from ..storage import requests, runs
from ..storage.call import Call
from ..storage.keys import RUN_SORT_KEY
from ..worker.held import LOST
from .execution import Execution
from .halt import JournalLost

MAX_WRITES = 99
"""One of the hundred elements of a transaction is the record."""
_VERBS = {"Put", "Update", "Delete", "ConditionCheck"}
_UNMET = "ConditionalCheckFailed"


def checked(writes: Sequence[Any]) -> list[Mapping[str, Any]]:
    """The writes, if they can be part of a transaction; lists of them (``transact_items``) are taken apart.

    Raises:
        InputRefusedError: none, too many, or not elements of ``transact_write_items``.
    """
    flat: list[Mapping[str, Any]] = []
    for write in writes:
        flat.extend(write if isinstance(write, list) else [write])
    if not 1 <= len(flat) <= MAX_WRITES:
        raise InputRefusedError(f"a commit takes 1 to {MAX_WRITES} writes, not {len(flat)}")
    for write in flat:
        if not isinstance(write, Mapping) or len(write) != 1 or not write.keys() <= _VERBS:
            raise InputRefusedError(
                f"a commit takes elements of transact_write_items, such as {{'Put': {{...}}}}, not {write!r:.200}"
            )
    return flat


async def commit(execution: Execution, past: Past, writes: Sequence[Mapping[str, Any]]) -> Record:
    """All of these writes and the record that they were done, or nothing; gives the record of what came of it."""
    end = execution.entry(past, DONE)
    try:
        async with execution.turn():
            await _write(execution, past, writes, end)
    except TransactionFailedError as error:
        value = reasons_value(error.reasons[: len(writes)])
        end = execution.entry(past, FAILED, value=value, facts=facts_of(REFUSED))
    except RequestRefusedError as error:
        engine = execution.engine
        failed = failure.capture(
            error, attempt=1, build=engine.build, failed_at_ms=execution.now_ms(), worker=engine.worker_id
        )
        facts = facts_of(STEP_FAILED, kinds=kinds_of(error))
        end = execution.entry(past, FAILED, value=failures_value([failed]), facts=facts)
    else:
        execution.history.add(end)
        return end
    await execution.record(end)
    return end


async def _write(execution: Execution, past: Past, writes: Sequence[Mapping[str, Any]], end: Record) -> None:
    """The transaction.

    Raises:
        TransactionFailedError: a condition of the workflow's own was not met.
        RequestRefusedError: DynamoDB calls the request invalid.
    """
    items, writer, mark = execution.items, execution.writer, execution.attempt.mark
    noted = execution.drain()
    tail, page, actions = await writer.prepared([*noted, end])
    held = runs.held_run(items, mark) & writer.as_read()
    actions = [*actions, items.run.fence.set(mark.fence), *execution.changes()]
    record = requests.update(items.run, writer.run.pk, RUN_SORT_KEY, actions, held)
    elements = [*writes, requests.transact_element(record)]
    token = codec.canonical_digest([execution.held.run_id, execution.journal_id, *past.identity, int(mark.fence)])
    execution.sequence.append(end)
    try:
        await Call(operation="TransactWriteItems", params={"TransactItems": elements, "ClientRequestToken": token})
    except StoreUnavailableError as error:
        execution.end(JournalLost(error))
    except (TransactionFailedError, RequestRefusedError) as error:
        stands = await runs.read(items, execution.held.run_id)
        if stands is None or not runs.is_held(stands, mark):
            execution.held.tell(LOST)
            execution.end(Interrupted(LOST))
        if (stands.tail, stands.page) != (pack(tail), page):
            execution.sequence.remove(end)
            execution.give_back(noted)
            if isinstance(error, TransactionFailedError) and not _is_users(error, len(writes)):
                execution.end(JournalLost(error))
            raise
    writer.written(tail, page)


def _is_users(error: TransactionFailedError, count: int) -> bool:
    """Whether it failed because of the workflow's own writes, and not because the store was busy."""
    return any(
        reason.code not in ("None", "TransactionConflict", "ThrottlingError") for reason in error.reasons[:count]
    )
