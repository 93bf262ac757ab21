"""An in-memory store with one table, and short words for requests to it."""

from __future__ import annotations

from typing import Any

from dynadurable.storage.call import Call
from dynadurable.testing.memory import MemoryStore

TABLE = "tasks"


class StoppedClock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.ms = 1_800_000_000_000

    def now_ms(self) -> int:
        return self.ms


def run(store: MemoryStore, operation: str, **params: Any) -> dict[str, Any]:
    return store.execute(Call(operation=operation, params={"TableName": TABLE, **params}))


def new_store(clock: StoppedClock | None = None, *, locked: bool = False) -> MemoryStore:
    store = MemoryStore(clock, locked=locked)
    run(
        store,
        "CreateTable",
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in ("pk", "sk")],
    )
    return store


def key(sk: str = "a", pk: str = "p") -> dict[str, Any]:
    return {"pk": {"S": pk}, "sk": {"S": sk}}


def put(store: MemoryStore, sk: str = "a", pk: str = "p", **attributes: Any) -> None:
    run(store, "PutItem", Item={**key(sk, pk), **attributes})


def add(store: MemoryStore, amount: int = 1, sk: str = "a", pk: str = "p") -> None:
    values = {":v": {"N": str(amount)}}
    run(store, "UpdateItem", Key=key(sk, pk), UpdateExpression="ADD n :v", ExpressionAttributeValues=values)
