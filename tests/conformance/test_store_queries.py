"""Query and Scan: order, ranges, filters, pages."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from tests.conformance.conftest import make_table
from tests.conformance.notation import to_attribute, to_attributes
from tests.conformance.subject import Subject, cases

LETTERS = ["a", "b", "ba", "bb", "c", "d"]


@pytest.fixture
def lettered(subject: Subject) -> Subject:
    """A partition with an item for each of ``LETTERS``, put in another order."""
    for sk in ["c", "ba", "a", "d", "bb", "b"]:
        subject.put({"n": LETTERS.index(sk), "m": {"even": LETTERS.index(sk) % 2 == 0}}, sk=sk)
    return subject


@pytest.mark.parametrize(
    ("condition", "values", "expected"),
    cases(
        [
            ("pk = :pk", {}, LETTERS),
            (":pk = pk", {}, LETTERS),
            ("pk = :pk AND sk = :v", {":v": "b"}, ["b"]),
            ("pk = :pk AND sk = :v", {":v": "x"}, []),
            ("sk = :v AND pk = :pk", {":v": "b"}, ["b"]),
            ("pk = :pk AND sk < :v", {":v": "bb"}, ["a", "b", "ba"]),
            ("pk = :pk AND sk <= :v", {":v": "bb"}, ["a", "b", "ba", "bb"]),
            ("pk = :pk AND sk > :v", {":v": "bb"}, ["c", "d"]),
            ("pk = :pk AND sk >= :v", {":v": "bb"}, ["bb", "c", "d"]),
            ("pk = :pk AND :v < sk", {":v": "bb"}, ["c", "d"]),
            ("pk = :pk AND sk BETWEEN :v AND :w", {":v": "b", ":w": "c"}, ["b", "ba", "bb", "c"]),
            ("pk = :pk and sk between :v and :w", {":v": "aa", ":w": "az"}, []),
            ("pk = :pk AND begins_with(sk, :v)", {":v": "b"}, ["b", "ba", "bb"]),
            ("begins_with(sk, :v) AND pk = :pk", {":v": "bbb"}, []),
            ("(pk = :pk) AND (sk > :v)", {":v": "c"}, ["d"]),
        ]
    ),
)
def test_a_query_finds_a_range_in_order(
    lettered: Subject, condition: str, values: dict[str, Any], expected: list[str]
) -> None:
    assert lettered.found(condition, values) == expected
    assert lettered.found(condition, values, ScanIndexForward=False) == expected[::-1]


@pytest.mark.parametrize(
    ("condition", "values"),
    [
        *cases(
            [
                ("sk = :pk", {}),
                ("pk > :pk", {}),
                ("begins_with(pk, :pk)", {}),
                ("pk = :pk OR sk = :v", {":v": "a"}),
                ("pk = :pk AND NOT sk = :v", {":v": "a"}),
                ("pk = :pk AND sk <> :v", {":v": "a"}),
                ("pk = :pk AND sk IN (:v)", {":v": "a"}),
                ("pk = :pk AND contains(sk, :v)", {":v": "a"}),
                ("pk = :pk AND attribute_exists(sk)", {}),
                ("pk = :pk AND n = :v", {":v": 1}),
                ("pk = :pk AND sk > :v AND sk < :w", {":v": "a", ":w": "b"}),
                ("pk = :pk AND pk = :pk", {}),
                ("pk = :pk AND sk = :v", {":v": 1}),
                ("pk = :pk AND sk BETWEEN :v AND :w", {":v": "b", ":w": "a"}),
                ("pk = :pk AND begins_with(sk, :v)", {":v": 1}),
                ("pk = :pk AND sk = n", {}),
                ("pk = :pk AND sk.part = :v", {":v": "a"}),
                ("pk = :pk AND size(sk) = :v", {":v": 1}),
                ("pk = :pk AND sk", {}),
            ]
        ),
        pytest.param("", {}, id="nothing"),
    ],
)
def test_a_key_condition_is_refused(lettered: Subject, condition: str, values: dict[str, Any]) -> None:
    with lettered.refused():
        lettered.query(condition, values)


def test_a_partition_key_of_another_type_is_refused(subject: Subject) -> None:
    with subject.refused():
        subject.query("pk = :pk", {":pk": 1})


def test_a_query_of_an_absent_partition_finds_nothing(subject: Subject) -> None:
    reply = subject.query("pk = :pk")
    assert reply["Items"] == []
    assert (reply["Count"], reply["ScannedCount"]) == (0, 0)
    assert "LastEvaluatedKey" not in reply


@pytest.mark.parametrize(
    ("condition", "values", "expected"),
    cases(
        [
            ("n > :v", {":v": 3}, ["c", "d"]),
            ("m.even = :v", {":v": True}, ["a", "ba", "c"]),
            ("attribute_not_exists(m.even)", {}, []),
            ("NOT n IN (:v, :w)", {":v": 0, ":w": 5}, ["b", "ba", "bb", "c"]),
        ]
    ),
)
def test_a_filter_leaves_out_items_that_were_read(
    lettered: Subject, condition: str, values: dict[str, Any], expected: list[str]
) -> None:
    reply = lettered.query("pk = :pk", values, FilterExpression=condition)
    assert [item["sk"]["S"] for item in reply["Items"]] == expected
    assert (reply["Count"], reply["ScannedCount"]) == (len(expected), len(LETTERS))


def test_a_filter_on_a_key_is_refused(subject: Subject) -> None:
    with subject.refused():
        subject.query("pk = :pk", {":v": "a"}, FilterExpression="sk > :v")


def test_a_count_comes_without_items(lettered: Subject) -> None:
    reply = lettered.query("pk = :pk", {":v": 3}, FilterExpression="n > :v", Select="COUNT")
    assert "Items" not in reply
    assert (reply["Count"], reply["ScannedCount"]) == (2, 6)


def test_a_query_returns_only_the_projection(lettered: Subject) -> None:
    reply = lettered.query("pk = :pk AND sk = :v", {":v": "a"}, ProjectionExpression="n, m.absent")
    assert reply["Items"] == [{"n": {"N": "0"}}]
    reply = lettered.query("pk = :pk AND sk = :v", {":v": "a"}, ProjectionExpression="sk", Select="SPECIFIC_ATTRIBUTES")
    assert reply["Items"] == [{"sk": {"S": "a"}}]


@pytest.mark.parametrize(
    "params",
    [
        {"ProjectionExpression": "n", "Select": "COUNT"},
        {"ProjectionExpression": "n", "Select": "ALL_ATTRIBUTES"},
        {"Select": "SPECIFIC_ATTRIBUTES"},
        {"Select": "ALL_PROJECTED_ATTRIBUTES"},
        {"Select": "SOME"},
        {"Limit": 0},
    ],
    ids=str,
)
def test_a_choice_of_attributes_is_refused(subject: Subject, params: dict[str, Any]) -> None:
    with subject.refused():
        subject.query("pk = :pk", **params)


# --- pages ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("forward", [True, False])
@pytest.mark.parametrize("limit", [1, 2, 4])
def test_pages_are_complete_and_do_not_overlap(lettered: Subject, limit: int, *, forward: bool) -> None:
    seen: list[str] = []
    params: dict[str, Any] = {"Limit": limit, "ScanIndexForward": forward}
    while True:
        reply = lettered.query("pk = :pk", **params)
        assert len(reply["Items"]) <= limit
        seen += [item["sk"]["S"] for item in reply["Items"]]
        if "LastEvaluatedKey" not in reply:
            break
        assert reply["LastEvaluatedKey"] == lettered.key(seen[-1])
        params["ExclusiveStartKey"] = reply["LastEvaluatedKey"]
    assert seen == (LETTERS if forward else LETTERS[::-1])


def test_a_page_that_ends_with_the_last_item_carries_a_key_with_nothing_behind_it(lettered: Subject) -> None:
    reply = lettered.query("pk = :pk", Limit=6)
    assert len(reply["Items"]) == 6
    rest = lettered.query("pk = :pk", Limit=6, ExclusiveStartKey=reply["LastEvaluatedKey"])
    assert rest["Items"] == []
    assert "LastEvaluatedKey" not in rest


def test_a_limit_counts_what_is_read_not_what_is_returned(lettered: Subject) -> None:
    reply = lettered.query("pk = :pk", {":v": 4}, FilterExpression="n = :v", Limit=3)
    assert (reply["Items"], reply["ScannedCount"]) == ([], 3)
    assert reply["LastEvaluatedKey"] == lettered.key("ba")


def test_a_start_key_need_not_exist(lettered: Subject) -> None:
    assert lettered.found("pk = :pk", ExclusiveStartKey=lettered.key("bab")) == ["bb", "c", "d"]
    start = lettered.key("bab")
    assert lettered.found("pk = :pk", ExclusiveStartKey=start, ScanIndexForward=False) == ["ba", "b", "a"]


def test_a_page_goes_on_after_its_last_item_was_deleted(lettered: Subject) -> None:
    reply = lettered.query("pk = :pk", Limit=2)
    lettered.delete(sk="b")
    assert lettered.found("pk = :pk", ExclusiveStartKey=reply["LastEvaluatedKey"]) == ["ba", "bb", "c", "d"]


@pytest.mark.parametrize(
    "start",
    [
        {"pk": {"S": "x"}},
        {"pk": {"S": "x"}, "sk": {"N": "1"}},
        {"pk": {"S": "elsewhere"}, "sk": {"S": "a"}},
    ],
    ids=["no sort key", "wrong type", "another partition"],
)
def test_a_start_key_that_does_not_fit_is_refused(lettered: Subject, start: dict[str, Any]) -> None:
    with lettered.refused():
        lettered.query("pk = :pk", ExclusiveStartKey=start)


def test_a_start_key_outside_of_the_range_is_refused(lettered: Subject) -> None:
    with lettered.refused():
        lettered.query("pk = :pk AND sk > :v", {":v": "b"}, ExclusiveStartKey=lettered.key("a"))


def test_a_page_ends_at_one_megabyte(subject: Subject) -> None:
    subject.needs("byte_pages")
    for number in range(4):
        subject.put({"load": "x" * 350_000}, sk=str(number))
    reply = subject.query("pk = :pk")
    assert 2 <= reply["Count"] <= 3  # whether the item that passes the limit still belongs to the page is not promised
    rest = subject.query("pk = :pk", ExclusiveStartKey=reply["LastEvaluatedKey"])
    assert rest["Count"] + reply["Count"] == 4
    assert "LastEvaluatedKey" not in rest
    for number in range(4):
        subject.delete(sk=str(number))


# --- order ----------------------------------------------------------------------------------------


def test_text_keys_are_ordered_by_their_bytes(subject: Subject) -> None:
    ordered = ["\x01", " ", "!", "10", "9", "A", "Z", "a", "a#", "a-", "aa", "z", "é", "ﬀ", "𝒳"]
    assert [key.encode() for key in ordered] == sorted(key.encode() for key in ordered)
    for sk in reversed(ordered):
        subject.put({}, sk=sk)
    assert subject.found("pk = :pk") == ordered
    assert subject.found("pk = :pk AND sk > :v", {":v": "z"}) == ["é", "ﬀ", "𝒳"]


@pytest.mark.parametrize(
    ("kind", "ordered"),
    cases(
        [
            ("N", [-1000, -2, 0, 1, 2, 10, 99, 100, 10**30]),
            ("B", [b"\x00", b"\x00\x01", b"\x01", b"a", b"ab", b"\x7f", b"\x80", b"\xff"]),
        ]
    ),
)
def test_keys_of_other_types_have_their_own_order(subject: Subject, kind: str, ordered: list[Any]) -> None:
    table = make_table(subject.send, f"{subject.table}-order-{kind}", pk=kind, sk=kind)
    subject.made_tables.append(table)
    for sk in ordered[::2] + ordered[1::2]:
        subject.send("PutItem", {"TableName": table, "Item": to_attributes({"pk": ordered[0], "sk": sk})})

    def found(condition: str, **values: Any) -> list[Any]:
        request = {
            "TableName": table,
            "KeyConditionExpression": condition,
            "ExpressionAttributeValues": to_attributes({":pk": ordered[0]} | {f":{n}": v for n, v in values.items()}),
        }
        return [item["sk"] for item in subject.send("Query", request)["Items"]]

    assert found("pk = :pk") == [to_attribute(sk) for sk in ordered]
    assert found("pk = :pk AND sk > :v", v=ordered[3]) == [to_attribute(sk) for sk in ordered[4:]]
    assert found("pk = :pk AND sk BETWEEN :v AND :w", v=ordered[1], w=ordered[5]) == [
        to_attribute(sk) for sk in ordered[1:6]
    ]


def test_a_number_key_is_the_same_however_it_is_written(subject: Subject) -> None:
    table = make_table(subject.send, f"{subject.table}-number", pk="S", sk="N")
    subject.made_tables.append(table)
    for text in ("1", "1.0", "10e-1"):
        item = {"pk": {"S": "a"}, "sk": {"N": text}, "written": {"S": text}}
        subject.send("PutItem", {"TableName": table, "Item": item})
    reply = subject.send("Scan", {"TableName": table})
    assert [item["written"]["S"] for item in reply["Items"]] == ["10e-1"]


# --- scans ----------------------------------------------------------------------------------------


@pytest.fixture
def scanned(subject: Subject) -> tuple[Subject, str]:
    """A table of its own with 30 items in 10 partitions."""
    table = make_table(subject.send, f"{subject.table}-scan-{subject.pk}")
    subject.made_tables.append(table)
    for number in range(30):
        item = to_attributes({"pk": str(number % 10), "sk": str(number), "n": number})
        subject.send("PutItem", {"TableName": table, "Item": item})
    return subject, table


def scan_pages(subject: Subject, request: dict[str, Any]) -> list[list[int]]:
    pages = []
    while True:
        reply = subject.send("Scan", request)
        pages.append([int(item["n"]["N"]) for item in reply["Items"]])
        if "LastEvaluatedKey" not in reply:
            return pages
        request = {**request, "ExclusiveStartKey": reply["LastEvaluatedKey"]}


@pytest.mark.parametrize("limit", [1, 7, 30, 100])
def test_a_scan_reads_every_item_once(scanned: tuple[Subject, str], limit: int) -> None:
    subject, table = scanned
    pages = scan_pages(subject, {"TableName": table, "Limit": limit})
    assert all(len(page) <= limit for page in pages)
    assert sorted(itertools.chain(*pages)) == list(range(30))


def test_segments_of_a_scan_share_the_items(scanned: tuple[Subject, str]) -> None:
    subject, table = scanned
    segments = [
        itertools.chain(*scan_pages(subject, {"TableName": table, "Segment": segment, "TotalSegments": 3, "Limit": 4}))
        for segment in range(3)
    ]
    assert sorted(itertools.chain(*segments)) == list(range(30))


def test_a_scan_filters_keys_too(scanned: tuple[Subject, str]) -> None:
    subject, table = scanned
    request = {
        "TableName": table,
        "FilterExpression": "begins_with(sk, :two) AND n < :v",
        "ExpressionAttributeValues": to_attributes({":two": "2", ":v": 25}),
    }
    reply = subject.send("Scan", request)
    assert sorted(int(item["n"]["N"]) for item in reply["Items"]) == [2, 20, 21, 22, 23, 24]
    assert (reply["Count"], reply["ScannedCount"]) == (6, 30)


@pytest.mark.parametrize(
    "params", [{"Segment": 0}, {"TotalSegments": 2}, {"Segment": 2, "TotalSegments": 2}, {"Limit": 0}], ids=str
)
def test_a_scan_is_refused(subject: Subject, params: dict[str, Any]) -> None:
    with subject.refused():
        subject.send("Scan", {"TableName": subject.table, **params})
