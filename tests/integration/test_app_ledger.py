"""``app.ledger``: what an app sends is counted, by whatever way it is sent, and only while somebody counts."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from dynadurable import App, JobContext, fan_out, iterable_pages
from dynadurable.errors import StoreUnavailableError
from dynadurable.storage.call import Call
from dynadurable.testing.clock import ManualClock
from dynadurable.testing.ledger import ledger
from dynadurable.testing.memory import MemoryClient, MemoryStore
from tests.servers import Store

KEY = {"pk": {"S": "order"}, "sk": {"S": "1"}}


@pytest.fixture
def client() -> MemoryClient:
    return MemoryClient(MemoryStore(locked=True))


@pytest.fixture
def app(client: MemoryClient) -> App:
    made = App("shop", client=client, clock=ManualClock())
    made.create_table()
    return made


def define(app: App) -> Any:
    @app.job
    def work(number: int) -> None: ...

    return work


def test_a_plain_job_is_counted_by_operation(app: App) -> None:
    work = define(app)
    with app.ledger() as cost:
        app.enqueue(work, 1)
        app.worker(concurrency=1).drain()
    assert cost.write_units_by == {"PutItem": 1.0, "UpdateItem": 1.0, "DeleteItem": 1.0}
    assert cost.write_units == 3
    assert cost.by_operation["PutItem"] == 1
    assert (cost.failed_writes, cost.scans, cost.guessed, cost.unanswered) == (0, 0, 0, 0)


def test_two_ledgers_count_each_what_is_sent_while_they_are_open(app: App) -> None:
    work = define(app)
    with app.ledger() as outer:
        app.enqueue(work, 1)
        with app.ledger() as inner:
            app.enqueue(work, 2)
        app.enqueue(work, 3)
    app.enqueue(work, 4)
    assert (inner.write_units, outer.write_units) == (1, 3)


def test_every_thread_is_counted(app: App) -> None:
    work = define(app)
    threads = [threading.Thread(target=app.enqueue, args=(work, number)) for number in range(50)]
    with app.ledger() as cost:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert (cost.write_units, cost.calls, len(cost.entries)) == (50, 50, 50)


def test_what_others_send_through_the_same_client_is_not_counted(app: App, client: MemoryClient) -> None:
    with app.ledger() as cost:
        client.put_item(TableName="shop", Item=KEY)
    assert cost.calls == 0


def test_nothing_is_asked_for_while_nobody_counts(app: App, client: MemoryClient) -> None:
    sent: list[dict[str, Any]] = []
    inner = client.put_item

    def noted(**params: Any) -> Any:
        sent.append(params)
        return inner(**params)

    client.put_item = noted  # type: ignore[method-assign]
    work = define(app)
    app.enqueue(work, 1)
    with app.ledger():
        app.enqueue(work, 2)
    assert ["ReturnConsumedCapacity" in params for params in sent] == [False, True]


def test_fan_outs_with_a_client_of_their_own_are_counted_too(app: App, client: MemoryClient) -> None:
    other = MemoryClient(client.store)
    people = iterable_pages(lambda after: range(after or 0, 30), cursor_of=lambda number: number + 1)

    @app.job
    def deliver(ctx: JobContext) -> None:
        fan_out(ctx, people, lambda number: {"pk": f"p-{number}", "sk": "post"}, client=other)

    app.enqueue(deliver)
    with app.ledger() as cost:
        app.worker(concurrency=1).drain()
    assert cost.write_units_by["BatchWriteItem"] == 30


def test_a_refused_write_costs_what_the_item_does(app: App) -> None:
    """A conditional write that fails is charged by the size of the item that it found."""
    big = {**KEY, "data": {"B": b"x" * 2500}}
    app.driver.send(Call(operation="PutItem", params={"TableName": "shop", "Item": big}))
    absent = {"ConditionExpression": "attribute_not_exists(pk)", "ReturnValuesOnConditionCheckFailure": "ALL_OLD"}
    call = Call(operation="PutItem", params={"TableName": "shop", "Item": KEY, **absent})
    with app.ledger() as cost, pytest.raises(Exception, match=r".+"):
        app.driver.send(call)
    assert (cost.write_units, cost.failed_writes, cost.guessed) == (3, 1, 0)


def test_what_got_no_answer_is_said_to_be_so(app: App, client: MemoryClient) -> None:
    from botocore.exceptions import ReadTimeoutError

    def silent(**_: Any) -> Any:
        raise ReadTimeoutError(endpoint_url="memory://")

    client.put_item = silent  # type: ignore[method-assign]
    work = define(app)
    with app.ledger() as cost, pytest.raises(StoreUnavailableError):
        app.enqueue(work, 1)
    assert cost.unanswered == cost.calls > 1
    assert cost.write_units == 0


def test_an_index_is_counted_where_the_answer_tells(app: App, client: MemoryClient) -> None:
    """Sizes alone know nothing of the indexes of a shared table: DynamoDB's answer does."""
    inner = client.put_item

    def indexed(**params: Any) -> Any:
        return {**inner(**params), "ConsumedCapacity": {"TableName": "shop", "CapacityUnits": 3.0}}

    client.put_item = indexed  # type: ignore[method-assign]
    with app.ledger() as cost:
        app.enqueue(define(app), 1)
    assert cost.write_units == 3


