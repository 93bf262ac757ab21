"""The source keeps its own rules: imports point down, SDKs stay at the edge, functions and files stay short."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

# From the bottom up. A module may import from its own layer and from those below it. A new package or top-level module
# gets its place here.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("errors", "forks", "clock", "log"),
    ("model",),
    ("storage",),
    ("ledger",),
    ("drivers",),
    ("worker", "workflow"),
    (
        "app",
        "aio",
        "cleaner",
        "client",
        "control",
        "definitions",
        "fan_out",
        "handle",
        "leader",
        "leader_aio",
        "lease",
        "lease_aio",
        "locate",
        "operations",
        "scheduling",
    ),
    ("local", "testing"),
    ("aws_lambda", "cli", "demo", "pytest_plugin", "__main__"),
    ("__init__",),  # what `import dynadurable` shows; nobody inside imports it
)

# Who may import what comes from outside and does I/O, or belongs to one layer only.
ALLOWED: dict[str, tuple[str, ...]] = {
    "boto3": ("drivers", "client", "local", "testing", "cli", "demo", "pytest_plugin"),
    "botocore": ("drivers", "client", "local", "testing", "cli", "demo", "pytest_plugin"),
    "aioboto3": ("drivers", "client", "testing", "cli", "demo"),
    "aiobotocore": ("drivers", "client", "testing", "cli", "demo"),
    "pynamodb": ("storage", "worker", "workflow", "testing"),
    "moto": ("testing", "pytest_plugin"),
    "pytest": ("testing", "pytest_plugin"),
    "click": ("cli", "demo"),
    "rich": ("cli", "demo"),
}

# Decisions and requests: no I/O, no waiting, no reading of the time.
PURE_LAYERS = ("model", "storage")
PURE_EXCEPT = ("storage/call.py",)  # says how a pause inside a plan is waited for
IMPURE = frozenset(
    {"asyncio", "concurrent", "http", "selectors", "socket", "subprocess", "threading", "time", "urllib"}
)

MAX_FUNCTION_LINES = 70
MAX_FILE_LINES = 500

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "dynadurable"
SOURCE_FOLDERS = ("dynadurable", "cdk/dynadurable_cdk", "tests", "examples")


@dataclass(frozen=True)
class Import:
    """One import: the file and line it stands at, and the dotted name it brings in."""

    file: Path
    line: int
    name: str

    def __str__(self) -> str:
        return f"{self.file.relative_to(ROOT)}:{self.line} imports {self.name}"


def place_of(file: Path) -> str:
    """The package or top-level module below ``dynadurable`` that a file belongs to."""
    first = file.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


def place_of_name(name: str) -> str:
    """The same for a dotted name, such as ``dynadurable.storage.keys``."""
    parts = name.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in RANKS else "__init__"


@cache
def package_files() -> tuple[Path, ...]:
    return tuple(sorted(PACKAGE.rglob("*.py")))


@cache
def source_files() -> tuple[Path, ...]:
    found = [file for folder in SOURCE_FOLDERS for file in (ROOT / folder).rglob("*.py")]
    return tuple(sorted([*found, ROOT / "dev.py"]))


@cache
def tree_of(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"), str(file))


def imports_of(file: Path) -> Iterator[Import]:
    package = ["dynadurable", *file.relative_to(PACKAGE).parts[:-1]]
    for node in ast.walk(tree_of(file)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(file, node.lineno, alias.name)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            for alias in node.names:
                yield Import(file, node.lineno, f"{module}.{alias.name}")


def all_imports() -> list[Import]:
    return [found for file in package_files() for found in imports_of(file)]


RANKS = {place: rank for rank, layer in enumerate(LAYERS) for place in layer}


def test_every_module_has_a_layer() -> None:
    places = {place_of(file) for file in package_files()}
    assert places - RANKS.keys() == set(), "give the new module its place in LAYERS"


def test_imports_point_down() -> None:
    wrong = [
        str(found)
        for found in all_imports()
        if found.name.split(".")[0] == "dynadurable"
        and RANKS[place_of_name(found.name)] > RANKS.get(place_of(found.file), len(LAYERS))
    ]
    assert wrong == []


@pytest.mark.parametrize("library", ALLOWED)
def test_a_foreign_library_is_imported_only_where_it_belongs(library: str) -> None:
    wrong = [
        str(found)
        for found in all_imports()
        if found.name.split(".")[0] == library and place_of(found.file) not in ALLOWED[library]
    ]
    assert wrong == []


def test_decisions_do_no_io_and_read_no_clock() -> None:
    wrong = [
        str(found)
        for found in all_imports()
        if place_of(found.file) in PURE_LAYERS
        and found.file.relative_to(PACKAGE).as_posix() not in PURE_EXCEPT
        and found.name.split(".")[0] in IMPURE
    ]
    assert wrong == []


def test_functions_are_short() -> None:
    long = [
        f"{file.relative_to(ROOT)}:{node.lineno} {node.name} has {length} lines"
        for file in source_files()
        for node in ast.walk(tree_of(file))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (length := (node.end_lineno or node.lineno) - node.lineno + 1) > MAX_FUNCTION_LINES
    ]
    assert long == []


def test_files_are_short() -> None:
    long = [
        f"{file.relative_to(ROOT)} has {length} lines"
        for file in source_files()
        if (length := len(file.read_text(encoding="utf-8").splitlines())) > MAX_FILE_LINES
    ]
    assert long == []


# --- the checker itself ---------------------------------------------------------------------------


def test_the_checker_sees_through_every_form_of_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "dynadurable"
    (package / "storage").mkdir(parents=True)
    file = package / "storage" / "probe.py"
    file.write_text(
        "import dynadurable.app\n"
        "from dynadurable.worker import worker\n"
        "from ..cli import main\n"
        "from .. import demo\n"
        "from . import keys\n"
        "def late() -> None:\n"
        "    from dynadurable import App\n"
    )
    monkeypatch.setattr("tests.unit.test_layers.PACKAGE", package)
    assert [place_of_name(found.name) for found in imports_of(file)] == [
        "app",
        "worker",
        "cli",
        "demo",
        "storage",
        "__init__",
    ]
