"""BatchGetItem and BatchWriteItem."""

from __future__ import annotations

from typing import Any

from tests.conformance.conftest import make_table
from tests.conformance.subject import MISSING, Subject


def put_request(subject: Subject, sk: str, **attributes: Any) -> dict[str, Any]:
    return {"PutRequest": {"Item": {**subject.key(sk), **attributes}}}


def delete_request(subject: Subject, sk: str) -> dict[str, Any]:
    return {"DeleteRequest": {"Key": subject.key(sk)}}


def write(subject: Subject, *requests: dict[str, Any], **params: Any) -> dict[str, Any]:
    return subject.send("BatchWriteItem", {"RequestItems": {subject.table: list(requests)}, **params})


def get(subject: Subject, *keys: dict[str, Any], **table_params: Any) -> dict[str, Any]:
    return subject.send("BatchGetItem", {"RequestItems": {subject.table: {"Keys": list(keys), **table_params}}})


def test_a_batch_writes_and_deletes(subject: Subject) -> None:
    subject.put({"n": 1}, sk="a")
    subject.put({"n": 1}, sk="b")
    reply = write(
        subject, put_request(subject, "a", n={"N": "2.0"}), delete_request(subject, "b"), put_request(subject, "c")
    )
    assert not reply["UnprocessedItems"]
    assert [subject.get(sk) for sk in "abc"] == [{"n": 2}, None, {}]


def test_a_batch_takes_25_writes_and_no_more(subject: Subject) -> None:
    write(subject, *(put_request(subject, str(number)) for number in range(25)))
    assert len(subject.found("pk = :pk")) == 25
    with subject.refused():
        write(subject, *(delete_request(subject, str(number)) for number in range(26)))
    assert len(subject.found("pk = :pk")) == 25


def test_a_batch_with_two_writes_to_one_item_is_refused(subject: Subject) -> None:
    with subject.refused():
        write(subject, put_request(subject, "a"), delete_request(subject, "a"))
    with subject.refused():
        write(subject, put_request(subject, "a"), put_request(subject, "a", n={"N": "1"}))
    assert subject.get("a") is None


def test_a_batch_with_one_bad_item_writes_nothing(subject: Subject) -> None:
    with subject.refused():
        write(subject, put_request(subject, "a"), put_request(subject, ""))
    with subject.refused():
        write(subject, put_request(subject, "a"), put_request(subject, "b", n={"N": "x"}))
    with subject.refused():
        write(subject, put_request(subject, "a"), put_request(subject, "b", s={"SS": []}))
    with subject.refused():
        write(subject, put_request(subject, "a"), put_request(subject, "b", load={"S": "x" * 410_000}))
    assert subject.get("a") is None


def test_an_empty_batch_is_refused(subject: Subject) -> None:
    with subject.refused():
        subject.send("BatchWriteItem", {"RequestItems": {}})
    with subject.refused():
        write(subject)
    with subject.refused():
        subject.send("BatchGetItem", {"RequestItems": {}})
    with subject.refused():
        get(subject)


def test_a_batch_names_a_missing_table(subject: Subject) -> None:
    with subject.refused(MISSING):
        subject.send("BatchWriteItem", {"RequestItems": {"no-such-table": [put_request(subject, "a")]}})
    with subject.refused(MISSING):
        subject.send("BatchGetItem", {"RequestItems": {"no-such-table": {"Keys": [subject.key()]}}})


def test_a_batch_gets_what_exists(subject: Subject) -> None:
    subject.put({"n": 1}, sk="a")
    subject.put({"n": 2}, sk="b")
    reply = get(subject, subject.key("b"), subject.key("x"), subject.key("a"), ConsistentRead=True)
    items = {item["sk"]["S"]: subject.attributes(item) for item in reply["Responses"][subject.table]}
    assert items == {"a": {"n": 1}, "b": {"n": 2}}
    assert not reply["UnprocessedKeys"]


def test_a_batch_gets_from_several_tables(subject: Subject) -> None:
    other = make_table(subject.send, f"{subject.table}-other")
    subject.made_tables.append(other)
    subject.put({"n": 1})
    subject.send("PutItem", {"TableName": other, "Item": {**subject.key(), "n": {"N": "2"}}})
    tables = {name: {"Keys": [subject.key()], "ProjectionExpression": "n"} for name in (subject.table, other)}
    reply = subject.send("BatchGetItem", {"RequestItems": tables})
    assert reply["Responses"] == {subject.table: [{"n": {"N": "1"}}], other: [{"n": {"N": "2"}}]}


def test_a_batch_gets_only_the_projection(subject: Subject) -> None:
    subject.put({"n": 1, "m": 2})
    reply = get(subject, subject.key(), ProjectionExpression="#n", ExpressionAttributeNames={"#n": "n"})
    assert reply["Responses"][subject.table] == [{"n": {"N": "1"}}]


def test_a_batch_takes_100_keys_and_no_more(subject: Subject) -> None:
    keys = [subject.key(str(number)) for number in range(101)]
    assert get(subject, *keys[:100])["Responses"][subject.table] == []
    with subject.refused():
        get(subject, *keys)


def test_a_batch_with_a_key_twice_is_refused(subject: Subject) -> None:
    with subject.refused():
        get(subject, subject.key("a"), subject.key("a"))


def test_a_batch_with_a_bad_key_is_refused(subject: Subject) -> None:
    with subject.refused():
        get(subject, {"pk": {"S": "a"}})
    with subject.refused():
        get(subject, {"pk": {"S": "a"}, "sk": {"N": "1"}})
