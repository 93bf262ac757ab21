"""Every error that dynadurable raises, in one tree.

DynadurableError
├── ConfigurationError            something is set up wrongly: fix the code or the settings
│   ├── NameRefusedError          a job, queue, lease or schedule name that cannot be used
│   ├── TableMissingError         the table does not exist
│   ├── TableSchemaError          the table's keys are not the ones the app expects
│   ├── PermissionMissingError    AWS refused the request for lack of a permission
│   └── ExtraMissingError         an optional dependency is not installed
├── InputRefusedError             a value that was refused before anything was written
│   ├── PayloadRefusedError       cannot come back equal and of the same type
│   ├── PayloadTooLargeError      does not fit the item it belongs to
│   └── KeyRefusedError           a business key that is empty or not a string
├── PayloadUnreadableError        stored bytes that this version cannot decode
├── ItemUnreadableError           an item that something else has changed; it is left alone
│   └── NewerFormatError          an item was written by a newer version of dynadurable; it is left alone
├── KeyConflictError              the key is taken by a live run with another payload
├── EnqueueIncompleteError        some runs of a bulk enqueue were not stored
├── LeaseLostError                somebody else holds the lease now; this holder writes nothing more
│   └── LeaseBusyError            the lease is held by another owner
├── ScheduleUnknownError          there is no schedule of that name
├── ScheduleExistsError           there is a schedule of that name already
├── BodyCancelledError            an async body was cancelled, but not by its worker
├── RunError                      what asking for a run's result may say
│   ├── RunUnknownError           no such run, or it ended without keeping a result
│   ├── RunExpiredError           its result was kept and the time is over
│   ├── RunCancelledError         it ended as cancelled
│   ├── RunDeadError              it ended as a dead letter
│   └── RunNotFinishedError       it has not ended within the time given
├── WorkflowError                 see the workflow section below
│   ├── NonDeterminismError       replay asked for something else than was recorded
│   ├── NotReplayableError        a workflow used what cannot be replayed: timers, threads, the network
│   ├── StepFailedError           a step's recorded final error
│   ├── StepInterruptedError      an at-most-once step was interrupted; it may have happened
│   ├── ChildFailedError          a child run ended dead or cancelled
│   ├── CallbackFailedError       the outside system said that it failed
│   ├── WaitTimeoutError          an event or callback did not arrive in time
│   ├── BranchesFailedError       a map or parallel did not complete as asked for
│   └── CommitRefusedError        a condition of the workflow's own in a transaction was not met
├── StepTimeoutError              the body of a workflow's step took longer than it may
└── StoreError                    DynamoDB said no (raised into plans by the drivers)
    ├── ConditionFailedError      a condition was not met
    ├── TransactionFailedError    a transaction was cancelled; carries the reasons
    ├── RequestRefusedError       DynamoDB calls the request invalid; never retried
    └── StoreUnavailableError     throttled, unreachable or failing, after every retry

Raised *by* job bodies, to say how the run goes on:

Fail(Exception)                   permanent: no further attempt
Snooze(Exception)                 try again later, without using an attempt

Raised *into* job bodies; not an ``Exception``, so that ``except Exception`` cannot swallow it:

Interrupted(BaseException)        the worker stops, the lease is lost, or the run is cancelled
Suspended(BaseException)          a workflow is parked; the library catches it
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any


class DynadurableError(Exception):
    """Base of every error of this library."""


# --- set-up ---------------------------------------------------------------------------------------


class ConfigurationError(DynadurableError):
    """Something is set up wrongly; the message names the remedy."""


class NameRefusedError(ConfigurationError):
    """A name that cannot be used; the message says why."""


class TableMissingError(ConfigurationError):
    """The table does not exist."""


class TableSchemaError(ConfigurationError):
    """The table exists and has other keys than the app expects."""


class PermissionMissingError(ConfigurationError):
    """AWS refused a request for lack of a permission."""


class ExtraMissingError(ConfigurationError):
    """An optional dependency is not installed.

    >>> str(ExtraMissingError("aioboto3", extra="aio"))
    'aioboto3 is not installed; install it with: pip install "dynadurable[aio]"'
    """

    def __init__(self, package: str, *, extra: str) -> None:
        super().__init__(f'{package} is not installed; install it with: pip install "dynadurable[{extra}]"')
        self.package = package
        self.extra = extra


# --- values ---------------------------------------------------------------------------------------


class InputRefusedError(DynadurableError):
    """A value was refused before anything was written. Permanent: the same value is refused again."""


class PayloadRefusedError(InputRefusedError):
    """A value cannot come back equal and of the same type.

    ``path`` names the place inside the value, such as ``order.lines[3].price``.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class PayloadTooLargeError(InputRefusedError):
    """A value does not fit; carries ``size_bytes`` and ``limit_bytes``."""

    def __init__(self, what: str, *, size_bytes: int, limit_bytes: int) -> None:
        super().__init__(
            f"{what} takes {size_bytes:,} bytes, the limit is {limit_bytes:,} bytes; "
            "store it elsewhere and pass a reference"
        )
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes


