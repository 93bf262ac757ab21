"""Every example of docs/testing.md is run as it stands there, and what it shows is what is printed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.kit.page import blocks
from tests.kit.test_cost_command import run
from tests.kit.test_plugin import pytest_run

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """The page's files; blocks of the same name are one file."""
    for block in (*blocks("python"), *blocks("ini")):
        name = re.match(r"# (\S+)\n", block)
        assert name is not None, f"which file is this? {block}"
        with (tmp_path / name[1]).open("a") as file:
            file.write(f"\n\n{block}")
    return tmp_path


def test_the_examples_pass_but_the_one_that_shows_how_to_fail(written: Path) -> None:
    done = pytest_run(written, "--dynadurable-backend", "memory")
    assert re.search(r"1 failed, \d+ passed", done.stdout), done.stdout
    assert re.search(r"^FAILED \S+::test_an_order_is_charged_once", done.stdout, re.MULTILINE), done.stdout
    (shown,) = [block for block in blocks("") if block.startswith("E ")]
    for line in shown.splitlines():
        assert line.split("E", 1)[1].strip() in done.stdout


def test_the_cost_is_what_is_shown() -> None:
    (shown,) = [block for block in blocks("console") if "dynadurable cost" in block]
    printed = {line.rstrip() for line in run().stdout.splitlines()}
    for line in shown.splitlines()[1:]:
        assert line in ("...", *printed)
