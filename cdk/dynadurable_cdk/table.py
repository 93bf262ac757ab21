"""The table: a new one with our keys, or one that exists; and who may do what to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aws_cdk import CfnOutput, RemovalPolicy, Stack, Token
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

from dynadurable.errors import ConfigurationError
from dynadurable.storage.environment import to_environment
from dynadurable.storage.permissions import Role, statements
from dynadurable.storage.schema import TableSchema
from dynadurable_cdk.blueprint import agreed_schema

KEY_ACTIONS = {
    # DynamoDB uses a customer managed key in the name of whoever reads or writes.
    True: ["kms:Decrypt", "kms:DescribeKey"],
    False: [
        "kms:Decrypt",
        "kms:DescribeKey",
        "kms:Encrypt",
        "kms:GenerateDataKey",
        "kms:GenerateDataKeyWithoutPlaintext",
        "kms:ReEncryptFrom",
        "kms:ReEncryptTo",
    ],
}
"""What a principal needs on a customer managed key, by whether it only reads."""


class WorkTable:
    """A table that holds durable work: what workers, alarms and grants are given.

    ``table`` is the DynamoDB table, ``schema`` the names of its keys.
    """

    table: dynamodb.ITable
    schema: TableSchema

    def environment(self) -> dict[str, str]:
        """The variables that tell a process which table is its own."""
        return to_environment(self.schema)

    def grant_enqueue(self, grantee: iam.IGrantable, *, queues: Sequence[str] | None = None) -> None:
        """Let it put work into the table, into these queues only if they are named.

        >>> table.grant_enqueue(web.task_definition.task_role, queues=["mail"])  # doctest: +SKIP
        """
        self._grant(grantee, Role.ENQUEUE, queues)

    def grant_work(self, grantee: iam.IGrantable) -> None:
        """Let it run work. What its job bodies do elsewhere in the table or in AWS needs grants of your own."""
        self._grant(grantee, Role.WORK)

    def grant_observe(self, grantee: iam.IGrantable) -> None:
        """Let it list and read work, and change nothing."""
        self._grant(grantee, Role.OBSERVE)

    def grant_replay(self, grantee: iam.IGrantable) -> None:
        """Let it observe, and replay, cancel, purge and pause."""
        self._grant(grantee, Role.REPLAY)

    def grant_clean(self, grantee: iam.IGrantable) -> None:
        """Let it scan the table and remove what has expired. The scan reads every item of a shared table."""
        self._grant(grantee, Role.CLEAN)

    def _grant(self, grantee: iam.IGrantable, role: Role, queues: Sequence[str] | None = None) -> None:
        _check_account(grantee, self.table)
        for statement in statements(role, self.schema, table_arn=self.table.table_arn, queues=queues):
            _allow(grantee, statement["Action"], statement["Resource"], statement.get("Condition", {}))
        key = self.table.encryption_key
        if key is not None:
            service = f"dynamodb.{self.table.env.region}.{Stack.of(self.table).url_suffix}"
            through_dynamodb = {"StringEquals": {"kms:ViaService": service}}
            _allow(grantee, KEY_ACTIONS[role is Role.OBSERVE], [key.key_arn], through_dynamodb)


class DurableTable(Construct, WorkTable):
    """A new table: on demand, with time to live, kept and protected unless you say otherwise.

    >>> table = DurableTable(stack, "Work")  # doctest: +SKIP
    >>> table.grant_enqueue(web_role)  # doctest: +SKIP

    ``ttl`` is true for our attribute, a name for another one, false for none. ``stream`` is for your own use:
    dynadurable needs none. Outputs name the table and its keys, for processes that are deployed elsewhere.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        table_name: str | None = None,
        partition_key: str = "pk",
        sort_key: str = "sk",
        ttl: bool | str = True,
        prefix: str = "",
        encryption: dynamodb.TableEncryption | None = None,
        encryption_key: kms.IKey | None = None,
        stream: dynamodb.StreamViewType | None = None,
        point_in_time_recovery: bool = True,
        deletion_protection: bool = True,
        removal_policy: RemovalPolicy = RemovalPolicy.RETAIN,
    ) -> None:
        super().__init__(scope, id)
        ttl_name = "ttl" if ttl is True else ttl or None
        checked = TableSchema(
            table=table_name or "generated", partition_key=partition_key, sort_key=sort_key, ttl=ttl_name, prefix=prefix
        )
        self.table = dynamodb.Table(
            self,
            "Table",
            table_name=table_name,
            partition_key=_string_key(partition_key),
            sort_key=_string_key(sort_key),
            billing_mode=dynamodb.BillingMode.PAY_PER_REQUEST,
            time_to_live_attribute=checked.ttl,
            encryption=encryption,
            encryption_key=encryption_key,
            stream=stream,
            point_in_time_recovery_specification=dynamodb.PointInTimeRecoverySpecification(
                point_in_time_recovery_enabled=point_in_time_recovery
            ),
            deletion_protection=deletion_protection,
            removal_policy=removal_policy,
        )
        self.schema = TableSchema(
            table=self.table.table_name, partition_key=partition_key, sort_key=sort_key, ttl=ttl_name, prefix=prefix
        )
        self._add_outputs()

    @staticmethod
    def from_table(
        existing: dynamodb.ITable,
        *,
        partition_key: str | None = None,
        sort_key: str | None = None,
        ttl: str | None = None,
        prefix: str = "",
    ) -> ExistingTable:
        """Use a table that exists: one of the same app, or one imported by name or ARN.

        Of a table of the same app the names are read from it. Of an imported one nothing can be seen: say what its
        keys and its TTL attribute are called where they are not ``pk``, ``sk`` and ``ttl``, and ``ttl=""`` where it
        has none. Its customer managed key, if any, must come with it (``Table.from_table_attributes``).

        Raises:
            TableSchemaError: the table's keys cannot be used, or are not what was said.

        >>> imported = dynamodb.Table.from_table_name(stack, "Shop", "shop")  # doctest: +SKIP
        >>> DurableTable.from_table(imported, partition_key="PK", sort_key="SK", prefix="jobs/")  # doctest: +SKIP
        """
        schema = agreed_schema(existing, partition_key=partition_key, sort_key=sort_key, ttl=ttl, prefix=prefix)
        return ExistingTable(existing, schema)

    def _add_outputs(self) -> None:
        described: dict[str, Any] = {
            "TableName": self.schema.table,
            "TableArn": self.table.table_arn,
            "PartitionKey": self.schema.partition_key,
            "SortKey": self.schema.sort_key,
            "TtlAttribute": self.schema.ttl,
            "Prefix": self.schema.prefix,
        }
        for name, value in described.items():
            if value:
                CfnOutput(self, name, value=value)


