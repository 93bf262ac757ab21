"""Plans stepped with given replies: for turns that no store takes when it is asked to."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

from dynadurable.errors import CancellationReason, ConditionFailedError, TransactionFailedError
from dynadurable.storage.call import Call, Plan, Several, Work
from dynadurable.storage.items import Item, Items, Mark, Run, bind
from dynadurable.storage.keys import mark_sort_key, queue_partition, run_partition
from dynadurable.storage.schema import TableSchema
from dynadurable.workflow.steps import StepBody
from dynadurable.workflow.turn import ThreadTurn

ITEMS: Items = bind(TableSchema(table="shop"))
NOW_MS = 1_800_014_400_000
RUN_ID = "default~0~0mz0x5c00~01m8mb6acy0yv1spp7r6fm"
LIFE = "01m8mb6acy0yv1spp7r6fm"
DONE: dict[str, Any] = {}

Answer = dict[str, Any] | Exception


@dataclass
class Played:
    """What a plan came to, and what it has asked for."""

    result: Any = None
    error: Exception | None = None
    calls: list[Call] = field(default_factory=list)

    @property
    def operations(self) -> list[str]:
        return [call.operation for call in self.calls]


def play(plan: Plan[Any], *answers: Answer, by: Callable[[Call], Answer] | None = None) -> Played:
    """Step the plan: each request gets the next answer, or what ``by`` says of it.

    Work is done as far as it only waits, or holds more plans.
    """
    played, left = Played(), list(answers)

    def answer(call: Call) -> Answer:
        played.calls.append(call)
        if by is not None:
            return by(call)
        assert left, f"no answer is left for {call.operation}, after {played.operations}"
        return left.pop(0)

    with mock.patch.object(Call, "__await__", _answered), mock.patch.object(Work, "__await__", _answered):
        _step(plan, played, answer)
    assert not left, f"{len(left)} answers that nobody asked for, after {played.operations}"
    return played


def _answered(call: Any) -> Generator[Any, Any, Any]:
    """Raises an error where a driver's ``throw`` would, which coverage.py loses track of in Python 3.11.

    That goes on with the outer coroutines without telling a tracer that they are entered again.
    """
    reply = yield call
    if isinstance(reply, Exception):
        raise reply
    return reply


def _step(plan: Plan[Any], played: Played, answer: Callable[[Call], Answer]) -> None:
    reply: Any = None
    try:
        while True:
            step = plan.send(reply)
            if isinstance(step, Call):
                reply = answer(step)
            elif isinstance(step, Several):
                reply = [_of(one, answer) for one in step.plans]
            else:
                reply = _done(step)
    except StopIteration as stop:
        played.result = stop.value
    except Exception as error:  # noqa: BLE001 - whatever the plan raises is what is asked for
        played.error = error
    finally:
        plan.close()


def _done(work: Any) -> Any:
    """What a body gives, or raises; a turn is taken, and nobody waits."""
    if isinstance(work, ThreadTurn):
        work.perform()
    if not isinstance(work, StepBody):
        return None
    try:
        return work.perform()
    except Exception as error:  # noqa: BLE001 - as a driver hands it to the plan
        return error


def _of(plan: Plan[Any], answer: Callable[[Call], Answer]) -> Any:
    inner = Played()
    _step(plan, inner, answer)
    return inner.error or inner.result


# --- answers --------------------------------------------------------------------------------------


def found(item: Item) -> Answer:
    """A GetItem's."""
    return {"Item": item.serialize()}


def changed(item: Item) -> Answer:
    """An UpdateItem's that returns the whole."""
    return {"Attributes": item.serialize()}


def listed(*items: Item, more: bool = False) -> Answer:
    """A Query's."""
    last = {"LastEvaluatedKey": {"pk": {"S": "a"}, "sk": {"S": "b"}}} if more else {}
    return {"Items": [item.serialize() for item in items], **last}


def refused(stands: Item | None = None, *, ambiguous: bool = False) -> Exception:
    """The condition was not met; ``stands`` is what the store shows of the item. ``ambiguous``: after a lost reply."""
    return ConditionFailedError("UpdateItem", item=None if stands is None else stands.serialize(), ambiguous=ambiguous)


def cancelled(*reasons: CancellationReason | str, ambiguous: bool = False) -> Exception:
    """A transaction was cancelled; one reason for each element."""
    told = [CancellationReason(code=one, message="", item=None) if isinstance(one, str) else one for one in reasons]
    return TransactionFailedError("TransactWriteItems", reasons=told, ambiguous=ambiguous)


# --- items ----------------------------------------------------------------------------------------


def a_mark(**facts: Any) -> Mark:
    """A held pointer mark of the run."""
    given = {
        "pk": queue_partition(ITEMS.schema, "default", 0),
        "sk": mark_sort_key(NOW_MS, RUN_ID, place=f"{LIFE}.0"),
        "job": "work",
        "token": "mine",
        "fence": 1,
        "fence_placed": 0,
        "generation": LIFE,
        "placed_ms": NOW_MS,
        "lease_until_ms": NOW_MS + 30_000,
        "worker": "me",
    }
    return ITEMS.mark(**{**given, **facts})


def a_run(**facts: Any) -> Run:
    """A live run that names that mark."""
    given = {
        "pk": run_partition(ITEMS.schema, RUN_ID),
        "sk": "run",
        "job": "work",
        "queue": "default",
        "shard": 0,
        "input": b"x",
        "generation": LIFE,
        "mark": a_mark().sk,
        "created_ms": NOW_MS,
    }
    return ITEMS.run(**{**given, **facts})


def newer(item: Item) -> Item:
    """The same as a newer version of the library has written it."""
    item.version = 1_000
    return item
