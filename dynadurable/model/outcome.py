"""What the end of an operation gives to the workflow's code: a value, or an error that is the same on every replay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import (
    CallbackFailedError,
    CancellationReason,
    ChildFailedError,
    CommitRefusedError,
    StepFailedError,
    StepInterruptedError,
    WaitTimeoutError,
    WorkflowError,
)
from . import codec
from .failure import Failure
from .record import FAILED, Identity, Record
from .trace import class_name

WHY = "why"
"""The fact that says which kind of error a failed record stands for."""
STEP_FAILED, INTERRUPTED, TIMED_OUT, CHILD_ENDED, CALLBACK_FAILED, REFUSED = (
    "failed",
    "interrupted",
    "timeout",
    "child",
    "callback",
    "refused",
)
MAX_KINDS = 8
MAX_REASON_BYTES = 1_000


def value_of(record: Record) -> Any:
    """The recorded value, decoded anew each time: nobody can change what another one is given.

    Raises:
        WorkflowError: the operation has failed.
        PayloadUnreadableError: the value cannot be decoded by today's code.
    """
    if record.phase == FAILED:
        raise error_of(record)
    return None if record.value is None else codec.decode(record.value)


def error_of(record: Record) -> WorkflowError:
    """The error that a failed record stands for. It knows which operation it belongs to (``identity_of``)."""
    error = _error(record)
    error.__dict__["_dynadurable_identity"] = record.identity
    return error


def identity_of(error: BaseException) -> Identity | None:
    """Which operation an error was given for; ``None`` for errors of other origin."""
    found = error.__dict__.get("_dynadurable_identity")
    return found if isinstance(found, Identity) else None


def _error(record: Record) -> WorkflowError:
    name, facts = _name(record.identity), record.facts
    match facts.get(WHY):
        case "interrupted":
            return StepInterruptedError(name)
        case "timeout":
            return WaitTimeoutError(str(facts.get("what", name)))
        case "child":
            return ChildFailedError(facts["run"], state=facts["state"], failure=_failure(record))
        case "callback":
            return CallbackFailedError(name, str(codec.decode(record.value)) if record.value else "")
        case "refused":
            return CommitRefusedError(name, _reasons(record))
        case _:
            failures = _failures(record)
            last = failures[-1] if failures else Failure(type="unknown", message="")
            return StepFailedError(name, last, attempts=failures, kinds=facts.get("kinds", ()), name_of=class_name)


def _name(identity: Identity) -> str:
    return f"{identity.name}#{identity.number}" if identity.number > 1 else identity.name


# --- what is recorded -----------------------------------------------------------------------------


def failures_value(failures: Sequence[Failure]) -> bytes:
    """The failures of a step, oldest first, as a value to record."""
    return codec.encode([one.to_record() for one in failures], path="failures")


def kinds_of(error: BaseException) -> list[str]:
    """The names of the error's class and of its bases, the nearest first."""
    ours = [kind for kind in type(error).__mro__ if kind not in (object, BaseException)]
    return [class_name(kind) for kind in ours[:MAX_KINDS]]


def reasons_value(reasons: Sequence[CancellationReason]) -> bytes:
    """Why a transaction was refused, as a value to record; the items that stood in the way are left out."""
    return codec.encode([[one.code, one.message[:MAX_REASON_BYTES]] for one in reasons], path="reasons")


def _failures(record: Record) -> list[Failure]:
    return [Failure.from_record(one) for one in codec.decode(record.value)] if record.value else []


def _failure(record: Record) -> Failure | None:
    return Failure.from_record(codec.decode(record.value)) if record.value else None


def _reasons(record: Record) -> list[CancellationReason]:
    found = codec.decode(record.value) if record.value else []
    return [CancellationReason(code=code, message=message) for code, message in found]


def facts_of(why: str, **others: Any) -> Mapping[str, Any]:
    """The facts of a failed record."""
    return {WHY: why, **others}
