"""Why a run is not running: decided here from what the table holds, without looking anything up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from .moments import clock_time, moment, relative, span
from .run_info import CANCELLED, DEAD, RUNNING, SUCCEEDED, RunInfo
from .worker_info import WorkerInfo

UNKNOWN = "unknown"
EXPIRED = "expired"
UNREADABLE = "unreadable"
CANCELLING = "cancelling"
MOVING = "moving"
SET_ASIDE = "set aside"
NOT_DUE = "not due"
PARKED = "parked"
PAUSED = "queue paused"
NO_WORKER = "no worker"
QUEUE_UNSERVED = "queue not served"
JOB_UNKNOWN = "job unknown"
WORKER_LOST = "worker lost"
WAITING = "waiting"

LOOK_INTERVAL = timedelta(seconds=20)
"""The longest time between two looks of an idle worker."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Facts:
    """What is known. ``run`` is ``None`` where the table holds nothing (that is readable) of it."""

    run_id: str
    now: datetime
    run: RunInfo | None = None
    is_run_id: bool = True
    """Whether the id has the form of one."""
    expired: bool = False
    unreadable: bool = False
    damage: str = ""
    """What makes an item of it unreadable, where that is not a newer version."""
    mark_missing: bool = False
    """The run names a mark that is not there."""
    paused_at: datetime | None = None
    pause_reason: str | None = None
    paused: bool = False
    workers: Sequence[WorkerInfo] = ()
    """Live ones, of all queues."""
    max_attempts: int | None = None
    """Of the job, where this process knows it."""
    ahead: int = 0
    """Runs of the same shard that come due before it."""
    ahead_limit: int = 1_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Explanation:
    """Why a run is not running, and what to do about it. As text it is a few plain sentences.

    ``code`` is for programs: ``"not due"``, ``"parked"``, ``"running"``, ``"cancelling"``, ``"queue paused"``,
    ``"no worker"``, ``"queue not served"``, ``"job unknown"``, ``"worker lost"``, ``"waiting"``, ``"moving"``,
    ``"set aside"``, ``"succeeded"``, ``"dead"``, ``"cancelled"``, ``"expired"``, ``"unreadable"`` or ``"unknown"``.
    """

    run_id: str
    code: str
    why: str
    """What holds it up, in one sentence."""
    next: str
    """What happens next by itself, or what to do."""
    also: Sequence[str] = ()
    """What else would hold it up afterwards."""
    run: RunInfo | None = None

    def __str__(self) -> str:
        return " ".join([self.why, self.next, *(f"Also: {one}" for one in self.also)])

    def to_record(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "run_id": self.run_id,
            "code": self.code,
            "why": self.why,
            "next": self.next,
            "also": list(self.also),
            "run": None if self.run is None else self.run.to_record(),
        }


@dataclass(frozen=True, slots=True)
class _Reason:
    code: str
    why: str
    next: str


def explain(facts: Facts) -> Explanation:
    """The first reason that applies holds the run up; what would do so after it is added."""
    run = facts.run
    if run is None:
        return _explanation(facts, _nothing_found(facts))
    if run.has_ended:
        return _explanation(facts, _ended(facts, run))
    if run.state == RUNNING:
        return _explanation(facts, _running(facts, run))
    passing = _passing(facts, run)
    lasting = _obstacles(facts, run)
    if passing is not None:
        return _explanation(facts, passing, also=[reason.why for reason in lasting])
    if lasting:
        lost = [_lost(facts, run).why] if run.lease_until is not None else []
        return _explanation(facts, lasting[0], also=[*lost, *(reason.why for reason in lasting[1:])])
    return _explanation(facts, _lost(facts, run) if run.lease_until is not None else _waiting(facts, run))


def _explanation(facts: Facts, reason: _Reason, *, also: Sequence[str] = ()) -> Explanation:
    return Explanation(
        run_id=facts.run_id, code=reason.code, why=reason.why, next=reason.next, also=tuple(also), run=facts.run
    )


# --- nothing there, or over -----------------------------------------------------------------------


