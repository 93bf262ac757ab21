"""What the fence of a lease refuses; leases from outside: list, show, break; what they cost."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from dynadurable import App, LeaseLostError
from dynadurable.errors import LeaseBusyError
from dynadurable.lease import Lease
from dynadurable.testing.clock import ManualClock
from dynadurable.testing.ledger import ledger
from tests.patience import crash, pass_time
from tests.servers import Store

ItemsIn = Callable[[App], list[dict[str, Any]]]
MakeApp = Callable[..., App]
SECOND = timedelta(seconds=1)


def put_guarded(client: Any, app: App, lease: Lease, value: str) -> None:
    item = {"pk": {"S": "timeline"}, "sk": {"S": "timeline"}, "value": {"S": value}}
    put = {"Put": {"TableName": app.schema.table, "Item": item}}
    client.transact_write_items(TransactItems=[lease.condition_check(), put])


# --- fence ----------------------------------------------------------------------------------------


def test_a_guarded_write_fails_once_the_lease_has_moved_on(
    make_app: MakeApp, clock: ManualClock, moto_client: Any
) -> None:
    """B11 and B13: the overlap is made, and closed: the old holder wakes up after the new one has begun."""
    first, second = make_app(), make_app()
    old = first.lease("refresher", ttl=3 * SECOND).acquire()
    put_guarded(moto_client, first, old, "old")
    crash(first)
    clock.advance(4 * SECOND)
    put_guarded(moto_client, first, old, "old, late, but nobody else was there")
    new = second.lease("refresher", ttl=3 * SECOND).acquire()
    for _ in range(2):
        with pytest.raises(moto_client.exceptions.TransactionCanceledException):
            put_guarded(moto_client, first, old, "stale")
        put_guarded(moto_client, second, new, "new")
    new.release()
    with pytest.raises(moto_client.exceptions.TransactionCanceledException):
        put_guarded(moto_client, second, new, "after the release")


def test_a_broken_lease_refuses_its_holder_s_writes_at_once(make_app: MakeApp, moto_client: Any) -> None:
    app = make_app()
    lease = app.lease("refresher", ttl=300 * SECOND).acquire()
    assert app.leases.break_("refresher").state == "held"
    with pytest.raises(moto_client.exceptions.TransactionCanceledException):
        put_guarded(moto_client, app, lease, "stale")
    app.lease_parts.keeper.stop()


def test_the_fence_condition_refuses_what_was_overtaken(
    make_app: MakeApp, clock: ManualClock, moto_client: Any
) -> None:
    first, second = make_app(), make_app()

    def write(app: App, lease: Lease) -> None:
        guard = lease.fence_condition("epoch")
        moto_client.update_item(
            TableName=app.schema.table,
            Key={"pk": {"S": "timeline"}, "sk": {"S": "timeline"}},
            UpdateExpression=f"SET entries = :entries, {guard.assignment}",
            ConditionExpression=guard.expression,
            ExpressionAttributeNames=guard.names,
            ExpressionAttributeValues={":entries": {"N": "1"}, **guard.values},
        )

    old = first.lease("refresher", ttl=3 * SECOND).acquire()
    write(first, old)
    write(first, old)
    crash(first)
    clock.advance(4 * SECOND)
    new = second.lease("refresher", ttl=3 * SECOND).acquire()
    write(second, new)
    with pytest.raises(moto_client.exceptions.ConditionalCheckFailedException):
        write(first, old)


def test_the_condition_check_works_in_a_transaction_of_pynamodb(make_app: MakeApp, moto_client: Any) -> None:
    app = make_app(prefix="jobs/")
    lease = app.lease("refresher", ttl=3 * SECOND).acquire()
    model, pk, sk, condition = lease.condition_check_args()
    params = model.get_operation_kwargs_from_class(pk, sk, condition=condition)
    assert params["Key"] == lease.condition_check()["ConditionCheck"]["Key"]
    assert params["ConditionExpression"] == lease.condition_check()["ConditionCheck"]["ConditionExpression"]
    put_guarded(moto_client, app, lease, "new")
    lease.release()


# --- from outside ---------------------------------------------------------------------------------


def test_leases_are_listed_without_a_scan(make_app: MakeApp, clock: ManualClock, moto_client: Any) -> None:
    app = make_app()
    for number in range(40):
        app.lease(f"lease-{number:02}", ttl=9 * SECOND).acquire()
    app.lease("lease-00", ttl=9 * SECOND, wait=None)
    app.leases.break_("lease-07")
    with ledger(moto_client) as cost:
        told = app.leases.list()
    assert cost.scans == 0
    assert [lease.name for lease in told] == [f"lease-{number:02}" for number in range(40)]
    assert [lease.name for lease in told if lease.state == "free"] == ["lease-07"]
    crash(app)
    clock.advance(10 * SECOND)
    assert {lease.state for lease in app.leases.list()} == {"free", "lapsed"}
    assert len(app.leases.list(limit=5)) == 5
    assert app.leases.get("lease-03") == app.leases.list()[3]
    assert app.leases.get("unknown") is None


def test_a_lease_that_changed_hands_is_not_broken_by_mistake(make_app: MakeApp, clock: ManualClock) -> None:
    app = make_app()
    with pytest.raises(LeaseLostError, match="never acquired"):
        app.leases.break_("refresher")
    with app.lease("refresher", ttl=9 * SECOND):
        pass
    with app.lease("refresher", ttl=9 * SECOND) as lease:
        with pytest.raises(LeaseBusyError, match="fence 2 by now"):
            app.leases.break_("refresher", fence=1)
        assert lease.is_valid()


def test_a_held_lease_costs_a_write_unit_per_renewal(make_app: MakeApp, clock: ManualClock, moto_store: Store) -> None:
    """Budget: acquire 1, renewal 1, release 1."""
    app = make_app()
    with ledger(moto_store.client, reader=moto_store.new_client()) as cost:
        with app.lease("refresher", ttl=15 * SECOND):
            assert cost.write_units == 1, str(cost)
            for number in range(1, 5):
                pass_time(app.lease_parts.keeper, clock, 5.0, step=5.0)
                assert cost.write_units == 1 + number
        assert cost.write_units == 6, str(cost)
    assert cost.read_units == 0
    assert cost.failed_writes == 0
