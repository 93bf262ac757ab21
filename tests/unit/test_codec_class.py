"""Enums, dataclasses and named tuples in payloads: rebuilt exactly or refused, and never a way into the process."""

from __future__ import annotations

import dataclasses
import enum
import json
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from dynadurable.errors import PayloadRefusedError, PayloadUnreadableError
from dynadurable.model.codec import canonical_digest, decode, encode
from tests.unit import codec_samples
from tests.unit.codec_samples import (
    Appending,
    Bits,
    Box,
    ByIdentity,
    Caching,
    Child,
    Colour,
    Compact,
    Counter,
    Doubling,
    Frozen,
    FrozenTotal,
    LabelledPoint,
    Level,
    Line,
    ListLike,
    NeverEqual,
    Order,
    Outer,
    Pair,
    Picky,
    Point,
    ProblemError,
    RaisesWhenCompared,
    Right,
    Stripping,
    Unset,
    WithInitVar,
    WithInitVarDefault,
    Word,
    same,
)

SAMPLES = "tests.unit.codec_samples"


def changed(instance: Any, **attributes: Any) -> Any:
    """``instance`` after somebody has set attributes behind its constructor's back."""
    for name, value in attributes.items():
        object.__setattr__(instance, name, value)
    return instance


def warmed(instance: Caching) -> Caching:
    assert instance.square == instance.a**2
    instance._seen[1] = 1
    return instance


KEPT: dict[str, Any] = {
    "an Enum": [Colour.RED, Colour.CRIMSON, Colour.MIXED, {Colour.RED: Colour.MIXED}, {Colour.RED}],
    "an IntEnum": [Level.LOW, {Level.HIGH: 1}, (Level.LOW, 1, True)],
    "a StrEnum": [Word.YES, Word.NO, {Word.NO: 1, "no": 2}],
    "a Flag": [Right.READ, Right.READ | Right.WRITE, Right(0), ~Right.READ],
    "an IntFlag": [Bits.A, Bits.A | Bits.B, Bits(0), Bits(2**70), Bits(-1)],
    "named tuples": [Point(1), Point(1, -0.0), Point(x=[1], y={1}), Pair("a", (Pair(1, 2),)), {Point(1): Point(2)}],  # type: ignore[arg-type]
    "a subclass of a named tuple": LabelledPoint(1, 2.0),
    "dataclasses": Order("a", [Line(1.5), Line((1,), 2)]),
    "an inherited dataclass": Child("a", [1], note="n"),
    "frozen ones, also as keys": {Frozen("a"): Frozen("b", at=Frozen("c"))},
    "slots and kw_only": Compact(value={1}, inner=Compact(value=None)),
    "generic ones": [Box[int](1), Box("x"), Box[Box[int]](Box(2))],
    "a field outside the constructor": Counter(3),
    "a field outside the constructor, changed": changed(Counter(3), count=7),
    "the same, frozen": [FrozenTotal((1, 2)), changed(FrozenTotal((1, 2)), total=99)],
    "nested classes": [Outer.Inner(1), Outer.Kind.ONE],
    "a __post_init__ that leaves good values alone": Stripping(" x "),
    "an argument that is no field, with a default": WithInitVarDefault(1, 2),
    "caches beside the fields": warmed(Caching(3)),
    "NaN inside": [Line(math.nan), Point(1, math.nan), {Frozen("a", at=math.nan)}],
    "shared instances": [KEY := Frozen("k"), KEY, {KEY: KEY}],
    "dict fields": Line({"$data": 1, "a": {1: Line({"$tuple": [1]})}}),
}


@pytest.mark.parametrize("name", KEPT)
def test_instances_come_back_equal_and_of_the_same_type(name: str) -> None:
    value = KEPT[name]
    back = decode(encode(value))
    assert same(back, value)
    assert canonical_digest(back) == canonical_digest(value)


def test_what_came_back_works_like_the_original() -> None:
    back = decode(encode(warmed(Caching(3))))
    assert (back.square, back._seen) == (9, {})
    assert hash(decode(encode(Frozen("a")))) == hash(Frozen("a"))
    with pytest.raises(dataclasses.FrozenInstanceError):
        decode(encode(Frozen("a"))).name = "b"
    assert decode(encode(Counter(3))).count == 3


