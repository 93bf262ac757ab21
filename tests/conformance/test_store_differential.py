"""The same random requests, one after the other, to the in-memory store and to a server: the same answers.

``DIFFERENTIAL_SEEDS=1000`` in the environment tries so many sequences instead of a few.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from dynadurable.testing.memory import MemoryStore
from tests.conformance.conftest import make_table
from tests.conformance.requests import Requests
from tests.conformance.subject import RefusedError, Send, send_to_client, send_to_memory
from tests.servers import Store

SEEDS = int(os.environ.get("DIFFERENTIAL_SEEDS", "12"))
REQUESTS = 80


@pytest.mark.server
@pytest.mark.parametrize("server", ["ministack", "dynalite"])
def test_random_requests_are_answered_as_by_a_server(open_store: Callable[[str], Store], server: str) -> None:
    store = open_store(server)
    for seed in range(SEEDS):
        compare(seed, store)


def compare(seed: int, store: Store) -> None:
    table = store.table()
    memory, other = send_to_memory(MemoryStore()), send_to_client(store.client)
    make_table(memory, table)
    requests = Requests(
        random=Random(seed),
        table=table,
        abilities=store.abilities,
        is_dynalite=store.name == "dynalite",
    )
    for number in range(REQUESTS):
        operation, params = requests.next()
        ours, theirs = outcome(memory, operation, params), outcome(other, operation, params)
        assert ours == theirs, f"seed {seed}, request {number} to {store.name}: {operation} {params}"


def outcome(send: Send, operation: str, params: dict[str, Any]) -> Any:
    """A reply or a refusal, without what stores may do as they like: the order of sets, of scans, of batches."""
    try:
        reply = send(operation, params)
    except RefusedError as error:
        reasons = [(code, item or None) for code, item in error.reasons]
        return error.code, unordered(error.item or None), unordered(reasons)
    if operation == "Scan":
        reply["Items"] = sorted(reply["Items"], key=repr_of)
    if operation == "BatchGetItem":
        reply["Responses"] = {table: sorted(items, key=repr_of) for table, items in reply["Responses"].items()}
    return unordered({name: part for name, part in reply.items() if part or name != "Attributes"})


def unordered(reply: Any) -> Any:
    match reply:
        case {"SS": members}:
            return {"SS": sorted(members)}
        case dict():
            return {name: unordered(member) for name, member in reply.items()}
        case list() | tuple():
            return [unordered(member) for member in reply]
        case _:
            return reply


def repr_of(item: Any) -> str:
    """The same text for equal items."""
    return repr(sorted(unordered(item).items(), key=lambda each: each[0])) if isinstance(item, dict) else repr(item)
