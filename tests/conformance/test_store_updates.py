"""UpdateItem: what each action makes of an item, what it returns, what it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.subject import Subject, cases

BEFORE: dict[str, Any] = {
    "n": 5,
    "s": "text",
    "l": [0, 1, 2, 3],
    "m": {"a": 1, "b": {"c": [10, 20]}},
    "ss": {"x", "y"},
    "ns": {1, 2},
}

UPDATES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("SET n = :v", {":v": 7}, {"n": 7}),
    ("SET fresh = :v", {":v": "x"}, {"fresh": "x"}),
    ("SET n = n + :v", {":v": 3}, {"n": 8}),
    ("SET n = :v - n", {":v": 3}, {"n": -2}),
    ("SET n = n - :v", {":v": 3}, {"n": 2}),
    ("SET n = n + n", {}, {"n": 10}),
    ("SET s = n, n = :v", {":v": 1}, {"s": 5, "n": 1}),
    ("SET a = s REMOVE s", {}, {"a": "text", "s": ...}),
    ("SET n = if_not_exists(n, :v)", {":v": 1}, {"n": 5}),
    ("SET q = if_not_exists(q, :v)", {":v": 1}, {"q": 1}),
    ("SET q = if_not_exists(q, :v) + :w", {":v": 1, ":w": 2}, {"q": 3}),
    ("SET q = if_not_exists(q, n)", {}, {"q": 5}),
    ("SET q = if_not_exists(q, if_not_exists(r, :v))", {":v": 1}, {"q": 1}),
    ("SET q = if_not_exists(m.b.c[1], :v)", {":v": 1}, {"q": 20}),
    ("SET l = list_append(l, :v)", {":v": [4]}, {"l": [0, 1, 2, 3, 4]}),
    ("SET l = list_append(:v, l)", {":v": [4]}, {"l": [4, 0, 1, 2, 3]}),
    ("SET q = list_append(if_not_exists(q, :none), :v)", {":v": [4], ":none": []}, {"q": [4]}),
    ("SET l[1] = :v", {":v": "x"}, {"l": [0, "x", 2, 3]}),
    ("SET l[9] = :v", {":v": "x"}, {"l": [0, 1, 2, 3, "x"]}),
    ("SET l[9] = :v, l[7] = :w", {":v": "x", ":w": "y"}, {"l": [0, 1, 2, 3, "y", "x"]}),
    ("SET m.a = :v", {":v": 2}, {"m": {"a": 2, "b": {"c": [10, 20]}}}),
    ("SET m.z = :v", {":v": 2}, {"m": {"a": 1, "z": 2, "b": {"c": [10, 20]}}}),
    ("SET m.b.c[0] = m.b.c[1] + m.a", {}, {"m": {"a": 1, "b": {"c": [21, 20]}}}),
    ("SET m.a = :v, m.b.d = :w REMOVE m.b.c[0]", {":v": 2, ":w": 3}, {"m": {"a": 2, "b": {"c": [20], "d": 3}}}),
    ("SET n = l[2]", {}, {"n": 2}),
    ("REMOVE n, s", {}, {"n": ..., "s": ...}),
    ("REMOVE absent", {}, {}),
    ("REMOVE l[1]", {}, {"l": [0, 2, 3]}),
    ("REMOVE l[0], l[2]", {}, {"l": [1, 3]}),
    ("REMOVE l[9]", {}, {}),
    ("REMOVE l[1] SET l[3] = :v", {":v": "x"}, {"l": [0, 2, "x"]}),
    ("REMOVE m.a", {}, {"m": {"b": {"c": [10, 20]}}}),
    ("REMOVE m.absent", {}, {}),
    ("REMOVE m.b.c[0], m.b.c[1]", {}, {"m": {"a": 1, "b": {"c": []}}}),
    ("ADD n :v", {":v": 3}, {"n": 8}),
    ("ADD n :v", {":v": -8}, {"n": -3}),
    ("ADD q :v", {":v": 3}, {"q": 3}),
    ("ADD ss :v", {":v": {"y", "z"}}, {"ss": {"x", "y", "z"}}),
    ("ADD ns :v", {":v": {2, 3}}, {"ns": {1, 2, 3}}),
    ("ADD q :v", {":v": {"z"}}, {"q": {"z"}}),
    ("DELETE ss :v", {":v": {"y", "z"}}, {"ss": {"x"}}),
    ("DELETE ss :v", {":v": {"y", "x"}}, {"ss": ...}),
    ("DELETE ns :v", {":v": {1}}, {"ns": {2}}),
    ("DELETE absent :v", {":v": {1}}, {}),
    (
        "SET a = :v REMOVE s ADD n :w DELETE ss :x",
        {":v": 1, ":w": 1, ":x": {"x"}},
        {"a": 1, "s": ..., "n": 6, "ss": {"y"}},
    ),
]

REFUSED: list[tuple[str, dict[str, Any]]] = [
    ("SET q = absent", {}),
    ("SET q = absent + :v", {":v": 1}),
    ("SET q = m.absent", {}),
    ("SET x = :v, y = x", {":v": 1}),
    ("SET n = s + :v", {":v": 1}),
    ("SET n = n + :v", {":v": "1"}),
    ("SET n = l - n", {}),
    ("SET l = list_append(l, n)", {}),
    ("SET l = list_append(l, :v)", {":v": 4}),
    ("SET l = list_append(absent, :v)", {":v": [4]}),
    ("SET l = list_append(l)", {}),
    ("SET l = list_append(l, :v) + n", {":v": [1]}),
    ("SET n = n + size(l)", {}),
    ("SET l = list_append(list_append(l, l), l)", {}),
    ("SET n = if_not_exists(:v, n)", {":v": 4}),
    ("SET n = if_not_exists(n)", {}),
    ("SET n = size(l)", {}),
    ("SET n = mystery(l)", {}),
    ("SET n.a = :v", {":v": 1}),
    ("SET absent.a = :v", {":v": 1}),
    ("SET absent[0] = :v", {":v": 1}),
    ("SET m[0] = :v", {":v": 1}),
    ("SET l.a = :v", {":v": 1}),
    ("SET l[9].a = :v", {":v": 1}),
    ("SET m.q.r = :v", {":v": 1}),
    ("REMOVE absent.a", {}),
    ("REMOVE s.a", {}),
    ("REMOVE m[0]", {}),
    ("ADD s :v", {":v": 1}),
    ("ADD n :v", {":v": {1}}),
    ("ADD ss :v", {":v": {1}}),
    ("ADD n :v", {":v": "1"}),
    ("ADD l :v", {":v": [1]}),
    ("DELETE ss :v", {":v": "x"}),
    ("DELETE ss :v", {":v": {1}}),
    ("DELETE n :v", {":v": {1}}),
    ("DELETE n :v", {":v": 1}),
    ("SET n = :v, n = :w", {":v": 1, ":w": 2}),
    ("SET n = :v REMOVE n", {":v": 1}),
    ("SET m = :v, m.a = :w", {":v": {}, ":w": 2}),
    ("SET m.b.c[0] = :v REMOVE m.b", {":v": 1}),
    ("REMOVE l[0], l[0]", {}),
    ("SET m.a = :v, m[0] = :w", {":v": 1, ":w": 2}),
    ("SET pk = :v", {":v": "x"}),
    ("SET sk = :v", {":v": "x"}),
    ("REMOVE sk", {}),
    ("ADD pk :v", {":v": 1}),
]


@pytest.mark.parametrize(("expression", "values", "changes"), cases(UPDATES))
def test_an_update_changes_the_item(
    subject: Subject, expression: str, values: dict[str, Any], changes: dict[str, Any]
) -> None:
    subject.put(BEFORE)
    subject.update(expression, values or None)
    expected = {name: value for name, value in {**BEFORE, **changes}.items() if value is not ...}
    assert subject.get() == expected


@pytest.mark.parametrize(("expression", "values"), cases(REFUSED))
def test_an_update_is_refused_and_changes_nothing(subject: Subject, expression: str, values: dict[str, Any]) -> None:
    subject.put(BEFORE)
    with subject.refused():
        subject.update(expression, values or None)
    assert subject.get() == BEFORE


def test_a_refused_update_applies_none_of_its_actions(subject: Subject) -> None:
    subject.put(BEFORE)
    with subject.refused():
        subject.update("SET first_ = :v, n = s + :v", {":v": 1})
    with subject.refused():
        subject.update("SET first_ = :v ADD s :v", {":v": 1})
    assert subject.get() == BEFORE


# --- absent items ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "values", "expected"),
    [
        pytest.param("SET n = :v", {":v": 1}, {"n": 1}, id="SET"),
        pytest.param("ADD n :v", {":v": 1}, {"n": 1}, id="ADD"),
        pytest.param("SET n = if_not_exists(n, :v) REMOVE q", {":v": 1}, {"n": 1}, id="SET and REMOVE"),
        pytest.param(None, None, {}, id="no expression"),
    ],
)
def test_an_update_creates_an_absent_item(
    subject: Subject, expression: str | None, values: dict[str, Any] | None, expected: dict[str, Any]
) -> None:
    subject.update(expression, values)
    assert subject.get() == expected


@pytest.mark.parametrize(
    ("expression", "values"), cases([("REMOVE n", {}), ("DELETE n :v", {":v": {"x"}}), ("REMOVE n.a, l[0]", {})])
)
def test_an_update_that_only_takes_away_creates_no_item(
    subject: Subject, expression: str, values: dict[str, Any]
) -> None:
    reply = subject.update(expression, values or None, ReturnValues="ALL_NEW")
    assert "Attributes" not in reply
    assert subject.get() is None


def test_an_update_without_an_expression_leaves_an_item_as_it_is(subject: Subject) -> None:
    subject.put({"n": 1})
    subject.update(None)
    assert subject.get() == {"n": 1}


# --- returned values ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("choice", "expected"),
    cases(
        [
            ("NONE", None),
            ("ALL_OLD", BEFORE),
            ("ALL_NEW", {**BEFORE, "n": 6, "fresh": 1, "s": ...}),
            ("UPDATED_OLD", {"n": 5, "s": "text"}),
            ("UPDATED_NEW", {"n": 6, "fresh": 1}),
        ]
    ),
)
def test_an_update_returns_what_is_asked_for(subject: Subject, choice: str, expected: dict[str, Any] | None) -> None:
    subject.put(BEFORE)
    reply = subject.update("SET n = n + :v, fresh = :v REMOVE s, absent", {":v": 1}, ReturnValues=choice)
    if expected is None:
        assert "Attributes" not in reply
    else:
        wanted = {name: value for name, value in expected.items() if value is not ...}
        assert subject.attributes(reply["Attributes"]) == wanted
        assert ("pk" in reply["Attributes"]) == choice.startswith("ALL")


@pytest.mark.parametrize(
    ("expression", "choice", "expected"),
    cases(
        [
            ("SET m.a = :v", "UPDATED_OLD", {"m": {"a": 1}}),
            ("SET m.a = :v", "UPDATED_NEW", {"m": {"a": 9}}),
            ("SET m.b.c[1] = :v, m.z = :v", "UPDATED_OLD", {"m": {"b": {"c": [20]}}}),
            ("SET m.b.c[1] = :v, m.z = :v", "UPDATED_NEW", {"m": {"b": {"c": [9]}, "z": 9}}),
            ("SET l[0] = :v, l[2] = :v", "UPDATED_NEW", {"l": [9, 9]}),
        ]
    ),
)
def test_an_update_of_a_nested_value_returns_only_that(
    subject: Subject, expression: str, choice: str, expected: dict[str, Any]
) -> None:
    subject.put(BEFORE)
    reply = subject.update(expression, {":v": 9}, ReturnValues=choice)
    assert subject.attributes(reply["Attributes"]) == expected


@pytest.mark.parametrize("choice", ["ALL_OLD", "UPDATED_OLD"])
def test_an_update_of_an_absent_item_returns_nothing_old(subject: Subject, choice: str) -> None:
    assert "Attributes" not in subject.update("SET n = :v", {":v": 1}, ReturnValues=choice)


def test_an_update_of_an_absent_item_returns_what_is_new(subject: Subject) -> None:
    reply = subject.update("SET n = :v", {":v": 1}, ReturnValues="ALL_NEW")
    assert reply["Attributes"] == {**subject.key(), "n": {"N": "1"}}


def test_an_update_that_only_removes_returns_nothing_new(subject: Subject) -> None:
    subject.put({"n": 1})
    assert "Attributes" not in subject.update("REMOVE n", ReturnValues="UPDATED_NEW")


def test_an_unknown_choice_of_returned_values_is_refused(subject: Subject) -> None:
    with subject.refused():
        subject.update("SET n = :v", {":v": 1}, ReturnValues="EVERYTHING")
    with subject.refused():
        subject.put({"n": 1}, ReturnValues="ALL_NEW")
    with subject.refused():
        subject.delete(ReturnValues="UPDATED_OLD")
