"""Run and assert, for all four kinds of bodies: results and steps by name, and how often a step was called."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from dynadurable.errors import ConfigurationError
from dynadurable.testing.kit import Kit
from tests.kit import shop

BOTH = pytest.mark.parametrize("flow", [shop.order, shop.order_async], ids=["def", "async def"])


@BOTH
def test_steps_are_counted_by_name_and_replays_are_no_calls(tools: Kit, flow: Any) -> None:
    run = shop.app.enqueue(flow, 42)
    tools.run_until_idle()
    assert (tools.step_calls("charge"), tools.step_calls("notify")) == (1, 0)
    tools.clock.advance(timedelta(days=3))
    tools.run_until_idle()
    assert (tools.step_calls("charge"), tools.step_calls("notify")) == (1, 1)
    assert tools.body_starts(flow) == 2
    assert tools.results(flow) == ["CHARGED 42"]
    assert run.result() == "CHARGED 42"


@BOTH
def test_steps_of_a_run_are_at_hand_by_name(tools: Kit, flow: Any) -> None:
    run = shop.app.enqueue(flow, 42)
    tools.run_until_idle()
    steps = tools.steps(run)
    assert (steps["charge"].state, steps["charge"].tries) == ("done", 1)
    assert "notify" not in steps
    (waiting,) = [event for event in steps.values() if event.kind == "sleep"]
    assert waiting.wakes_at == tools.clock.now() + timedelta(days=3)


@BOTH
def test_a_workflow_is_asserted_by_its_arguments(tools: Kit, flow: Any) -> None:
    shop.app.enqueue(flow, 42)
    assert tools.assert_enqueued(flow, amount=42).job == flow.name
    tools.assert_not_enqueued(flow, amount=43)


def test_an_input_in_an_item_of_its_own_is_shown_too(tools: Kit) -> None:
    shop.app.enqueue(shop.send, to="a" * 20_000)
    tools.assert_enqueued(shop.send, to="a" * 20_000)
    shop.app.enqueue(shop.echo, "b" * 20_000)
    tools.assert_enqueued(shop.echo, text="b" * 20_000)


def test_steps_of_branches_retries_and_compensations_are_counted(tools: Kit) -> None:
    shop.app.enqueue(shop.undone)
    tools.run_until_idle(skip_time=True)
    assert tools.step_calls("declined") == 2
    assert tools.step_calls("refund") == 1
    assert shop.outbox == ["charge 5", "refund of charged 5"]
    assert [letter.job for letter in tools.dead_letters] == ["undone"]
    assert tools.bodies["step charge"] == 1


def test_branches_are_counted_by_their_name(tools: Kit) -> None:
    run = shop.app.enqueue(shop.order, 1)
    tools.run_until_idle(skip_time=True)
    assert tools.step_calls("pack") + tools.step_calls("charge") == 3
    assert run.status() == "succeeded"


@pytest.mark.parametrize("job", [shop.send, shop.send_async], ids=["def", "async def"])
def test_results_are_in_the_order_of_the_enqueues(tools: Kit, job: Any) -> None:
    for name in ("ada", "bob", "eve"):
        shop.app.enqueue(job, to=name)
        tools.clock.advance(timedelta(seconds=1))
    tools.run_until_idle()
    assert tools.results(job) == ["sent to ada", "sent to bob", "sent to eve"]
    assert tools.events["succeeded"] == 3


def test_a_job_that_keeps_no_results_says_how_to(tools: Kit) -> None:
    with pytest.raises(ConfigurationError, match="undone keeps no results: say keep_result="):
        tools.results(shop.undone)


@BOTH
def test_one_run_at_a_time(tools: Kit, flow: Any) -> None:
    shop.app.enqueue(flow, 1)
    shop.app.enqueue(shop.send_async, to="ada")
    tools.clock.advance(timedelta(seconds=1))
    assert {tools.run_one(), tools.run_one()} == {"parked", "succeeded"}
    assert tools.run_one() is None


@pytest.mark.parametrize("tools", ["memory", "moto"], indirect=True)
def test_cost_counts_what_is_spent_through_the_kits_client(tools: Kit) -> None:
    with tools.cost() as cost, shop.app.ledger() as ours:
        shop.app.enqueue(shop.undone.using(delay=timedelta(days=1)))
        tools.client.put_item(TableName=tools.backend.table, Item={"pk": {"S": "mine"}, "sk": {"S": "1"}})
    assert cost.write_units == ours.write_units + 1 == 3


def test_several_bodies_at_once(tools: Kit) -> None:
    for number in range(20):
        shop.app.enqueue(shop.send if number % 2 else shop.send_async, to=str(number))
    tools.run_until_idle(concurrency=4)
    assert sorted(shop.outbox, key=int) == [str(number) for number in range(20)]
