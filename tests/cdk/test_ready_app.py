"""The app that a newcomer deploys as it is."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import pytest
from aws_cdk import Validations
from cdk_nag import AwsSolutionsChecks
from cfnlint.api import lint
from cfnlint.config import ManualArgs

from dynadurable.cli.root import root
from dynadurable.errors import ConfigurationError
from dynadurable.locate import locate_app
from dynadurable.storage.keys import queue_partition, run_partition, workers_partition
from dynadurable_cdk.ready import build_app, context_of
from tests.cdk.command_line import ServerMissingError, find_cdk, run_cdk
from tests.cdk.synth import CDK_FOLDER, Template, policy_statements, ready_templates, resources
from tests.policies import as_list, string_like

REPOSITORY = CDK_FOLDER.parent
MODES = ["service", "scheduled", "function"]


def context_for(mode: str, folder: Path) -> dict[str, str]:
    if mode != "function":
        return {"mode": mode}
    code = folder / "code"
    code.mkdir(parents=True, exist_ok=True)
    (code / "jobs.py").write_text("# stands for the user's modules\n")
    return {"mode": mode, "code": str(code)}


@pytest.fixture(scope="module", params=MODES)
def templates(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Template]:
    context = context_for(request.param, tmp_path_factory.mktemp("code"))
    return ready_templates(tmp_path_factory.mktemp("out"), **context)


# --- what it deploys ------------------------------------------------------------------------------


def test_the_table_has_a_stack_of_its_own(templates: dict[str, Template]) -> None:
    """So that no deployment of a worker touches it."""
    assert set(templates) == {"DynadurableTable", "DynadurableWork"}
    assert {found["Type"] for found in templates["DynadurableTable"]["Resources"].values()} == {"AWS::DynamoDB::Table"}


def test_there_are_alarms_and_a_dashboard(templates: dict[str, Template]) -> None:
    assert len(resources(templates["DynadurableWork"], "AWS::CloudWatch::Alarm")) >= 5
    assert len(resources(templates["DynadurableWork"], "AWS::CloudWatch::Dashboard")) == 1


def test_no_statement_has_a_wildcard_but_the_one_that_fetches_images(templates: dict[str, Template]) -> None:
    for statement in policy_statements(templates["DynadurableWork"]):
        actions = as_list(statement["Action"])
        assert not any("*" in action for action in actions)
        if "*" in as_list(statement["Resource"]):
            assert actions == ["ecr:GetAuthorizationToken"]


def test_no_managed_policy_is_used(templates: dict[str, Template]) -> None:
    assert all("ManagedPolicyArns" not in role for role in resources(templates["DynadurableWork"], "AWS::IAM::Role"))


def test_the_image_holds_the_library_and_the_example_and_nothing_else(tmp_path: Path) -> None:
    copy = copy_of_the_repository(tmp_path)
    (copy / "secret.env").write_text("KEY=1")
    (copy / ".git").mkdir()
    out = tmp_path / "out"
    build_app(copy / "cdk", outdir=str(out)).synth()
    (asset,) = out.glob("asset.*")
    assert {entry.name for entry in asset.iterdir()} <= {
        ".dockerignore",
        "LICENSE",
        "README.md",
        "cdk",
        "dynadurable",
        "examples",
        "pyproject.toml",
    }
    assert not list(asset.rglob("__pycache__"))


@pytest.mark.slow
def test_what_the_image_holds_suffices_to_build_and_run_it(tmp_path: Path) -> None:
    """The Dockerfile's steps without Docker: install what INSTALL says, put CODE on the path, start the worker."""
    copy = copy_of_the_repository(tmp_path)
    build_app(copy / "cdk", outdir=str(tmp_path / "out")).synth()
    (image,) = (tmp_path / "out").glob("asset.*")
    installed = tmp_path / "installed"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*pip, "--target", str(installed), str(image)], check=True, timeout=200)
    program = (
        "import sys, dynadurable, dynadurable_cdk, krabber.app; from dynadurable.cli import main; "
        "print(dynadurable.__file__, dynadurable_cdk.__file__, krabber.app.__file__); "
        "sys.argv = ['dynadurable', 'worker', '--help']; main()"
    )
    paths = [installed, image / "examples"]
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    first, *rest = done.stdout.splitlines()
    assert all(place.startswith(str(tmp_path)) for place in first.split())
    assert any("--grace" in line for line in rest)


def test_own_items_of_the_job_bodies_are_granted_when_named(tmp_path: Path) -> None:
    work = ready_templates(tmp_path, image="example/worker:1", own_keys="krab#*,molt#*")["DynadurableWork"]
    keys = [
        statement["Condition"]["ForAllValues:StringLike"]["dynamodb:LeadingKeys"]
        for statement in policy_statements(work)
        if "ForAllValues:StringLike" in statement.get("Condition", {})
    ]
    assert ["krab#*", "molt#*"] in keys


def test_the_example_is_what_is_deployed_unless_another_app_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The settings of ``cdk.json`` fit the example's own: its app, its table, its queues, the keys of its items."""
    monkeypatch.syspath_prepend(REPOSITORY / "examples")
    settings = context_of(CDK_FOLDER)
    app = locate_app(settings["app"])
    assert app.schema.table == settings["table_name"]
    assert sorted(job.queue for job in app.registry.jobs()) == sorted(settings["queues"].split(","))
    own = [string_like(pattern) for pattern in settings["own_keys"].split(",")]
    for key in ("krab#ferris", "followers#ferris", "molts#ferris", "trench#ferris"):
        assert any(pattern.fullmatch(key) for pattern in own)
    for ours in (
        queue_partition(app.schema, "trench", 0),
        run_partition(app.schema, "r"),
        workers_partition(app.schema),
    ):
        assert not any(pattern.fullmatch(ours) for pattern in own)


