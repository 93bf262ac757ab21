"""Living in a table that somebody else made."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from aws_cdk import Stack
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam

from dynadurable.errors import TableSchemaError
from dynadurable_cdk import DurableTable
from dynadurable_cdk.table import WorkTable
from tests.cdk.synth import in_a_stack, policy_statements, template_of

ARN = "arn:aws:dynamodb:eu-central-1:123456789012:table/shop"
STRING, NUMBER = dynamodb.AttributeType.STRING, dynamodb.AttributeType.NUMBER


def attribute(name: str, kind: dynamodb.AttributeType = STRING) -> dynamodb.Attribute:
    return dynamodb.Attribute(name=name, type=kind)


def own_table(stack: Stack) -> dynamodb.ITable:
    return dynamodb.Table(
        stack, "Own", partition_key=attribute("PK"), sort_key=attribute("SK"), time_to_live_attribute="expires"
    )


def own_global_table(stack: Stack) -> dynamodb.ITable:
    return dynamodb.TableV2(
        stack, "Own", partition_key=attribute("PK"), sort_key=attribute("SK"), time_to_live_attribute="expires"
    )


@pytest.mark.parametrize("make", [own_table, own_global_table])
def test_the_names_of_a_table_of_the_same_app_are_read_from_it(make: Callable[[Stack], dynamodb.ITable]) -> None:
    def build(stack: Stack) -> None:
        schema = DurableTable.from_table(make(stack), prefix="jobs/").schema
        assert (schema.partition_key, schema.sort_key, schema.ttl, schema.prefix) == ("PK", "SK", "expires", "jobs/")

    in_a_stack(build)


def test_a_table_without_time_to_live_is_seen_to_have_none() -> None:
    def build(stack: Stack) -> None:
        table = dynamodb.Table(stack, "Own", partition_key=attribute("a"), sort_key=attribute("b"))
        assert DurableTable.from_table(table).schema.ttl is None
        assert DurableTable.from_table(table, ttl="").schema.ttl is None

    in_a_stack(build)


@pytest.mark.parametrize("said", [{"partition_key": "pk"}, {"sort_key": "sk"}, {"ttl": "ttl"}, {"ttl": ""}])
def test_a_name_that_the_table_contradicts_is_refused(said: dict[str, str]) -> None:
    """Else the mistake shows in production only: as a denied request or as items that never expire."""

    def build(stack: Stack) -> None:
        with pytest.raises(TableSchemaError, match=next(iter(said))):
            DurableTable.from_table(own_table(stack), **said)

    in_a_stack(build)


def test_keys_that_cannot_hold_our_items_are_refused() -> None:
    def build(stack: Stack) -> None:
        alone = dynamodb.Table(stack, "Alone", partition_key=attribute("a"))
        with pytest.raises(TableSchemaError, match="no sort key"):
            DurableTable.from_table(alone)
        numbered = dynamodb.Table(stack, "Numbered", partition_key=attribute("a"), sort_key=attribute("b", NUMBER))
        with pytest.raises(TableSchemaError, match="not a string"):
            DurableTable.from_table(numbered)

    in_a_stack(build)


def test_an_imported_table_has_the_usual_names_unless_others_are_given() -> None:
    def build(stack: Stack) -> None:
        imported = dynamodb.Table.from_table_arn(stack, "Shop", ARN)
        usual = DurableTable.from_table(imported).schema
        assert (usual.table, usual.partition_key, usual.sort_key, usual.ttl) == ("shop", "pk", "sk", "ttl")
        other = DurableTable.from_table(imported, partition_key="PK", sort_key="SK", ttl="").schema
        assert (other.partition_key, other.sort_key, other.ttl) == ("PK", "SK", None)

    in_a_stack(build)


def every_grant(table: WorkTable, stack: Stack) -> None:
    grants = [
        table.grant_enqueue,
        table.grant_work,
        table.grant_observe,
        table.grant_replay,
        table.grant_clean,
    ]
    for grant in grants:
        role = iam.Role(stack, grant.__name__, assumed_by=iam.ServicePrincipal("ecs-tasks.amazonaws.com"))
        grant(role)


def test_grants_on_an_imported_table_name_its_exact_arn_in_its_own_region_and_account() -> None:
    def build(stack: Stack) -> None:
        every_grant(DurableTable.from_table(dynamodb.Table.from_table_arn(stack, "Shop", ARN)), stack)

    statements = policy_statements(template_of(build))
    assert statements
    assert {statement["Resource"] for statement in statements} == {ARN}


def test_grants_on_a_table_imported_by_name_name_the_stacks_region_and_account() -> None:
    def build(stack: Stack) -> None:
        every_grant(DurableTable.from_table(dynamodb.Table.from_table_name(stack, "Shop", "shop")), stack)

    template = template_of(build, env={"account": "123456789012", "region": "eu-central-1"})
    pieces = {str(statement["Resource"]) for statement in policy_statements(template)}
    assert len(pieces) == 1
    assert "dynamodb:eu-central-1:123456789012:table/shop" in pieces.pop()


def test_owned_and_imported_tables_are_granted_the_same() -> None:
    """PUB-60: an imported table must not be granted less."""

    def owned(stack: Stack) -> None:
        every_grant(DurableTable(stack, "Work"), stack)

    def imported(stack: Stack) -> None:
        every_grant(DurableTable.from_table(dynamodb.Table.from_table_arn(stack, "Shop", ARN)), stack)

    def without_resource(statements: list[dict[str, object]]) -> list[dict[str, object]]:
        return [{name: value for name, value in one.items() if name != "Resource"} for one in statements]

    ours, theirs = policy_statements(template_of(owned)), policy_statements(template_of(imported))
    assert without_resource(ours) == without_resource(theirs)
