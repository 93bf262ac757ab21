"""Each role may do what it is for: real requests, held against the statements of its grant."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from moto import mock_aws

from dynadurable import App, Job, Retry
from dynadurable.storage.permissions import Role, statements
from dynadurable.testing.moto import serialised_moto
from tests.policies import Request, allowed
from tests.recorder import ARN_PREFIX, recorded, requests_of

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


def test_enqueueing_suffices_for_every_way_to_enqueue(app: App) -> None:
    @app.job
    def note(what: str) -> None: ...

    with recorded() as requests:
        app.enqueue(note, what="plain")
        app.enqueue(note.using(delay=timedelta(hours=1)), what="later")
        app.enqueue(note.using(key="k"), what="keyed")
        app.enqueue(note.using(key="k"), what="keyed")
    for job in (note, note.using(key="k2")):
        requests.extend(requests_of("TransactWriteItems", {"TransactItems": app.transact_items(job, what="with mine")}))
    assert refused(app, Role.ENQUEUE, requests) == []


def test_working_suffices_for_success_failure_and_what_follows(app: App) -> None:
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
    with recorded() as requests:
        app.worker().drain(timeout=timedelta(seconds=30))
    assert refused(app, Role.WORK, requests) == []


def test_the_recorder_sees_through_transactions_batches_and_queries() -> None:
    key = {"pk": {"S": "run#1"}, "sk": {"S": "run"}}
    name = {"TableName": "work"}
    seen = requests_of(
        "TransactWriteItems",
        {"TransactItems": [{"Put": {**name, "Item": key}}, {"ConditionCheck": {**name, "Key": key}}]},
    )
    assert [request.action for request in seen] == ["dynamodb:PutItem", "dynamodb:ConditionCheckItem"]
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
