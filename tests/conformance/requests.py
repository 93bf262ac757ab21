"""Random requests on a few small items, such as every store is expected to answer alike.

Names tell types: ``n1`` is a number, ``s1`` text, ``l1`` a list of numbers, ``m1`` a map with ``a`` and ``b``, ``t1`` a
set of texts. Each may be absent. What a store is known to get wrong (``faults.txt``) is not asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

from tests.conformance.notation import to_attribute, to_attributes
from tests.servers import Abilities

Request = tuple[str, dict[str, Any]]

PARTITIONS = ("p", "q")
SORTS = ("a", "ab", "b", "c")
TEXTS = ("", "x", "xy", "y")
COMPARATORS = ("=", "<>", "<", "<=", ">", ">=")


@dataclass(frozen=True, kw_only=True)
class Requests:
    """A stream of random requests to one table."""

    random: Random
    table: str
    abilities: Abilities
    is_dynalite: bool = False  # it finds no two documents equal, and empty text without a size

    def next(self) -> Request:
        makers = [self.put, self.update, self.update, self.update, self.delete, self.get, self.query, self.query]
        makers += [self.scan, self.batch_write, self.batch_get]
        if self.abilities.transactions:
            makers += [self.transaction, self.transaction, self.transact_get]
        return self.random.choice(makers)()

    # --- operations -------------------------------------------------------------------------------

    def put(self) -> Request:
        request = {"TableName": self.table, "Item": self.item(), **self.guard(0.6)}
        return "PutItem", {**request, **self.returns("NONE", "ALL_OLD"), **self.charged()}

    def delete(self) -> Request:
        request = {"TableName": self.table, "Key": self.key(), **self.guard(0.6)}
        return "DeleteItem", {**request, **self.returns("NONE", "ALL_OLD"), **self.charged()}

    def update(self) -> Request:
        change = self.change()
        choices = ["NONE", "ALL_OLD", "ALL_NEW"]
        if "[" not in change["UpdateExpression"]:
            choices += ["UPDATED_OLD", "UPDATED_NEW"]
        return "UpdateItem", {"TableName": self.table, **change, **self.returns(*choices), **self.charged()}

    def get(self) -> Request:
        request = {"TableName": self.table, "Key": self.key(), "ConsistentRead": self.random.random() < 0.5}
        return "GetItem", {**request, **self.projection(), **self.charged()}

    def query(self) -> Request:
        values: dict[str, Any] = {":pk": self.random.choice(PARTITIONS)}
        condition = f"pk = :pk{self.sort_range(values)}"
        request: dict[str, Any] = {"TableName": self.table, "KeyConditionExpression": condition}
        if self.random.random() < 0.4:
            request["FilterExpression"] = self.condition(values, keys=False)
        if self.random.random() < 0.4:
            request["Limit"] = self.random.randint(1, 4)
        if self.random.random() < 0.2:
            request["Select"] = "COUNT"
        else:
            request |= self.projection()
        if condition == "pk = :pk" and self.random.random() < 0.3:
            request["ExclusiveStartKey"] = to_attributes({"pk": values[":pk"], "sk": self.random.choice(SORTS)})
        request["ExpressionAttributeValues"] = to_attributes(values)
        return "Query", {**request, "ScanIndexForward": self.random.random() < 0.5}

    def scan(self) -> Request:
        request: dict[str, Any] = {"TableName": self.table, **self.projection()}
        if self.random.random() < 0.5:
            values: dict[str, Any] = {}
            request["FilterExpression"] = self.condition(values)
            request |= _values(values)
        return "Scan", request

    def batch_write(self) -> Request:
        elements: list[dict[str, Any]] = [
            {"PutRequest": {"Item": self.item()}}
            if self.random.random() < 0.6
            else {"DeleteRequest": {"Key": self.key()}}
            for _ in range(self.random.randint(1, 3))
        ]
        return "BatchWriteItem", {"RequestItems": {self.table: elements}}

    def batch_get(self) -> Request:
        keys = [self.key() for _ in range(self.random.randint(1, 3))]
        return "BatchGetItem", {"RequestItems": {self.table: {"Keys": keys, **self.projection()}}}

    def transaction(self) -> Request:
        elements = [self.element() for _ in range(self.random.randint(1, 4))]
        request: dict[str, Any] = {"TransactItems": elements, **self.charged()}
        if self.abilities.transaction_tokens and self.random.random() < 0.3:
            request["ClientRequestToken"] = f"{self.table[-20:]}-{self.random.randint(1, 5)}"
        return "TransactWriteItems", request

    def transact_get(self) -> Request:
        gets = [
            {"Get": {"TableName": self.table, "Key": self.key(), **self.projection()}}
            for _ in range(self.random.randint(1, 3))
        ]
        return "TransactGetItems", {"TransactItems": gets, **self.charged()}

    # --- parts ------------------------------------------------------------------------------------

    def element(self) -> dict[str, Any]:
        kind = self.random.choice(["Put", "Update", "Delete", "ConditionCheck"])
        body: dict[str, Any] = {"TableName": self.table}
        if kind == "Update":
            body |= self.change()
        else:
            body |= self.guard(1 if kind == "ConditionCheck" else 0.4)
            body |= {"Item": self.item()} if kind == "Put" else {"Key": self.key()}
        return {kind: body}

    def key(self) -> dict[str, Any]:
        return to_attributes({"pk": self.random.choice(PARTITIONS), "sk": self.random.choice(SORTS)})

    def item(self) -> dict[str, Any]:
        names = self.random.sample(["n1", "n2", "s1", "s2", "l1", "m1", "t1"], self.random.randint(0, 5))
        return self.key() | {name: to_attribute(self.value(name[0])) for name in names}

    def value(self, kind: str) -> Any:
        match kind:
            case "n":
                return self.random.randint(-2, 3)
            case "s":
                return self.random.choice(TEXTS)
            case "l":
                return [self.random.randint(0, 2) for _ in range(self.random.randint(0, 3))]
            case "m":
                return {"a": self.value("n"), **({"b": self.value("s")} if self.random.random() < 0.7 else {})}
            case _:
                return set(self.random.sample(["u", "v", "w"], self.random.randint(1, 3)))

    def new(self, values: dict[str, Any], kind: str, *, plus: int = 0) -> str:
        """A new value of the request; numbers may be moved out of the usual range."""
        ref = f":v{len(values)}"
        values[ref] = self.value(kind) + plus if plus else self.value(kind)
        return ref

    def condition(self, values: dict[str, Any], *, depth: int = 2, keys: bool = True) -> str:
        if depth and self.random.random() < 0.4:
            left, right = (self.condition(values, depth=depth - 1, keys=keys) for _ in range(2))
            return (
                self.random.choice([f"({left} AND {right})", f"({left} OR {right})", f"(NOT {left})"])
                if (f":v{len(values) - 1}" in left + right)
                else f"({left} AND {right})"
            )
        return self.simple_condition(values, keys=keys)

    def simple_condition(self, values: dict[str, Any], *, keys: bool) -> str:
        number = self.random.choice(["n1", "n2", "l1[0]", "l1[1]", "m1.a"])
        text = self.random.choice(["s1", "s2", "m1.b"] + (["sk"] if keys else []))
        name = self.random.choice(["n1", "s1", "l1", "m1", "t1", "m1.a", "l1[1]"] + (["pk"] if keys else []))
        sized = ["l1", "t1", "m1"] + ([] if self.is_dynalite else ["s1"])
        choices = [
            lambda: f"{number} {self.random.choice(COMPARATORS)} {self.new(values, 'n')}",
            lambda: f"{text} {self.random.choice(COMPARATORS)} {self.new(values, 's')}",
            lambda: f"{text} {self.random.choice(('=', '<>', '<', '>'))} {self.new(values, 'n')}",
            lambda: f"t1 = {self.new(values, 't')}",
            lambda: f"m1 <> {self.new(values, 'n' if self.is_dynalite else 'm')}",
            lambda: f"attribute_exists({name})",
            lambda: f"attribute_not_exists({name})",
            lambda: f"begins_with({text}, {self.new(values, 's')})",
            lambda: f"contains({text}, {self.new(values, 's')})",
            lambda: f"contains(l1, {self.new(values, 'n')})",
            lambda: f"contains(t1, {self.new(values, 's')})",
            lambda: f"{number} IN ({self.new(values, 'n')}, {self.new(values, 'n')})",
            lambda: f"{number} BETWEEN {self.new(values, 'n', plus=-9)} AND {self.new(values, 'n')}",
            lambda: f"size({self.random.choice(sized)}) > {self.new(values, 'n')}",
        ]
        return self.random.choice(choices)()

    def guard(self, chance: float) -> dict[str, Any]:
        if self.random.random() >= chance:
            return {}
        values: dict[str, Any] = {}
        guard = {"ConditionExpression": self.condition(values), **_values(values)}
        if self.abilities.all_old_on_failed_condition and self.random.random() < 0.5:
            guard["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
        return guard

    def change(self) -> dict[str, Any]:
        values: dict[str, Any] = {}
        sets = self.random.sample(["n1", "s1", "l1", "m1", "m1.a", "l1[1]", "t1"], self.random.randint(1, 3))
        sets = [path for path in sets if path[:2] not in sets or path[:2] == path]
        clauses = "SET " + ", ".join(f"{path} = {self.source(values, path)}" for path in sets)
        free = [name for name in ("n2", "s2") if self.random.random() < 0.3]
        clauses += f" REMOVE {', '.join(free)}" if free else ""
        if not any(path.startswith("t1") for path in sets) and self.random.random() < 0.4:
            clauses += f" {self.random.choice(['ADD', 'DELETE'])} t1 {self.new(values, 't')}"
        change: dict[str, Any] = {"Key": self.key(), "UpdateExpression": clauses}
        if self.random.random() < 0.5:
            change["ConditionExpression"] = self.condition(values)
        return {**change, **_values(values)}

    def source(self, values: dict[str, Any], path: str) -> str:
        kind = "n" if path in ("m1.a", "l1[1]") else path[0]
        plain = self.new(values, kind)
        match self.random.random() < 0.5, kind:
            case True, "n":
                numbers = ["n1", "n2", f"if_not_exists(n2, {plain})"]
                return f"{self.random.choice(numbers)} {self.random.choice('+-')} {plain}"
            case True, "l":
                return f"list_append(if_not_exists(l1, {plain}), {plain})"
            case True, _:
                return f"if_not_exists({path[0]}1, {plain})"
            case _:
                return plain

    def sort_range(self, values: dict[str, Any]) -> str:
        match self.random.randint(0, 4):
            case 0:
                values |= {":low": "a", ":high": self.random.choice(SORTS)}
                return " AND sk BETWEEN :low AND :high"
            case 1:
                values[":sk"] = self.random.choice("abx")
                return " AND begins_with(sk, :sk)"
            case 2:
                values[":sk"] = self.random.choice(SORTS)
                return f" AND sk {self.random.choice(('=', '<', '<=', '>', '>='))} :sk"
            case _:
                return ""

    def projection(self) -> dict[str, Any]:
        if self.random.random() < 0.7:
            return {}
        paths = self.random.sample(["pk", "sk", "n1", "#s", "l1[0]", "m1.a"], self.random.randint(1, 4))
        names = {"ExpressionAttributeNames": {"#s": "s1"}} if "#s" in paths else {}
        return {"ProjectionExpression": ", ".join(paths), **names}

    def returns(self, *choices: str) -> dict[str, Any]:
        return {"ReturnValues": self.random.choice(choices)} if self.random.random() < 0.7 else {}

    def charged(self) -> dict[str, Any]:
        exact = self.abilities.exact_write_capacity
        return {"ReturnConsumedCapacity": "TOTAL"} if exact and self.random.random() < 0.5 else {}


def _values(values: dict[str, Any]) -> dict[str, Any]:
    return {"ExpressionAttributeValues": to_attributes(values)} if values else {}
