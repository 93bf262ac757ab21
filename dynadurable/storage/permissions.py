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

from dynadurable.storage.keys import partition
from dynadurable.storage.schema import TableSchema


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


@dataclass(frozen=True, slots=True)
class Allowance:
    """These actions on items of these kinds; on the table as such where no kind is named."""

    actions: Sequence[str]
    kinds: Sequence[Kind] = ()


_WORK_ITEMS = (Kind.QUEUE, Kind.RUN, Kind.DEAD)
_EVERY_KIND = tuple(Kind)
_CHECK_TABLE = Allowance(["DescribeTable"])

ALLOWANCES: Mapping[Role, Sequence[Allowance]] = {
    Role.ENQUEUE: [
        _CHECK_TABLE,
        # Marks and runs are put; a key that is taken is read, vouched for (update), and the spare mark deleted.
        Allowance(["BatchWriteItem", "DeleteItem", "GetItem", "PutItem", "UpdateItem"], [Kind.QUEUE, Kind.RUN]),
    ],
    Role.WORK: [
        _CHECK_TABLE,
        Allowance(
            ["BatchWriteItem", "DeleteItem", "GetItem", "PutItem", "Query", "UpdateItem"],
            [Kind.QUEUE, Kind.RUN, Kind.DEAD, Kind.WORKERS],
        ),
        # A transaction may make its writes depend on a lease or a run without changing it.
        Allowance(["ConditionCheckItem"], [Kind.QUEUE, Kind.RUN, Kind.LEASE]),
        # A lease is never deleted: its fence must not begin again.
        Allowance(["GetItem", "PutItem", "UpdateItem"], [Kind.LEASE]),
        Allowance(["GetItem", "PutItem", "Query", "UpdateItem"], [Kind.SCHEDULE]),
    ],
    Role.OBSERVE: [
        _CHECK_TABLE,
        Allowance(["BatchGetItem", "GetItem", "Query"], _EVERY_KIND),
    ],
    Role.REPLAY: [
        _CHECK_TABLE,
        Allowance(["BatchGetItem", "GetItem", "Query"], _EVERY_KIND),
        Allowance(["DeleteItem", "PutItem", "UpdateItem"], _WORK_ITEMS),
    ],
    Role.CLEAN: [
        # A scan has no leading key, so it cannot be narrowed: in a shared table the cleaner reads every item.
        Allowance(["DescribeTable", "Scan"]),
        # What it removes or changes is ours all the same. It works under a lease, and leaves leases alone otherwise.
        Allowance(["DeleteItem", "UpdateItem"], [Kind.QUEUE, Kind.RUN, Kind.DEAD, Kind.WORKERS]),
        Allowance(["UpdateItem"], [Kind.LEASE]),
    ],
}


def statements(
    role: Role, schema: TableSchema, *, table_arn: str, queues: Sequence[str] | None = None
) -> list[dict[str, Any]]:
    """The role's permissions as IAM statements: exact actions, the exact table, only our partition keys.

    ``queues`` narrows what is allowed on marks and dead letters to these queues.

    >>> schema = TableSchema(table="shop", prefix="jobs/")
    >>> whole, items = statements(Role.OBSERVE, schema, table_arn="arn:aws:dynamodb:eu-west-1:1:table/shop")
    >>> whole["Action"], items["Action"][0]
    (['dynamodb:DescribeTable'], 'dynamodb:BatchGetItem')
    >>> items["Condition"]["ForAllValues:StringLike"]["dynamodb:LeadingKeys"][0]
    'jobs/queue#*'
    """
    return [_statement(allowance, schema, table_arn, queues) for allowance in ALLOWANCES[role]]


def leading_keys(kinds: Sequence[Kind], schema: TableSchema, queues: Sequence[str] | None = None) -> list[str]:
    """Patterns, in the language of IAM's ``StringLike``, of the partition keys of these kinds.

    >>> leading_keys([Kind.QUEUE, Kind.RUN], TableSchema(table="shop", prefix="a*"), queues=["mail"])
    ['a${*}queue#mail#*', 'a${*}run#*']
    """
    patterns = []
    for kind in kinds:
        if queues is not None and kind in {Kind.QUEUE, Kind.DEAD}:
            patterns += [f"{_literal(partition(schema, kind, queue))}#*" for queue in queues]
        elif kind is Kind.WORKERS:
            patterns.append(_literal(partition(schema, kind, "").removesuffix("#")))
        else:
            patterns.append(f"{_literal(partition(schema, kind, ''))}*")
    return patterns


def _statement(
    allowance: Allowance, schema: TableSchema, table_arn: str, queues: Sequence[str] | None
) -> dict[str, Any]:
    statement: dict[str, Any] = {
        "Effect": "Allow",
        "Action": [f"dynamodb:{action}" for action in allowance.actions],
        "Resource": [table_arn],
    }
    if allowance.kinds:
        # "ForAllValues" is also true of a request without any leading key; the second condition closes that.
        statement["Condition"] = {
            "ForAllValues:StringLike": {"dynamodb:LeadingKeys": leading_keys(allowance.kinds, schema, queues)},
            "Null": {"dynamodb:LeadingKeys": "false"},
        }
    return statement


def _literal(text: str) -> str:
    """The text without what IAM reads as a wildcard or a variable."""
    return "".join("${" + character + "}" if character in "*?$" else character for character in text)
