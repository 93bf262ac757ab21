"""The store under test, one interface for all: it says no with DynamoDB's own codes, whoever says it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from _pytest.mark import ParameterSet
from botocore.exceptions import ClientError, ParamValidationError

from dynadurable.drivers.boto3 import method_name
from dynadurable.errors import (
    ConditionFailedError,
    RequestRefusedError,
    StoreError,
    TableMissingError,
    TransactionFailedError,
)
from dynadurable.storage.call import Call
from dynadurable.testing.memory import MemoryClient, MemoryStore
from tests.conformance.notation import from_attributes, to_attribute, to_attributes
from tests.servers import Abilities

Item = dict[str, Any]
Send = Callable[[str, dict[str, Any]], dict[str, Any]]

VALIDATION = "ValidationException"
CONDITION_FAILED = "ConditionalCheckFailedException"
CANCELED = "TransactionCanceledException"
MISSING = "ResourceNotFoundException"

MEMORY_ABILITIES = Abilities(
    transaction_tokens=True,
    all_old_on_failed_condition=True,
    exact_write_capacity=True,
    exact_read_capacity=True,
    own_process=False,
)


class RefusedError(Exception):
    """A request that was refused; ``reasons`` has the code and the item of each element of a transaction."""

    def __init__(
        self, code: str, message: str, *, item: Item | None = None, reasons: list[tuple[str, Item | None]] | None = None
    ) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.item = item
        self.reasons = reasons or []


@dataclass
class Caught:
    """What ``Subject.refused`` caught."""

    error: RefusedError | None = None

    @property
    def item(self) -> Item | None:
        assert self.error is not None
        return self.error.item

    @property
    def reasons(self) -> list[tuple[str, Item | None]]:
        assert self.error is not None
        return self.error.reasons


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A store, a table in it and a partition of that table which no other test writes to.

    Attributes are given and returned in plain Python; returned ones come without the keys.
    """

    name: str
    send: Send
    abilities: Abilities
    table: str
    pk: str
    made_tables: list[str] = field(default_factory=list)

    def needs(self, ability: str) -> None:
        if not getattr(self.abilities, ability):
            pytest.skip(f"{self.name} has no {ability.replace('_', ' ')}")

    def key(self, sk: str = "a", *, pk: str | None = None) -> Item:
        return to_attributes({"pk": self.pk if pk is None else pk, "sk": sk})

    def put(self, attributes: dict[str, Any], *, sk: str = "a", **params: Any) -> dict[str, Any]:
        item = {**self.key(sk), **to_attributes(attributes)}
        return self.send("PutItem", {"TableName": self.table, "Item": item, **_with_values(params)})

    def get(self, sk: str = "a", **params: Any) -> dict[str, Any] | None:
        request = {"TableName": self.table, "Key": self.key(sk), "ConsistentRead": True, **params}
        reply = self.send("GetItem", request)
        return self.attributes(reply["Item"]) if "Item" in reply else None

    def update(
        self, expression: str | None, values: dict[str, Any] | None = None, *, sk: str = "a", **params: Any
    ) -> dict[str, Any]:
        request = {"TableName": self.table, "Key": self.key(sk), **params}
        if expression is not None:
            request["UpdateExpression"] = expression
        if values is not None:
            request["ExpressionAttributeValues"] = values
        return self.send("UpdateItem", _with_values(request))

    def delete(self, *, sk: str = "a", **params: Any) -> dict[str, Any]:
        return self.send("DeleteItem", {"TableName": self.table, "Key": self.key(sk), **_with_values(params)})

    def holds(self, condition: str, values: dict[str, Any] | None = None, *, sk: str = "a", **params: Any) -> bool:
        """Whether a condition is met; asked in a write that changes nothing."""
        try:
            self.update("REMOVE never_there", values, sk=sk, ConditionExpression=condition, **params)
        except RefusedError as error:
            if error.code != CONDITION_FAILED:
                raise
            return False
        return True

    def query(self, condition: str, values: dict[str, Any] | None = None, **params: Any) -> dict[str, Any]:
        """A Query; ``:pk`` is this test's partition."""
        request = {
            "TableName": self.table,
            "KeyConditionExpression": condition,
            "ExpressionAttributeValues": {":pk": self.pk, **(values or {})},
            "ConsistentRead": True,
            **params,
        }
        return self.send("Query", _with_values(request))

    def found(self, condition: str, values: dict[str, Any] | None = None, **params: Any) -> list[str]:
        """The sort keys that a Query finds."""
        return [item["sk"]["S"] for item in self.query(condition, values, **params)["Items"]]

    def transact(self, *elements: dict[str, Any], **params: Any) -> dict[str, Any]:
        self.needs("transactions")
        return self.send("TransactWriteItems", {"TransactItems": list(elements), **params})

    def element(
        self, kind: str, sk: str = "a", *, attributes: dict[str, Any] | None = None, **params: Any
    ) -> dict[str, Any]:
        """An element of a transaction."""
        body: dict[str, Any] = {"TableName": self.table, **_with_values(params)}
        if kind == "Put":
            body["Item"] = {**self.key(sk), **to_attributes(attributes or {})}
        else:
            body["Key"] = self.key(sk)
        return {kind: body}

    def attributes(self, item: Item) -> dict[str, Any]:
        """An item of a reply in plain Python, without its keys."""
        return {name: value for name, value in from_attributes(item).items() if name not in ("pk", "sk")}

    @contextmanager
    def refused(self, code: str = VALIDATION) -> Iterator[Caught]:
        """What is done inside must be refused with this code."""
        caught = Caught()
        try:
            yield caught
        except RefusedError as error:
            if error.code != code:
                raise
            caught.error = error
        else:
            pytest.fail(f"{self.name} did not refuse with {code}")


