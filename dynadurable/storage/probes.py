"""Harmless requests: each finds out whether something is allowed, and changes nothing whether it is or not.

Writes carry a condition that no item meets; they cost a write unit each. A batch cannot carry a condition, so it
deletes an item that is never there.
"""

from __future__ import annotations

from ..errors import ConditionFailedError, PermissionMissingError, TransactionFailedError
from . import requests
from .call import Call
from .items import Items
from .keys import (
    dead_partition,
    lease_partition,
    queue_partition,
    run_partition,
    schedules_partition,
    workers_partition,
)
from .permissions import ALLOWANCES, Kind, Role
from .table import PROBE_SORT_KEY

Grant = tuple[str, Kind | None]
"""An action, and the kind of items it is allowed on; ``None``: the table as such."""


def grants_of(role: Role) -> list[Grant]:
    """Everything that a role must be allowed to do."""
    allowance = ALLOWANCES[role]
    of_items = [(action, kind) for kind, actions in allowance.items.items() for action in actions]
    return [*((action, None) for action in allowance.table), *of_items]


async def is_allowed(items: Items, grant: Grant) -> bool:
    """Whether DynamoDB lets us."""
    try:
        await request(items, grant)
    except PermissionMissingError:
        return False
    except (ConditionFailedError, TransactionFailedError):
        return True
    return True


def request(items: Items, grant: Grant) -> Call:
    """The harmless request."""
    action, kind = grant
    table = {"TableName": items.schema.table}
    if kind is None:
        return Call(operation=action, params={**table, "Limit": 1} if action == "Scan" else table)
    model, pk, sk = items.mark, _partition(items, kind), PROBE_SORT_KEY
    never = model.pk.exists() & model.pk.does_not_exist()
    match action:
        case "GetItem":
            return requests.get(model, pk, sk, consistent=False)
        case "Query":
            return requests.query(model, (model.pk == pk) & (model.sk == sk), limit=1)
        case "BatchGetItem":
            return requests.batch_get(model, [(pk, sk)])
        case "PutItem":
            return requests.put(model(pk, sk, job=sk), never)
        case "UpdateItem":
            return requests.update(model, pk, sk, [model.job.set(sk)], never)
        case "DeleteItem":
            return requests.delete(model, pk, sk, never)
    keys = requests.delete(model, pk, sk, never).params
    if action == "ConditionCheckItem":
        element = {name: value for name, value in keys.items() if not name.startswith("ReturnValues")}
        return Call(operation="TransactWriteItems", params={"TransactItems": [{"ConditionCheck": element}]})
    assert action == "BatchWriteItem", f"no harmless request is known for {action}"
    deletes = {items.schema.table: [{"DeleteRequest": {"Key": keys["Key"]}}]}
    return Call(operation="BatchWriteItem", params={"RequestItems": deletes})


def _partition(items: Items, kind: Kind) -> str:
    schema, name = items.schema, PROBE_SORT_KEY
    match kind:
        case Kind.QUEUE:
            return queue_partition(schema, name, 0)
        case Kind.DEAD:
            return dead_partition(schema, name, 0)
        case Kind.RUN:
            return run_partition(schema, name)
        case Kind.LEASE:
            return lease_partition(schema, 0)
        case Kind.SCHEDULE:
            return schedules_partition(schema)
        case Kind.WORKERS:
            return workers_partition(schema)