class KeyRefusedError(InputRefusedError):
    """A business key is empty or not a string."""


class PayloadUnreadableError(DynadurableError):
    """Stored bytes cannot be decoded by this version of the code; ``raw`` keeps them byte for byte."""

    def __init__(self, reason: str, *, raw: bytes) -> None:
        super().__init__(f"the stored payload cannot be decoded: {reason}")
        self.reason = reason
        self.raw = raw


class ItemUnreadableError(DynadurableError):
    """An item is not as this version writes it, and is left alone; ``what`` says which one."""

    what = ""


class NewerFormatError(ItemUnreadableError):
    """An item was written by a newer version of dynadurable, which alone can tell what it means; it is left alone.

    ``what`` says which item, ``version`` its format number.
    """

    def __init__(self, what: str, *, version: int) -> None:
        super().__init__(
            f"{what} was written by a newer version of dynadurable (format {version}), and is left alone; "
            "upgrade dynadurable in this process"
        )
        self.what = what
        self.version = version


# --- enqueue --------------------------------------------------------------------------------------


class KeyConflictError(DynadurableError):
    """The key belongs to a live run whose payload is another one; nothing was changed."""

    def __init__(self, run_id: str, *, job: str, key: str) -> None:
        super().__init__(
            f"key {key!r} of job {job!r} is taken by the live run {run_id} with another payload; "
            "use another key, or wait until that run has ended"
        )
        self.run_id = run_id
        self.job = job
        self.key = key


class EnqueueIncompleteError(DynadurableError):
    """Some runs of a bulk enqueue were not stored; the others were.

    ``not_stored`` and ``stored`` list run ids in the order of the call; ``errors`` says why, by run id, where there was
    an error. One whose request got no answer counts as not stored, although it may have been.
    """

    def __init__(
        self,
        *,
        stored: Sequence[str],
        not_stored: Sequence[str],
        errors: Mapping[str, DynadurableError] | None = None,
    ) -> None:
        shown = f"{', '.join(not_stored[:5])}{', ...' if len(not_stored) > 5 else ''}"
        first = next(iter((errors or {}).values()), None)
        because = "" if first is None else f" ({first})"
        super().__init__(
            f"{len(not_stored)} of {len(stored) + len(not_stored)} runs were not stored: {shown}{because}; "
            "enqueue these again"
        )
        self.stored = tuple(stored)
        self.not_stored = tuple(not_stored)
        self.errors = dict(errors or {})


# --- leases ---------------------------------------------------------------------------------------


class LeaseLostError(DynadurableError):
    """The lease has moved on. This holder's writes are refused; whoever holds it now goes on."""


class LeaseBusyError(LeaseLostError):
    """The lease is held by another owner."""


# --- schedules ------------------------------------------------------------------------------------


class ScheduleUnknownError(DynadurableError):
    """There is no schedule of that name, or it was deleted."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no schedule {name!r}; app.schedules.list() tells which there are")
        self.name = name


class ScheduleExistsError(DynadurableError):
    """There is a schedule of that name already; nothing was changed."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is a schedule {name!r} already; change it with app.schedules.change()")
        self.name = name


