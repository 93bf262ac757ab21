"""Items: what can be put, how it comes back, what is refused."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from tests.conformance.subject import MISSING, Raw, Subject, cases


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("", id="empty text"),
        pytest.param("é 日本 🦀 \x00\n", id="text"),
        pytest.param(b"", id="empty bytes"),
        pytest.param(bytes(range(256)), id="bytes"),
        pytest.param(True, id="true"),
        pytest.param(False, id="false"),
        pytest.param(None, id="null"),
        pytest.param([], id="empty list"),
        pytest.param({}, id="empty map"),
        pytest.param([1, "a", b"b", None, True, [2], {"c": {"d"}}], id="list"),
        pytest.param({"a": {"b": {"c": [1, {"d": b"x"}]}}}, id="map of maps"),
        pytest.param({"a", "b"}, id="set of texts"),
        pytest.param({b"a", b"b"}, id="set of bytes"),
        pytest.param({1, Decimal("2.5"), -3}, id="set of numbers"),
    ],
)
def test_a_value_comes_back_equal(subject: Subject, value: Any) -> None:
    subject.put({"v": value})
    assert subject.get() == {"v": value}


@pytest.mark.parametrize(
    ("given", "kept"),
    cases(
        [
            ("1", "1"),
            ("-7", "-7"),
            ("1.10", "1.1"),
            ("0.50", "0.5"),
            ("007", "7"),
            ("+3", "3"),
            ("-0", "0"),
            ("0.0", "0"),
            ("1e3", "1000"),
            ("1.5E2", "150"),
            ("12e-4", "0.0012"),
            (".5", "0.5"),
            ("100", "100"),
            ("12345678901234567890123456789012345678", "12345678901234567890123456789012345678"),
            ("1e20", "100000000000000000000"),
        ]
    ),
)
def test_a_number_is_kept_in_its_canonical_form(subject: Subject, given: str, kept: str) -> None:
    item = {**subject.key(), "n": {"N": given}}
    subject.send("PutItem", {"TableName": subject.table, "Item": item})
    reply = subject.send("GetItem", {"TableName": subject.table, "Key": subject.key(), "ConsistentRead": True})
    assert reply["Item"]["n"] == {"N": kept}


def test_a_number_from_an_update_is_canonical_too(subject: Subject) -> None:
    subject.update("SET n = :v, l = :l", {":v": Raw(N="1.10"), ":l": Raw(L=[{"N": "2.0"}])})
    reply = subject.send("GetItem", {"TableName": subject.table, "Key": subject.key(), "ConsistentRead": True})
    assert reply["Item"]["n"] == {"N": "1.1"}
    assert reply["Item"]["l"] == {"L": [{"N": "2"}]}


def test_equal_numbers_are_equal_however_they_are_written(subject: Subject) -> None:
    subject.update("SET n = :v", {":v": Raw(N="1.10")})
    assert subject.holds("n = :v", {":v": Raw(N="11e-1")})


@pytest.mark.parametrize(
    "value",
    [
        pytest.param({"N": "abc"}, id="no number"),
        pytest.param({"N": ""}, id="empty number"),
        pytest.param({"N": " 1"}, id="blank in a number"),
        pytest.param({"N": "1_000"}, id="underscore in a number"),
        pytest.param({"N": "NaN"}, id="not a number"),
        pytest.param({"N": "Infinity"}, id="infinite"),
        pytest.param({"N": "123456789012345678901234567890123456789"}, id="39 digits"),
        pytest.param({"N": "1e126"}, id="too large"),
        pytest.param({"N": "1e-131"}, id="too small"),
        pytest.param({"SS": []}, id="empty set"),
        pytest.param({"NS": []}, id="empty set of numbers"),
        pytest.param({"SS": ["a", "a"]}, id="twice in a set"),
        pytest.param({"NS": ["1", "1.0"]}, id="twice in a set of numbers"),
        pytest.param({"L": [{"M": {"s": {"SS": []}}}]}, id="nested empty set"),
        pytest.param({"S": "a", "N": "1"}, id="two types"),
        pytest.param({}, id="no type"),
        pytest.param({"NULL": False}, id="false null"),
    ],
)
def test_a_value_is_refused(subject: Subject, value: dict[str, Any]) -> None:
    with subject.refused():
        subject.send("PutItem", {"TableName": subject.table, "Item": {**subject.key(), "v": value}})
    with subject.refused():
        subject.update("SET v = :v", {":v": Raw(value)})
    assert subject.get() is None


def test_arithmetic_is_exact_to_38_digits(subject: Subject) -> None:
    subject.put({"n": 12345678901234567890123456789012345677})
    subject.update("SET n = n + :v", {":v": 1})
    assert subject.get() == {"n": 12345678901234567890123456789012345678}
    subject.update("SET n = :a - :b", {":a": Decimal("0.3"), ":b": Decimal("0.1")})
    assert subject.get() == {"n": Decimal("0.2")}


def test_a_sum_of_more_than_38_digits_is_refused(subject: Subject) -> None:
    subject.put({"n": 10**40})
    with subject.refused():
        subject.update("SET n = n + :v", {":v": 1})
    with subject.refused():
        subject.update("ADD n :v", {":v": 1})
    assert subject.get() == {"n": 10**40}


def test_a_sum_out_of_range_is_refused(subject: Subject) -> None:
    with subject.refused():
        subject.update("SET n = :v + :v", {":v": Raw(N="9e125")})


# --- put, get, delete -----------------------------------------------------------------------------


def test_a_put_replaces_the_whole_item(subject: Subject) -> None:
    subject.put({"a": 1, "b": 2})
    subject.put({"b": 3})
    assert subject.get() == {"b": 3}


def test_a_put_returns_the_old_item_if_asked(subject: Subject) -> None:
    assert "Attributes" not in subject.put({"a": 1}, ReturnValues="ALL_OLD")
    reply = subject.put({"a": 2}, ReturnValues="ALL_OLD")
    assert reply["Attributes"] == {**subject.key(), "a": {"N": "1"}}
    assert "Attributes" not in subject.put({"a": 3})


def test_a_delete_removes_the_item_and_only_it(subject: Subject) -> None:
    subject.put({"a": 1}, sk="a")
    subject.put({"a": 2}, sk="b")
    subject.delete(sk="a")
    assert subject.get("a") is None
    assert subject.get("b") == {"a": 2}


def test_a_delete_returns_the_old_item_if_asked(subject: Subject) -> None:
    subject.put({"a": 1})
    reply = subject.delete(ReturnValues="ALL_OLD")
    assert subject.attributes(reply["Attributes"]) == {"a": 1}
    assert "Attributes" not in subject.delete(ReturnValues="ALL_OLD")


def test_a_delete_of_an_absent_item_is_fine(subject: Subject) -> None:
    subject.delete()
    assert subject.get() is None


def test_an_absent_item_is_not_in_the_reply(subject: Subject) -> None:
    reply = subject.send("GetItem", {"TableName": subject.table, "Key": subject.key()})
    assert "Item" not in reply


@pytest.mark.parametrize(
    "key",
    [
        pytest.param({"pk": {"S": "a"}}, id="missing"),
        pytest.param({"pk": {"S": "a"}, "sk": {"S": "b"}, "x": {"S": "c"}}, id="more"),
        pytest.param({"pk": {"S": "a"}, "other": {"S": "b"}}, id="other"),
        pytest.param({"pk": {"S": "a"}, "sk": {"N": "1"}}, id="type"),
        pytest.param({"pk": {"S": ""}, "sk": {"S": "b"}}, id="empty partition key"),
        pytest.param({"pk": {"S": "a"}, "sk": {"S": ""}}, id="empty sort key"),
    ],
)
def test_a_key_that_does_not_fit_the_table_is_refused(subject: Subject, key: dict[str, Any]) -> None:
    for operation in ("GetItem", "DeleteItem", "UpdateItem"):
        with subject.refused():
            subject.send(operation, {"TableName": subject.table, "Key": key})
    if "x" not in key:
        with subject.refused():
            subject.send("PutItem", {"TableName": subject.table, "Item": key})


@pytest.mark.parametrize("operation", ["GetItem", "DeleteItem", "UpdateItem", "PutItem", "Query", "Scan"])
def test_a_missing_table_is_named_as_such(subject: Subject, operation: str) -> None:
    request: dict[str, Any] = {"TableName": "no-such-table"}
    match operation:
        case "PutItem":
            request["Item"] = subject.key()
        case "Query":
            request |= {"KeyConditionExpression": "pk = :v", "ExpressionAttributeValues": {":v": {"S": "x"}}}
        case "Scan":
            pass
        case _:
            request["Key"] = subject.key()
    with subject.refused(MISSING):
        subject.send(operation, request)


# --- projections ----------------------------------------------------------------------------------

DOCUMENT: dict[str, Any] = {"a": 1, "m": {"x": {"y": 2, "z": 3}, "w": 4}, "l": [10, {"k": 11}, 12]}


@pytest.mark.parametrize(
    ("projection", "expected"),
    cases(
        [
            ("a", {"a": 1}),
            ("a, absent", {"a": 1}),
            ("absent", {}),
            ("m.x", {"m": {"x": {"y": 2, "z": 3}}}),
            ("m.x.y, m.w", {"m": {"x": {"y": 2}, "w": 4}}),
            ("m.absent, a.x, l.x", {}),
            ("l[2], l[0]", {"l": [10, 12]}),
            ("l[1].k, a", {"l": [{"k": 11}], "a": 1}),
            ("l[7]", {}),
        ]
    ),
)
def test_a_projection_returns_only_its_paths(subject: Subject, projection: str, expected: dict[str, Any]) -> None:
    subject.put(DOCUMENT)
    assert subject.get(ProjectionExpression=projection) == expected


def test_a_projection_may_name_keys_and_aliases(subject: Subject) -> None:
    subject.put(DOCUMENT)
    request = {"ProjectionExpression": "sk, #m.#x.z", "ExpressionAttributeNames": {"#m": "m", "#x": "x"}}
    reply = subject.send("GetItem", {"TableName": subject.table, "Key": subject.key(), **request})
    assert reply["Item"] == {"sk": {"S": "a"}, "m": {"M": {"x": {"M": {"z": {"N": "3"}}}}}}


@pytest.mark.parametrize(
    "projection", [pytest.param("", id="nothing"), "a,", "a,a", "m, m.x", "m.x, m[0]", "a b", "status", ":v", "size(a)"]
)
def test_a_projection_is_refused(subject: Subject, projection: str) -> None:
    with subject.refused():
        subject.get(ProjectionExpression=projection)
