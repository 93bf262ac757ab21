"""What the payload codec refuses, and how it names the place."""

from __future__ import annotations

import array
import collections
import inspect
import io
import sys
import types
from collections.abc import Callable
from datetime import datetime, time, timedelta, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from dynadurable.errors import PayloadRefusedError
from dynadurable.model.codec import canonical_digest, encode
from dynadurable.model.codec_tree import MAX_NESTING_LEVELS
from tests.unit.codec_samples import Colour, Frozen, Line, Order, Point, nested


class Shouting(str):
    __slots__ = ()


class Money(int):
    pass


class Moment(datetime):
    pass


class Elsewhere(tzinfo):
    def utcoffset(self, dt: datetime | None) -> timedelta:
        return timedelta(hours=1)

    def dst(self, dt: datetime | None) -> None:
        return None

    def tzname(self, dt: datetime | None) -> str:
        return "elsewhere"


class RaisingRepr:
    def __repr__(self) -> str:
        raise RuntimeError("no")


REFUSED: dict[str, Any] = {
    "a str subclass": (Shouting("x"), "pass a plain str"),
    "an int subclass": (Money(1), "pass a plain int"),
    "a number of numpy's": (type("float64", (float,), {"__module__": "numpy"})(1), r"pass value.item\(\)"),
    "a datetime subclass": (Moment(2027, 1, 1), "pass a plain datetime"),
    "an OrderedDict": (collections.OrderedDict(a=1), "collections.OrderedDict cannot come back.*pass a plain dict"),
    "a defaultdict": (collections.defaultdict(list), "pass a plain dict"),
    "a Counter": (collections.Counter("aab"), "pass a plain dict"),
    "a struct sequence": (sys.version_info, "pass a plain tuple"),
    "an object": (object(), "pass plain data"),
    "an exception": (ValueError("x"), "ValueError cannot"),
    "a function": (len, "a name that the job looks up"),
    "a class": (Order, "a name that the job looks up"),
    "a generator": ((x for x in [1]), "generator"),
    "a module": (types, "module"),
    "a complex number": (1j, "complex"),
    "a range": (range(3), "range"),
    "a memoryview": (memoryview(b"x"), "memoryview"),
    "an array": (array.array("d"), "array"),
    "a deque": (collections.deque([1]), "deque"),
    "Ellipsis": (..., "ellipsis"),
    "a foreign zone": (datetime(2027, 1, 1, tzinfo=Elsewhere()), "Elsewhere; use zoneinfo.ZoneInfo"),
    "a foreign zone's time": (time(1, tzinfo=Elsewhere()), "Elsewhere; use zoneinfo.ZoneInfo"),
    "something with a broken repr": (RaisingRepr(), "RaisingRepr cannot"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_come_back_is_refused_with_path_and_advice(name: str) -> None:
    value, reason = REFUSED[name]
    order = {"lines": [0, 1, 2, {"price": value}]}
    for refuses in (encode, canonical_digest):
        with pytest.raises(PayloadRefusedError, match=reason) as caught:
            refuses(order, path="order")
        assert caught.value.path == "order.lines[3].price"
        assert str(caught.value).startswith("order.lines[3].price: ")


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (object(), "order"),
        ({1: object()}, "order[1]"),
        ({"1": object()}, "order['1']"),
        ({"unit price": object()}, "order['unit price']"),
        ({"": object()}, "order['']"),
        ({"class": object()}, "order.class"),
        ({Colour.RED: object()}, "order[<Colour.RED: 'red'>]"),
        ((1, object()), "order[1]"),
        ({"a": ([{2: (object(),)}],)}, "order.a[0][0][2][0]"),
        (Order("a", [Line(1), Line(object())]), "order.lines[1].price"),
        (Frozen("a", at={"k": object()}), "order.at.k"),
        (Point(1, object()), "order.y"),  # type: ignore[arg-type]  # on purpose
    ],
)
def test_the_path_reads_as_one_would_write_it(value: Any, path: str) -> None:
    with pytest.raises(PayloadRefusedError) as caught:
        encode(value, path="order")
    assert caught.value.path == path


def test_a_refused_key_is_called_a_key() -> None:
    for key in (Shouting("x"), (1, Shouting("x")), frozenset({Shouting("x")}), 1j):
        with pytest.raises(PayloadRefusedError, match="the dict key: ") as caught:
            encode({"a": {key: 1}}, path="order")
        assert caught.value.path.startswith("order.a[")


def test_a_refused_set_element_is_shown() -> None:
    with pytest.raises(PayloadRefusedError) as caught:
        encode({"tags": {Shouting("x")}}, path="order")
    assert caught.value.path == "order.tags{'x'}"


def test_a_path_stays_short_and_never_fails() -> None:
    for key in ("k" * 5_000, 10**5_000, RaisingRepr(), (RaisingRepr(),), tuple(range(5_000))):
        with pytest.raises(PayloadRefusedError) as caught:
            encode({key: object()})
        assert len(caught.value.path) < 120


def test_a_cycle_is_refused_with_its_path() -> None:
    looped: list[Any] = [1]
    looped.append({"again": looped})
    line = Line(None)
    line.price = [line]
    for value, path in ((looped, "value[1].again"), (line, "value.price[0]")):
        with pytest.raises(PayloadRefusedError, match="cycle") as caught:
            encode(value)
        assert caught.value.path == path


@pytest.mark.parametrize("wrap", [lambda v: {"a": v}, lambda v: [v], lambda v: (v,), lambda v: {1: v}, Line])
@pytest.mark.parametrize("levels", [MAX_NESTING_LEVELS + 1, 10_000])
def test_too_deep_nesting_is_refused_by_that_name(wrap: Any, levels: int) -> None:
    """PUB-33."""
    value = nested(levels, wrap)
    for refuses in (encode, canonical_digest):
        with pytest.raises(PayloadRefusedError, match="nesting"):
            refuses(value)
    while not isinstance(value, str):  # taken apart by hand: dataclasses this deep would be freed recursively
        (value,) = [value.price] if isinstance(value, Line) else (value.values() if isinstance(value, dict) else value)


def test_nesting_without_call_stack_left_is_refused_too() -> None:
    def deeper(frames: int, refuses: Callable[[Any], Any]) -> None:
        if frames:
            deeper(frames - 1, refuses)
        else:
            refuses(nested(MAX_NESTING_LEVELS, Line))

    used = len(inspect.stack())
    for refuses in (encode, canonical_digest):
        with pytest.raises(PayloadRefusedError, match="nesting"):
            deeper(sys.getrecursionlimit() - used - 60, refuses)


def test_a_zone_object_that_its_key_does_not_give_is_refused() -> None:
    overlap = datetime(2027, 10, 31, 2, 30)  # noqa: DTZ001 - the zone follows
    with pytest.raises(PayloadRefusedError, match="its zone is not the one"):
        encode(overlap.replace(tzinfo=ZoneInfo.no_cache("Europe/Berlin")))


def test_a_nameless_zone_is_refused() -> None:
    raw = (  # a TZif file, version 1, without transitions: one type, offset 0, "UTC"
        b"TZif" + bytes(16) + b"".join(n.to_bytes(4, "big") for n in (0, 0, 0, 0, 1, 4)) + bytes(6) + b"UTC\0"
    )
    zone = ZoneInfo.from_file(io.BytesIO(raw))
    with pytest.raises(PayloadRefusedError, match="its zone is not the one"):
        encode(datetime(2027, 1, 1, tzinfo=zone))