@pytest.mark.parametrize("mode", ["service", "scheduled"])
def test_the_command_line_takes_the_commands_that_containers_run(mode: str, tmp_path: Path) -> None:
    work = ready_templates(tmp_path, image="example/worker:1", mode=mode)["DynadurableWork"]
    containers = [task["ContainerDefinitions"][0] for task in resources(work, "AWS::ECS::TaskDefinition")]
    assert all(found["EntryPoint"] == ["dynadurable"] for found in containers)
    parsed = {}
    for command, *arguments in (found["Command"] for found in containers):
        known = root.get_command(click.Context(root), command)
        assert known is not None, command
        parsed[command] = known.make_context(command, list(arguments)).params
    works = {"service": "worker", "scheduled": "drain"}[mode]
    assert set(parsed) == {works, "clean"}
    assert parsed[works]["target"] == "krabber.app:app"


@pytest.mark.parametrize(
    ("context", "named"),
    [
        ({"mode": "sometimes"}, "mode"),
        ({"minutes": "0"}, "minutes"),
        ({"max_tasks": "many"}, "max_tasks"),
        ({"mode": "function"}, "code"),
    ],
)
def test_a_setting_that_cannot_be_is_named(context: dict[str, str], named: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=named):
        ready_templates(tmp_path, image="example/worker:1", **context)


# --- what others say of it ------------------------------------------------------------------------


def findings(folder: Path, **context: str) -> set[str]:
    """The ids of what cdk-nag finds and nobody has acknowledged."""
    app = build_app(CDK_FOLDER, outdir=str(folder), post_cli_context=context)
    Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    try:
        app.synth()
    except RuntimeError:
        report = json.loads((folder / "validation-report.json").read_text())
        return {violation["ruleName"] for part in report["pluginReports"] for violation in part["violations"]}
    return set()


@pytest.mark.parametrize("mode", MODES)
def test_cdk_nag_finds_nothing_that_is_not_explained(mode: str, tmp_path: Path) -> None:
    assert findings(tmp_path / "out", **context_for(mode, tmp_path)) == set()


def test_no_explanation_is_left_without_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An explanation of nothing would hide the next finding of that name; and this shows that cdk-nag bites."""
    explained: set[str] = set()

    def note(_validations: Validations, *rules: Any) -> None:
        explained.update(rule.id for rule in rules)

    monkeypatch.setattr(Validations, "acknowledge", note)
    found: set[str] = set()
    for mode in MODES:
        found |= findings(tmp_path / mode / "out", **context_for(mode, tmp_path / mode))
    assert found == explained


def test_cfn_lint_finds_nothing(templates: dict[str, Template], tmp_path: Path) -> None:
    # W3005: CDK writes a dependency that a reference implies already.
    config = ManualArgs(ignore_checks=["W3005"], regions=["us-east-1", "eu-central-1"])
    for template in templates.values():
        assert [str(match) for match in lint(json.dumps(template), config=config)] == []


# --- how it is synthesised ------------------------------------------------------------------------


def copy_of_the_repository(folder: Path) -> Path:
    """What the image is made of, at rest: other work may go on in the checkout itself."""
    copy = folder / "repository"
    ignore = shutil.ignore_patterns("__pycache__", "cdk.out", ".*", "node_modules")
    for name in ("cdk", "dynadurable", "examples"):
        if (REPOSITORY / name).is_dir():
            shutil.copytree(REPOSITORY / name, copy / name, ignore=ignore)
        else:
            (copy / name).mkdir(parents=True)
    for name in ("pyproject.toml", "README.md", "LICENSE", ".dockerignore"):
        shutil.copy(REPOSITORY / name, copy / name)
    return copy


@pytest.fixture(scope="module")
def cdk() -> list[str]:
    try:
        return find_cdk()
    except ServerMissingError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))


def templates_in(folder: Path) -> dict[str, Any]:
    return {path.name: json.loads(path.read_text()) for path in folder.glob("*.template.json")}


@pytest.mark.slow
def test_the_command_line_and_this_process_make_the_same_templates(cdk: Sequence[str], tmp_path: Path) -> None:
    """Feature flags and settings come from ``cdk.json`` either way; assets have the same fingerprint."""
    copy = copy_of_the_repository(tmp_path)
    by_command, in_process = tmp_path / "by-command", tmp_path / "in-process"
    run_cdk(list(cdk), copy / "cdk", "synth", "--quiet", "--output", str(by_command))
    build_app(copy / "cdk", outdir=str(in_process)).synth()
    assert len(templates_in(by_command)) == 2
    assert templates_in(by_command) == templates_in(in_process)


def test_it_is_synthesised_without_docker_the_command_line_or_a_network(tmp_path: Path) -> None:
    """In a process of its own that finds no program on its path and no host but this one."""
    program = (
        "from pathlib import Path; from dynadurable_cdk.ready import build_app; "
        f"build_app(Path({str(CDK_FOLDER)!r}), outdir={str(tmp_path / 'out')!r}).synth()"
    )
    nowhere = "http://127.0.0.1:9"
    environment = {
        "PATH": str(tmp_path),
        "PYTHONPATH": os.pathsep.join([str(CDK_FOLDER), str(REPOSITORY)]),
        "HOME": str(Path.home()),  # where Node.js finds the CDK library unpacked
        **dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "AWS_ENDPOINT_URL"), nowhere),
    }
    subprocess.run([sys.executable, "-c", program], env=environment, check=True, timeout=200)
    assert len(templates_in(tmp_path / "out")) == 2