def test_a_long_lived_ledger_does_not_grow(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dynadurable.ledger.sizes.MAX_KNOWN", 10)
    monkeypatch.setattr("dynadurable.ledger.ledger.MAX_ENTRIES", 10)
    work = define(app)
    with app.ledger() as cost:
        for number in range(30):
            app.enqueue(work, number)
        (opened,) = app.driver.meter._open
        assert len(opened.known._sizes) == 10
    assert (cost.write_units, len(cost.entries)) == (30, 10)


@pytest.mark.parametrize("how", ["threads", "async jobs"])
def test_the_async_twin_counts_the_same(app: App, how: str) -> None:
    work = define(app)

    @app.job
    async def work_async(number: int) -> None: ...

    async def play() -> Any:
        with app.aio.ledger() as cost:
            await app.aio.enqueue(work if how == "threads" else work_async, 1)
            await app.aio.worker().drain()
        return cost

    cost = asyncio.run(play())
    assert (cost.write_units, cost.failed_writes, cost.scans) == (3, 0, 0)


@pytest.mark.server
def test_both_ledgers_agree_on_a_server_with_the_users_own_client(ministack: Store) -> None:
    """Counted in the driver, and counted in the client."""
    app = App(ministack.table(), client=ministack.client, clock=ManualClock())
    work = define(app)
    with app.ledger() as cost, ledger(ministack.client) as counted:
        app.enqueue(work.using(key="k"), 1)
        app.enqueue(work.using(key="k"), 1)
        app.enqueue(work, 1)
        app.worker(concurrency=1).drain()
    assert cost.write_units == counted.write_units
    assert cost.by_operation == counted.by_operation
    assert cost.guessed == 0


@pytest.mark.aio
@pytest.mark.server
def test_requests_of_aioboto3_are_counted(ministack: Store) -> None:
    import aioboto3

    kwargs = dict(ministack.client_kwargs)
    session = aioboto3.Session(
        aws_access_key_id=kwargs["aws_access_key_id"],
        aws_secret_access_key=kwargs["aws_secret_access_key"],
        region_name=kwargs["region_name"],
    )
    app = App(ministack.table(), aio_session=session, client=ministack.client, endpoint_url=ministack.endpoint_url)

    @app.job
    async def work(number: int) -> None: ...

    async def play() -> Any:
        with app.aio.ledger() as cost:
            await app.aio.enqueue(work, 1)
            await app.aio.worker().drain()
        return cost

    with ledger(ministack.client) as through_boto3:
        cost = asyncio.run(play())
    assert (cost.write_units, cost.guessed, cost.scans) == (3, 0, 0)
    assert through_boto3.by_operation["PutItem"] == 0  # it went another way
