"""The templates, deployed as far as that goes without an account."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws

from dynadurable.storage.environment import from_environment
from tests.cdk.command_line import ServerMissingError, find_cdk, run_cdk
from tests.cdk.synth import CDK_FOLDER, ready_templates
from tests.conftest import Servers

REGION = "us-east-1"
ACCOUNT = "210000000007"
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


def test_the_table_stack_deploys_in_motos_cloudformation_and_can_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    template = ready_templates(tmp_path, image="example/worker:1")["DynadurableTable"]
    with mock_aws():
        settings: dict[str, Any] = {
            "region_name": REGION,
            "aws_access_key_id": "testing",
            "aws_secret_access_key": "testing",
        }
        # What `cdk bootstrap` leaves behind, and every template asks for.
        boto3.client("ssm", **settings).put_parameter(
            Name="/cdk-bootstrap/hnb659fds/version", Value="30", Type="String"
        )
        formation = boto3.client("cloudformation", **settings)
        formation.create_stack(StackName="DynadurableTable", TemplateBody=json.dumps(template))
        (stack,) = formation.describe_stacks(StackName="DynadurableTable")["Stacks"]
        assert stack["StackStatus"] == "CREATE_COMPLETE"
        outputs = {output["OutputKey"]: output["OutputValue"] for output in stack["Outputs"]}
        put_and_query(boto3.client("dynamodb", **settings), outputs)


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
    client = boto3.client("dynamodb", **servers["ministack"].client_kwargs(ACCOUNT))
    table = environment_of(outputs)["DYNADURABLE_TABLE"]
    assert client.describe_table(TableName=table)["Table"]["TableStatus"] == "ACTIVE"


@pytest.mark.slow
@pytest.mark.server
def test_a_function_deploys_on_an_emulator_and_the_table_can_be_used(
    deploy: Callable[..., dict[str, dict[str, str]]], servers: Servers, tmp_path: Path
) -> None:
    (tmp_path / "jobs.py").write_text("# stands for the user's modules\n")
    outputs = deploy("mode=function", f"code={tmp_path}")["DynadurableTable"]
    put_and_query(boto3.client("dynamodb", **servers["ministack"].client_kwargs(ACCOUNT)), outputs)
