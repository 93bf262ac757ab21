"""Values for the codec's tests, classes at module level as a user's are, and the comparison they are judged by."""

from __future__ import annotations

import dataclasses
import enum
import math
import uuid
from collections import namedtuple
from dataclasses import InitVar, dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from functools import cached_property
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar
from zoneinfo import ZoneInfo

from dynadurable.model.codec_tree import MAX_NESTING_LEVELS

T = TypeVar("T")


class Colour(enum.Enum):
    RED = "red"
    CRIMSON = "red"  # noqa: PIE796 - an alias on purpose
    MIXED = ("a", 1)


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Word(enum.StrEnum):
    YES = "yes"
    NO = ""


class Right(enum.Flag):
    READ = enum.auto()
    WRITE = enum.auto()


class Bits(enum.IntFlag):
    A = 1
    B = 4


class Point(NamedTuple):
    x: int
    y: float = 0.0


Pair = namedtuple("Pair", ["left", "right"])  # the old spelling has to work too


class LabelledPoint(Point):
    """A subclass without slots can be given attributes that no field knows."""


@dataclass
class Line:
    price: Any
    amount: int = 1


@dataclass
class Order:
    id: str
    lines: list[Any] = field(default_factory=list)
    limit: ClassVar[int] = 9


@dataclass(frozen=True)
class Frozen:
    name: str
    at: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Compact:
    value: Any
    inner: Compact | None = None


@dataclass
class Child(Order):
    note: str = ""


@dataclass
class Box(Generic[T]):
    content: T


@dataclass
class Counter:
    """Counts after it was made, in a field that is no argument."""

    start: int
    count: int = field(init=False)

    def __post_init__(self) -> None:
        self.count = self.start


@dataclass(frozen=True)
class FrozenTotal:
    parts: tuple[int, ...]
    total: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "total", sum(self.parts))


@dataclass
class Doubling:
    """Its constructor does not take what its field holds."""

    price: int

    def __post_init__(self) -> None:
        self.price *= 2


@dataclass
class Appending:
    """Changes a part in place."""

    items: list[int]

    def __post_init__(self) -> None:
        self.items.append(len(self.items))


@dataclass
class Stripping:
    """Normalises once; what it holds passes through unchanged."""

    name: str

    def __post_init__(self) -> None:
        self.name = self.name.strip()


@dataclass
class WithInitVar:
    a: int
    b: InitVar[int]

    def __post_init__(self, b: int) -> None:
        self.a += b


@dataclass
class WithInitVarDefault:
    a: int
    b: InitVar[int] = 0

    def __post_init__(self, b: int) -> None:
        self.a += b


@dataclass(eq=False)
class ByIdentity:
    a: int


@dataclass
class NeverEqual:
    a: int

    def __eq__(self, other: object) -> bool:
        return False

    __hash__ = None  # type: ignore[assignment]


@dataclass
class RaisesWhenCompared:
    a: int

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no comparing")

    __hash__ = None  # type: ignore[assignment]


@dataclass
class Caching:
    a: int

    @cached_property
    def square(self) -> int:
        return self.a**2

    def __post_init__(self) -> None:
        self._seen: dict[int, int] = {}


@dataclass
class Picky:
    """Refuses when it is rebuilt; made by passing its check by."""

    a: int

    def __post_init__(self) -> None:
        if self.a < 0:
            raise ValueError("must not be negative")


@dataclass
class ListLike(list[int]):
    a: int = 0


@dataclass
class ProblemError(Exception):
    a: int = 0


@dataclass
class Unset:
    a: int = field(init=False)


class Outer:
    @dataclass
    class Inner:
        a: int

    class Kind(enum.Enum):
        ONE = 1


class NotKept:
    """Neither of the three kinds."""


def same(left: Any, right: Any) -> bool:
    """Equal and of the same type, all the way down; NaN is the same as NaN, and 0.0 is not the same as -0.0."""
    if type(left) is not type(right):
        return False
    if isinstance(left, enum.Enum):
        return left is right
    if isinstance(left, float):
        return (math.isnan(left) and math.isnan(right)) or (
            left == right and math.copysign(1, left) == math.copysign(1, right)
        )
    if isinstance(left, Decimal):
        return str(left) == str(right)
    if isinstance(left, dict):
        return len(left) == len(right) and all(
            same(a, b) for pair in zip(left.items(), right.items(), strict=True) for a, b in zip(*pair, strict=True)
        )
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, (set, frozenset)):
        return len(left) == len(right) and all(any(same(a, b) for b in right) for a in left)
    if dataclasses.is_dataclass(left):
        return all(same(getattr(left, f.name), getattr(right, f.name)) for f in dataclasses.fields(left))
    if hasattr(left, "tzinfo"):
        return bool(left == right and left.fold == right.fold and str(left.tzinfo) == str(right.tzinfo))
    return bool(left == right)


def nested(levels: int, wrap: Any = None, inner: Any = "x") -> Any:
    """``inner`` inside so many containers, each made by ``wrap``: dicts if nothing is said."""
    for _ in range(levels):
        inner = wrap(inner) if wrap else {"a": inner}
    return inner


BERLIN = ZoneInfo("Europe/Berlin")


FALSY: list[Any] = [None, 0, False, "", [], {}, (), b"", 0.0, set(), Decimal(0)]

