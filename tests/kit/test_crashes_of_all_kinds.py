"""Crash everywhere, for async bodies, fan-outs and schedules, and for scenarios that work on one run at a time."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from dynadurable.testing.crash import crash_points
from dynadurable.testing.crash.client import DIED_AFTER, DIED_BEFORE
from dynadurable.testing.kit import Kit
from tests.kit import shop


def of(job: Any, *args: Any, one_at_a_time: bool = False) -> Any:
    def play(kit: Kit) -> None:
        shop.app.enqueue(job, *args)
        if one_at_a_time:
            while kit.run_one() is not None:
                pass
        kit.run_until_idle(skip_time=True)

    return play


@pytest.mark.parametrize(
    ("job", "args"),
    [(shop.send_async, ("ada",)), (shop.brief, (42,)), (shop.brief_async, (42,)), (shop.undone, ())],
    ids=["async job", "workflow with branches", "async workflow", "workflow that is undone"],
)
def test_every_kind_of_body_ends_the_same(job: Any, args: tuple[Any, ...]) -> None:
    report = crash_points(of(job, *args), shop.app, losses=(DIED_BEFORE, DIED_AFTER))
    report.assert_same_end()
    assert report.most_repeats >= 1


def test_a_crash_in_run_one_is_the_workers() -> None:
    """A body that a crash repeats is named, and nothing is taken for an enqueue that was not accepted."""
    losses = (DIED_BEFORE, DIED_AFTER)
    report = crash_points(of(shop.brief_async, 42, one_at_a_time=True), shop.app, losses=losses)
    report.assert_same_end()
    workers = [crash for crash in report if crash.write.at]
    assert {crash.outcome for crash in workers} == {"same end"}
    assert any("step charge" in crash.repeated for crash in workers)


def test_a_schedule_ends_the_same() -> None:
    def a_day(kit: Kit) -> None:
        kit.run_until_idle()
        kit.run_for(timedelta(days=1))

    report = crash_points(a_day, shop.app, losses=(DIED_BEFORE, DIED_AFTER))
    assert report.undisturbed.bodies == {"report": 1}
    assert [crash for crash in report.different if crash.write.number > 2] == []