# --- asking for a run -----------------------------------------------------------------------------


class BodyCancelledError(DynadurableError):
    """Something inside a body was cancelled, and not by its worker: the attempt has failed."""

    def __init__(self, job: str) -> None:
        self.job = job
        super().__init__(
            f"job {job!r} ended with CancelledError although nobody cancelled it: a task or scope inside it was "
            "cancelled and the error let through; catch it where it is meant"
        )


class RunError(DynadurableError):
    """What asking for a run may say; ``run_id`` names it."""

    def __init__(self, run_id: str, message: str) -> None:
        super().__init__(f"run {run_id}: {message}")
        self.run_id = run_id


class RunUnknownError(RunError):
    """No such run, or it has ended and nothing about it was to be kept."""


class RunExpiredError(RunError):
    """The run ended, its result was kept, and the time to keep it is over."""


class RunCancelledError(RunError):
    """The run ended as cancelled."""


class RunDeadError(RunError):
    """The run ended as a dead letter; ``failure`` and ``attempts`` say why."""

    def __init__(self, run_id: str, message: str, *, failure: Any, attempts: Sequence[Any]) -> None:
        super().__init__(run_id, message)
        self.failure = failure
        self.attempts = tuple(attempts)


class RunNotFinishedError(RunError):
    """The run has not ended within the time given."""


# --- workflows ------------------------------------------------------------------------------------


class WorkflowError(DynadurableError):
    """Base of what a workflow body may see from its context."""


class NonDeterminismError(WorkflowError):
    """Replay asked for something else than was recorded at this place; no body was run.

    ``expected`` is what the journal holds, ``found`` what the code asks for, ``where`` the file, line and source.
    """

    def __init__(self, *, expected: str, found: str, where: str) -> None:
        super().__init__(
            f"the journal holds {expected}, and the code has come to {found} ({where or 'place unknown'}); the "
            "workflow was changed in a way that does not fit this run: bring back the old order, then replay the run"
        )
        self.expected = expected
        self.found = found
        self.where = where


class NotReplayableError(WorkflowError):
    """A workflow used something that would not be the same on replay; the message names what to use."""


class StepFailedError(WorkflowError):
    """A step's final error, equal on the first run and on replay.

    ``failure`` carries type, message and traceback; ``attempts`` all failures, oldest first; ``kinds`` the names of the
    error's class and of its bases.
    """

    def __init__(
        self,
        step: str,
        failure: Any,
        *,
        attempts: Sequence[Any] = (),
        kinds: Sequence[str] = (),
        name_of: Callable[[type[BaseException]], str] | None = None,
    ) -> None:
        super().__init__(f"step {step!r} failed: {failure}")
        self.step = step
        self.failure = failure
        self.attempts = tuple(attempts)
        self.kinds = tuple(kinds)
        self._name_of = name_of or (lambda kind: kind.__qualname__)

    def is_a(self, kind: type[BaseException]) -> bool:
        """Whether the step raised an error of that class, or of one below it.

        >>> try:
        ...     raise StepFailedError("charge", "KeyError: 'id'", kinds=("KeyError", "LookupError"))
        ... except StepFailedError as error:
        ...     error.is_a(LookupError)
        True
        """
        return self._name_of(kind) in self.kinds


class StepInterruptedError(WorkflowError):
    """An at-most-once step was interrupted; whether it took effect is not known. Decide in the workflow."""

    def __init__(self, step: str) -> None:
        super().__init__(f"step {step!r} was begun and then interrupted: it may or may not have happened")
        self.step = step


class ChildFailedError(WorkflowError):
    """A child run ended dead or cancelled; ``failure`` says why, ``run_id`` which, ``state`` how it ended."""

    def __init__(self, run_id: str, *, state: str, failure: Any) -> None:
        super().__init__(f"the child run {run_id} ended as {state}" + (f": {failure}" if failure else ""))
        self.run_id = run_id
        self.state = state
        self.failure = failure


