"""Condition expressions: what they mean for an item, and for one that is absent."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.subject import CONDITION_FAILED, Subject, cases

ITEM: dict[str, Any] = {
    "label": "hello",
    "num": 5,
    "ten": 10,
    "bits": b"hello",
    "yes": True,
    "nothing": None,
    "words": {"blue", "red"},
    "numbers": {1, 2, 30},
    "blobs": {b"x", b"y"},
    "list_": [1, "two", [3], {"four": 4}],
    "map_": {"core": {"deep": [7, 8]}, "note": "hello"},
}

HOLDS: list[tuple[str, dict[str, Any]]] = [
    ("label = :v", {":v": "hello"}),
    (":v = label", {":v": "hello"}),
    ("label = map_.note", {}),
    ("num = :v", {":v": 5}),
    ("words = :v", {":v": {"red", "blue"}}),
    ("numbers = :v", {":v": {30, 2, 1}}),
    ("list_ = :v", {":v": [1, "two", [3], {"four": 4}]}),
    ("map_.core = :v", {":v": {"deep": [7, 8]}}),
    ("nothing = :v", {":v": None}),
    ("yes = :v", {":v": True}),
    ("label <> :v", {":v": "other"}),
    ("label <> :v", {":v": 5}),
    ("absent <> :v", {":v": 5}),
    ("NOT absent = :v", {":v": 5}),
    ("num < :v", {":v": 10}),
    ("num < ten", {}),
    ("num <= :v", {":v": 5}),
    ("num > :v", {":v": -100}),
    ("num >= :v", {":v": 5}),
    ("label < :v", {":v": "help"}),
    ("label > :v", {":v": "Hello"}),
    ("bits < :v", {":v": b"hello!"}),
    ("num BETWEEN :low AND :high", {":low": 5, ":high": 5}),
    ("label BETWEEN :low AND :high", {":low": "h", ":high": "i"}),
    (":v BETWEEN num AND ten", {":v": 7}),
    ("num between :low and :high", {":low": 1, ":high": 9}),
    ("label IN (:a, :b)", {":a": 5, ":b": "hello"}),
    ("num in (ten, :b)", {":b": 5}),
    ("attribute_exists(label)", {}),
    ("attribute_exists (nothing)", {}),
    ("attribute_exists(map_.core.deep[1])", {}),
    ("attribute_not_exists(absent)", {}),
    ("attribute_not_exists(map_.core.deep[2])", {}),
    ("attribute_not_exists(map_.absent.deep[2].more)", {}),
    ("attribute_not_exists(label.core)", {}),
    ("attribute_type(label, :v)", {":v": "S"}),
    ("attribute_type(num, :v)", {":v": "N"}),
    ("attribute_type(nothing, :v)", {":v": "NULL"}),
    ("attribute_type(numbers, :v)", {":v": "NS"}),
    ("attribute_type(map_, :v)", {":v": "M"}),
    ("begins_with(label, :v)", {":v": "hel"}),
    ("begins_with(label, :v)", {":v": ""}),
    ("begins_with(bits, :v)", {":v": b"he"}),
    ("contains(label, :v)", {":v": "ell"}),
    ("contains(bits, :v)", {":v": b"ll"}),
    ("contains(words, :v)", {":v": "red"}),
    ("contains(numbers, :v)", {":v": 30}),
    ("contains(list_, :v)", {":v": "two"}),
    ("contains(list_, :v)", {":v": [3]}),
    ("contains(label, map_.note)", {}),
    ("size(label) = :v", {":v": 5}),
    ("size(bits) = :v", {":v": 5}),
    ("size(words) = :v", {":v": 2}),
    ("size(list_) > :v", {":v": 3}),
    ("size(map_) < num", {}),
    ("size(map_.core.deep) BETWEEN :low AND :high", {":low": 2, ":high": 3}),
    ("map_.core.deep[0] = :v", {":v": 7}),
    ("list_[3].four = :v", {":v": 4}),
    ("num = :a OR label = :b AND yes = :c", {":a": 5, ":b": "x", ":c": False}),
    ("(num = :a OR label = :b) AND NOT yes = :c", {":a": 5, ":b": "x", ":c": False}),
    ("NOT num = :a AND label = :b", {":a": 6, ":b": "hello"}),
    ("NOT (num = :a AND label = :b)", {":a": 5, ":b": "bye"}),
    ("NOT NOT num = :a", {":a": 5}),
]

FAILS: list[tuple[str, dict[str, Any]]] = [
    ("label = :v", {":v": "Hello"}),
    ("num = :v", {":v": "5"}),
    ("absent = :v", {":v": 5}),
    ("absent = also_absent", {}),
    ("absent < :v", {":v": 5}),
    (":v > absent", {":v": 5}),
    ("num < :v", {":v": "9"}),
    ("words < :v", {":v": "zebra"}),
    ("num > ten", {}),
    ("label <> :v", {":v": "hello"}),
    ("num BETWEEN ten AND :v", {":v": 3}),
    ("absent BETWEEN :low AND :high", {":low": 1, ":high": 2}),
    ("label IN (:a)", {":a": "hell"}),
    ("absent IN (:a)", {":a": 1}),
    ("attribute_exists(absent)", {}),
    ("attribute_exists(list_[4])", {}),
    ("attribute_exists(label[0])", {}),
    ("attribute_not_exists(yes)", {}),
    ("attribute_type(label, :v)", {":v": "SS"}),
    ("attribute_type(absent, :v)", {":v": "S"}),
    ("begins_with(label, :v)", {":v": "ello"}),
    ("begins_with(num, :v)", {":v": "5"}),
    ("begins_with(absent, :v)", {":v": "a"}),
    ("contains(label, :v)", {":v": 5}),
    ("contains(words, :v)", {":v": "re"}),
    ("contains(words, :v)", {":v": 1}),
    ("contains(list_, :v)", {":v": 3}),
    ("contains(map_, :v)", {":v": "core"}),
    ("contains(absent, :v)", {":v": "a"}),
    ("size(num) = :v", {":v": 1}),
    ("size(absent) = :v", {":v": 0}),
    ("size(label) = :v", {":v": "5"}),
    ("num = :a AND label = :b", {":a": 5, ":b": "x"}),
    ("NOT num = :a", {":a": 5}),
]

REFUSED: list[tuple[str, dict[str, Any]]] = [
    ("num < :v", {":v": [1]}),
    (":v >= num", {":v": {1}}),
    ("num BETWEEN :low AND :high", {":low": 2, ":high": 1}),
    ("num BETWEEN :low AND :high", {":low": 2, ":high": "z"}),
    ("begins_with(label, :v)", {":v": 5}),
    ("attribute_type(label, :v)", {":v": "STRING"}),
    ("attribute_type(label, :v)", {":v": 5}),
    ("attribute_type(label, num)", {}),
    ("attribute_exists(:v)", {":v": "label"}),
    ("contains(label, label)", {}),
    ("label = label", {}),
    ("size(label)", {}),
    ("attribute_exists(label) = :v", {":v": True}),
    ("mystery(label)", {}),
    ("label = mystery(label)", {}),
    ("label = list_append(label, label)", {}),
    ("ATTRIBUTE_EXISTS(label)", {}),
    ("if_not_exists(label, :v) = :v", {":v": 1}),
    ("size(label, num) = :v", {":v": 1}),
    ("attribute_exists(label, num)", {}),
    ("label IN ()", {}),
    ("label", {}),
]


@pytest.mark.parametrize(("condition", "values"), cases(HOLDS))
def test_a_condition_holds(subject: Subject, condition: str, values: dict[str, Any]) -> None:
    subject.put(ITEM)
    assert subject.holds(condition, values or None)


@pytest.mark.parametrize(("condition", "values"), cases(FAILS))
def test_a_condition_fails(subject: Subject, condition: str, values: dict[str, Any]) -> None:
    subject.put(ITEM)
    assert not subject.holds(condition, values or None)


@pytest.mark.parametrize(("condition", "values"), cases(REFUSED))
def test_a_condition_is_refused(subject: Subject, condition: str, values: dict[str, Any]) -> None:
    subject.put(ITEM)
    with subject.refused():
        subject.holds(condition, values or None)


@pytest.mark.parametrize(
    ("condition", "values"),
    cases([("attribute_not_exists(pk)", {}), ("fence <> :v", {":v": 1}), ("NOT fence = :v", {":v": 1})]),
)
def test_a_condition_holds_for_an_absent_item(subject: Subject, condition: str, values: dict[str, Any]) -> None:
    assert subject.holds(condition, values or None)


@pytest.mark.parametrize(
    ("condition", "values"), cases([("attribute_exists(pk)", {}), ("fence < :v", {":v": 1}), ("fence = :v", {":v": 1})])
)
def test_a_condition_fails_for_an_absent_item(subject: Subject, condition: str, values: dict[str, Any]) -> None:
    assert not subject.holds(condition, values or None)


def test_keys_may_stand_in_a_condition(subject: Subject) -> None:
    subject.put({})
    assert subject.holds("pk = :pk AND sk = :sk", {":pk": subject.pk, ":sk": "a"})


def test_a_failed_condition_changes_nothing(subject: Subject) -> None:
    subject.put({"n": 1})
    with subject.refused(CONDITION_FAILED):
        subject.put({"n": 2}, ConditionExpression="attribute_not_exists(pk)")
    with subject.refused(CONDITION_FAILED):
        subject.update("SET n = :two", {":one": 5, ":two": 2}, ConditionExpression="n = :one")
    with subject.refused(CONDITION_FAILED):
        subject.delete(ConditionExpression="n > :v", ExpressionAttributeValues={":v": 1})
    assert subject.get() == {"n": 1}


def test_a_failed_condition_on_an_absent_item_creates_none(subject: Subject) -> None:
    with subject.refused(CONDITION_FAILED):
        subject.update("SET n = :one", {":one": 1}, ConditionExpression="attribute_exists(pk)")
    assert subject.get() is None


def test_a_failed_condition_returns_no_item_unless_asked(subject: Subject) -> None:
    subject.put({"n": 1})
    with subject.refused(CONDITION_FAILED) as caught:
        subject.put({"n": 2}, ConditionExpression="attribute_not_exists(pk)")
    assert caught.item is None
    with subject.refused(CONDITION_FAILED) as caught:
        subject.delete(ConditionExpression="attribute_not_exists(pk)", ReturnValuesOnConditionCheckFailure="NONE")
    assert caught.item is None


@pytest.mark.parametrize("operation", ["put", "update", "delete"])
def test_a_failed_condition_returns_the_item_if_asked(subject: Subject, operation: str) -> None:
    subject.needs("all_old_on_failed_condition")
    subject.put({"n": 1, "words": {"a", "b"}})
    asked: dict[str, Any] = {
        "ConditionExpression": "attribute_not_exists(pk)",
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }
    with subject.refused(CONDITION_FAILED) as caught:
        match operation:
            case "put":
                subject.put({"n": 2}, **asked)
            case "update":
                subject.update("REMOVE n", **asked)
            case _:
                subject.delete(**asked)
    assert caught.item is not None
    assert caught.item["pk"] == {"S": subject.pk}
    assert subject.attributes(caught.item) == {"n": 1, "words": {"a", "b"}}


def test_a_failed_condition_on_an_absent_item_returns_none_even_if_asked(subject: Subject) -> None:
    with subject.refused(CONDITION_FAILED) as caught:
        subject.update(
            "SET n = :one",
            {":one": 1},
            ConditionExpression="attribute_exists(pk)",
            ReturnValuesOnConditionCheckFailure="ALL_OLD",
        )
    assert not caught.item


def test_99_choices_are_allowed_in_a_list(subject: Subject) -> None:
    subject.put({"n": 98})
    values = {f":v{number}": number for number in range(99)}
    assert subject.holds(f"n IN ({', '.join(values)})", values)


def test_more_than_100_choices_are_refused(subject: Subject) -> None:
    values = {f":v{number}": number for number in range(101)}
    with subject.refused():
        subject.holds(f"n IN ({', '.join(values)})", values)
