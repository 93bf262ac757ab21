"""``dynadurable schedules``: what runs when; pause, resume, trigger, and the next instants in local time and UTC."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import click

from ..app import App
from ..control.schedules import MAX_NEXT, next_slots
from ..model import codec
from ..model.payload_text import payload_text
from ..model.schedule_info import ScheduleInfo
from ..model.timing import Timing
from .root import NotFound
from .target import app_options, json_option
from .text import exactly, say, show_facts, show_json, show_table, when
from .values import Instant, now


@click.group()
def schedules() -> None:
    """What runs when; pause, resume and trigger schedules."""


@schedules.command("list")
@click.option("--limit", type=click.IntRange(1), default=1_000, show_default=True)
@app_options
@json_option
def list_(app: App, limit: int, as_json: bool) -> None:
    """All schedules, by name, with their last and next slots; read without scanning the table."""
    found = app.schedules.list(limit=limit)
    if as_json:
        show_json([schedule.to_record() for schedule in found])
        return
    if not found:
        say("There is no schedule here. One that stands in code is put here when a worker starts.")
        return
    current = now()
    rows = [
        (
            schedule.name,
            schedule.rule,
            schedule.state,
            when(schedule.last_slot, current),
            when(schedule.next_slot, current),
            schedule.job,
            schedule.queue,
        )
        for schedule in found
    ]
    show_table(("schedule", "rule", "state", "last slot", "next slot", "job", "queue"), rows)


@schedules.command()
@click.argument("name")
@app_options
@json_option
def show(app: App, name: str, as_json: bool) -> None:
    """The schedule NAME as it stands."""
    schedule = _existing(app, name)
    if as_json:
        show_json(schedule.to_record())
        return
    current = now()
    show_facts(
        {
            "schedule": schedule.name,
            "rule": schedule.rule,
            "state": schedule.state,
            "paused": exactly(schedule.paused_at, current),
            "last slot": exactly(schedule.last_slot, current),
            "last run": schedule.last_run_id,
            "waits for the last run": exactly(schedule.queued_slot, current),
            "next slot": exactly(schedule.next_slot, current),
            "skipped": str(schedule.skipped) if schedule.skipped else None,
            "job": schedule.job,
            "queue": schedule.queue,
            "arguments": payload_text(codec.encode(dict(schedule.arguments))) if schedule.arguments else None,
            "catch up": schedule.catch_up,
            "overlap": schedule.overlap,
            "jitter": str(schedule.jitter) if schedule.jitter else None,
            "begins": exactly(schedule.start, current),
            "ends": exactly(schedule.end, current),
            "defined": "in code" if schedule.from_code else "at run time",
            "in force since": exactly(schedule.deployed_at, current),
        }
    )


@schedules.command()
@click.argument("name")
@app_options
@json_option
def pause(app: App, name: str, as_json: bool) -> None:
    """Run no slot of NAME until it is resumed; what passes meanwhile does not run later."""
    app.schedules.pause(name)
    _tell({"schedule": name, "paused": True}, f"Schedule {name} is paused.", as_json=as_json)


@schedules.command()
@click.argument("name")
@app_options
@json_option
def resume(app: App, name: str, as_json: bool) -> None:
    """Go on with the next slot of NAME."""
    app.schedules.resume(name)
    following = _existing(app, name).next_slot
    facts = {"schedule": name, "paused": False, "next_slot": None if following is None else following.isoformat()}
    _tell(facts, f"Schedule {name} goes on: {exactly(following, now()) or 'no slot is left'}.", as_json=as_json)


@schedules.command()
@click.argument("name")
@app_options
@json_option
def trigger(app: App, name: str, as_json: bool) -> None:
    """Start a run of NAME now, beside its slots, also while it is paused. Prints the run's id."""
    run_id = app.schedules.trigger(name)
    _tell({"schedule": name, "run_id": run_id}, run_id, as_json=as_json)


@schedules.command("next")
@click.argument("name")
@click.argument("count", type=click.IntRange(1, MAX_NEXT), default=5)
@click.option("--after", type=Instant(), help="From then on instead of now, such as 2027-03-27T00:00Z.")
@app_options
@json_option
def next_(app: App, name: str, count: int, after: datetime | None, as_json: bool) -> None:
    """The next COUNT instants of the schedule NAME (default: 5), in its own time and in UTC."""
    _show_slots(app.schedules.next(name, count, after=after), _existing(app, name).tz, as_json=as_json)


@schedules.command("preview")
@click.argument("cron")
@click.argument("count", type=click.IntRange(1, MAX_NEXT), default=5)
@click.option("--tz", default="UTC", show_default=True, metavar="ZONE", help="Such as Europe/Berlin.")
@click.option("--after", type=Instant(), help="From then on instead of now, such as 2027-03-27T00:00Z.")
@json_option
def preview(cron: str, count: int, tz: str, after: datetime | None, as_json: bool) -> None:
    """The next COUNT instants of the expression CRON (default: 5); needs neither an app nor a table."""
    timing = Timing.of(cron, None, tz)
    _show_slots(next_slots(timing, after or now(), count), tz, as_json=as_json)


def _show_slots(slots: Sequence[datetime], tz: str, *, as_json: bool) -> None:
    zone = UTC if tz in ("", "UTC") else ZoneInfo(tz)
    if as_json:
        show_json([{"utc": slot.isoformat(), "local": slot.astimezone(zone).isoformat()} for slot in slots])
        return
    if not slots:
        say("No slot is left.")
        return
    current = now()
    rows = [
        (f"{slot.astimezone(zone):%a %Y-%m-%d %H:%M:%S %z}", f"{slot:%Y-%m-%d %H:%M:%S}", when(slot, current))
        for slot in slots
    ]
    show_table((tz or "UTC", "UTC", ""), rows)


def _existing(app: App, name: str) -> ScheduleInfo:
    schedule = app.schedules.get(name)
    if schedule is None:
        raise NotFound(f"there is no schedule {name!r}")
    return schedule


def _tell(facts: dict[str, object], words: str, *, as_json: bool) -> None:
    if as_json:
        show_json(facts)
    else:
        say(words)