class ExistingTable(WorkTable):
    """A table that somebody else made; see ``DurableTable.from_table``."""

    def __init__(self, table: dynamodb.ITable, schema: TableSchema) -> None:
        self.table = table
        self.schema = schema


def _string_key(name: str) -> dynamodb.Attribute:
    return dynamodb.Attribute(name=name, type=dynamodb.AttributeType.STRING)


def _check_account(grantee: iam.IGrantable, table: dynamodb.ITable) -> None:
    """A policy of the grantee's own opens nothing in another account."""
    theirs, ours = grantee.grant_principal.principal_account, table.env.account
    if theirs and not Token.is_unresolved(theirs) and not Token.is_unresolved(ours) and theirs != ours:
        raise ConfigurationError(
            f"{grantee} belongs to account {theirs}, the table to {ours}; let it assume a role in the table's account"
        )


def _allow(
    grantee: iam.IGrantable, actions: Sequence[str], resource_arns: Sequence[str], conditions: dict[str, Any]
) -> None:
    """A statement in the grantee's own policy; a grantee without one is refused, not passed over."""
    statement = iam.PolicyStatement(actions=actions, resources=resource_arns, conditions=conditions)
    if not grantee.grant_principal.add_to_principal_policy(statement).statement_added:
        raise ConfigurationError(
            f"{grantee} has no policy to add to; give a role or a user (an imported role must be mutable)"
        )
