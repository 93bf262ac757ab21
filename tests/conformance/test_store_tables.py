"""Tables: creation, description, time to live."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.conftest import drop_table, make_table
from tests.conformance.notation import to_attributes
from tests.conformance.subject import MISSING, Subject


def test_a_table_is_described(subject: Subject) -> None:
    description = subject.send("DescribeTable", {"TableName": subject.table})["Table"]
    assert description["TableName"] == subject.table
    assert description["TableStatus"] == "ACTIVE"
    assert description["KeySchema"] == [
        {"AttributeName": "pk", "KeyType": "HASH"},
        {"AttributeName": "sk", "KeyType": "RANGE"},
    ]
    definitions = sorted(description["AttributeDefinitions"], key=lambda each: str(each["AttributeName"]))
    assert definitions == [
        {"AttributeName": "pk", "AttributeType": "S"},
        {"AttributeName": "sk", "AttributeType": "S"},
    ]


def test_a_table_exists_once(subject: Subject) -> None:
    with subject.refused("ResourceInUseException"):
        make_table(subject.send, subject.table)


def test_a_missing_table_is_not_described(subject: Subject) -> None:
    for operation in ("DescribeTable", "DeleteTable"):
        with subject.refused(MISSING):
            subject.send(operation, {"TableName": "no-such-table"})


def test_tables_are_listed(subject: Subject) -> None:
    assert subject.table in subject.send("ListTables", {})["TableNames"]


def test_a_deleted_table_takes_its_items_along(subject: Subject) -> None:
    name = make_table(subject.send, f"{subject.table}-deleted")
    subject.send("PutItem", {"TableName": name, "Item": subject.key()})
    drop_table(subject.send, name)
    with subject.refused(MISSING):
        subject.send("GetItem", {"TableName": name, "Key": subject.key()})
    subject.made_tables.append(make_table(subject.send, name))
    assert "Item" not in subject.send("GetItem", {"TableName": name, "Key": subject.key()})


def test_a_table_may_have_no_sort_key(subject: Subject) -> None:
    name = make_table(subject.send, f"{subject.table}-simple", sk=None)
    subject.made_tables.append(name)
    item = to_attributes({"pk": "a", "n": 1})
    subject.send("PutItem", {"TableName": name, "Item": item})
    subject.send("PutItem", {"TableName": name, "Item": to_attributes({"pk": "b"})})
    assert subject.send("GetItem", {"TableName": name, "Key": to_attributes({"pk": "a"})})["Item"] == item
    query = {"KeyConditionExpression": "pk = :v", "ExpressionAttributeValues": to_attributes({":v": "a"})}
    assert subject.send("Query", {"TableName": name, **query})["Items"] == [item]
    with subject.refused():
        subject.send("GetItem", {"TableName": name, "Key": to_attributes({"pk": "a", "sk": "b"})})


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"KeySchema": []}, id="no key"),
        pytest.param({"KeySchema": [{"AttributeName": "other", "KeyType": "HASH"}]}, id="undefined key"),
        pytest.param({"KeySchema": [{"AttributeName": "pk", "KeyType": "RANGE"}]}, id="no partition key"),
        pytest.param(
            {"AttributeDefinitions": [{"AttributeName": n, "AttributeType": "S"} for n in ("pk", "n")]}, id="not a key"
        ),
        pytest.param({"TableName": "x"}, id="short name"),
        pytest.param({"TableName": "a b c"}, id="blanks in the name"),
        pytest.param({"BillingMode": "PROVISIONED"}, id="no throughput"),
    ],
)
def test_a_table_is_refused(subject: Subject, changes: dict[str, Any]) -> None:
    request = {
        "TableName": f"{subject.table}-refused",
        "BillingMode": "PAY_PER_REQUEST",
        "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
        "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}],
    }
    with subject.refused():
        subject.send("CreateTable", {**request, **changes})


def test_time_to_live_is_switched_on_and_described(subject: Subject) -> None:
    subject.needs("time_to_live_api")
    name = make_table(subject.send, f"{subject.table}-ttl")
    subject.made_tables.append(name)

    def described() -> dict[str, Any]:
        reply: dict[str, Any] = subject.send("DescribeTimeToLive", {"TableName": name})["TimeToLiveDescription"]
        return reply

    assert described()["TimeToLiveStatus"] == "DISABLED"
    specification = {"Enabled": True, "AttributeName": "ttl"}
    reply = subject.send("UpdateTimeToLive", {"TableName": name, "TimeToLiveSpecification": specification})
    assert reply["TimeToLiveSpecification"] == specification
    assert described() == {"TimeToLiveStatus": "ENABLED", "AttributeName": "ttl"}
    with subject.refused():
        subject.send("UpdateTimeToLive", {"TableName": name, "TimeToLiveSpecification": specification})


def test_an_expired_item_may_still_be_read(subject: Subject) -> None:
    subject.put({"ttl": 1})
    assert subject.get() == {"ttl": 1}
