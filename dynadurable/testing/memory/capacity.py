"""The ``ConsumedCapacity`` of a reply."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

Capacity = dict[str, Any]


def wanted(params: Mapping[str, Any]) -> bool:
    """Whether the request asks for it."""
    return "ReturnConsumedCapacity" in params and params["ReturnConsumedCapacity"] != "NONE"


def of_table(params: Mapping[str, Any], table: str, units: float) -> Capacity:
    """The units of a request to one table."""
    capacity: Capacity = {"TableName": table, "CapacityUnits": units}
    if params["ReturnConsumedCapacity"] == "INDEXES":
        capacity["Table"] = {"CapacityUnits": units}
    return capacity


def by_table(params: Mapping[str, Any], charges: Iterable[tuple[str, float]]) -> list[Capacity]:
    """The units of a request to several tables, from the charge of each element."""
    totals: dict[str, float] = {}
    for table, units in charges:
        totals[table] = totals.get(table, 0.0) + units
    return [of_table(params, table, units) for table, units in totals.items()]


def of_transaction(params: Mapping[str, Any], charges: Iterable[tuple[str, float]], kind: str) -> list[Capacity]:
    """As ``by_table``, with the units named by ``kind`` (``Read`` or ``Write``) too, as transactions report them."""
    return [{**capacity, f"{kind}CapacityUnits": capacity["CapacityUnits"]} for capacity in by_table(params, charges)]
