"""The test kit, used as a user would use it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from dynadurable import App, JobContext, Retry, Snooze
from dynadurable.errors import DynadurableError
from dynadurable.testing.backend import backend
from dynadurable.testing.kit import Kit, kit

outbox: list[str] = []
shop = App("shop")


@shop.job(retry=Retry(max_attempts=3, delay=timedelta(minutes=1), jitter=0.0))
def send_receipt(ctx: JobContext, order_id: str, to: str = "nobody") -> None:
    if order_id == "broken" and ctx.attempt < 3:
        raise ConnectionError("mail server is away")
    if order_id == "hopeless":
        raise ValueError("no such order")
    outbox.append(order_id)


@shop.job
def poll_for_ever() -> None:
    raise Snooze(timedelta(seconds=1))


@pytest.fixture(params=["moto", "memory"])
def tools(request: pytest.FixtureRequest) -> object:
    outbox.clear()
    with backend(request.param) as made, kit(shop, made) as opened:
        yield opened


def test_what_is_enqueued_can_be_asserted_and_run(tools: Kit) -> None:
    shop.enqueue(send_receipt, order_id="o-17", to="ada")
    run = tools.assert_enqueued(send_receipt, order_id="o-17")
    assert run.arguments == {"order_id": "o-17", "to": "ada"}
    assert run.due_at == tools.clock.now()
    tools.assert_not_enqueued(send_receipt, order_id="o-18")
    with pytest.raises(AssertionError, match=r"(?s)order_id='o-18'.*pending are:.*'o-17'"):
        tools.assert_enqueued(send_receipt, order_id="o-18")
    assert tools.run_until_idle() is None
    assert outbox == ["o-17"]
    assert tools.enqueued == []
    assert tools.body_starts(send_receipt) == 1


def test_one_at_a_time(tools: Kit) -> None:
    for number in range(3):
        shop.enqueue(send_receipt, order_id=f"o-{number}")
    assert tools.run_one() == "succeeded"
    assert outbox == ["o-0"]
    assert len(tools.enqueued) == 2


def test_retries_come_due_when_the_clock_goes_on(tools: Kit) -> None:
    shop.enqueue(send_receipt, order_id="broken")
    assert tools.run_until_idle() == tools.clock.now() + timedelta(minutes=1)
    assert outbox == []
    tools.clock.advance(timedelta(minutes=1))
    tools.run_until_idle()
    assert tools.run_until_idle(skip_time=True) is None
    assert outbox == ["broken"]
    assert tools.body_starts(send_receipt) == 3


def test_dead_letters_are_at_hand(tools: Kit) -> None:
    shop.enqueue(send_receipt, order_id="hopeless")
    tools.run_until_idle(skip_time=True)
    (letter,) = tools.dead_letters
    assert letter.job == "send_receipt"
    assert "no such order" in letter.error


def test_what_never_ends_is_said_to(tools: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dynadurable.testing.kit.MAX_SKIPS", 5)
    shop.enqueue(poll_for_ever)
    with pytest.raises(DynadurableError, match="again and again"):
        tools.run_until_idle(skip_time=True)


def test_the_app_is_itself_again_afterwards() -> None:
    before = dict(shop.__dict__)
    with backend("memory") as made, kit(shop, made):
        assert shop.schema.table == made.table
    assert shop.__dict__ == before


def test_the_users_own_items_are_told_apart(tools: Kit) -> None:
    tools.client.put_item(TableName=tools.backend.table, Item={"pk": {"S": "order"}, "sk": {"S": "1"}})
    shop.enqueue(send_receipt, order_id="o-17")
    assert tools.own_items() == [{"pk": {"S": "order"}, "sk": {"S": "1"}}]
