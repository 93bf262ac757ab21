"""Crash everywhere: what it finds in sound code, and in code that is not."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from dynadurable import App, JobContext, Retry
from dynadurable.testing.crash import crash_points
from dynadurable.testing.crash.client import LOSSES
from dynadurable.testing.kit import Kit

shop = App("shop")
tools: list[Kit] = []


@shop.job(keep_result=timedelta(days=1))
def sound(ctx: JobContext, order_id: str) -> str:
    client, table = tools[-1].client, tools[-1].backend.table
    for line in range((ctx.cursor or 0) + 1, 4):
        client.put_item(TableName=table, Item={"pk": {"S": f"order-{order_id}"}, "sk": {"S": str(line)}})
        ctx.checkpoint(line)
    return order_id


@shop.job
def counts(number: int) -> None:
    """Not idempotent: a repeat counts twice."""
    tools[-1].effect("charge")
    tools[-1].client.update_item(
        TableName=tools[-1].backend.table,
        Key={"pk": {"S": "counter"}, "sk": {"S": "counter"}},
        UpdateExpression="ADD n :one",
        ExpressionAttributeValues={":one": {"N": "1"}},
    )


@shop.job(retry=Retry(max_attempts=2, delay=timedelta(seconds=5)))
def fails(number: int) -> None:
    raise ValueError("no")


def scenario(job: Any, *arguments: Any, **options: Any) -> Any:
    def play(kit: Kit) -> None:
        tools.append(kit)
        shop.enqueue(job.using(**options) if options else job, *arguments)
        kit.run_until_idle(skip_time=True)

    return play


@pytest.mark.parametrize("options", [{}, {"key": "k"}])
def test_sound_code_ends_the_same_wherever_it_is_killed(options: dict[str, Any]) -> None:
    report = crash_points(scenario(sound, "o-17", **options), shop)
    report.assert_same_end()
    assert len(report.crashes) == len(report.writes) * len(LOSSES)
    assert report.most_repeats == 1


def test_a_failing_job_ends_as_the_same_dead_letter_wherever_it_is_killed() -> None:
    crash_points(scenario(fails, 1), shop).assert_same_end()


def test_a_body_that_is_not_idempotent_is_found_out() -> None:
    report = crash_points(scenario(counts, 1), shop)
    assert report.different
    with pytest.raises(AssertionError, match=r"SEEN TWICE: charge"):
        report.assert_no_effect_twice()
    assert "write 4 (DeleteItem of a mark, at counts), died before it" in str(report)


@pytest.mark.crash_everywhere
def test_the_marker_crashes_a_whole_test(durable: Kit) -> None:
    app = durable.app

    @app.job(name=f"work-{id(durable)}")
    def work(number: int) -> None: ...

    app.enqueue(work, 1)
    durable.run_until_idle()
    assert durable.body_starts(work) == 1
