"""When slots are within their bounds, what is stored of a schedule, and what a tick decides."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynadurable.errors import ConfigurationError, InputRefusedError
from dynadurable.model.schedule import Schedule
from dynadurable.model.tick import Tick, decide
from dynadurable.model.timing import Timing

NOON = datetime(2027, 1, 15, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)


def every(interval: timedelta = 5 * MINUTE, **options: Any) -> Timing:
    return Timing.of(None, interval, "UTC", **options)


def cron(expression: str = "*/5 * * * *", tz: str = "UTC", **options: Any) -> Timing:
    return Timing.of(expression, None, tz, **options)


def tick(timing: Timing, now: datetime, **options: Any) -> Tick:
    return decide(timing, **{"last_done": NOON, "queued": None, "busy": False, "now": now, **options})


# --- bounds ---------------------------------------------------------------------------------------


def test_no_slot_lies_before_the_start_or_after_the_end() -> None:
    timing = cron(start=NOON + 7 * MINUTE, end=NOON + 20 * MINUTE)
    assert timing.next_after(NOON - 365 * 24 * HOUR) == NOON + 10 * MINUTE
    assert timing.next_after(NOON + 15 * MINUTE) == NOON + 20 * MINUTE
    assert timing.next_after(NOON + 20 * MINUTE) is None
    assert timing.latest_at_or_before(NOON + 9 * MINUTE) is None
    assert timing.latest_at_or_before(NOON + 9 * HOUR) == NOON + 20 * MINUTE


def test_a_start_that_is_a_slot_is_the_first_one() -> None:
    assert cron(start=NOON).next_after(NOON - HOUR) == NOON
    assert every(7 * MINUTE, start=NOON).next_after(NOON - HOUR) == NOON
    assert every(7 * MINUTE, start=NOON).next_after(NOON) == NOON + 7 * MINUTE


@pytest.mark.parametrize(
    "options",
    [
        {"cron": None, "every": None},
        {"cron": "* * * * *", "every": HOUR},
        {"cron": "61 * * * *"},
        {"cron": "* * * *"},
        {"cron": "0 0 30 2 *"},
        {"cron": "* * * * *", "tz": "Europe/Nowhere"},
        {"cron": "* * * * *", "tz": ""},
        {"every": timedelta()},
        {"every": -HOUR},
        {"every": HOUR, "tz": "Europe/Berlin"},
        {"cron": "* * * * *", "start": datetime(2027, 1, 1)},  # noqa: DTZ001 - that is the point
        {"cron": "* * * * *", "end": datetime(2027, 1, 1)},  # noqa: DTZ001
        {"cron": "* * * * *", "start": NOON, "end": NOON - HOUR},
        {"cron": "* * * * *", "jitter": -MINUTE},
        {"cron": "* * * * *", "jitter": timedelta(days=2)},
        {"cron": "* * * * *", "catch_up": "some"},
        {"cron": "* * * * *", "overlap": "queue one"},
        {"cron": "* * * * *", "overlap": None},
    ],
)
def test_what_cannot_be_used_is_refused_at_definition(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        Timing.of(options.pop("cron", None), options.pop("every", None), options.pop("tz", "UTC"), **options)


@pytest.mark.parametrize(
    "timing",
    [
        cron(),
        cron("30 2 * * *", "Europe/Berlin"),
        cron(start=NOON, end=NOON + timedelta(days=3, microseconds=7)),
        cron(catch_up="all", overlap="queue", jitter=timedelta(seconds=90)),
        every(),
        every(timedelta(milliseconds=1500), start=NOON - timedelta(days=20_000)),
    ],
)
def test_a_definition_comes_back_from_the_table_as_it_was(timing: Timing) -> None:
    schedule = Schedule(name="s", timing=timing, job="j", queue="q", input=b"1j{}", workflow=True, keep_seconds=60)
    again = Schedule.from_text("s", schedule.to_text(), schedule.input)
    assert again == schedule
    assert again.digest == schedule.digest


def test_every_part_of_a_definition_counts_for_its_digest() -> None:
    one = Schedule(name="s", timing=cron(), job="j", queue="q", input=b"1j{}")
    others = [
        Schedule(name="s", timing=cron("*/6 * * * *"), job="j", queue="q", input=b"1j{}"),
        Schedule(name="s", timing=cron(tz="Europe/Berlin"), job="j", queue="q", input=b"1j{}"),
        Schedule(name="s", timing=cron(overlap="skip"), job="j", queue="q", input=b"1j{}"),
        Schedule(name="s", timing=cron(jitter=MINUTE), job="j", queue="q", input=b"1j{}"),
        Schedule(name="s", timing=cron(end=NOON), job="j", queue="q", input=b"1j{}"),
        Schedule(name="s", timing=cron(), job="j2", queue="q", input=b"1j{}"),
        Schedule(name="s", timing=cron(), job="j", queue="q2", input=b"1j{}"),
        Schedule(name="s", timing=cron(), job="j", queue="q", input=b'1j{"a":1}'),
        Schedule(name="s", timing=cron(), job="j", queue="q", input=b"1j{}", workflow=True),
    ]
    assert len({one.digest, *(other.digest for other in others)}) == 10
    assert Schedule(name="s", timing=cron("*/5  *  * * *"), job="j", queue="q", input=b"1j{}").digest == one.digest


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", "null", '{"job":"j","queue":"q"}', '{"cron":"x","job":"j","queue":"q"}']
)
def test_a_definition_that_cannot_be_read_is_one_clear_error(text: str) -> None:
    with pytest.raises(ConfigurationError):
        Schedule.from_text("s", text, b"")


@given(minutes=st.integers(0, 10_000_000), seconds=st.integers(0, 86_400))
def test_jitter_is_the_same_for_each_slot_and_within_its_bound(minutes: int, seconds: int) -> None:
    timing, slot = cron("* * * * *", jitter=timedelta(seconds=seconds)), NOON + minutes * MINUTE
    due_ms = timing.due_ms("s", slot)
    slot_ms = round(slot.timestamp() * 1000)
    assert slot_ms <= due_ms <= slot_ms + seconds * 1000
    assert timing.due_ms("s", slot) == due_ms


def test_jitter_spreads_the_schedules_that_share_a_slot() -> None:
    timing = cron("0 * * * *", jitter=10 * MINUTE)
    assert len({timing.due_ms(f"schedule-{number}", NOON) for number in range(100)}) > 90


# --- ticks ----------------------------------------------------------------------------------------


def test_a_slot_runs_when_it_is_due_and_the_next_one_is_named() -> None:
    assert tick(cron(), NOON + 5 * MINUTE) == Tick(
        run=(NOON + 5 * MINUTE,),
        last_done=NOON + 5 * MINUTE,
        queued=None,
        next_due=NOON + 10 * MINUTE,
        skipped=0,
    )


def test_nothing_is_due_before_the_slot() -> None:
    """Also for a worker whose clock went back: no slot twice."""
    for now in (NOON + 4 * MINUTE, NOON, NOON - HOUR):
        decided = tick(cron(), now)
        assert (decided.run, decided.last_done, decided.next_due) == ((), NOON, NOON + 5 * MINUTE)


def test_after_a_pause_the_latest_missed_slot_runs_or_all_or_none() -> None:
    now = NOON + 3 * HOUR + 7 * MINUTE
    latest = tick(cron(), now)
    assert (latest.run, latest.skipped) == ((NOON + 3 * HOUR + 5 * MINUTE,), 36)
    every_one = tick(cron("0 * * * *", catch_up="all"), now)
    assert every_one.run == (NOON + HOUR, NOON + 2 * HOUR, NOON + 3 * HOUR)
    none = tick(cron("0 * * * *", catch_up="none"), now)
    assert (none.run, none.skipped, none.last_done) == ((), 3, NOON + 3 * HOUR)


def test_all_missed_slots_come_in_bounded_parts() -> None:
    decided = tick(cron("* * * * *", catch_up="all"), NOON + 60 * MINUTE)
    assert len(decided.run) == 25
    assert decided.next_due == NOON + 26 * MINUTE
    again = tick(cron("* * * * *", catch_up="all"), NOON + 60 * MINUTE, last_done=decided.last_done)
    assert again.run[0] == NOON + 26 * MINUTE


@pytest.mark.parametrize("overlap", ["skip", "queue"])
def test_without_an_overlap_every_policy_is_the_same(overlap: Any) -> None:
    assert tick(cron(overlap=overlap), NOON + 5 * MINUTE) == tick(cron(), NOON + 5 * MINUTE)


def test_a_slot_is_skipped_while_the_last_run_goes_on() -> None:
    decided = tick(cron(overlap="skip"), NOON + 5 * MINUTE, busy=True)
    assert (decided.run, decided.queued, decided.skipped) == ((), None, 1)
    assert (decided.last_done, decided.next_due) == (NOON + 5 * MINUTE, NOON + 10 * MINUTE)


def test_one_slot_is_queued_while_the_last_run_goes_on_and_further_ones_are_skipped() -> None:
    timing = cron(overlap="queue")
    first = tick(timing, NOON + 5 * MINUTE, busy=True)
    assert (first.run, first.queued, first.skipped) == ((), NOON + 5 * MINUTE, 0)
    assert first.next_due == NOON + 5 * MINUTE + timedelta(seconds=1)
    state = {"last_done": first.last_done, "queued": first.queued}
    later = tick(timing, NOON + 5 * MINUTE + timedelta(seconds=20), **state, busy=True)
    assert (later.queued, later.next_due) == (first.queued, NOON + 5 * MINUTE + timedelta(seconds=25))
    second = tick(timing, NOON + 10 * MINUTE, **state, busy=True)
    assert (second.run, second.queued, second.skipped) == ((), NOON + 5 * MINUTE, 1)
    assert second.next_due == NOON + 11 * MINUTE
    free = tick(timing, NOON + 12 * MINUTE, last_done=second.last_done, queued=second.queued, busy=False)
    assert (free.run, free.queued, free.next_due) == ((NOON + 5 * MINUTE,), None, NOON + 15 * MINUTE)


def test_of_slots_that_are_due_together_one_runs_where_they_may_not_overlap() -> None:
    skip = tick(cron("* * * * *", catch_up="all", overlap="skip"), NOON + 3 * MINUTE)
    assert (skip.run, skip.queued, skip.skipped) == ((NOON + MINUTE,), None, 2)
    queue = tick(cron("* * * * *", catch_up="all", overlap="queue"), NOON + 3 * MINUTE)
    assert (queue.run, queue.queued, queue.skipped) == ((NOON + MINUTE,), NOON + 2 * MINUTE, 1)


def test_a_schedule_that_is_over_names_no_next_instant_and_still_runs_what_is_queued() -> None:
    timing = cron(overlap="queue", end=NOON + 5 * MINUTE)
    assert tick(timing, NOON + 5 * MINUTE).next_due is None
    busy = tick(timing, NOON + 5 * MINUTE, busy=True)
    assert (busy.queued, busy.next_due) == (NOON + 5 * MINUTE, NOON + 5 * MINUTE + timedelta(seconds=1))
    over = tick(timing, NOON + 6 * MINUTE, last_done=busy.last_done, queued=busy.queued)
    assert (over.run, over.next_due) == ((NOON + 5 * MINUTE,), None)


@given(
    waits=st.lists(st.integers(1, 4_000), min_size=1, max_size=40),
    overlap=st.sampled_from(["allow", "skip", "queue"]),
    catch_up=st.sampled_from(["latest", "all", "none"]),
    busy=st.lists(st.booleans(), min_size=40, max_size=40),
)
def test_no_slot_runs_twice_and_time_never_goes_back(
    waits: list[int], overlap: Any, catch_up: Any, busy: list[bool]
) -> None:
    timing, now = cron(overlap=overlap, catch_up=catch_up), NOON
    ran: list[datetime] = []
    state: dict[str, Any] = {"last_done": NOON, "queued": None}
    accounted = 0
    for wait, is_busy in zip(waits, busy, strict=False):
        now += timedelta(seconds=wait)
        decided = tick(timing, now, **state, busy=is_busy)
        assert decided.last_done >= state["last_done"]
        assert decided.next_due is not None
        ran += decided.run
        accounted += decided.skipped
        state = {"last_done": decided.last_done, "queued": decided.queued}
    assert ran == sorted(set(ran))
    passed = (state["last_done"] - NOON) // (5 * MINUTE)
    assert len(ran) + accounted + (state["queued"] is not None) == passed


def test_a_naive_instant_is_refused() -> None:
    with pytest.raises(InputRefusedError):
        cron().next_after(datetime(2027, 1, 1))  # noqa: DTZ001 - that is the point
