"""A workflow's timeline, for people and for machines."""

from __future__ import annotations

from collections.abc import Sequence

from ..model.timeline import Event
from .text import say, show_table

COLUMNS = ("began (UTC)", "what", "name", "state", "took", "tries", "by")


def show_timeline(events: Sequence[Event]) -> None:
    """Print the operations in the order in which they were begun."""
    if not events:
        say("\nNothing is recorded yet.")
        return
    say("\nTimeline:")
    show_table(COLUMNS, [_row(event) for event in events], right=("took", "tries"))


def _row(event: Event) -> tuple[str | None, ...]:
    return (
        f"{event.began_at:%Y-%m-%d %H:%M:%S}",
        event.kind,
        event.label,
        _state(event),
        _took(event),
        str(event.tries) if event.tries else None,
        event.worker or None,
    )


def _state(event: Event) -> str:
    if event.wakes_at is not None:
        return f"until {event.wakes_at:%Y-%m-%d %H:%M:%S}"
    said = event.state if event.why in (None, "failed") else f"{event.state} ({event.why})"
    return f"{said}, run {event.child}" if event.child else said


def _took(event: Event) -> str | None:
    if event.took:
        return f"{event.took.total_seconds():.3f} s"
    if event.ended_at is not None and event.ended_at > event.began_at:
        return f"{(event.ended_at - event.began_at).total_seconds():.0f} s"
    return None