VALUES: dict[str, Any] = {
    # PUB-22, 23, 24
    "floats": {"price": 1.1, "sum": 0.1 + 0.2, "fee": 40.2, "tiny": 5e-324, "big": 1.7976931348623157e308},
    "signed zero": [-0.0, 0.0, 0, 1e22, 1e16, -1.5],
    "long integers": {"a": 2**53 + 1, "b": 2**64, "c": 2**128, "d": 10**40, "e": -1},
    "huge integers": [10**5000, -(10**5000), 2**1024, 2**1024 - 1, -(2**1024), 10**400],
    "special numbers": {"score": math.nan, "hi": math.inf, "lo": -math.inf},
    # PUB-25
    "int keys": {1: "passed", 2: "failed"},
    "keys that JSON would merge": {1: "a", "1": "b", None: "c", "None": "d", "true": 2}
    | {0.5: 1, "0.5": 2, (1, "x"): 3, Decimal("0.25"): 4, date(2027, 1, 1): 5, b"1": 6, Colour.RED: 7},
    "a frozenset and a NaN as keys": {frozenset({1, (2,)}): "f", math.nan: "n"},
    # PUB-26
    "tuples": ((1, 2), [(), (1,)], {"t": (1, [2, (3,)])}),
    # PUB-27
    "empty and binary": {"s": "", "b": b"\x00\xff", "eb": b"", "l": [], "d": {}, "none": None}
    | {"tags": set(), "t2": {"x"}, "f": frozenset(), "t": (), "ba": bytearray(b"\x01"), "eba": bytearray()},
    # PUB-28
    "moments": [
        datetime(2027, 1, 15, 12),  # noqa: DTZ001 - naive ones are values too
        datetime(2027, 1, 15, 12, 0, 0, 1, UTC),
        datetime(2027, 1, 15, 12, tzinfo=timezone(timedelta(hours=-5))),
        datetime(2027, 1, 15, 12, tzinfo=timezone(timedelta(hours=1), "CET")),
        datetime(2027, 1, 15, 12, tzinfo=timezone(timedelta(0), "GMT")),
        datetime(2027, 1, 15, 12, tzinfo=timezone(timedelta(seconds=3, microseconds=7))),
        datetime(2027, 1, 15, 12, tzinfo=timezone(timedelta(microseconds=7))),
        datetime(2027, 1, 15, 12, tzinfo=timezone(-timedelta(microseconds=7), "a little west"), fold=1),
        datetime(2027, 7, 15, 12, tzinfo=BERLIN),
        datetime(2027, 7, 15, 12, tzinfo=ZoneInfo("UTC")),
        datetime(2027, 10, 31, 2, 30, tzinfo=BERLIN),
        datetime(2027, 10, 31, 2, 30, tzinfo=BERLIN, fold=1),
        datetime(2027, 3, 28, 2, 30, tzinfo=BERLIN),
        datetime(2027, 3, 28, 2, 30, tzinfo=BERLIN, fold=1),
        datetime(2027, 1, 1, fold=1),  # noqa: DTZ001 - as above
        datetime(2027, 1, 1, tzinfo=UTC, fold=1),
        datetime.min,  # noqa: DTZ901 - as above
        datetime.max,  # noqa: DTZ901 - as above
        datetime.max.replace(tzinfo=BERLIN),
        datetime.min.replace(tzinfo=BERLIN),
    ],
    "dates, times, spans": [
        date.min,
        date.max,
        time(),
        time(23, 59, 59, 999999, fold=1),
        time(1, tzinfo=UTC),
        time(1, tzinfo=timezone(timedelta(microseconds=1))),
        time(1, tzinfo=BERLIN, fold=1),
        time(1, tzinfo=ZoneInfo("Etc/GMT+5")),
        time(1, tzinfo=timezone(timedelta(hours=2), "here")),
        timedelta.min,
        timedelta.max,
        timedelta.resolution,
        timedelta(days=-1, microseconds=1),
    ],
    "decimals": [Decimal(text) for text in ("1.10", "1.1", "-0", "1E+999999", "NaN", "-sNaN12", "Infinity", "1" * 90)],
    "uuids": uuid.UUID("12345678123456781234567812345678"),
    # PUB-30
    "texts": {
        "t": "a\u0000b\u001f\u2028 👩\u200d👩\u200d👧 é",
        "\u0000": '\x7f\\"/\b\f\n\r\t',
        "é\u2029": "\ufeff\uffff",
    },
    "lone surrogates": ["\ud83d", "\ude00", "\ud83d\ude00", "😀", {"\udfff": "\ud800"}],
    "texts that look like escapes": ["\\ud83d\\ude00", "\\u0000", '{"$tuple":[1]}', "$"],
    # PUB-33
    **{f"{levels} levels": nested(levels) for levels in (20, 31, 32, 60, MAX_NESTING_LEVELS)},
    "60 levels of int keys": nested(60, lambda inner: {1: inner}),
    "60 levels of tuples": nested(60, lambda inner: (inner,)),
    "60 levels of dataclasses": nested(60, lambda inner: Line(inner)),
    "the most levels of each": [
        nested(MAX_NESTING_LEVELS - 1, wrap) for wrap in (Line, lambda v: (v,), lambda v: {1: v}, lambda v: [v])
    ],
    # PUB-44
    **{f"falsy {value!r}": value for value in FALSY},
    # what the format itself could stumble over
    "dicts that look like tags": [
        {"$tuple": [1, 2]},
        {"$dict": ["a", 1]},
        {"$": 1},
        {"$bytes": "AA==", "b": 1},
        {"$nothing": {"$bytes": b"x"}},
        {"$x": (1,)},
        {"": 1},
    ],
    "only plain dicts that look like tags": {"$tuple": [1, {"$set": []}]},
    "bools are not ints": [True, 1, False, 0, {True: 1}, {0: False}],
    "long text": "krabber " * 20_000,
    "long and tagged": [(index, b"x" * 30) for index in range(500)],
}
