"""From stored items to what people are told."""

from __future__ import annotations

from ..clock import to_datetime
from ..model.dead_letter import DeadLetter
from ..model.run_info import PENDING, RUNNING, RunInfo
from ..model.worker_info import WorkerInfo
from ..storage import dead, items, signals
from ..storage.items import Mark, Run, WorkerRecord
from ..storage.keys import parse_mark_sort_key, unescape
from ..storage.lookup import Found
from ..storage.marks import Candidate
from ..storage.operate import is_held
from ..worker.endings import decode_failures


def to_run_info(found: Found, now_ms: int) -> RunInfo | None:
    """What was found of a run; ``None`` if it was nothing."""
    if found.run is not None:
        return _of_run(found.run_id, found.run, found.mark, now_ms)
    if found.mark is not None:
        return _of_mark(found, found.mark, now_ms)
    return None


def _of_mark(found: Found, mark: Mark, now_ms: int) -> RunInfo:
    key = parse_mark_sort_key(mark.sk)
    assert key is not None
    return RunInfo(
        run_id=found.run_id,
        job=mark.job,
        queue=found.place[0] if found.place else "",
        state=RUNNING if _runs(mark, now_ms) else PENDING,
        attempts=int(mark.attempt),
        due_at=to_datetime(key.due_ms),
        worker=mark.worker,
        lease_until=None if not _has_lease(mark, now_ms) else to_datetime(int(mark.lease_until_ms)),
        cancel_requested=bool(mark.cancelled),
        created_at=None if mark.placed_ms is None else to_datetime(int(mark.placed_ms)),
        payload=mark.input,
        has_progress=bool(mark.cursor),
    )


def _of_run(run_id: str, run: Run, mark: Mark | None, now_ms: int) -> RunInfo:
    key = parse_mark_sort_key(run.mark)
    live = run.is_live
    held = mark is not None and _has_lease(mark, now_ms)
    return RunInfo(
        run_id=run_id,
        job=run.job,
        queue=run.queue,
        state=run.state if not live else RUNNING if mark is not None and _runs(mark, now_ms) else PENDING,
        attempts=int(mark.attempt) if live and mark is not None else int(run.attempts),
        snoozes=int(run.snoozes),
        due_at=to_datetime(key.due_ms) if live and key is not None else None,
        worker=mark.worker if live and mark is not None else None,
        lease_until=to_datetime(int(mark.lease_until_ms)) if mark is not None and held else None,
        cancel_requested=live and bool(run.cancelled or (mark is not None and mark.cancelled)),
        key=run.key,
        created_at=to_datetime(int(run.created_ms)),
        ended_at=None if run.ended_ms is None else to_datetime(int(run.ended_ms)),
        expires_at=None if run.ttl is None else to_datetime(int(run.ttl) * 1000),
        build=run.build,
        error=run.error,
        fingerprint=run.fingerprint,
        failures=tuple(decode_failures(run)),
        payload=run.input,
        has_result=bool(run.result or run.result_page),
        has_progress=bool(run.cursor or run.tail or run.page),
        is_workflow=bool(run.workflow),
        waits_for=tuple(sorted(map(_awaited, run.waits or ()))) if live else (),
    )


def _awaited(topic: str) -> str:
    """A topic of ``signals.py`` in words."""
    kind, _, name = topic.partition("#")
    words = {signals.EVENT: f"event {unescape(name)!r}", signals.CALLBACK: f"callback {unescape(name)!r}"}
    return words.get(kind, "a child" if kind == signals.CHILD else "a signal")


def to_listed_run(candidate: Candidate, queue: str, now_ms: int) -> RunInfo:
    """What a list tells of a pending or running one."""
    held = candidate.lease_until_ms is not None and candidate.lease_until_ms >= now_ms
    runs = held and candidate.token is not None
    lease_until = to_datetime(candidate.lease_until_ms) if runs and candidate.lease_until_ms is not None else None
    return RunInfo(
        run_id=candidate.run_id,
        job=candidate.job,
        queue=queue,
        state=RUNNING if runs else PENDING,
        attempts=candidate.attempt,
        due_at=to_datetime(candidate.due_ms),
        lease_until=lease_until,
    )


def to_dead_letter(letter: items.DeadLetter, queue: str) -> DeadLetter:
    """A letter as it is listed."""
    key = parse_mark_sort_key(letter.sk)
    return DeadLetter(
        run_id=dead.run_id_of(letter),
        job=letter.job,
        queue=queue,
        died_at=to_datetime(0 if key is None else key.due_ms),
        attempts=int(letter.attempts),
        error=letter.error or "",  # of another version it may have none
        fingerprint=letter.fingerprint or "",
        build=letter.build,
        generation=letter.generation,
    )


def to_worker_info(worker: WorkerRecord) -> WorkerInfo:
    """A worker as it is listed."""
    return WorkerInfo(
        name=worker.name,
        queues=tuple(map(str, worker.queues)),
        jobs=tuple(map(str, worker.jobs)),
        jobs_left_out=int(worker.jobs_left_out or 0),
        concurrency=int(worker.concurrency or 0),
        build=worker.build,
        started_at=to_datetime(int(worker.started_ms)),
        seen_at=to_datetime(int(worker.seen_ms)),
    )


def _runs(mark: Mark, now_ms: int) -> bool:
    return bool(mark.token) and is_held(mark, now_ms)


def _has_lease(mark: Mark, now_ms: int) -> bool:
    """A worker's lease, lapsed or not; or nobody's, that keeps the mark aside for a while."""
    return mark.lease_until_ms is not None and (bool(mark.token) or is_held(mark, now_ms))
