"""What reaches the wire, held against the statements of the grants: boto3, PynamoDB, aioboto3.

``tests/grants`` looks at the plans, role by role, and ``tests/watch.py`` at every test; here is shown that what they
look at is what is sent, and what the caller's own clients send for us.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from moto import mock_aws
from pynamodb.connection import Connection
from pynamodb.transactions import TransactWrite

from dynadurable import App, Job, Retry
from dynadurable.storage.permissions import Kind, Role, statements
from dynadurable.testing.moto import serialised_moto
from tests.integration.world import World, play
from tests.policies import Request, allowed
from tests.recorder import ARN_PREFIX, recorded, requests_of
from tests.watch import Sent, Watch

RETRY = Retry(max_attempts=1)


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> Iterator[App]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    with mock_aws(), serialised_moto():
        app = App("work", region="us-east-1", prefix="jobs/")
        app.create_table()
        yield app


def refused(app: App, role: Role, requests: list[Request]) -> list[Request]:
    granted = statements(role, app.schema, table_arn=ARN_PREFIX + app.schema.table)
    assert requests
    return [request for request in requests if not allowed(granted, request)]


def seen(requests: list[Request], prefix: str = "") -> set[Sent]:
    """The same as the watch has it."""
    kinds = {f"{prefix}{kind}": kind for kind in Kind}
    return {
        Sent(request.action.removeprefix("dynamodb:"), kinds[key.partition("#")[0]] if key else None)
        for request in requests
        for key in request.leading_keys or [""]
    }


def enqueue_everything(app: App, note: Job[[str], Any]) -> None:
    app.check_table()
    app.enqueue(note, "plain")
    app.enqueue(note.using(delay=timedelta(hours=1)), "later")
    for _ in range(2):
        app.enqueue(note.using(key="k"), "keyed")
    app.enqueue_many(note.call(f"{number}") for number in range(3))


def test_enqueueing_suffices_for_every_way_to_enqueue(app: App, watch: Watch) -> None:
    @app.job
    def note(what: str) -> None: ...

    with recorded() as requests, watch.acting_out() as planned:
        enqueue_everything(app, note)
    assert refused(app, Role.ENQUEUE, requests) == []
    assert seen(requests, "jobs/") == planned


def test_enqueueing_suffices_for_transactions_of_the_callers_own(app: App) -> None:
    @app.job
    def note(what: str) -> None: ...

    client = app._clients.get()
    with recorded() as requests:
        client.transact_write_items(TransactItems=app.transact_items(note, what="by boto3"))
        client.transact_write_items(TransactItems=app.transact_items(note.using(key="k"), what="by boto3"))
        with TransactWrite(connection=Connection(region="us-east-1")) as transaction:
            for model, condition in app.transact_models(note.using(key="p"), what="by PynamoDB"):
                transaction.save(model, condition=condition)
    assert len([request for request in requests if request.action == "dynamodb:PutItem"]) == 5
    assert refused(app, Role.ENQUEUE, requests) == []


def test_working_suffices_for_success_failure_and_what_follows(app: App, watch: Watch) -> None:
    @app.job(retry=RETRY)
    def succeed(what: str) -> str:
        return what

    @app.job(retry=RETRY)
    def fail(what: str) -> None:
        raise ValueError(what)

    @app.job(retry=RETRY)
    def enqueue_more(what: str) -> None:
        app.enqueue(succeed, what=what)

    jobs: list[Job[[str], Any]] = [succeed, fail, enqueue_more]
    for job in jobs:
        app.enqueue(job, "plain")
        app.enqueue(job.using(key="k"), "keyed")
    with recorded() as requests, watch.acting_out() as planned:
        app.worker().drain(timeout=timedelta(seconds=30))
    assert refused(app, Role.WORK, requests) == []
    assert seen(requests, "jobs/") == planned


def test_working_suffices_for_the_users_own_write_under_a_lease(app: App) -> None:
    with recorded() as requests, app.lease("leader", ttl=timedelta(minutes=1)) as lease:
        app._clients.get().transact_write_items(TransactItems=[lease.condition_check()])
    assert "dynamodb:ConditionCheckItem" in {request.action for request in requests}
    assert refused(app, Role.WORK, requests) == []


def test_event_loops_send_nothing_else(world: World, watch: Watch) -> None:
    """Over aioboto3, and over boto3 on threads."""
    app = world.app

    @app.job
    async def note(what: str) -> str:
        return what

    async def enqueue() -> None:
        await app.aio.check_table()
        for _ in range(2):
            await app.aio.enqueue(note.using(key="k"), what="keyed")
        await app.aio.enqueue_many(note.call(what=f"{number}") for number in range(3))

    async def work() -> None:
        await app.aio.worker().drain(timeout=timedelta(seconds=30))

    acts: list[tuple[Role, Callable[[], Any]]] = [(Role.ENQUEUE, enqueue), (Role.WORK, work)]
    for role, act in acts:
        with recorded() as requests, watch.acting_out() as planned:
            play(act)
        assert refused(app, role, requests) == []
        assert seen(requests) == planned


def test_the_recorder_sees_through_transactions_batches_and_queries() -> None:
    key = {"pk": {"S": "run#1"}, "sk": {"S": "run"}}
    name = {"TableName": "work"}
    elements = requests_of(
        "TransactWriteItems",
        {"TransactItems": [{"Put": {**name, "Item": key}}, {"ConditionCheck": {**name, "Key": key}}]},
    )
    assert [request.action for request in elements] == ["dynamodb:PutItem", "dynamodb:ConditionCheckItem"]
    (batch,) = requests_of("BatchWriteItem", {"RequestItems": {"work": [{"PutRequest": {"Item": key}}] * 2}})
    assert batch.leading_keys == ("run#1", "run#1")
    (query,) = requests_of(
        "Query",
        {
            **name,
            "KeyConditionExpression": "#0 = :0 AND #1 < :1",
            "ExpressionAttributeNames": {"#0": "pk", "#1": "sk"},
            "ExpressionAttributeValues": {":0": {"S": "queue#mail#0"}, ":1": {"S": "x"}},
        },
    )
    assert query.leading_keys == ("queue#mail#0",)
    with pytest.raises(AssertionError, match="ExecuteStatement"):
        requests_of("ExecuteStatement", name)
