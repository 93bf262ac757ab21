"""The templates, deployed as far as that goes without an account."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws

from dynadurable.demo.check import delivered
from dynadurable.local import LocalStore
from dynadurable.storage.environment import from_environment
from dynadurable.testing.moto import serialised_moto
from tests.cdk.command_line import ServerMissingError, find_cdk, run_cdk
from tests.cdk.synth import CDK_FOLDER, ready_templates
from tests.conftest import Servers

REPOSITORY = CDK_FOLDER.parent
REGION = "us-east-1"
ACCOUNT = "210000000007"
AUTHOR = "ferris"
FOLLOWERS = 120
"""More than a page of the fan-out."""
NAMES = {
    "TableName": "DYNADURABLE_TABLE",
    "PartitionKey": "DYNADURABLE_PARTITION_KEY",
    "SortKey": "DYNADURABLE_SORT_KEY",
}


def environment_of(outputs: Mapping[str, str]) -> dict[str, str]:
    """The variables of a process that is told of the table by a stack's outputs."""
    found = {}
    for name, variable in NAMES.items():
        (found[variable],) = [value for output, value in outputs.items() if output.startswith(f"Work{name}")]
    return found


def put_and_query(client: Any, outputs: Mapping[str, str]) -> None:
    """A mark written and found again on the table that the outputs name, by the keys that they name."""
    schema = from_environment(environment_of(outputs))
    mark = {
        schema.partition_key: {"S": "queue#mail#0"},
        schema.sort_key: {"S": "001800000000000#r"},
        "dd_job": {"S": "send"},
    }
    client.put_item(
        TableName=schema.table,
        Item=mark,
        ConditionExpression="attribute_not_exists(#pk)",
        ExpressionAttributeNames={"#pk": schema.partition_key},
    )
    answer = client.query(
        TableName=schema.table,
        KeyConditionExpression="#pk = :queue AND #sk < :now",
        ExpressionAttributeNames={"#pk": schema.partition_key, "#sk": schema.sort_key},
        ExpressionAttributeValues={":queue": mark[schema.partition_key], ":now": {"S": "001800000000001"}},
        ConsistentRead=True,
    )
    assert answer["Items"] == [mark]
    described = client.describe_table(TableName=schema.table)["Table"]
    assert described["BillingModeSummary"]["BillingMode"] == "PAY_PER_REQUEST"


@contextmanager
def krabber(environment: Mapping[str, str]) -> Iterator[Any]:
    """The example, as a process has it that is told of its table by these variables."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(REPOSITORY / "examples")
        for name, value in environment.items():
            patch.setenv(name, value)
        before = {name: sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] == "krabber"}
        try:
            yield importlib.import_module("krabber.app")
        finally:
            for name in [name for name in sys.modules if name.partition(".")[0] == "krabber"]:
                del sys.modules[name]
            sys.modules.update(before)


def post_molt(client: Any, example: Any) -> str:
    """A molt by somebody with followers; its id."""
    models = sys.modules["krabber.models"]
    for number in range(FOLLOWERS):
        following = models.Following.of(AUTHOR, follower=f"krab-{number:03d}")
        client.put_item(TableName=models.TABLE, Item=following.serialize())
    return str(example.post(client, AUTHOR, "Shells off!").sk)


def test_the_fan_out_of_the_demo_runs_on_the_table_of_the_stack_by_the_names_in_its_outputs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Deployed in moto's CloudFormation, which makes the table's name up."""
    template = ready_templates(tmp_path, image="example/worker:1", table_name="")["DynadurableTable"]
    settings: dict[str, Any] = {
        "region_name": REGION,
        "aws_access_key_id": "testing",
        "aws_secret_access_key": "testing",
    }
    for name, value in (("ACCESS_KEY_ID", "testing"), ("SECRET_ACCESS_KEY", "testing"), ("DEFAULT_REGION", REGION)):
        monkeypatch.setenv(f"AWS_{name}", value)
    with mock_aws(), serialised_moto():
        # What `cdk bootstrap` leaves behind, and every template asks for.
        boto3.client("ssm", **settings).put_parameter(
            Name="/cdk-bootstrap/hnb659fds/version", Value="30", Type="String"
        )
        formation = boto3.client("cloudformation", **settings)
        formation.create_stack(StackName="DynadurableTable", TemplateBody=json.dumps(template))
        (stack,) = formation.describe_stacks(StackName="DynadurableTable")["Stacks"]
        assert stack["StackStatus"] == "CREATE_COMPLETE"
        outputs = {output["OutputKey"]: output["OutputValue"] for output in stack["Outputs"]}
        client = boto3.client("dynamodb", **settings)
        with krabber(environment_of(outputs)) as example:
            assert example.app.schema == from_environment(environment_of(outputs))
            assert example.app.schema.table != "krabber"
            molt_id = post_molt(client, example)
            example.app.worker(concurrency=1).drain()
            found = delivered(client, table=example.app.schema.table, author=AUTHOR, molt_id=molt_id)
    assert found.complete
    assert found.once == FOLLOWERS


