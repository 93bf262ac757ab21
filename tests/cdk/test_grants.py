"""The policies that come out of the constructs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from aws_cdk import Stack
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms

from dynadurable.errors import ConfigurationError
from dynadurable.storage.permissions import Role, statements
from dynadurable.storage.schema import TableSchema
from dynadurable_cdk import DurableTable
from dynadurable_cdk.table import WorkTable
from tests.cdk.synth import Template, in_a_stack, policy_statements, template_of
from tests.policies import as_list

ARN = "arn:aws:dynamodb:eu-central-1:123456789012:table/shop"
GRANTS: dict[Role, Callable[[WorkTable, iam.IGrantable], None]] = {
    Role.ENQUEUE: lambda table, grantee: table.grant_enqueue(grantee),
    Role.WORK: lambda table, grantee: table.grant_work(grantee),
    Role.OBSERVE: lambda table, grantee: table.grant_observe(grantee),
    Role.REPLAY: lambda table, grantee: table.grant_replay(grantee),
    Role.CLEAN: lambda table, grantee: table.grant_clean(grantee),
}


def new_role(stack: Stack, name: str = "Role") -> iam.Role:
    return iam.Role(stack, name, assumed_by=iam.ServicePrincipal("ecs-tasks.amazonaws.com"))


def granted(role: Role) -> Template:
    def build(stack: Stack) -> None:
        imported = dynamodb.Table.from_table_arn(stack, "Shop", ARN)
        GRANTS[role](DurableTable.from_table(imported, prefix="jobs/"), new_role(stack))

    return template_of(build)


def normal(statement: dict[str, Any]) -> dict[str, Any]:
    """Lists where CDK writes a single value."""
    return {name: as_list(value) if name in {"Action", "Resource"} else value for name, value in statement.items()}


@pytest.mark.parametrize("role", list(Role))
def test_a_grant_is_what_the_permission_table_says_and_nothing_else(role: Role) -> None:
    schema = TableSchema(table="shop", prefix="jobs/")
    expected = statements(role, schema, table_arn=ARN)
    assert [normal(statement) for statement in policy_statements(granted(role))] == expected


@pytest.mark.parametrize("role", list(Role))
def test_no_grant_names_an_index_because_there_is_none(role: Role) -> None:
    """PUB-60: what is used on an index must be granted on it; nothing here uses one."""
    assert "index" not in str(granted(role))


def test_a_grant_for_some_queues_names_them() -> None:
    def build(stack: Stack) -> None:
        DurableTable(stack, "Work").grant_enqueue(new_role(stack), queues=["mail", "a#b"])

    keys = [
        as_list(statement["Condition"]["ForAllValues:StringLike"]["dynamodb:LeadingKeys"])
        for statement in policy_statements(template_of(build))
        if "Condition" in statement
    ]
    of_dead_letters = ["dead#mail#*", "dead#a%23b#*"]
    assert keys == [["queue#mail#*", "queue#a%23b#*", "queue#!probe#0"], ["run#*"], of_dead_letters]


def key_actions(role: Role, *, imported: bool) -> set[str]:
    """What the role may do with the key that encrypts the table, seen through DynamoDB only."""

    def build(stack: Stack) -> None:
        key = kms.Key(stack, "Key", enable_key_rotation=True)
        if imported:
            table = dynamodb.Table.from_table_attributes(stack, "Shop", table_arn=ARN, encryption_key=key)
            GRANTS[role](DurableTable.from_table(table), new_role(stack))
        else:
            GRANTS[role](DurableTable(stack, "Work", encryption_key=key), new_role(stack))

    found = [
        statement
        for statement in policy_statements(template_of(build))
        if any(action.startswith("kms:") for action in as_list(statement["Action"]))
    ]
    (statement,) = found
    assert "Fn::GetAtt" in statement["Resource"]
    assert "dynamodb" in str(statement["Condition"]["StringEquals"]["kms:ViaService"])
    return set(statement["Action"])


@pytest.mark.parametrize("imported", [False, True])
def test_who_may_use_the_table_may_use_its_key(imported: bool) -> None:
    """Else every request is denied in production, and only there."""
    reading = {"kms:Decrypt", "kms:DescribeKey"}
    assert key_actions(Role.OBSERVE, imported=imported) == reading
    assert key_actions(Role.WORK, imported=imported) > reading | {"kms:GenerateDataKey", "kms:Encrypt"}


def test_no_statement_about_a_key_has_a_wildcard() -> None:
    assert not any("*" in action for action in key_actions(Role.WORK, imported=False))


def test_a_grantee_that_can_have_no_policy_is_refused() -> None:
    """CDK would say nothing, and the request would be denied in production."""

    def build(stack: Stack) -> None:
        with pytest.raises(ConfigurationError, match="no policy"):
            DurableTable(stack, "Work").grant_enqueue(iam.ServicePrincipal("ecs-tasks.amazonaws.com"))

    in_a_stack(build)


def test_a_grantee_in_another_account_is_refused() -> None:
    """Its own policy opens nothing there."""

    def build(stack: Stack) -> None:
        stranger = iam.Role.from_role_arn(stack, "Stranger", "arn:aws:iam::210987654321:role/web")
        with pytest.raises(ConfigurationError, match="210987654321"):
            DurableTable(stack, "Work").grant_enqueue(stranger)

    in_a_stack(build, env={"account": "123456789012", "region": "eu-central-1"})
