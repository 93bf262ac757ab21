"""The table that the construct makes is the one that the library expects."""

from __future__ import annotations

from typing import Any

import pytest
from aws_cdk import RemovalPolicy, Stack
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_kms as kms

from dynadurable.errors import ConfigurationError
from dynadurable.storage.items import bind
from dynadurable.storage.schema import TableSchema
from dynadurable.storage.table import create_request
from dynadurable_cdk import DurableTable
from tests.cdk.synth import outputs, resource, template_of

TABLE = "AWS::DynamoDB::Table"


def table_properties(**settings: Any) -> dict[str, Any]:
    return resource(template_of(lambda stack: DurableTable(stack, "Work", **settings)), TABLE)


def test_the_keys_and_the_ttl_attribute_are_those_of_the_item_models() -> None:
    """One schema: what the template says, what the settings say, what PynamoDB says."""
    properties = table_properties()
    schema = TableSchema(table="any")
    model = bind(schema).run
    keys = {key["KeyType"]: key["AttributeName"] for key in properties["KeySchema"]}
    assert keys == {"HASH": schema.partition_key, "RANGE": schema.sort_key}
    assert keys == {"HASH": model.pk.attr_name, "RANGE": model.sk.attr_name}
    assert {attribute["AttributeType"] for attribute in properties["AttributeDefinitions"]} == {"S"}
    assert properties["TimeToLiveSpecification"] == {"AttributeName": schema.ttl, "Enabled": True}
    assert properties["TimeToLiveSpecification"]["AttributeName"] == model.ttl.attr_name


def test_it_is_the_table_that_the_app_creates_for_development() -> None:
    properties = table_properties(table_name="shop", partition_key="PK", sort_key="SK")
    created = create_request(bind(TableSchema(table="shop", partition_key="PK", sort_key="SK"))).params
    for part in ("TableName", "KeySchema", "AttributeDefinitions", "BillingMode"):
        assert properties[part] == created[part]


def test_it_is_billed_on_demand_and_has_no_index() -> None:
    properties = table_properties()
    assert properties["BillingMode"] == "PAY_PER_REQUEST"
    assert "GlobalSecondaryIndexes" not in properties
    assert "LocalSecondaryIndexes" not in properties
    assert "StreamSpecification" not in properties


def test_it_is_kept_protected_and_recoverable_unless_said_otherwise() -> None:
    template = template_of(lambda stack: DurableTable(stack, "Work"))
    (kept,) = [found for found in template["Resources"].values() if found["Type"] == TABLE]
    assert kept["DeletionPolicy"] == kept["UpdateReplacePolicy"] == "Retain"
    assert kept["Properties"]["DeletionProtectionEnabled"] is True
    assert kept["Properties"]["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True}


def test_a_table_for_a_trial_can_be_thrown_away() -> None:
    def build(stack: Stack) -> None:
        DurableTable(
            stack,
            "Work",
            removal_policy=RemovalPolicy.DESTROY,
            deletion_protection=False,
            point_in_time_recovery=False,
        )

    (thrown,) = [found for found in template_of(build)["Resources"].values() if found["Type"] == TABLE]
    assert thrown["DeletionPolicy"] == "Delete"
    assert thrown["Properties"]["DeletionProtectionEnabled"] is False


def test_every_name_can_be_chosen() -> None:
    properties = table_properties(table_name="shop", partition_key="PK", sort_key="SK", ttl="expires")
    assert properties["TableName"] == "shop"
    assert [key["AttributeName"] for key in properties["KeySchema"]] == ["PK", "SK"]
    assert properties["TimeToLiveSpecification"]["AttributeName"] == "expires"


def test_without_time_to_live_none_is_switched_on() -> None:
    assert "TimeToLiveSpecification" not in table_properties(ttl=False)


def test_a_stream_is_there_for_who_wants_one() -> None:
    properties = table_properties(stream=dynamodb.StreamViewType.NEW_IMAGE)
    assert properties["StreamSpecification"]["StreamViewType"] == "NEW_IMAGE"


def test_a_key_of_ones_own_encrypts_the_table() -> None:
    def build(stack: Stack) -> None:
        DurableTable(stack, "Work", encryption_key=kms.Key(stack, "Key", enable_key_rotation=True))

    properties = resource(template_of(build), TABLE)
    assert properties["SSESpecification"]["SSEEnabled"] is True
    assert properties["SSESpecification"]["SSEType"] == "KMS"


@pytest.mark.parametrize(
    "settings",
    [{"partition_key": "sk"}, {"ttl": "pk"}, {"sort_key": ""}, {"prefix": "x" * 129}],
)
def test_names_that_the_library_refuses_are_refused_here_too(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        table_properties(**settings)


def test_the_outputs_say_all_that_a_process_elsewhere_needs() -> None:
    template = template_of(lambda stack: DurableTable(stack, "Work", partition_key="PK", prefix="jobs/"))
    values = {name.removeprefix("Work")[:-8]: value for name, value in outputs(template).items()}
    assert set(values) == {"TableName", "TableArn", "PartitionKey", "SortKey", "TtlAttribute", "Prefix"}
    assert (values["PartitionKey"], values["SortKey"], values["Prefix"]) == ("PK", "sk", "jobs/")


def test_the_environment_names_the_table_and_only_what_is_unusual() -> None:
    seen: dict[str, str] = {}

    def build(stack: Stack) -> None:
        table = DurableTable(stack, "Work", sort_key="SK", ttl=False, prefix="jobs/")
        seen.update({**table.environment(), "DYNADURABLE_TABLE": stack.resolve(table.schema.table)["Ref"]})

    template = template_of(build)
    assert seen == {
        "DYNADURABLE_TABLE": next(iter(template["Resources"])),
        "DYNADURABLE_SORT_KEY": "SK",
        "DYNADURABLE_TTL": "",
        "DYNADURABLE_PREFIX": "jobs/",
    }
