"""What each role may send to the table: the one place that says so.

The CDK constructs turn this into policies, and a test compares it with the requests that the library really sends,
in both directions: a role suffices for its purpose, and nothing is granted that is never used. Without CDK, put
``statements(...)`` into a policy of your own.

A transaction is authorised item by item, so ``TransactWriteItems`` needs no line of its own: its elements are
``PutItem``, ``UpdateItem``, ``DeleteItem`` and ``ConditionCheckItem``. There is no index, so none is granted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from dynadurable.storage.keys import partition, queue_partition
from dynadurable.storage.schema import TableSchema
from dynadurable.storage.table import PROBE_SORT_KEY as PROBE


class Role(StrEnum):
    """Who sends requests."""

    ENQUEUE = "enqueue"
    """Puts work into the table, alone or inside a transaction of the caller's own."""
    WORK = "work"
    """Runs it: a worker or a drain. What it runs may enqueue more."""
    OBSERVE = "observe"
    """Looks and changes nothing: lists, results, dashboards."""
    REPLAY = "replay"
    """Observes, and replays, cancels, purges, pauses."""
    CLEAN = "clean"
    """Walks the table and removes what has expired. The only role that may scan."""


class Kind(StrEnum):
    """What an item is, told by the beginning of its partition key."""

    QUEUE = "queue"
    RUN = "run"
    DEAD = "dead"
    LEASE = "lease"
    SCHEDULE = "schedule"
    WORKERS = "workers"


@dataclass(frozen=True, kw_only=True, slots=True)
class Allowance:
    """What a role may do: actions on the table as such, and on items by their kind."""

    table: Sequence[str]
    items: Mapping[Kind, Sequence[str]]


_READ = ("GetItem", "Query")
_CHANGE = ("DeleteItem", "PutItem", "UpdateItem")

ALLOWANCES: Mapping[Role, Allowance] = {
    Role.ENQUEUE: Allowance(
        table=["DescribeTable"],
        items={
            # A mark is put; of a key that is taken it is vouched for (an update), and a spare one deleted.
            Kind.QUEUE: ["BatchWriteItem", "GetItem", *_CHANGE],
            # A run is put, or read because its key is taken; one that is told of an event is woken (an update).
            Kind.RUN: ["BatchWriteItem", "GetItem", "PutItem", "UpdateItem"],
            # The letter of a dead run goes when its key is used again.
            Kind.DEAD: ["DeleteItem"],
        },
    ),
    Role.WORK: Allowance(
        table=["DescribeTable"],
        items={
            Kind.QUEUE: ["BatchWriteItem", *_READ, *_CHANGE],
            Kind.RUN: ["BatchGetItem", "BatchWriteItem", *_READ, "PutItem", "UpdateItem"],
            Kind.DEAD: ["DeleteItem", "PutItem", "Query"],
            # Never deleted: its fence must not begin again. A transaction of the user's own may depend on it.
            Kind.LEASE: ["ConditionCheckItem", "GetItem", "UpdateItem"],
            Kind.SCHEDULE: [*_READ, "PutItem", "UpdateItem"],
            Kind.WORKERS: ["Query", *_CHANGE],
        },
    ),
    Role.OBSERVE: Allowance(
        table=["DescribeTable", "DescribeTimeToLive"],
        items={
            Kind.QUEUE: _READ,
            Kind.RUN: ["BatchGetItem", "GetItem"],
            Kind.DEAD: ["Query"],
            Kind.LEASE: _READ,
            Kind.SCHEDULE: _READ,
            Kind.WORKERS: _READ,
        },
    ),
    Role.REPLAY: Allowance(
        table=["DescribeTable", "DescribeTimeToLive"],
        items={
            Kind.QUEUE: [*_READ, *_CHANGE],
            Kind.RUN: ["BatchGetItem", *_READ, *_CHANGE],
            Kind.DEAD: ["DeleteItem", "PutItem", "Query"],
            Kind.LEASE: [*_READ, "UpdateItem"],
            Kind.SCHEDULE: [*_READ, "PutItem", "UpdateItem"],
            Kind.WORKERS: _READ,
        },
    ),
    Role.CLEAN: Allowance(
        # A scan has no leading key, so it cannot be narrowed: in a shared table the cleaner reads every item.
        table=["DescribeTable", "DescribeTimeToLive", "Scan"],
        # What it removes or changes is ours all the same.
        items={
            Kind.QUEUE: ["GetItem", *_CHANGE],
            Kind.RUN: ["BatchGetItem", *_READ, *_CHANGE],
            Kind.DEAD: ["DeleteItem", "PutItem"],
            # It works under a lease, and leaves leases alone otherwise.
            Kind.LEASE: ["GetItem", "UpdateItem"],
            Kind.SCHEDULE: ["DeleteItem"],
            Kind.WORKERS: ["DeleteItem", "GetItem", "PutItem"],
        },
    ),
}


