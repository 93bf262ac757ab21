"""The key of a dead run is used again: its dead letter tells of nothing any more, and is not shown or acted on."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from dynadurable import App, Fail, KeyConflictError, Retry, RunUnknownError
from dynadurable.storage.items import FORMAT_VERSION
from dynadurable.testing.clock import ManualClock
from dynadurable.testing.memory import MemoryClient
from tests.integration.test_asking import drain

HOUR = timedelta(hours=1)
Again = Callable[[App, MemoryClient, Any], None]


@pytest.fixture
def app(memory: MemoryClient, clock: ManualClock) -> App:
    made = App("shop", client=memory, clock=clock)
    made.create_table()
    return made


@pytest.fixture
def mail(app: App) -> Any:
    @app.job(retry=Retry.none())
    def mail(to: str) -> None:
        raise Fail(f"no route to {to}")

    return mail.using(key="k")


@pytest.fixture
def dead_run(app: App, mail: Any, clock: ManualClock) -> Any:
    run = app.enqueue(mail, "a")
    drain(app)
    clock.advance(HOUR)
    assert [letter.run_id for letter in app.dead.list()] == [run.id]
    return run


def letters(memory: MemoryClient) -> list[dict[str, Any]]:
    return [item for item in memory.store.items("shop") if item["pk"]["S"].startswith("dead#")]


def enqueued(app: App, _memory: MemoryClient, job: Any) -> None:
    app.enqueue(job, "b")


def in_bulk(app: App, _memory: MemoryClient, job: Any) -> None:
    app.enqueue_many([job.call("b")])


def in_a_transaction(app: App, memory: MemoryClient, job: Any) -> None:
    """The caller's own: nothing can be read before it, so the letter stays in the table for now."""
    memory.transact_write_items(TransactItems=app.transact_items(job, "b"))


def in_another_queue(app: App, _memory: MemoryClient, job: Any) -> None:
    """Where the enqueuer may have no business with the letters of the first one."""
    app.enqueue(job.using(key="k", queue="other"), "b")


HOW = pytest.mark.parametrize("again", [enqueued, in_bulk, in_a_transaction, in_another_queue])


@pytest.mark.parametrize("again", [enqueued, in_bulk])
def test_the_letter_goes_with_the_run_it_tells_of(
    app: App, mail: Any, dead_run: Any, memory: MemoryClient, again: Again
) -> None:
    again(app, memory, mail)
    assert letters(memory) == []
    assert dead_run.status() == "pending"


@HOW
def test_no_letter_of_an_earlier_life_is_shown(
    app: App, mail: Any, dead_run: Any, memory: MemoryClient, again: Again
) -> None:
    again(app, memory, mail)
    assert app.dead.list(queue="default") == []
    assert app.dead.groups(queue="default") == []
    assert app.dead.count(queue="default") == 0
    for look in (app.dead.replay, app.dead.purge):
        report = look(dry_run=True, everything=True)
        assert (report.matched, report.run_ids) == (0, ())
    with pytest.raises(RunUnknownError, match="not dead but pending"):
        app.dead.get(dead_run.id)


@HOW
@pytest.mark.parametrize("act", ["replay", "replay one", "purge", "purge one"])
def test_nothing_that_is_done_about_letters_meets_the_new_run(
    app: App, mail: Any, dead_run: Any, memory: MemoryClient, again: Again, act: str
) -> None:
    again(app, memory, mail)
    before = dead_run.info()
    assert before.state == "pending"
    does = app.dead.replay if act.startswith("replay") else app.dead.purge
    report = does(dead_run.id) if act.endswith("one") else does(everything=True)
    assert report.done == 0
    assert dead_run.info() == before
    if act != "replay one":
        assert letters(memory) == [], "and what is left of the letter is cleared away"


@HOW
def test_a_new_run_that_dies_too_has_a_letter_of_its_own(
    app: App, mail: Any, dead_run: Any, clock: ManualClock, memory: MemoryClient, again: Again
) -> None:
    again(app, memory, mail)
    app.worker(queues=["default", "other"], concurrency=1).drain()
    [letter] = [*app.dead.list(queue="default"), *app.dead.list(queue="other")]
    assert letter.error == "dynadurable.errors.Fail: no route to b"
    assert letter.died_at == clock.now()
    told = app.dead.get(dead_run.id)
    assert told.arguments() == {"to": "b"}
    assert [failure.message for failure in told.failures] == ["no route to b"]
    assert app.dead.replay(dead_run.id).done == 1
    assert dead_run.info().arguments() == {"to": "b"}


def test_while_its_window_is_open_a_dead_run_keeps_key_and_letter(
    app: App, mail: Any, clock: ManualClock, memory: MemoryClient
) -> None:
    """Asked for again it is the same run, dead as it is; to bring it back is a replay's business."""
    daily = mail.using(key="daily", unique_for=timedelta(hours=24))
    run = app.enqueue(daily, "a")
    drain(app)
    assert app.enqueue(daily, "a") == run
    with pytest.raises(KeyConflictError):
        app.enqueue(daily, "b")
    assert run.status() == "dead"
    assert len(letters(memory)) == 1
    assert app.dead.replay(run.id).done == 1
    drain(app)
    clock.advance(timedelta(hours=24))
    app.enqueue(daily, "b")
    assert letters(memory) == []


def test_a_replay_that_was_quicker_wins(
    app: App, mail: Any, dead_run: Any, clock: ManualClock, memory: MemoryClient
) -> None:
    """Whoever enqueues meets the run that lives again."""
    hurried = Hurried(memory, lambda: app.dead.replay(dead_run.id))
    other = App("shop", client=hurried, clock=clock)
    with pytest.raises(KeyConflictError):
        other.enqueue(mail, "b")
    assert dead_run.info().arguments() == {"to": "a"}
    assert [told.run_id for told in app.runs.list()] == [dead_run.id]
    hurried.first = lambda: None
    assert other.enqueue(mail, "a") == dead_run


def test_a_letter_of_a_newer_version_is_left_alone(app: App, mail: Any, dead_run: Any, memory: MemoryClient) -> None:
    [letter] = letters(memory)
    memory.update_item(
        TableName="shop",
        Key={"pk": letter["pk"], "sk": letter["sk"]},
        UpdateExpression="SET dd_v = :newer",
        ExpressionAttributeValues={":newer": {"N": str(FORMAT_VERSION + 1)}},
    )
    app.enqueue(mail, "b")
    assert dead_run.info().arguments() == {"to": "b"}
    assert len(letters(memory)) == 1


class Hurried:
    """A client before whose transactions somebody else is quicker."""

    def __init__(self, client: Any, first: Callable[[], Any]) -> None:
        self._client = client
        self.first = first
        self.meta = client.meta

    def __getattr__(self, name: str) -> Any:
        if name == "transact_write_items":
            return self._transact
        return getattr(self._client, name)

    def _transact(self, **params: Any) -> Any:
        self.first()
        return self._client.transact_write_items(**params)
