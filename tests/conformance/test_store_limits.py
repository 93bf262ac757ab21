"""Sizes: of keys, items, names, nesting."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.subject import Raw, Subject

ITEM_BYTES = 400 * 1024


def filler(subject: Subject, total: int, taken: int = 0) -> str:
    """Text that makes an item of keys, ``taken`` bytes and an attribute ``f`` have so many bytes."""
    keys = len("pk") + len(subject.pk) + len("sk") + len("a")
    return "x" * (total - keys - taken - len("f"))


def nested(levels: int, kind: str) -> dict[str, Any]:
    """A value whose innermost text is at that level."""
    value: dict[str, Any] = {"S": "x"}
    for _ in range(levels - 1):
        value = {"L": [value]} if kind == "L" else {"M": {"a": value}}
    return value


def test_a_partition_key_may_have_2048_bytes_and_no_more(subject: Subject) -> None:
    prefix = subject.pk
    fits = prefix + "é" * ((2048 - len(prefix)) // 2) + "x" * ((2048 - len(prefix)) % 2)
    assert len(fits.encode()) == 2048
    subject.send("PutItem", {"TableName": subject.table, "Item": subject.key(pk=fits)})
    with subject.refused():
        subject.send("PutItem", {"TableName": subject.table, "Item": subject.key(pk=fits + "x")})
    with subject.refused():
        subject.send("GetItem", {"TableName": subject.table, "Key": subject.key(pk=fits + "x")})


def test_a_sort_key_may_have_1024_bytes_and_no_more(subject: Subject) -> None:
    subject.put({}, sk="é" * 512)
    assert subject.get("é" * 512) == {}
    with subject.refused():
        subject.put({}, sk="é" * 512 + "x")
    with subject.refused():
        subject.update("SET n = :v", {":v": 1}, sk="é" * 513)
    with subject.refused():
        subject.get("é" * 513)


def test_an_item_may_have_400_kilobytes_and_no_more(subject: Subject) -> None:
    subject.put({"f": filler(subject, ITEM_BYTES)})
    with subject.refused():
        subject.put({"f": filler(subject, ITEM_BYTES) + "x"})
    assert subject.get() == {"f": filler(subject, ITEM_BYTES)}


def test_an_items_size_counts_bytes_of_names_and_of_all_kinds_of_values(subject: Subject) -> None:
    others: dict[str, Any] = {"é": "é", "m": {"a": [1, True]}, "n": 12345, "s": {"ab", "c"}, "z": None, "b": b"xyz"}
    taken = (2 + 2) + (1 + 3 + (1 + 1 + 3 + (1 + 2) + (1 + 1))) + (1 + 4) + (1 + 3) + (1 + 1) + (1 + 3)
    subject.put({**others, "f": filler(subject, ITEM_BYTES, taken)})
    with subject.refused():
        subject.put({**others, "f": filler(subject, ITEM_BYTES, taken) + "x"})


def test_an_update_must_not_make_an_item_too_large(subject: Subject) -> None:
    subject.put({"f": filler(subject, ITEM_BYTES - 1000)})
    with subject.refused():
        subject.update("SET g = :v", {":v": "x" * 1000})
    assert subject.get() == {"f": filler(subject, ITEM_BYTES - 1000)}
    subject.update("SET g = :v", {":v": "x" * 999})


@pytest.mark.parametrize("kind", ["L", "M"])
def test_values_may_be_nested_32_levels_deep_and_no_more(subject: Subject, kind: str) -> None:
    item = {**subject.key(), "v": nested(32, kind)}
    subject.send("PutItem", {"TableName": subject.table, "Item": item})
    with subject.refused():
        subject.send("PutItem", {"TableName": subject.table, "Item": {**item, "v": nested(33, kind)}})
    with subject.refused():
        subject.update("SET v = :v", {":v": Raw(nested(33, kind))})


def test_an_update_must_not_nest_too_deep(subject: Subject) -> None:
    subject.put({"m": {"a": {}}})
    with subject.refused():
        subject.update("SET m.a.b = :v", {":v": Raw(nested(31, "L"))})
    subject.update("SET m.a.b = :v", {":v": Raw(nested(30, "L"))})


def test_an_attribute_name_may_have_65535_bytes_and_no_more(subject: Subject) -> None:
    subject.put({"x" * 65535: 1})
    with subject.refused():
        subject.put({"x" * 65536: 1})


def test_an_empty_attribute_name_is_refused(subject: Subject) -> None:
    with subject.refused():
        subject.put({"": 1})
