"""The project's own files keep their promises: pinned versions, reasons, the clock rule, an honest exit code."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import dev

ROOT = Path(__file__).resolve().parents[2]
CONSTRAINTS = sorted(ROOT.glob("constraints*.txt"))


@pytest.mark.parametrize("file", CONSTRAINTS, ids=[file.name for file in CONSTRAINTS])
def test_versions_are_pinned_without_addresses(file: Path) -> None:
    lines = [line for line in file.read_text().splitlines() if not line.startswith("#")]
    assert [line for line in lines if not re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.!+]+", line)] == []


def _dependency_lines() -> Iterator[str]:
    """The lines of pyproject.toml that name a dependency: those inside the lists of its first part."""
    inside = False
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for line in text[: text.index("[project.scripts]")].splitlines():
        if re.match(r"(\w|-)+ = \[$", line):
            inside = line.split(" ")[0] not in ("keywords", "classifiers")
        elif line == "]":
            inside = False
        elif inside and line.lstrip().startswith('"'):
            yield line.strip()


def test_every_dependency_has_its_reason() -> None:
    lines = list(_dependency_lines())
    assert len(lines) > 15
    assert [line for line in lines if " # " not in line] == []


def test_the_files_of_the_protocol_are_there() -> None:
    """A file that is renamed must not silently leave the list of those whose every branch is tested."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    protocol = settings["tool"]["coverage"]["report"]["include"]
    assert len(protocol) > 25
    assert [name for name in protocol if not (ROOT / name).is_file()] == []


@pytest.mark.parametrize(
    "line",
    [
        "time.time()",
        "time.monotonic()",
        "datetime.datetime.now(datetime.UTC)",
        "datetime.datetime.utcnow()",
        "datetime.date.today()",
    ],
)
@pytest.mark.parametrize(("file", "refused"), [("worker/probe.py", True), ("clock.py", False)])
def test_only_the_clock_reads_the_time(line: str, file: str, refused: bool) -> None:
    source = f'"""Probe."""\n\nimport datetime\nimport time\n\nNOW = {line}\nUSED = (time, datetime)\n'
    command = [sys.executable, "-m", "ruff", "check", "--no-cache", "--stdin-filename", f"dynadurable/{file}", "-"]
    result = subprocess.run(command, cwd=ROOT, input=source, capture_output=True, text=True, check=False)
    assert ("TID251" in result.stdout) == refused, result.stdout + result.stderr
    assert ("only clock.py reads the time" in result.stdout.replace("dynadurable/", "")) == refused


REPORT = """<?xml version="1.0"?>
<testsuites><testsuite name="pytest" errors="1" failures="2" skipped="3" tests="16"></testsuite></testsuites>
"""


def test_a_tally_counts_errors_as_failures(tmp_path: Path) -> None:
    (tmp_path / "report.xml").write_text(REPORT)
    assert dev.Tally.from_junit(tmp_path / "report.xml") == dev.Tally(passed=10, failed=3, skipped=3)


def test_a_run_without_a_report_counts_as_no_test(tmp_path: Path) -> None:
    assert dev.Tally.from_junit(tmp_path / "missing.xml").ran == 0


def _leg_that_exits(code: int, arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    def finished(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, code)

    monkeypatch.setattr(subprocess, "run", finished)
    failures: list[str] = []
    dev.leg("nothing", dev.FULL, "not aio", arguments, failures)
    return failures


@pytest.mark.parametrize(
    ("code", "arguments", "failed"),
    [(0, [], False), (1, [], True), (5, [], True), (5, ["-k", "lease"], False), (3, ["-k", "lease"], True)],
)
def test_a_leg_without_tests_fails_unless_arguments_chose_none(
    code: int, arguments: list[str], failed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert bool(_leg_that_exits(code, arguments, monkeypatch)) == failed


def test_an_environment_is_made_anew_when_what_it_holds_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("pyproject.toml", "constraints.txt"):
        (tmp_path / name).write_text((ROOT / name).read_text())
    monkeypatch.setattr(dev, "HERE", tmp_path)
    before = dev.FULL.fingerprint()
    with (tmp_path / "pyproject.toml").open("a") as settings:
        settings.write("\n[tool.other]\nanything = 1\n")
    assert dev.FULL.fingerprint() == before
    with (tmp_path / "constraints.txt").open("a") as constraints:
        constraints.write("another==1.0\n")
    assert dev.FULL.fingerprint() != before
    assert dev.FULL.fingerprint() != dev.DEMO.fingerprint()


@pytest.mark.parametrize(
    ("arguments", "named"),
    [([], [f"tests/{name}" for name in dev.QUICK]), (["tests/clean", "-k", "lease"], ["tests/clean"])],
)
def test_the_quick_leg_takes_its_folders_unless_others_are_named(
    arguments: list[str], named: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[list[str]] = []

    def finished(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        ran.append(command)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(subprocess, "run", finished)
    monkeypatch.setattr(dev, "ensure", lambda _: None)
    dev.quick(arguments)
    assert [word for word in ran[0] if word.startswith("tests/")] == named
    assert dev.IN_PROCESS in ran[0]
    assert all((ROOT / word).is_dir() for word in named)
