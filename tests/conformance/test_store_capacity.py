"""What requests cost: write units of 1 KB, read units of 4 KB."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.subject import Subject

TOTAL: dict[str, Any] = {"ReturnConsumedCapacity": "TOTAL"}


def units(subject: Subject, reply: dict[str, Any]) -> float:
    """The units of a reply to a request for one table."""
    consumed = reply["ConsumedCapacity"]
    if isinstance(consumed, list):
        (consumed,) = consumed
    assert consumed["TableName"].endswith(subject.table)
    return float(consumed["CapacityUnits"])


def put_bytes(subject: Subject, size: int, sk: str = "a") -> dict[str, Any]:
    """Put an item of exactly so many bytes."""
    keys = len("pk") + len(subject.pk) + len("sk") + len(sk)
    return subject.put({"f": "x" * (size - keys - len("f"))}, sk=sk, **TOTAL)


@pytest.fixture
def writes(subject: Subject) -> Subject:
    subject.needs("exact_write_capacity")
    return subject


@pytest.fixture
def reads(subject: Subject) -> Subject:
    subject.needs("exact_read_capacity")
    return subject


def test_a_reply_has_no_units_unless_asked(subject: Subject) -> None:
    assert "ConsumedCapacity" not in subject.put({"n": 1})
    assert "ConsumedCapacity" not in subject.put({"n": 1}, ReturnConsumedCapacity="NONE")


def test_an_unknown_choice_of_units_is_refused(subject: Subject) -> None:
    with subject.refused():
        subject.put({"n": 1}, ReturnConsumedCapacity="SOME")


@pytest.mark.parametrize(("size", "cost"), [(100, 1), (1024, 1), (1025, 2), (2048, 2), (2049, 3), (10_241, 11)])
def test_a_put_costs_a_unit_for_each_kilobyte_begun(writes: Subject, size: int, cost: float) -> None:
    assert units(writes, put_bytes(writes, size)) == cost


def test_a_put_is_charged_for_the_larger_of_old_and_new(writes: Subject) -> None:
    put_bytes(writes, 3000)
    assert units(writes, put_bytes(writes, 100)) == 3
    assert units(writes, put_bytes(writes, 100)) == 1


def test_an_update_is_charged_for_the_whole_item(writes: Subject) -> None:
    put_bytes(writes, 1500)
    assert units(writes, writes.update("SET n = :v", {":v": 1}, **TOTAL)) == 2
    assert units(writes, writes.update("SET f = :v", {":v": "x"}, **TOTAL)) == 2
    assert units(writes, writes.update("SET n = :v", {":v": 1}, **TOTAL)) == 1


def test_an_update_of_an_absent_item_costs_one_unit(writes: Subject) -> None:
    assert units(writes, writes.update("SET n = :v", {":v": 1}, **TOTAL)) == 1


def test_a_delete_is_charged_for_what_it_deletes(writes: Subject) -> None:
    put_bytes(writes, 2500)
    assert units(writes, writes.delete(**TOTAL)) == 3
    assert units(writes, writes.delete(**TOTAL)) == 1


def test_a_batch_is_charged_for_each_write(writes: Subject) -> None:
    put_bytes(writes, 2500, sk="b")
    requests = [{"PutRequest": {"Item": writes.key("a")}}, {"DeleteRequest": {"Key": writes.key("b")}}]
    reply = writes.send("BatchWriteItem", {"RequestItems": {writes.table: requests}, **TOTAL})
    assert units(writes, reply) == 4


def test_a_transaction_costs_double(writes: Subject) -> None:
    put_bytes(writes, 1500, sk="b")
    reply = writes.transact(
        writes.element("Put", "a"),
        writes.element("Delete", "b"),
        writes.element("ConditionCheck", "c", ConditionExpression="attribute_not_exists(pk)"),
        **TOTAL,
    )
    assert units(writes, reply) == 2 + 4 + 2


@pytest.mark.parametrize(("size", "cost"), [(100, 1), (4096, 1), (4097, 2), (20_000, 5)])
def test_a_get_costs_a_unit_for_each_4_kilobytes_begun_and_half_if_not_consistent(
    reads: Subject, size: int, cost: float
) -> None:
    put_bytes(reads, size)
    request = {"TableName": reads.table, "Key": reads.key(), **TOTAL}
    assert units(reads, reads.send("GetItem", {**request, "ConsistentRead": True})) == cost
    assert units(reads, reads.send("GetItem", request)) == cost / 2
    assert units(reads, reads.send("GetItem", {**request, "ProjectionExpression": "absent"})) == cost / 2


def test_a_get_of_an_absent_item_costs_the_least(reads: Subject) -> None:
    request = {"TableName": reads.table, "Key": reads.key(), **TOTAL}
    assert units(reads, reads.send("GetItem", request)) == 0.5
    assert units(reads, reads.send("GetItem", {**request, "ConsistentRead": True})) == 1


def test_a_query_is_charged_for_the_sum_of_what_it_reads(reads: Subject) -> None:
    for number in range(5):
        put_bytes(reads, 1000, sk=str(number))
    assert units(reads, reads.query("pk = :pk", **TOTAL)) == 2
    assert units(reads, reads.query("pk = :pk", ConsistentRead=False, **TOTAL)) == 1
    assert units(reads, reads.query("pk = :pk", Limit=4, **TOTAL)) == 1
    filtered = reads.query("pk = :pk", {":v": "q"}, FilterExpression="f = :v", Select="COUNT", **TOTAL)
    assert units(reads, filtered) == 2


def test_a_query_that_finds_nothing_costs_the_least(reads: Subject) -> None:
    assert units(reads, reads.query("pk = :pk", **TOTAL)) == 1
    assert units(reads, reads.query("pk = :pk", ConsistentRead=False, **TOTAL)) == 0.5


def test_a_batch_of_gets_is_charged_for_each(reads: Subject) -> None:
    put_bytes(reads, 5000, sk="a")
    keys = {"Keys": [reads.key("a"), reads.key("absent")], "ConsistentRead": True}
    reply = reads.send("BatchGetItem", {"RequestItems": {reads.table: keys}, **TOTAL})
    assert units(reads, reply) == 3


def test_a_reading_transaction_costs_double(reads: Subject) -> None:
    reads.needs("transactions")
    put_bytes(reads, 5000, sk="a")
    gets = [{"Get": {"TableName": reads.table, "Key": reads.key(sk)}} for sk in ("a", "absent")]
    reply = reads.send("TransactGetItems", {"TransactItems": gets, **TOTAL})
    assert units(reads, reply) == 4 + 2
