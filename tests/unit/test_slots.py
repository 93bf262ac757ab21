"""Which slots are due, and what becomes of the missed ones."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynadurable.errors import ConfigurationError, InputRefusedError
from dynadurable.model.cron import Cron
from dynadurable.model.every import Every
from dynadurable.model.slots import MAX_SKIPPED_COUNTED, CatchUp, Rule, due_slots

FIVE = timedelta(minutes=5)
RULES: list[Rule] = [Cron("*/5 * * * *"), Every(FIVE)]


def at(text: str) -> datetime:
    return datetime.fromisoformat(f"2027-01-15T{text}").replace(tzinfo=UTC)


@pytest.mark.parametrize("rule", RULES)
def test_after_downtime_only_the_latest_slot_runs(rule: Rule) -> None:
    """PUB-39."""
    due = due_slots(rule, last_done=at("09:00"), now=at("12:10:20"))
    assert due.slots == (at("12:10"),)
    assert due.skipped == 37
    assert due.last_done == at("12:10")
    assert due.next_slot == at("12:15")


@pytest.mark.parametrize("rule", RULES)
def test_what_is_done_is_not_due_again(rule: Rule) -> None:
    due = due_slots(rule, last_done=at("12:10"), now=at("12:14:59"))
    assert (due.slots, due.last_done, due.next_slot) == ((), at("12:10"), at("12:15"))


def test_a_schedule_made_between_two_slots_waits_for_the_next_one() -> None:
    """PUB-16."""
    rule, last, found = Cron("*/5 * * * *"), at("11:59:30"), list[datetime]()
    for second in range(0, 16 * 60, 7):
        due = due_slots(rule, last_done=last, now=at("11:59:30") + timedelta(seconds=second))
        last = due.last_done
        found += due.slots
    assert found == [at("12:00"), at("12:05"), at("12:10"), at("12:15")]


def test_all_missed_slots_run_in_turn_and_in_bounded_numbers() -> None:
    first = due_slots(RULES[0], last_done=at("09:00"), now=at("09:27"), catch_up="all", limit=3)
    assert first.slots == (at("09:05"), at("09:10"), at("09:15"))
    assert first.next_slot == at("09:20")
    rest = due_slots(RULES[0], last_done=first.last_done, now=at("09:27"), catch_up="all", limit=3)
    assert rest.slots == (at("09:20"), at("09:25"))
    assert rest.next_slot == at("09:30")


def test_with_none_a_missed_slot_is_passed_over() -> None:
    due = due_slots(Cron("0 * * * *"), last_done=at("09:00"), now=at("12:10"), catch_up="none")
    assert due.slots == ()
    assert due.skipped == 3
    assert due.last_done == at("12:00")
    assert due.next_slot == at("13:00")


def test_with_none_a_slot_that_was_looked_for_a_little_late_runs() -> None:
    due = due_slots(Cron("0 * * * *"), last_done=at("09:00"), now=at("12:00:20"), catch_up="none")
    assert due.slots == (at("12:00"),)
    assert due.skipped == 2


@pytest.mark.parametrize("catch_up", ["latest", "all", "none"])
def test_a_clock_that_went_back_finds_nothing_due(catch_up: CatchUp) -> None:
    due = due_slots(RULES[0], last_done=at("12:10"), now=at("11:00"), catch_up=catch_up)
    assert (due.slots, due.last_done, due.next_slot) == ((), at("12:10"), at("12:15"))


def test_the_count_of_skipped_slots_is_bounded() -> None:
    due = due_slots(Every(timedelta(seconds=1)), last_done=datetime(1970, 1, 1, tzinfo=UTC), now=at("12:00"))
    assert due.skipped == MAX_SKIPPED_COUNTED


def test_before_its_start_a_schedule_is_not_due() -> None:
    due = due_slots(Every(FIVE, start=at("18:00")), last_done=at("12:00"), now=at("13:00"))
    assert (due.slots, due.next_slot) == ((), at("18:00"))


def test_at_the_end_of_the_calendar_a_schedule_is_over() -> None:
    last = datetime(9999, 12, 31, tzinfo=UTC)
    assert due_slots(Cron("@yearly"), last_done=last, now=last).next_slot is None


@pytest.mark.parametrize("catch_up", ["once", "", None, True])
def test_an_unknown_policy_is_refused(catch_up: Any) -> None:
    with pytest.raises(ConfigurationError, match="catch_up must be 'latest', 'all' or 'none'"):
        due_slots(RULES[0], last_done=at("12:00"), now=at("12:00"), catch_up=catch_up)


@pytest.mark.parametrize("naive", ["last_done", "now"])
def test_a_naive_instant_is_refused(naive: str) -> None:
    instants: dict[str, Any] = {"last_done": at("12:00"), "now": at("13:00")}
    instants[naive] = instants[naive].replace(tzinfo=None)
    with pytest.raises(InputRefusedError, match=naive):
        due_slots(RULES[0], **instants)


@given(
    st.sampled_from(["latest", "all", "none"]),
    st.lists(st.integers(-600, 3_000), min_size=1, max_size=20),
    st.sampled_from([*RULES, Cron("30 2 * * *", tz="Europe/Berlin"), Cron("7 */2 * * *", tz="Australia/Lord_Howe")]),
)
def test_no_slot_is_due_twice_whatever_the_clock_does(catch_up: CatchUp, steps: list[int], rule: Rule) -> None:
    now = last = datetime(2027, 3, 27, 22, tzinfo=UTC)
    found = list[datetime]()
    for step in steps:
        now += timedelta(seconds=step * 10)
        due = due_slots(rule, last_done=last, now=now, catch_up=catch_up, limit=2)
        assert due.last_done >= last
        assert all(last < slot <= now for slot in due.slots)
        assert due.next_slot is not None
        assert due.next_slot > due.last_done
        last = due.last_done
        found += due.slots
    assert found == sorted(set(found))
