"""What all expressions have in common: grammar, names, values, limits."""

from __future__ import annotations

import pytest

from tests.conformance.subject import CONDITION_FAILED, Subject

SYNTAX_ERRORS = [
    "n = ",
    "= :v",
    "n == :v",
    "n != :v",
    "n = :v AND",
    "n = :v OR OR n = :v",
    "(n = :v",
    "n = :v)",
    "n = :v n = :v",
    "n. = :v",
    "n[ = :v",
    "n[x] = :v",
    "n[-1] = :v",
    "n BETWEEN :v",
    "n BETWEEN :v OR :v",
    "n IN :v",
    "NOT",
    "_n = :v",
    "1n = :v",
    "n$ = :v",
    "attribute_exists(n",
    pytest.param("", id="nothing"),
    pytest.param("   ", id="blanks"),
]


@pytest.mark.parametrize("condition", SYNTAX_ERRORS)
def test_a_syntax_error_in_a_condition_is_refused(subject: Subject, condition: str) -> None:
    with subject.refused():
        subject.holds(condition, {":v": 1})


@pytest.mark.parametrize(
    "update",
    [
        "SET",
        "SET n",
        "SET n :v",
        "SET n = :v,",
        "SET = :v",
        "SET :v = :v",
        "SET n = :v SET m = :v",
        "SET n = :v + :v + :v",
        "SET n = (:v",
        "n = :v",
        "PUT n = :v",
        "SET n = :v; REMOVE m",
        "REMOVE",
        "ADD n = :v",
        "ADD n m",
        "DELETE n",
        pytest.param("", id="nothing"),
    ],
)
def test_a_syntax_error_in_an_update_is_refused(subject: Subject, update: str) -> None:
    with subject.refused():
        subject.update(update, {":v": 1})


@pytest.mark.parametrize(
    "word", ["status", "Name", "TTL", "data", "token", "state", "count", "value", "item", "timestamp"]
)
def test_a_reserved_word_is_refused_as_a_bare_name(subject: Subject, word: str) -> None:
    with subject.refused():
        subject.update(f"SET {word} = :v", {":v": 1})
    with subject.refused():
        subject.holds(f"attribute_exists({word})")


def test_a_reserved_word_is_refused_inside_a_path(subject: Subject) -> None:
    with subject.refused():
        subject.holds("attribute_exists(outermost.status)")


def test_an_alias_may_stand_for_any_name(subject: Subject) -> None:
    names = {"#s": "status", "#d": "with.dot", "#u": "_x y%é", "#1": "1"}
    subject.update("SET #s = :v, #d = :v, #u = :v, #1 = :v", {":v": 1}, ExpressionAttributeNames=names)
    assert subject.get() == {"status": 1, "with.dot": 1, "_x y%é": 1, "1": 1}
    assert subject.holds("#d = :v", {":v": 1}, ExpressionAttributeNames={"#d": "with.dot"})


def test_a_dot_in_an_aliased_name_is_no_path(subject: Subject) -> None:
    subject.put({"a": {"b": 1}})
    assert not subject.holds("attribute_exists(#p)", ExpressionAttributeNames={"#p": "a.b"})
    assert subject.holds("attribute_exists(#p.#q)", ExpressionAttributeNames={"#p": "a", "#q": "b"})


def test_keywords_are_known_in_any_case_of_letters(subject: Subject) -> None:
    subject.put({"n": 5, "m": 1})
    subject.update("set p = :v reMOVE m", {":v": 5}, ConditionExpression="n bEtween :v aNd :v oR Not n iN (:v)")
    assert subject.get() == {"n": 5, "p": 5}


def test_blanks_mean_nothing(subject: Subject) -> None:
    subject.put({"n": 1})
    assert subject.holds(" (n=:v)AND(  attribute_exists (n)  )\tAND\nn  <>:w", {":v": 1, ":w": 2})


def test_one_pair_of_needless_parentheses_is_allowed_and_two_are_not(subject: Subject) -> None:
    subject.put({"n": 1})
    assert subject.holds("(n = :v)", {":v": 1})
    assert subject.holds("((n = :v) AND (n < :w))", {":v": 1, ":w": 2})
    with subject.refused():
        subject.holds("((n = :v))", {":v": 1})


def test_an_undefined_alias_is_refused(subject: Subject) -> None:
    with subject.refused():
        subject.holds("#n = :v", {":v": 1})
    with subject.refused():
        subject.update("SET #n = :v", {":v": 1}, ExpressionAttributeNames={"#m": "n"})


def test_an_undefined_value_is_refused(subject: Subject) -> None:
    with subject.refused():
        subject.holds("n = :v")
    with subject.refused():
        subject.update("SET n = :v", {":w": 1})


def test_an_unused_alias_is_refused(subject: Subject) -> None:
    with subject.refused():
        subject.holds("#n = :v", {":v": 1}, ExpressionAttributeNames={"#n": "n", "#m": "m"})


def test_an_unused_value_is_refused(subject: Subject) -> None:
    with subject.refused():
        subject.update("SET n = :v", {":v": 1, ":w": 1})
    with subject.refused():
        subject.put({"n": 1}, ConditionExpression="n = :v", ExpressionAttributeValues={":v": 1, ":w": 1})


def test_an_unused_value_is_refused_before_the_condition_is_looked_at(subject: Subject) -> None:
    with subject.refused():
        subject.delete(ConditionExpression="attribute_exists(pk)", ExpressionAttributeValues={":v": 1})


def test_aliases_and_values_without_an_expression_are_refused(subject: Subject) -> None:
    with subject.refused():
        subject.put({"n": 1}, ExpressionAttributeNames={"#n": "n"})
    with subject.refused():
        subject.put({"n": 1}, ExpressionAttributeValues={":v": 1})


def test_empty_maps_of_aliases_and_values_are_refused(subject: Subject) -> None:
    with subject.refused():
        subject.put({"n": 1}, ConditionExpression="attribute_not_exists(pk)", ExpressionAttributeNames={})
    with subject.refused():
        subject.put({"n": 1}, ConditionExpression="attribute_not_exists(pk)", ExpressionAttributeValues={})


def test_placeholders_need_their_mark(subject: Subject) -> None:
    with subject.refused():
        subject.update("SET n = :v", {":v": 1}, ExpressionAttributeNames={"n": "n"})
    with subject.refused():
        subject.update("SET n = :v", {":v": 1, "v": 1})
    with subject.refused():
        subject.update("SET # = :v", {":v": 1}, ExpressionAttributeNames={"#": "n"})


def test_a_value_is_checked_even_if_the_condition_fails(subject: Subject) -> None:
    with subject.refused():
        subject.update("ADD n :s", {":s": "text"}, ConditionExpression="attribute_exists(pk)")
    with subject.refused(CONDITION_FAILED):
        subject.update("ADD n :s", {":s": 1}, ConditionExpression="attribute_exists(pk)")


def test_an_expression_may_have_4096_bytes_and_no_more(subject: Subject) -> None:
    subject.put({"n": 1})
    filler = " " * (4096 - len("n = :v"))
    assert subject.holds(f"n ={filler} :v", {":v": 1})
    with subject.refused():
        subject.holds(f"n = {filler} :v", {":v": 1})


def test_an_expression_may_have_300_operators_and_no_more(subject: Subject) -> None:
    subject.put({"n": 1})
    assert subject.holds(" OR ".join(["n=:v"] * 150), {":v": 1})
    with subject.refused():
        subject.holds(" OR ".join(["n=:v"] * 151), {":v": 1})
