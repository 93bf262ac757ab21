"""Who may do what to the table, before any CDK construct is involved."""

from __future__ import annotations

import pytest

from dynadurable.storage.keys import dead_partition, partition, queue_partition, run_partition
from dynadurable.storage.permissions import Role, statements
from dynadurable.storage.schema import TableSchema
from dynadurable.storage.table import PROBE_SORT_KEY
from tests.policies import Request, allowed

ARN = "arn:aws:dynamodb:eu-west-1:123456789012:table/shop"
PLAIN = TableSchema(table="shop")
HOSTILE_PREFIXES = ["", "jobs/", "a*", "a?b", "${aws:username}", "$", "50%#", "run#", "käfer 🪲/"]


def may(role: Role, action: str, *keys: str, schema: TableSchema = PLAIN, queues: list[str] | None = None) -> bool:
    granted = statements(role, schema, table_arn=ARN, queues=queues)
    return allowed(granted, Request(action=f"dynamodb:{action}", resource=ARN, leading_keys=keys))


@pytest.mark.parametrize("role", list(Role))
def test_every_statement_names_exact_actions_and_the_exact_table(role: Role) -> None:
    for statement in statements(role, PLAIN, table_arn=ARN):
        assert statement["Resource"] == [ARN]
        assert not any("*" in action for action in statement["Action"])


@pytest.mark.parametrize("role", list(Role))
def test_an_action_on_items_is_granted_for_our_partition_keys_only(role: Role) -> None:
    whole_table = {"dynamodb:DescribeTable", "dynamodb:DescribeTimeToLive", "dynamodb:Scan"}
    for statement in statements(role, PLAIN, table_arn=ARN):
        if not set(statement["Action"]) <= whole_table:
            assert "dynamodb:LeadingKeys" in statement["Condition"]["ForAllValues:StringLike"]
            assert statement["Condition"]["Null"] == {"dynamodb:LeadingKeys": "false"}


def test_only_the_cleaner_may_scan() -> None:
    assert {role for role in Role if may(role, "Scan")} == {Role.CLEAN}


@pytest.mark.parametrize("role", list(Role))
def test_a_request_without_a_leading_key_does_not_slip_through_the_condition(role: Role) -> None:
    """``ForAllValues`` is true of no values at all."""
    for action in ("GetItem", "PutItem", "UpdateItem", "DeleteItem", "Query", "BatchWriteItem"):
        assert not may(role, action)


@pytest.mark.parametrize("role", list(Role))
def test_no_role_touches_somebody_elses_items(role: Role) -> None:
    for action in ("GetItem", "PutItem", "UpdateItem", "DeleteItem", "Query", "BatchWriteItem", "BatchGetItem"):
        assert not may(role, action, "customer#1")
        assert not may(role, action, run_partition(PLAIN, "r"), "customer#1")


def test_observing_changes_nothing() -> None:
    key = run_partition(PLAIN, "r")
    assert may(Role.OBSERVE, "GetItem", key)
    for action in ("PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem"):
        assert not may(Role.OBSERVE, action, key)


def test_enqueueing_cannot_look_around() -> None:
    assert may(Role.ENQUEUE, "PutItem", queue_partition(PLAIN, "mail", 0))
    assert not may(Role.ENQUEUE, "Query", queue_partition(PLAIN, "mail", 0))
    assert not may(Role.ENQUEUE, "GetItem", dead_partition(PLAIN, "mail", 0))


def test_a_lease_is_never_deleted() -> None:
    """Its fence must not begin again."""
    lease = partition(PLAIN, "lease", "leader")
    assert may(Role.WORK, "UpdateItem", lease)
    assert not any(may(role, "DeleteItem", lease) for role in Role)


@pytest.mark.parametrize("prefix", HOSTILE_PREFIXES)
def test_any_prefix_grants_its_own_items(prefix: str) -> None:
    schema = TableSchema(table="shop", prefix=prefix)
    for kind in ("queue", "run", "dead"):
        assert may(Role.WORK, "PutItem", partition(schema, kind, "x*#?${y}"), schema=schema)


@pytest.mark.parametrize("prefix", HOSTILE_PREFIXES)
@pytest.mark.parametrize("other", HOSTILE_PREFIXES)
def test_no_prefix_grants_the_items_of_another(prefix: str, other: str) -> None:
    """A prefix that reads like a wildcard or a policy variable is taken at its letters."""
    if prefix == other:
        return
    schema, theirs = TableSchema(table="shop", prefix=prefix), TableSchema(table="shop", prefix=other)
    for kind in ("queue", "run", "dead"):
        assert not may(Role.REPLAY, "UpdateItem", partition(theirs, kind, "x"), schema=schema)


def test_a_grant_for_some_queues_leaves_the_others_alone() -> None:
    mail, billing = queue_partition(PLAIN, "mail", 3), queue_partition(PLAIN, "billing", 0)
    assert may(Role.ENQUEUE, "PutItem", mail, queues=["mail"])
    assert not may(Role.ENQUEUE, "PutItem", billing, queues=["mail"])
    assert not may(Role.ENQUEUE, "PutItem", queue_partition(PLAIN, "mail2", 0), queues=["mail"])
    assert not may(Role.ENQUEUE, "PutItem", mail, queues=["m*"])


def test_a_grant_for_some_queues_suffices_to_check_the_table() -> None:
    """``app.check_table`` reads a key under which nothing lies."""
    probe = queue_partition(PLAIN, PROBE_SORT_KEY, 0)
    assert may(Role.ENQUEUE, "GetItem", probe, queues=["mail"])
    assert not may(Role.ENQUEUE, "GetItem", queue_partition(PLAIN, PROBE_SORT_KEY, 1), queues=["mail"])