@pytest.fixture(scope="module")
def cdk() -> list[str]:
    try:
        return find_cdk()
    except ServerMissingError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def deploy(
    cdk: Sequence[str], servers: Servers, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., dict[str, dict[str, str]]]:
    """``cdk deploy --all`` on an emulator of AWS that was bootstrapped; gives the outputs of both stacks."""
    # The command line puts the address into the template's own, and needs a name there, not a number.
    port = servers["ministack"].port
    environment = {
        "AWS_ENDPOINT_URL": f"http://localhost:{port}",
        "AWS_ACCESS_KEY_ID": ACCOUNT,
        "AWS_SECRET_ACCESS_KEY": "local",
        "AWS_REGION": REGION,
    }
    bootstrapped = str(tmp_path_factory.mktemp("bootstrap"))
    place = f"aws://{ACCOUNT}/{REGION}"
    run_cdk(list(cdk), CDK_FOLDER, "bootstrap", place, "--output", bootstrapped, environment=environment)

    def run(*context: str) -> dict[str, dict[str, str]]:
        folder = tmp_path_factory.mktemp("deploy")
        settings = [part for setting in ("image=example/worker:1", *context) for part in ("-c", setting)]
        run_cdk(
            list(cdk),
            CDK_FOLDER,
            *("deploy", "--all", "--require-approval", "never"),
            *("--output", str(folder / "out"), "--outputs-file", str(folder / "outputs.json")),
            *settings,
            environment=environment,
        )
        outputs: dict[str, dict[str, str]] = json.loads((folder / "outputs.json").read_text())
        return outputs

    return run


# The emulator knows no automatic scaling: one task there, and the scaling stays with the template tests.
@pytest.mark.slow
@pytest.mark.server
@pytest.mark.parametrize("context", [("mode=service", "max_tasks=1"), ("mode=scheduled",)])
def test_the_commands_of_the_readme_deploy_everything_on_an_emulator(
    deploy: Callable[..., dict[str, dict[str, str]]], servers: Servers, context: Sequence[str]
) -> None:
    outputs = deploy(*context)["DynadurableTable"]
    settings = servers["ministack"].client_kwargs(ACCOUNT)
    client = boto3.client("dynamodb", **settings)
    table = environment_of(outputs)["DYNADURABLE_TABLE"]
    assert client.describe_table(TableName=table)["Table"]["TableStatus"] == "ACTIVE"
    if "mode=scheduled" in context:
        run_the_container_that_drains(client, servers["ministack"], settings)


def run_the_container_that_drains(client: Any, store: LocalStore, settings: dict[str, Any]) -> None:
    """Its command, as the task definition has it, with its environment: as a process here, on work that is due."""
    container = drain_container(boto3.client("ecs", **settings))
    environment = {
        **{variable["name"]: variable["value"] for variable in container["environment"]},
        "AWS_ENDPOINT_URL": store.endpoint_url,
        "AWS_ACCESS_KEY_ID": ACCOUNT,
        "AWS_SECRET_ACCESS_KEY": "local",
        "AWS_DEFAULT_REGION": REGION,
    }
    with krabber(environment) as example:
        molt_id = post_molt(client, example)
        example.app.worker(name="pod-7").registrar.beat()
    output = run_dynadurable(environment, *container["command"])
    assert delivered(client, table=environment["DYNADURABLE_TABLE"], author=AUTHOR, molt_id=molt_id).complete
    lines = [json.loads(line) for line in output.splitlines() if line.startswith('{"_aws"')]
    assert ("trench", 0) in [(line["Queue"], line["Backlog"]) for line in lines]
    assert "pod-7" in run_dynadurable(environment, "workers", "list", "--app", "krabber.app:app")
    assert json.loads(run_dynadurable(environment, "clean", "--json"))["finished"]


def run_dynadurable(environment: Mapping[str, str], *command: str) -> str:
    """What the library's command prints, as a process with that environment and the example on its path."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "DYNADURABLE_"))}
    done = subprocess.run(
        [sys.executable, "-m", "dynadurable", *command],
        env={**kept, **environment, "PYTHONPATH": str(REPOSITORY / "examples")},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def drain_container(ecs: Any) -> dict[str, Any]:
    """Of all task definitions the one that drains; its entry point is the library's command."""
    found = [
        ecs.describe_task_definition(taskDefinition=arn)["taskDefinition"]["containerDefinitions"][0]
        for arn in ecs.list_task_definitions()["taskDefinitionArns"]
    ]
    (drains,) = [container for container in found if container["command"][0] == "drain"]
    assert drains["entryPoint"] == ["dynadurable"]
    return dict(drains)


@pytest.mark.slow
@pytest.mark.server
def test_a_function_deploys_on_an_emulator_and_the_table_can_be_used(
    deploy: Callable[..., dict[str, dict[str, str]]], servers: Servers, tmp_path: Path
) -> None:
    (tmp_path / "jobs.py").write_text("# stands for the user's modules\n")
    outputs = deploy("mode=function", f"code={tmp_path}")["DynadurableTable"]
    put_and_query(boto3.client("dynamodb", **servers["ministack"].client_kwargs(ACCOUNT)), outputs)
