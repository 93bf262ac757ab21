"""One run in full, for people and for machines."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from datetime import timedelta

from ..model.failure import Failure
from ..model.payload_text import payload_text
from ..model.run_info import RunInfo
from ..model.timeline import Event
from .text import exactly, say, show_facts, show_json
from .timeline import show_timeline
from .values import now


def show_run(run: RunInfo, events: Sequence[Event] | None = None, *, as_json: bool) -> None:
    """Print all that is known of it; ``events``: of a workflow, what it has done so far."""
    if as_json:
        arguments = payload_text(run.payload or b"")
        raw = base64.b64encode(run.payload or b"").decode()
        timeline = {} if events is None else {"timeline": [event.to_record() for event in events]}
        show_json({**run.to_record(), "arguments": arguments, "payload_base64": raw, **timeline})
        return
    current = now()
    lapsed = run.lease_until is not None and run.lease_until + timedelta(seconds=1) < current
    show_facts(
        {
            "run": run.run_id,
            "job": run.job,
            "queue": run.queue,
            "state": run.state + (", its cancellation was asked for" if run.cancel_requested else ""),
            "key": run.key,
            "due": exactly(run.due_at, current),
            "worker": run.worker,
            "lease lapsed" if lapsed else "leased until": exactly(run.lease_until, current),
            "attempts": str(run.attempts),
            "snoozes": str(run.snoozes) if run.snoozes else None,
            "enqueued": exactly(run.created_at, current),
            "ended": exactly(run.ended_at, current),
            "kept until": exactly(run.expires_at, current),
            "build": run.build,
            "cause": run.fingerprint,
            "arguments": payload_text(run.payload) if run.payload else None,
        }
    )
    if events is not None:
        show_timeline(events)
    for failure in run.failures:
        _show_failure(failure)


def _show_failure(failure: Failure) -> None:
    if failure.dropped_before:
        say(f"\n[{failure.dropped_before} failures between these are not kept]")
    build = f", build {failure.build}" if failure.build else ""
    worker = f", on {failure.worker}" if failure.worker else ""
    say(f"\nAttempt {failure.attempt} failed {failure.failed_at:%Y-%m-%d %H:%M:%S} UTC{worker}{build}: {failure}")
    for cause in failure.causes:
        say(f"{'  ' * cause.depth}{cause.relation}: {cause.type}: {cause.message}")
    for note in failure.notes:
        say(f"  note: {note}")
    if failure.traceback:
        say("\n".join(f"  {line}" for line in failure.traceback.splitlines()))
