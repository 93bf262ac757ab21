"""Snapshots of the in-memory store: cheap, constant, and nobody's alone."""

from __future__ import annotations

import pytest

from dynadurable.errors import TableMissingError
from dynadurable.storage.call import Call
from dynadurable.testing.memory import MemoryStore
from tests.unit.memory_tasks import TABLE, add, key, new_store, put, run


@pytest.fixture
def store() -> MemoryStore:
    return new_store()


def test_a_snapshot_is_not_changed_by_later_writes(store: MemoryStore) -> None:
    for pk in "pq":
        for sk in "abc":
            put(store, sk, pk)
    before = store.items(TABLE)
    snapshot = store.snapshot()
    add(store, sk="a")
    put(store, "d")
    run(store, "DeleteItem", Key=key("b"))
    for sk in "abc":
        run(store, "DeleteItem", Key=key(sk, "q"))
    assert store.items(TABLE) != before
    store.restore(snapshot)
    assert store.items(TABLE) == before


def test_a_snapshot_may_be_restored_again_and_again(store: MemoryStore) -> None:
    put(store)
    snapshot = store.snapshot()
    for _ in range(3):
        add(store)
        put(store, "b")
        store.restore(snapshot)
        assert store.items(TABLE) == [key()]


def test_stores_that_share_a_snapshot_do_not_affect_one_another(store: MemoryStore) -> None:
    put(store)
    put(store, "b")
    snapshot = store.snapshot()
    others = [MemoryStore(), MemoryStore()]
    for amount, other in enumerate(others, start=1):
        other.restore(snapshot)
        add(other, amount)
        other.snapshot()
        run(other, "DeleteItem", Key=key("b"))
    assert store.items(TABLE) == [key(), key("b")]
    assert [other.items(TABLE) for other in others] == [[{**key(), "n": {"N": str(amount)}}] for amount in (1, 2)]


def test_snapshots_of_different_moments_stay_apart(store: MemoryStore) -> None:
    snapshots = []
    for _ in range(4):
        snapshots.append(store.snapshot())
        add(store)
    for taken, snapshot in reversed(list(enumerate(snapshots))):
        store.restore(snapshot)
        expected = [{**key(), "n": {"N": str(taken)}}] if taken else []
        assert store.items(TABLE) == expected


def test_a_snapshot_holds_tables_time_to_live_and_tokens(store: MemoryStore) -> None:
    empty = MemoryStore().snapshot()
    run(store, "UpdateTimeToLive", TimeToLiveSpecification={"Enabled": True, "AttributeName": "ttl"})
    element = {"Put": {"TableName": TABLE, "Item": key()}}
    transaction = Call(
        operation="TransactWriteItems", params={"TransactItems": [element], "ClientRequestToken": "token"}
    )
    store.execute(transaction)
    snapshot = store.snapshot()
    store.restore(empty)
    with pytest.raises(TableMissingError):
        store.items(TABLE)
    store.restore(snapshot)
    assert run(store, "DescribeTimeToLive")["TimeToLiveDescription"]["AttributeName"] == "ttl"
    run(store, "DeleteItem", Key=key())
    store.execute(transaction)
    assert store.items(TABLE) == []


def test_a_snapshot_shares_every_item(store: MemoryStore) -> None:
    for number_ in range(10):
        put(store, str(number_))
    before = store.items(TABLE)
    store.restore(store.snapshot())
    add(store, sk="3")
    after = store.items(TABLE)
    assert [one is other for one, other in zip(before, after, strict=True)].count(False) == 1