def _nothing_found(facts: Facts) -> _Reason:
    if facts.damage:
        return _Reason(
            UNREADABLE,
            f"{facts.damage[:1].upper()}{facts.damage[1:]}.",
            "Mend the item, or delete it if it is of no use.",
        )
    if facts.unreadable:
        why = "It was written by a newer version of dynadurable, which this one leaves alone."
        return _Reason(UNREADABLE, why, "Ask from a process that has the newer version.")
    if not facts.is_run_id:
        why = f"{facts.run_id!r} is not the id of a run."
        return _Reason(UNKNOWN, why, "Ids look like queue~0~000kq3x5c5~01hf7yat..., with a key like job@mfrggzdfmzt...")
    why = "The table holds nothing of it: it never was, or it has ended and nothing was to be kept of it."
    return _Reason(
        UNKNOWN,
        why,
        "A plain job that succeeds leaves nothing behind; give the job keep_result= to be able to ask afterwards. "
        "Otherwise check the id, the table and the prefix.",
    )


def _ended(facts: Facts, run: RunInfo) -> _Reason:
    when = "" if run.ended_at is None else f" {moment(run.ended_at, facts.now)}"
    if facts.expired and run.expires_at is not None:
        why = f"It has ended as {run.state}{when}, and the time to keep it was over {clock_time(run.expires_at)}."
        return _Reason(EXPIRED, why, "Its id and key are free again; enqueue it anew if need be.")
    if run.state == SUCCEEDED:
        kept = "its result is kept" if run.has_result else "it keeps no result"
        until = "" if run.expires_at is None else f" until {clock_time(run.expires_at)}"
        return _Reason(SUCCEEDED, f"It has succeeded{when}; {kept}{until}.", "There is nothing left to run.")
    if run.state == CANCELLED:
        return _Reason(CANCELLED, f"It was cancelled{when}.", "Enqueue it anew if it is to run after all.")
    return _dead(facts, run, when)


def _dead(facts: Facts, run: RunInfo, when: str) -> _Reason:
    used_up = facts.max_attempts is not None and run.attempts >= facts.max_attempts
    if used_up:
        why = f"Its attempts are used up: it died{when} after {run.attempts} of {facts.max_attempts}"
    else:
        why = f"It has failed for good: it died{when} after {_times(run.attempts, 'attempt')}"
    why += f", the last with {run.error}." if run.error else "."
    return _Reason(
        DEAD,
        why,
        f"See all of it with `dynadurable dead show {facts.run_id}`; once the cause is gone, "
        f"`dynadurable dead replay {facts.run_id}` starts it again where it stood.",
    )


# --- live -----------------------------------------------------------------------------------------


def _running(facts: Facts, run: RunInfo) -> _Reason:
    assert run.lease_until is not None
    until = moment(run.lease_until, facts.now)
    who = f"It is running: leased by {run.worker or 'a worker'} until {until}, attempt {_attempt(facts, run)}."
    if run.cancel_requested:
        why = f"{who} Its cancellation was asked for."
        return _Reason(
            CANCELLING,
            why,
            "Its worker is told at its next renewal, within a third of its lease; the run ends when its body does.",
        )
    return _Reason(
        RUNNING,
        who,
        "The lease is renewed while the body runs. Should the worker be gone, another takes over when it has lapsed.",
    )


def _passing(facts: Facts, run: RunInfo) -> _Reason | None:
    """What ends by itself."""
    if facts.mark_missing:
        why = "It is just being moved, or a crash came between two writes of that: the mark it names is not there."
        return _Reason(
            MOVING,
            why,
            "This heals within one lease; `dynadurable runs retry` heals it at once.",
        )
    if run.due_at is not None and run.due_at > facts.now:
        return _not_due(facts, run, run.due_at)
    if run.lease_until is not None and run.lease_until > facts.now:
        why = f"It was set aside until {moment(run.lease_until, facts.now)}, because its enqueue may not be complete."
        return _Reason(SET_ASIDE, why, "A worker looks at it again then.")
    return None


def _not_due(facts: Facts, run: RunInfo, due_at: datetime) -> _Reason:
    when = moment(due_at, facts.now)
    if run.waits_for:
        what = ", ".join(run.waits_for)
        why = f"It is parked: it waits for {what}, and looks up again {when} at the latest."
        return _Reason(PARKED, why, "It goes on within seconds of being told: app.run(id).send_event, app.callbacks.")
    if run.failures and run.failures[-1].attempt == run.attempts:
        failed = run.failures[-1]
        why = f"Attempt {_attempt(facts, run)} failed with {failed}; the next one is due {when}."
        after = "`dynadurable runs retry` starts it at once."
    elif run.snoozes:
        why = f"It was snoozed ({_times(run.snoozes, 'time')} so far) and is due again {when}."
        after = "`dynadurable runs retry` starts it at once."
    elif run.is_workflow and run.has_progress:
        why = f"It sleeps until {when}."
        after = "A worker goes on with it then."
    else:
        why = f"It is not due until {when}."
        after = "A worker starts it then; `dynadurable runs retry` starts it at once."
    return _Reason(NOT_DUE, why, after)


