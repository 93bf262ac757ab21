"""TransactWriteItems and TransactGetItems."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.conftest import make_table
from tests.conformance.subject import CANCELED, MISSING, Subject


@pytest.fixture(autouse=True)
def _has_transactions(subject: Subject) -> None:
    subject.needs("transactions")


def add_one(subject: Subject, sk: str = "a", **params: Any) -> dict[str, Any]:
    values = {":one": 1, **params.pop("ExpressionAttributeValues", {})}
    return subject.element("Update", sk, UpdateExpression="ADD n :one", ExpressionAttributeValues=values, **params)


def test_a_transaction_does_all_its_writes(subject: Subject) -> None:
    subject.put({"n": 1}, sk="update")
    subject.put({"n": 1}, sk="delete")
    subject.put({"n": 1}, sk="check")
    subject.transact(
        subject.element("Put", "put", attributes={"n": 5}, ConditionExpression="attribute_not_exists(pk)"),
        add_one(subject, "update"),
        add_one(subject, "created"),
        subject.element("Delete", "delete", ConditionExpression="n = :v", ExpressionAttributeValues={":v": 1}),
        subject.element("ConditionCheck", "check", ConditionExpression="attribute_exists(pk)"),
    )
    assert subject.get("put") == {"n": 5}
    assert subject.get("update") == {"n": 2}
    assert subject.get("created") == {"n": 1}
    assert subject.get("delete") is None
    assert subject.get("check") == {"n": 1}


def test_a_failed_condition_cancels_everything(subject: Subject) -> None:
    subject.put({"n": 1}, sk="update")
    subject.put({"n": 1}, sk="delete")
    with subject.refused(CANCELED):
        subject.transact(
            subject.element("Put", "put"),
            add_one(subject, "update"),
            subject.element("Delete", "delete"),
            subject.element("ConditionCheck", "absent", ConditionExpression="attribute_exists(pk)"),
        )
    assert subject.get("put") is None
    assert subject.get("update") == {"n": 1}
    assert subject.get("delete") == {"n": 1}


def test_the_reasons_of_a_cancelled_transaction_are_in_order_and_complete(subject: Subject) -> None:
    exists: dict[str, Any] = {"ConditionExpression": "attribute_exists(pk)"}
    with subject.refused(CANCELED) as caught:
        subject.transact(
            subject.element("Put", "a"),
            subject.element("Put", "b", **exists),
            add_one(subject, "c"),
            subject.element("ConditionCheck", "d", **exists),
            subject.element("Delete", "e", **exists),
        )
    failed = "ConditionalCheckFailed"
    assert [code for code, _ in caught.reasons] == ["None", failed, "None", failed, failed]


def test_a_reason_carries_the_item_where_it_was_asked_for(subject: Subject) -> None:
    subject.needs("all_old_on_failed_condition")
    subject.put({"n": 1}, sk="a")
    subject.put({"n": 1}, sk="b")
    absent: dict[str, Any] = {"ConditionExpression": "attribute_not_exists(pk)"}
    exists: dict[str, Any] = {"ConditionExpression": "attribute_exists(pk)"}
    asked: dict[str, Any] = {"ReturnValuesOnConditionCheckFailure": "ALL_OLD"}
    with subject.refused(CANCELED) as caught:
        subject.transact(
            subject.element("Put", "a", **absent, **asked),
            subject.element("Delete", "b", **absent),
            subject.element("ConditionCheck", "c", **exists, **asked),
            subject.element("Put", "d", **asked),
        )
    items = [item or None for _, item in caught.reasons]
    assert items == [{**subject.key("a"), "n": {"N": "1"}}, None, None, None]


def test_an_update_that_does_not_fit_the_item_cancels_as_a_validation_error(subject: Subject) -> None:
    subject.put({"s": "text"}, sk="a")
    with subject.refused(CANCELED) as caught:
        subject.transact(
            subject.element("Put", "b"),
            subject.element("Update", UpdateExpression="ADD s :v", ExpressionAttributeValues={":v": 1}),
        )
    assert [code for code, _ in caught.reasons] == ["None", "ValidationError"]
    assert subject.get("b") is None


def test_a_key_of_the_wrong_type_cancels_as_a_validation_error(subject: Subject) -> None:
    wrong = {"Put": {"TableName": subject.table, "Item": {"pk": {"S": "a"}, "sk": {"N": "1"}}}}
    with subject.refused(CANCELED) as caught:
        subject.transact(wrong, subject.element("Put", "b"))
    assert [code for code, _ in caught.reasons] == ["ValidationError", "None"]
    assert subject.get("b") is None


def test_two_writes_to_one_item_are_refused(subject: Subject) -> None:
    exists: dict[str, Any] = {"ConditionExpression": "attribute_exists(pk)"}
    with subject.refused():
        subject.transact(subject.element("Put", "a"), subject.element("Delete", "a"))
    with subject.refused():
        subject.transact(subject.element("ConditionCheck", "a", **exists), add_one(subject, "a"))
    assert subject.get("a") is None


def test_a_transaction_takes_100_elements_and_no_more(subject: Subject) -> None:
    subject.transact(*(subject.element("Put", str(number)) for number in range(100)))
    assert len(subject.found("pk = :pk")) == 100
    with subject.refused():
        subject.transact(*(subject.element("Delete", str(number)) for number in range(101)))
    assert len(subject.found("pk = :pk")) == 100


def test_an_empty_transaction_is_refused(subject: Subject) -> None:
    with subject.refused():
        subject.transact()


def test_a_transaction_of_more_than_4_megabytes_is_refused(subject: Subject) -> None:
    with subject.refused():
        subject.transact(
            *(subject.element("Put", str(number), attributes={"load": "x" * 390_000}) for number in range(11))
        )
    assert subject.found("pk = :pk") == []


def test_an_element_with_two_kinds_or_none_is_refused(subject: Subject) -> None:
    with subject.refused():
        subject.transact({**subject.element("Put", "a"), **subject.element("Delete", "b")})
    with subject.refused():
        subject.transact({})


@pytest.mark.parametrize(
    "params",
    [
        pytest.param({"ConditionExpression": "n ="}, id="syntax"),
        pytest.param({"ConditionExpression": "#n = pk"}, id="undefined alias"),
        pytest.param({"ConditionExpression": "n = :v"}, id="undefined value"),
        pytest.param(
            {"ConditionExpression": "attribute_exists(n)", "ExpressionAttributeValues": {":v": 1}}, id="unused value"
        ),
        pytest.param({"ConditionExpression": "n < :v", "ExpressionAttributeValues": {":v": [1]}}, id="type of a value"),
        pytest.param({"attributes": {"load": "x" * 410_000}}, id="too large"),
        pytest.param({"ReturnValuesOnConditionCheckFailure": "ALL_NEW"}, id="choice"),
    ],
)
def test_an_unsound_element_makes_the_whole_request_invalid(subject: Subject, params: dict[str, Any]) -> None:
    with subject.refused():
        subject.transact(subject.element("Put", "b"), subject.element("Put", "a", **params))
    assert subject.get("b") is None


def test_a_check_without_a_condition_is_refused(subject: Subject) -> None:
    with subject.refused():
        subject.transact(subject.element("ConditionCheck", "a"))


def test_an_update_without_an_expression_is_refused(subject: Subject) -> None:
    with subject.refused():
        subject.transact(subject.element("Update", "a"))


def test_a_missing_table_is_named(subject: Subject) -> None:
    with subject.refused(MISSING):
        subject.transact(subject.element("Put", "a"), {"Put": {"TableName": "no-such-table", "Item": subject.key("b")}})
    assert subject.get("a") is None


def test_a_transaction_may_span_tables(subject: Subject) -> None:
    other = make_table(subject.send, f"{subject.table}-{subject.pk}")
    subject.made_tables.append(other)
    elsewhere = {"Put": {"TableName": other, "Item": subject.key("a")}}
    subject.transact(subject.element("Put", "a"), elsewhere)
    reply = subject.send("GetItem", {"TableName": other, "Key": subject.key("a")})
    assert reply["Item"] == subject.key("a")
    assert subject.get("a") == {}


# --- tokens ---------------------------------------------------------------------------------------


def test_a_repeated_token_applies_once(subject: Subject) -> None:
    subject.needs("transaction_tokens")
    token = f"token-{subject.table[-12:]}-once"
    subject.transact(add_one(subject), ClientRequestToken=token)
    subject.transact(add_one(subject), ClientRequestToken=token)
    assert subject.get() == {"n": 1}
    subject.transact(add_one(subject))
    assert subject.get() == {"n": 2}


def test_a_repeated_token_succeeds_though_its_condition_no_longer_holds(subject: Subject) -> None:
    subject.needs("transaction_tokens")
    token = f"token-{subject.table[-12:]}-condition"
    put = subject.element("Put", ConditionExpression="attribute_not_exists(pk)")
    subject.transact(put, ClientRequestToken=token)
    subject.transact(put, ClientRequestToken=token)
    subject.delete()
    subject.transact(put, ClientRequestToken=token)
    assert subject.get() is None


def test_a_token_of_a_cancelled_transaction_is_free(subject: Subject) -> None:
    subject.needs("transaction_tokens")
    token = f"token-{subject.table[-12:]}-cancelled"
    put = subject.element("Put", ConditionExpression="attribute_exists(pk)")
    with subject.refused(CANCELED):
        subject.transact(put, ClientRequestToken=token)
    subject.put({"n": 1})
    subject.transact(put, ClientRequestToken=token)
    assert subject.get() == {}


def test_a_token_with_another_request_is_refused(subject: Subject) -> None:
    subject.needs("transaction_tokens")
    token = f"token-{subject.table[-12:]}-other"
    subject.transact(add_one(subject, "a"), ClientRequestToken=token)
    with subject.refused("IdempotentParameterMismatchException"):
        subject.transact(add_one(subject, "b"), ClientRequestToken=token)
    assert subject.get("b") is None


def test_a_token_of_more_than_36_characters_is_refused(subject: Subject) -> None:
    with subject.refused():
        subject.transact(add_one(subject), ClientRequestToken="x" * 37)
    assert subject.get() is None


# --- reads ----------------------------------------------------------------------------------------


def get(subject: Subject, *sks: str, **params: Any) -> dict[str, Any]:
    gets = [{"Get": {"TableName": subject.table, "Key": subject.key(sk), **params}} for sk in sks]
    return subject.send("TransactGetItems", {"TransactItems": gets})


def test_a_transaction_reads_items_in_order(subject: Subject) -> None:
    subject.put({"n": 1, "m": 1}, sk="a")
    subject.put({"n": 2}, sk="c")
    reply = get(subject, "c", "b", "a", ProjectionExpression="#n", ExpressionAttributeNames={"#n": "n"})
    assert reply["Responses"] == [{"Item": {"n": {"N": "2"}}}, {}, {"Item": {"n": {"N": "1"}}}]


def test_a_transaction_shows_no_item_without_anything_of_the_projection(subject: Subject) -> None:
    subject.put({"n": 1})
    assert get(subject, "a", ProjectionExpression="m")["Responses"] == [{}]


def test_a_transaction_reads_100_items_and_no_more(subject: Subject) -> None:
    sks = [str(number) for number in range(101)]
    assert get(subject, *sks[:100])["Responses"] == [{}] * 100
    with subject.refused():
        get(subject, *sks)


def test_a_transaction_that_reads_an_item_twice_is_refused(subject: Subject) -> None:
    with subject.refused():
        get(subject, "a", "a")