def _with_values(params: dict[str, Any]) -> dict[str, Any]:
    """Plain Python in ``ExpressionAttributeValues`` made attribute values; given as such they stay as they are."""
    values = params.get("ExpressionAttributeValues")
    if values is None:
        return params
    given = {ref: value if is_attribute(value) else to_attribute(value) for ref, value in values.items()}
    return {**params, "ExpressionAttributeValues": given}


class Raw(dict[str, Any]):
    """An attribute value as it goes over the wire, for what plain Python cannot say."""


def is_attribute(value: Any) -> bool:
    return isinstance(value, Raw)


def cases(given: Sequence[tuple[Any, ...]]) -> list[ParameterSet]:
    """Parameters named for what they say: the first of each, and the second too where that leaves several alike."""
    counts = Counter(case[0] for case in given)
    names = [str(case[0]) if counts[case[0]] == 1 else f"{case[0]} {_shown(case[1])}" for case in given]
    return [pytest.param(*case, id=name) for case, name in zip(given, names, strict=True)]


def _shown(given: Any) -> str:
    """The same text in every process, so that they agree on the names of tests."""
    if isinstance(given, dict):
        return ", ".join(_shown(member) for member in given.values())
    return repr(sorted(given) if isinstance(given, set) else given)


# --- the stores -----------------------------------------------------------------------------------


def send_to_client(client: Any) -> Send:
    """Requests by a client with boto3's interface."""

    def send(operation: str, params: dict[str, Any]) -> dict[str, Any]:
        try:
            reply = getattr(client, method_name(operation))(**params)
        except ParamValidationError as error:
            raise RefusedError(VALIDATION, str(error)) from None
        except ClientError as error:
            raise _from_client_error(error) from None
        return {name: member for name, member in reply.items() if name != "ResponseMetadata"}

    return send


def _from_client_error(error: ClientError) -> RefusedError:
    response: Any = error.response
    reasons = [(reason.get("Code") or "None", reason.get("Item")) for reason in response.get("CancellationReasons", ())]
    details = response["Error"]
    return RefusedError(details["Code"], details.get("Message", ""), item=response.get("Item"), reasons=reasons)


def send_to_memory(store: MemoryStore) -> Send:
    """Requests as calls, refused with the errors that a plan sees."""

    def send(operation: str, params: dict[str, Any]) -> dict[str, Any]:
        try:
            return store.execute(Call(operation=operation, params=params))
        except TableMissingError as error:
            raise RefusedError(MISSING, str(error)) from None
        except StoreError as error:
            raise _from_store_error(error) from None

    return send


def _from_store_error(error: StoreError) -> RefusedError:
    match error:
        case ConditionFailedError():
            item = None if error.item is None else dict(error.item)
            return RefusedError(CONDITION_FAILED, str(error), item=item)
        case TransactionFailedError():
            reasons = [(each.code, None if each.item is None else dict(each.item)) for each in error.reasons]
            return RefusedError(CANCELED, str(error), reasons=reasons)
        case RequestRefusedError():
            code = str(error).removeprefix(f"{error.operation}: ").partition(":")[0]
            return RefusedError(code, str(error))
        case _:
            raise error


def memory_client() -> Any:
    return MemoryClient(MemoryStore())