def statements(
    role: Role, schema: TableSchema, *, table_arn: str, queues: Sequence[str] | None = None
) -> list[dict[str, Any]]:
    """The role's permissions as IAM statements: exact actions, the exact table, only our partition keys.

    ``queues`` narrows what is allowed on marks and dead letters to these queues.

    >>> schema = TableSchema(table="shop", prefix="jobs/")
    >>> whole, marks, *others = statements(Role.ENQUEUE, schema, table_arn="arn:aws:dynamodb:eu-west-1:1:table/shop")
    >>> whole["Action"], marks["Action"][0]
    (['dynamodb:DescribeTable'], 'dynamodb:BatchWriteItem')
    >>> marks["Condition"]["ForAllValues:StringLike"]["dynamodb:LeadingKeys"]
    ['jobs/queue#*']
    """
    allowance = ALLOWANCES[role]
    kinds_by_actions: dict[tuple[str, ...], list[Kind]] = {}
    for kind, actions in allowance.items.items():
        kinds_by_actions.setdefault(tuple(sorted(actions)), []).append(kind)
    return [
        _statement(allowance.table, table_arn, []),
        *(
            _statement(actions, table_arn, leading_keys(kinds, schema, queues))
            for actions, kinds in kinds_by_actions.items()
        ),
    ]


def leading_keys(kinds: Sequence[Kind], schema: TableSchema, queues: Sequence[str] | None = None) -> list[str]:
    """Patterns, in the language of IAM's ``StringLike``, of the partition keys of these kinds.

    >>> leading_keys([Kind.QUEUE, Kind.RUN], TableSchema(table="shop", prefix="a*"), queues=["mail"])
    ['a${*}queue#mail#*', 'a${*}queue#!probe#0', 'a${*}run#*']
    """
    patterns = []
    for kind in kinds:
        if queues is not None and kind in {Kind.QUEUE, Kind.DEAD}:
            patterns += [f"{_literal(partition(schema, kind, queue))}#*" for queue in queues]
            patterns += [_literal(queue_partition(schema, PROBE, 0))] if kind is Kind.QUEUE else []
        elif kind is Kind.WORKERS:
            patterns.append(_literal(partition(schema, kind, "").removesuffix("#")))
        else:
            patterns.append(f"{_literal(partition(schema, kind, ''))}*")
    return patterns


def _statement(actions: Sequence[str], table_arn: str, keys: Sequence[str]) -> dict[str, Any]:
    statement: dict[str, Any] = {
        "Effect": "Allow",
        "Action": [f"dynamodb:{action}" for action in actions],
        "Resource": [table_arn],
    }
    if keys:
        # "ForAllValues" is also true of a request without any leading key; the second condition closes that.
        statement["Condition"] = {
            "ForAllValues:StringLike": {"dynamodb:LeadingKeys": list(keys)},
            "Null": {"dynamodb:LeadingKeys": "false"},
        }
    return statement


def _literal(text: str) -> str:
    """The text without what IAM reads as a wildcard or a variable."""
    return "".join("${" + character + "}" if character in "*?$" else character for character in text)
