"""What others have put into our partitions is left alone and stops nothing; workers that are over are let go."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dynadurable import App

ItemsIn = Callable[[App], list[dict[str, Any]]]
ODD: dict[str, dict[str, Any]] = {
    "a lease that is text": {"dd_v": {"N": "1"}, "dd_job": {"S": "work"}, "dd_lease": {"S": "soon"}},
    "a job that is a number": {"dd_v": {"N": "1"}, "dd_job": {"N": "5"}},
    "an attempt that is text": {"dd_v": {"N": "1"}, "dd_job": {"S": "work"}, "dd_attempt": {"S": "x"}},
    "a token that is bytes": {"dd_v": {"N": "1"}, "dd_job": {"S": "work"}, "dd_token": {"B": b"x"}},
    "a format that is text": {"dd_v": {"S": "one"}, "dd_job": {"S": "work"}},
    "no attribute of ours": {"colour": {"S": "red"}},
}


@pytest.mark.parametrize("attributes", ODD.values(), ids=ODD)
def test_an_item_that_is_no_mark_does_not_hide_what_lies_behind_it(
    app: App, moto_client: Any, items_in: ItemsIn, attributes: dict[str, Any]
) -> None:
    """PUB-11: one item must not stop the whole worker."""
    done: list[int] = []
    work = app.job(name="work")(lambda number: done.append(number))
    due_ms = app.clock.now_ms() - 5
    for shard in range(4):
        key = {"pk": {"S": f"queue#default#{shard}"}, "sk": {"S": f"{due_ms:015d}#stranger"}}
        moto_client.put_item(TableName=app.schema.table, Item={**key, **attributes})
    before = items_in(app)
    for number in range(5):
        app.enqueue(work, number)
    app.worker(concurrency=1).drain()
    assert sorted(done) == [0, 1, 2, 3, 4]
    assert sorted(items_in(app), key=str) == sorted(before, key=str)


def test_an_app_lets_go_of_workers_that_are_over(app: App) -> None:
    """A function that drains at each call would keep them all."""
    app.job(name="work")(lambda: None)
    for _ in range(5):
        app.worker().drain()
    assert len(app.operations.workers) == 1
