"""The payload codec: values come back equal and of the same type, or are refused by the name of their path."""

from __future__ import annotations

import doctest
import math
import types
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from dynadurable.model import codec, codec_class, codec_place, codec_tags, codec_time, codec_tree
from dynadurable.model.codec import canonical_digest, decode, encode, roundtrip
from tests.unit.codec_samples import BERLIN, VALUES, Colour, Frozen, Line, Order, Point, same


@pytest.mark.parametrize("name", VALUES)
def test_a_value_comes_back_equal_and_of_the_same_type(name: str) -> None:
    """PUB-22 to 28, 30, 33, 44."""
    data = encode(VALUES[name])
    assert type(data) is bytes
    assert same(decode(data), VALUES[name])
    assert same(roundtrip(VALUES[name]), VALUES[name])
    assert len(canonical_digest(VALUES[name])) == 32


@pytest.mark.parametrize("value", VALUES["moments"] + VALUES["dates, times, spans"][2:9])
def test_a_moment_keeps_wall_clock_zone_fold_and_zone_name(value: Any) -> None:
    back = roundtrip(value)
    assert back == value
    assert back.replace(tzinfo=None) == value.replace(tzinfo=None)
    assert (back.fold, type(back.tzinfo)) == (value.fold, type(value.tzinfo))
    assert back.tzname() == value.tzname()
    assert back.utcoffset() == value.utcoffset()
    if isinstance(value.tzinfo, ZoneInfo):
        assert back.tzinfo is value.tzinfo


def test_utc_comes_back_as_the_one_utc_object() -> None:
    assert roundtrip(datetime(2027, 1, 1, tzinfo=UTC)).tzinfo is UTC


def test_a_zone_whose_rules_have_changed_keeps_the_instant() -> None:
    """Written where Berlin stood at +03:00 in that summer, read where it stands at +02:00."""
    back = decode(b'1t{"$datetime":["2027-07-15T12:00:00+03:00",0,"Europe/Berlin",null]}')
    assert back == datetime(2027, 7, 15, 9, tzinfo=UTC)
    assert back == datetime(2027, 7, 15, 11, tzinfo=BERLIN)
    assert back.tzinfo is BERLIN


def test_dict_order_is_kept() -> None:
    for value in ({"b": 1, "a": 2}, {2: 1, 1: 2}, {"z": (1,), "$y": 2}):
        assert list(roundtrip(value)) == list(value)


def test_shared_parts_are_no_cycle() -> None:
    part = (1, [2])
    assert roundtrip([part, part, {"a": part[1], "b": part[1]}]) == [part, part, {"a": [2], "b": [2]}]


def test_equal_sets_give_equal_bytes() -> None:
    few, many = {8, 16}, set(range(100))  # 8 and 16 collide in a small table, so insertion order shows
    assert list(few) != list({16, 8})
    many -= set(range(100)) - {16, 8}
    assert encode(few) == encode({16, 8}) == encode(many)


def test_a_list_that_is_changed_after_encoding_does_not_change_what_was_stored() -> None:
    """PUB-58."""
    values: list[Any] = [{"items": [1]}, {"items": [1], "t": (1,)}]
    for value in values:
        data, digest = encode(value), canonical_digest(value)
        value["items"].append(2)
        first, second = decode(data), decode(data)
        assert first["items"] == [1]
        first["items"].append(3)
        assert second["items"] == [1]
        assert canonical_digest(second) == digest != canonical_digest(value)


# --- digests --------------------------------------------------------------------------------------


def test_the_order_of_dict_keys_does_not_count() -> None:
    """PUB-57."""
    first = canonical_digest({"a": 1, "b": {"c": 2, "d": 3}})
    assert first == canonical_digest({"b": {"d": 3, "c": 2}, "a": 1})
    assert first != canonical_digest({"a": 1, "b": {"c": 2, "d": 4}})
    assert canonical_digest({1: "a", "b": (2,)}) == canonical_digest({"b": (2,), 1: "a"})
    assert canonical_digest((Line({1: 2, 3: 4}),)) == canonical_digest((Line({3: 4, 1: 2}),))
    assert canonical_digest(({"x": 1, "y": 2},)) == canonical_digest(({"y": 2, "x": 1},))


def test_the_order_of_lists_does_count() -> None:
    assert canonical_digest([1, 2]) != canonical_digest([2, 1])
    assert canonical_digest((1, 2)) != canonical_digest((2, 1))


def test_sets_have_no_order() -> None:
    assert canonical_digest(set("abcdef")) == canonical_digest(set("fedcba"))
    assert canonical_digest({frozenset("ab"), frozenset("cd")}) == canonical_digest({frozenset("dc"), frozenset("ba")})


def test_values_of_different_types_have_different_digests() -> None:
    values: list[Any] = [1, 1.0, True, "1", b"1", Decimal(1), Decimal("1.0"), None, "", 0, -0.0, 0.0, False, [], (), {}]
    values += [set(), frozenset(), [1], (1,), {1}, {"a": 1}, {1: "a"}, {"1": "a"}, "null", ["a", 1], Line(1), Point(1)]
    values += [
        {"$bytes": "MQ=="},
        {"$tuple": [1]},
        {"$dict": [1, "a"]},
        math.nan,
        "nan",
        date(2027, 1, 1),
        "2027-01-01",
    ]
    values += [Colour.RED, "red", bytearray(b"1"), Order("a"), Frozen("a"), {"id": "a", "lines": []}]
    assert len({canonical_digest(value) for value in values}) == len(values)


def test_a_digest_is_the_same_in_every_release() -> None:
    """Stored digests outlive a deploy; if this fails, live keys would conflict with themselves."""
    assert canonical_digest({"a": 1, "b": [True, None, "é"]}) == "e15bb79c6efdcf9594338d2f2a6601ff"
    assert canonical_digest({"t": (1, {2: 3}), "s": {"x", "y"}}) == "d42f08dc15bed37632ca5db299b54b27"


@pytest.mark.parametrize("module", [codec, codec_class, codec_place, codec_tags, codec_time, codec_tree])
def test_the_examples_in_the_docstrings_hold(module: types.ModuleType) -> None:
    assert doctest.testmod(module).failed == 0


def test_a_copy_of_data_shares_nothing_that_could_be_changed() -> None:
    value = {"a": [1, {2}], "b": (bytearray(b"x"), Order("o", [Line("x")])), "c": {1: []}}
    copy = codec.own_copy(value)
    assert same(copy, value)
    copy["a"].append(3)
    copy["a"][1].add(3)
    copy["b"][0].extend(b"y")
    copy["b"][1].lines.append(1)
    copy["c"][1].append(1)
    assert same(value, {"a": [1, {2}], "b": (bytearray(b"x"), Order("o", [Line("x")])), "c": {1: []}})


class Shy:
    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(name)


def test_what_is_no_data_is_its_own_copy() -> None:
    cycle: list[Any] = []
    cycle.append(cycle)
    for value in (object(), print, cycle, {"a": object()}, iter([1]), Shy(), "text", 10**40):
        assert codec.own_copy(value) is value