class CallbackFailedError(WorkflowError):
    """The outside system reported that what the callback stands for has failed; ``reason`` is what it said."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"callback {name!r} failed: {reason}")
        self.name = name
        self.reason = reason


class WaitTimeoutError(WorkflowError):
    """An event, a callback or its heartbeat, or a condition did not arrive in time."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} did not arrive in time")
        self.what = what


class BranchesFailedError(WorkflowError):
    """A map or parallel did not complete as asked for; ``results`` holds every branch's outcome."""

    def __init__(self, name: str, results: Any) -> None:
        super().__init__(f"{name!r} did not complete as asked for: {results}")
        self.name = name
        self.results = results


class CommitRefusedError(WorkflowError):
    """A condition of one of the workflow's own writes was not met; nothing was written.

    ``reasons`` has one ``CancellationReason`` for each write, in order.
    """

    def __init__(self, step: str, reasons: Sequence[CancellationReason]) -> None:
        codes = ", ".join(reason.code for reason in reasons)
        super().__init__(f"commit {step!r} was refused ({codes}); nothing was written")
        self.step = step
        self.reasons = tuple(reasons)


class StepTimeoutError(DynadurableError):
    """The body of a step took longer than its ``timeout``: one failed try, which the step's ``retry`` may repeat."""


# --- the store ------------------------------------------------------------------------------------


class StoreError(DynadurableError):
    """DynamoDB refused a request. ``operation`` names it."""

    def __init__(self, operation: str, message: str) -> None:
        super().__init__(f"{operation}: {message}")
        self.operation = operation


class ConditionFailedError(StoreError):
    """A condition was not met.

    ``item`` is the item as it stood, where DynamoDB returned it (a hint: not every store does, and there is none
    when no item exists). ``ambiguous`` is true when an earlier attempt of this very request may have been applied,
    so that the condition may have failed because of our own write.
    """

    def __init__(self, operation: str, *, item: Mapping[str, Any] | None = None, ambiguous: bool = False) -> None:
        super().__init__(operation, "the condition was not met")
        self.item = item
        self.ambiguous = ambiguous


@dataclass(frozen=True, kw_only=True, slots=True)
class CancellationReason:
    """Why one element of a transaction was refused; ``code`` is ``"None"`` for the innocent ones."""

    code: str
    message: str = ""
    item: Mapping[str, Any] | None = None


class TransactionFailedError(StoreError):
    """A transaction was cancelled; ``reasons`` has one entry for each element, in order."""

    def __init__(self, operation: str, *, reasons: Sequence[CancellationReason], ambiguous: bool = False) -> None:
        codes = ", ".join(reason.code for reason in reasons)
        super().__init__(operation, f"the transaction was cancelled ({codes})")
        self.reasons = tuple(reasons)
        self.ambiguous = ambiguous


class RequestRefusedError(StoreError):
    """DynamoDB calls the request invalid. Never retried: the same request is refused again."""


class StoreUnavailableError(StoreError):
    """Throttled, unreachable or failing after every retry. Whether a write was applied is not known."""


# --- what bodies raise ----------------------------------------------------------------------------


class Fail(Exception):  # noqa: N818 - a verb on purpose: `raise Fail("card was stolen")`
    """Raised by a body: the error is permanent, no further attempt is made.

    >>> raise Fail("the card was reported stolen")
    Traceback (most recent call last):
    dynadurable.errors.Fail: the card was reported stolen
    """


class Snooze(Exception):  # noqa: N818 - as above: `raise Snooze(timedelta(minutes=1))`
    """Raised by a body: not now, try again after ``delay``; uses no attempt."""

    def __init__(self, delay: timedelta) -> None:
        super().__init__(f"try again in {delay}")
        self.delay = delay


# --- what bodies see ------------------------------------------------------------------------------


class Interrupted(BaseException):
    """Raised into a body that must end now. Let it pass: the run is handed back or ends as cancelled.

    ``reason`` is ``"stopping"``, ``"lease lost"`` or ``"cancelled"``.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Suspended(BaseException):
    """A workflow is parked until something happens. Let it pass: the library catches it."""