class Unlisted(enum.Enum):
    A = 1

    @classmethod
    def _missing_(cls, value: object) -> Unlisted:
        member = object.__new__(cls)
        member._name_, member._value_ = "MADE_UP", 7
        return member


class SpeechlessError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@dataclasses.dataclass
class Speechless:
    a: int

    def __post_init__(self) -> None:
        raise SpeechlessError


class Meddling(NamedTuple):
    a: int


class MeddlingChild(Meddling):
    def __new__(cls, a: int) -> MeddlingChild:
        return super().__new__(cls, a + 1)


def unknown_bits() -> Any:
    member = object.__new__(Right)
    member._value_ = 64
    return member


def local_class() -> Any:
    @dataclasses.dataclass
    class Local:
        a: int

    return Local(1)


def local_enum() -> Any:
    return enum.Enum("Hidden", ["A"], qualname="local_enum.<locals>.Hidden", module=__name__).A  # type: ignore[attr-defined]


def replaced_class() -> Any:
    """An instance of an earlier class of the same name, as after a reload."""
    return dataclasses.make_dataclass("Line", ["price"], namespace={"__module__": SAMPLES})(1)


def short_point() -> Any:
    return tuple.__new__(Point, (1,))


def long_point() -> Any:
    return tuple.__new__(Point, (1, 2, 3))


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "a class inside a function": (local_class, "is defined inside a function"),
    "an Enum inside a function": (local_enum, "is defined inside a function"),
    "a class that was replaced": (replaced_class, "does not lead back to this class"),
    "a member that is not listed": (lambda: Unlisted(7), "does not list this member"),
    "bits that no member has": (unknown_bits, r"Right\(64\) does not give this member"),
    "a __post_init__ that changes a field": (lambda: Doubling(1), "does its __post_init__ change"),
    "a __post_init__ that changes a part": (lambda: Appending([]), "does its __post_init__ change"),
    "a field its class would normalise": (lambda: changed(Stripping("x"), name=" x "), "does its __post_init__ change"),
    "an argument that is no field": (lambda: WithInitVar(1, 2), r"cannot be rebuilt.*TypeError.*'b'"),
    "an error that cannot be told": (lambda: changed(object.__new__(Speechless), a=1), r"\(SpeechlessError\)"),
    "a value its class would refuse": (lambda: changed(Picky(1), a=-1), "must not be negative"),
    "a named tuple with its own __new__": (lambda: MeddlingChild(1), "is another value"),
    "a named tuple that is too short": (short_point, "cannot be read|items"),
    "a named tuple that is too long": (long_point, "compare equal|items"),
    "eq=False": (lambda: ByIdentity(1), "compares by identity"),
    "an __eq__ that says no": (lambda: NeverEqual(1), "does not compare equal"),
    "an __eq__ that raises": (lambda: RaisesWhenCompared(1), "no comparing"),
    "an attribute beside the fields": (lambda: changed(Line(1), note="x"), "attribute 'note' is not a field"),
    "an attribute beside a named tuple's": (lambda: changed(LabelledPoint(1), note="x"), "attribute 'note' is not a"),
    "a dataclass that is a list": (lambda: ListLike(1), "it is also a list"),
    "a dataclass that is an exception": (lambda: ProblemError(1), "it is also a BaseException"),
    "a field that was never set": (Unset, "field 'a' cannot be read"),
    "none of the three kinds": (codec_samples.NotKept, "pass plain data, a dataclass, an Enum or a NamedTuple"),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize(
    ("around", "path"),
    [(lambda v: v, ""), (lambda v: Line(v), ".price"), (lambda v: Line((math.nan, v)), ".price[1]")],
    ids=["bare", "inside another", "beside NaN"],
)
def test_what_a_class_would_not_give_back_is_refused_with_its_path(
    name: str, around: Callable[[Any], Any], path: str
) -> None:
    make, reason = REFUSED[name]
    order = Order("a", [Line(1), Line(math.pi), around(make())])
    with pytest.raises(PayloadRefusedError, match=reason) as caught:
        encode({"order": order}, path="job")
    assert caught.value.path == f"job.order.lines[2]{path}"


