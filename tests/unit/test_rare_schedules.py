"""Rare turns of what is stored of schedules, played with given replies."""

from __future__ import annotations

from typing import Any

from dynadurable.storage import schedules
from tests.unit.scripted import ITEMS, NOW_MS, RUN_ID, listed, play, refused


def test_a_list_of_schedules_goes_on_to_its_end_or_its_limit() -> None:
    first = ITEMS.schedule(pk="schedule#all", sk="a", definition="{}", input=b"", deployed_ms=1, generation="g")
    first.queue, first.shard, first.last_done_ms = "default", 0, 0
    played = play(schedules.list_schedules(ITEMS, limit=2), listed(first, more=True), listed(first))
    assert len(played.result) == 2
    assert len(play(schedules.list_schedules(ITEMS, limit=1), listed(first, more=True)).result) == 1


def test_a_schedule_that_is_there_already_may_be_the_one_that_was_put() -> None:
    def put(token: str) -> Any:
        record = ITEMS.schedule(pk="schedule#all", sk="a", definition="{}", input=b"", deployed_ms=1, generation="g")
        record.queue, record.shard, record.last_done_ms, record.token = "default", 0, 0, token
        return record

    assert play(schedules.create(ITEMS, put("mine")), refused(put("mine"), ambiguous=True)).result is True
    assert play(schedules.create(ITEMS, put("mine")), refused(put("another's"))).result is False


def test_a_run_by_hand_of_a_schedule_that_is_gone_is_noted_nowhere() -> None:
    assert play(schedules.note_run(ITEMS, "tick", run_id=RUN_ID, slot_ms=NOW_MS), refused()).error is None