def _obstacles(facts: Facts, run: RunInfo) -> list[_Reason]:
    """What does not end by itself."""
    reasons = []
    if facts.paused:
        since = "" if facts.paused_at is None else f" since {moment(facts.paused_at, facts.now)}"
        because = f": {facts.pause_reason}" if facts.pause_reason else ""
        why = f"Queue {run.queue!r} is paused{since}{because}."
        reasons.append(_Reason(PAUSED, why, f"Resume it with `dynadurable queues resume {run.queue}`."))
    unserved = _unserved(facts, run)
    if unserved is not None:
        reasons.append(unserved)
    return reasons


def _unserved(facts: Facts, run: RunInfo) -> _Reason | None:
    start = f"Start one with `dynadurable worker MODULE:APP --queue {run.queue}`; a scheduled drain would take it too."
    if not facts.workers:
        return _Reason(NO_WORKER, "No live worker was seen in the last three minutes.", start)
    serving = [worker for worker in facts.workers if worker.serves(run.queue)]
    if not serving:
        served = sorted({queue for worker in facts.workers for queue in worker.queues})
        why = f"No live worker serves queue {run.queue!r}; {_workers(facts.workers)} {_serve(facts.workers)} {served}."
        return _Reason(QUEUE_UNSERVED, why, start)
    if not any(worker.may_know(run.job) for worker in serving):
        builds = sorted({worker.build for worker in serving if worker.build})
        of_build = f" (build {', '.join(builds)})" if builds else ""
        why = (
            f"No live worker of queue {run.queue!r} knows job {run.job!r}: "
            f"{_workers(serving)}{of_build} {_serve(serving)} it without knowing that name."
        )
        return _Reason(
            JOB_UNKNOWN,
            why,
            "Deploy the code that defines the job, or keep its old name with name=; it stays pending until then.",
        )
    return None


def _lost(facts: Facts, run: RunInfo) -> _Reason:
    assert run.lease_until is not None
    lapsed = relative(run.lease_until, facts.now)
    why = f"Its worker {run.worker or ''} was lost: the lease lapsed {lapsed}, in attempt {_attempt(facts, run)}."
    why = why.replace("  ", " ")
    if facts.max_attempts is not None and run.attempts >= facts.max_attempts:
        after = "That was its last attempt: the next worker that looks makes it a dead letter."
    else:
        after = f"The next worker that looks takes over; an idle one looks every {span(LOOK_INTERVAL)} at the latest."
    return _Reason(WORKER_LOST, why, after)


def _waiting(facts: Facts, run: RunInfo) -> _Reason:
    serving = [worker for worker in facts.workers if worker.serves(run.queue) and worker.may_know(run.job)]
    slots = sum(worker.concurrency for worker in serving)
    due = "" if run.due_at is None else f" since {moment(run.due_at, facts.now)}"
    if facts.ahead:
        more = "or more " if facts.ahead >= facts.ahead_limit else ""
        are = "run is" if facts.ahead == 1 else "runs are"
        why = f"It is due{due} and waits its turn: {facts.ahead:,} {more}{are} before it in its part of the queue."
        after = (
            f"{_workers(serving)} with {_times(slots, 'slot')} can take it; if that is too slow, "
            "start more workers or raise their concurrency."
        )
        return _Reason(WAITING, why, after[0].upper() + after[1:])
    why = f"It is due{due} and next in its part of the queue; {_workers(serving)} can take it."
    after = f"A worker with a free slot takes it within {span(LOOK_INTERVAL)}; if none does, all of them are busy."
    return _Reason(WAITING, why, after)


# --- words ----------------------------------------------------------------------------------------


def _attempt(facts: Facts, run: RunInfo) -> str:
    return f"{run.attempts}" if facts.max_attempts is None else f"{run.attempts} of {facts.max_attempts}"


def _times(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _workers(workers: Sequence[WorkerInfo]) -> str:
    if len(workers) == 1:
        return f"worker {workers[0].name}"
    return f"{len(workers):,} workers"


def _serve(workers: Sequence[WorkerInfo]) -> str:
    return "serves" if len(workers) == 1 else "serve"