def test_a_key_that_is_refused_is_named_as_a_key() -> None:
    with pytest.raises(PayloadRefusedError, match=r"the dict key: .*attribute 'note'"):
        encode({"a": {changed(Frozen("k"), note=1): 1}})


# --- stored names are not trusted -----------------------------------------------------------------


def stored(tag: str, name: str, data: Any) -> bytes:
    return b"1t" + json.dumps({tag: [name, data]}).encode()


UNREADABLE: dict[str, bytes] = {
    "no such module": stored("$instance", "nowhere.at.all:Order", {}),
    "no such class": stored("$instance", f"{SAMPLES}:Gone", {}),
    "no class name": stored("$instance", SAMPLES, {}),
    "an empty name": stored("$instance", "", {}),
    "an empty module": stored("$instance", ":Order", {}),
    "a relative module": stored("$instance", f".{SAMPLES}:Order", {}),
    "a function": stored("$instance", "os:system", {"command": "true"}),
    "a function behind a class": stored("$instance", f"{SAMPLES}:Order.__init__", {}),
    "a module": stored("$instance", f"{SAMPLES}:enum", {}),
    "a class of another kind": stored("$instance", f"{SAMPLES}:NotKept", {}),
    "a class that does things": stored("$instance", "subprocess:Popen", {"args": ["true"]}),
    "a builtin": stored("$instance", "builtins:dict", {}),
    "through a private name": stored("$instance", f"{SAMPLES}:Outer.__dict__.Inner", {"a": 1}),
    "an Enum as an instance": stored("$instance", f"{SAMPLES}:Colour", {"value": "red"}),
    "a dataclass as an Enum": stored("$enum", f"{SAMPLES}:Line", "price"),
    "a dataclass as a Flag": stored("$flag", f"{SAMPLES}:Line", 1),
    "a member that is gone": stored("$enum", f"{SAMPLES}:Colour", "BLUE"),
    "a member that is no name": stored("$enum", f"{SAMPLES}:Colour", ["RED"]),
    "bits that are not allowed": stored("$flag", f"{SAMPLES}:Right", 64),
    "a field that is gone": stored("$instance", f"{SAMPLES}:Line", {"price": 1, "vat": 2}),
    "a field that is missing": stored("$instance", f"{SAMPLES}:Line", {"amount": 2}),
    "a named tuple's field that is gone": stored("$instance", f"{SAMPLES}:Point", {"x": 1, "z": 2}),
    "no fields at all": stored("$instance", f"{SAMPLES}:Line", None),
    "a class that refuses": stored("$instance", f"{SAMPLES}:Picky", {"a": -1}),
    "a name that is no text": b'1t{"$instance":[1,{}]}',
    "too many parts": b'1t{"$instance":["a:b",{},1]}',
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_stored_class_that_cannot_be_used_is_unreadable(name: str) -> None:
    with pytest.raises(PayloadUnreadableError) as caught:
        decode(UNREADABLE[name])
    assert caught.value.raw == UNREADABLE[name]
    assert caught.value.reason


def test_an_error_that_cannot_be_told_is_named_by_its_type() -> None:
    with pytest.raises(PayloadUnreadableError) as caught:
        decode(stored("$instance", f"{__name__}:Speechless", {"a": 1}))
    assert caught.value.reason == "SpeechlessError"


def test_a_class_that_has_gained_a_field_gives_it_its_default() -> None:
    assert decode(stored("$instance", f"{SAMPLES}:Line", {"price": 3})) == Line(3, amount=1)
    assert decode(stored("$instance", f"{SAMPLES}:Point", {"x": 3})) == Point(3, 0.0)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A package that is not imported yet, whose modules leave a trace when they are."""
    name = "codec_package"
    folder = tmp_path / name
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    trace = f"import pathlib\npathlib.Path({str(tmp_path / 'trace')!r}).touch()\n"
    order = "import dataclasses\n@dataclasses.dataclass\nclass Order:\n    id: str\n"
    (folder / "models.py").write_text(trace + order)
    (folder / "__main__.py").write_text(trace + order)
    (folder / "quits.py").write_text("raise SystemExit(3)\n")
    (folder / "breaks.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    for module in (name, f"{name}.models", f"{name}.__main__", f"{name}.quits", f"{name}.breaks"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    return name


def test_a_package_that_is_not_imported_stays_so(package: str, tmp_path: Path) -> None:
    data = stored("$instance", f"{package}.models:Order", {"id": "a"})
    with pytest.raises(PayloadUnreadableError, match=f"the package {package} is not imported in this process"):
        decode(data)
    assert package not in sys.modules
    assert not (tmp_path / "trace").exists()


def test_a_module_of_an_imported_package_is_imported(package: str, tmp_path: Path) -> None:
    __import__(package)
    back = decode(stored("$instance", f"{package}.models:Order", {"id": "a"}))
    assert (type(back).__module__, type(back).__qualname__, back.id) == (f"{package}.models", "Order", "a")
    assert (tmp_path / "trace").exists()
    assert decode(encode(back)) == back


def test_a_main_module_is_never_imported(package: str, tmp_path: Path) -> None:
    __import__(package)
    with pytest.raises(PayloadUnreadableError, match="not the name of a module that may be imported"):
        decode(stored("$instance", f"{package}.__main__:Order", {"id": "a"}))
    assert not (tmp_path / "trace").exists()


@pytest.mark.parametrize("module", ["quits", "breaks"])
def test_a_module_that_fails_to_import_is_unreadable(package: str, module: str) -> None:
    __import__(package)
    with pytest.raises(PayloadUnreadableError, match=r"SystemExit|ZeroDivisionError"):
        decode(stored("$instance", f"{package}.{module}:Order", {}))


# --- programs that define classes in their main module --------------------------------------------

PROGRAM = """
import dataclasses, enum, sys
from dynadurable.model.codec import decode, encode

@dataclasses.dataclass
class Order:
    id: str
    kind: object

class Kind(enum.Enum):
    NEW = 1

if __name__ == "__main__":
    order = Order("a", Kind.NEW)
    data = encode(order)
    assert decode(data) == order and type(decode(data)) is Order and decode(data).kind is Kind.NEW
    sys.stdout.write(data.decode())
"""


def run(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    root = Path(__file__).parents[2]
    environment = {"PYTHONPATH": f"{root}:{folder}", "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    (tmp_path / "shop").mkdir()
    for name in ("__init__", "jobs", "__main__"):
        (tmp_path / "shop" / f"{name}.py").write_text(PROGRAM if name != "__init__" else "")
    return tmp_path


def test_a_program_started_by_name_is_understood_by_other_processes(shop: Path) -> None:
    started = run("-m", "shop.jobs", folder=shop)
    assert started.returncode == 0, started.stderr
    assert started.stdout == '1t{"$instance":["shop.jobs:Order",{"id":"a","kind":{"$enum":["shop.jobs:Kind","NEW"]}}]}'
    reader = (
        "import shop.jobs, sys; from dynadurable.model.codec import decode; "
        "back = decode(sys.argv[1].encode()); assert back == shop.jobs.Order('a', shop.jobs.Kind.NEW)"
    )
    other = run("-c", reader, started.stdout, folder=shop)
    assert other.returncode == 0, other.stderr


def test_a_program_started_by_name_understands_other_processes(shop: Path) -> None:
    (shop / "shop" / "jobs.py").write_text(PROGRAM + "    assert decode(sys.argv[1].encode()) == order\n")
    data = stored("$instance", "shop.jobs:Order", {"id": "a", "kind": {"$enum": ["shop.jobs:Kind", "NEW"]}})
    started = run("-m", "shop.jobs", data.decode(), folder=shop)
    assert started.returncode == 0, started.stderr


@pytest.mark.parametrize("arguments", [("shop/jobs.py",), ("-m", "shop")])
def test_a_program_that_others_cannot_import_is_told_so(shop: Path, arguments: tuple[str, ...]) -> None:
    started = run(*arguments, folder=shop)
    assert started.returncode == 1
    assert "PayloadRefusedError: value.kind: __main__.Kind is defined in the program that was started" in started.stderr


def test_a_module_that_runs_and_is_imported_too_is_told_so(shop: Path) -> None:
    (shop / "shop" / "jobs.py").write_text(PROGRAM + "    import shop.jobs\n    encode(shop.jobs.Order('a', 1))\n")
    started = run("-m", "shop.jobs", folder=shop)
    assert "does not lead back to this class" in started.stderr
