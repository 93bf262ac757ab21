"""Every request that the product sends, in any test, held against the grant of the role that it is sent for.

The drivers send everything, so they are watched: a look-up or two for each request. Who sends it follows from the plan
that a driver runs (``tests/roles.py``); a plan that a test runs by itself is its own affair, and so are requests about
items that are not ours (what a fan-out writes, what a commit carries): they need grants of the user's own.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import pytest

from dynadurable import testing
from dynadurable.drivers import aio, boto3
from dynadurable.operations import Operations
from dynadurable.storage.call import Call, Several
from dynadurable.storage.keys import escape
from dynadurable.storage.permissions import ALLOWANCES, Kind, Role
from dynadurable.storage.schema import TableSchema
from tests.recorder import requests_of
from tests.roles import role_of

DRIVERS = str(Path(aio.__file__).resolve().parent)
TESTS = (str(Path(__file__).resolve().parent), str(Path(testing.__file__).resolve().parent))


@dataclass(frozen=True, slots=True)
class Sent:
    """One request, or element of a transaction: its action, and the kind of its items; ``None`` for the table."""

    action: str
    kind: Kind | None


def is_allowed(role: Role, sent: Sent) -> bool:
    """Whether the role's grant says so."""
    allowance = ALLOWANCES[role]
    return sent.action in (allowance.table if sent.kind is None else allowance.items.get(sent.kind, ()))


class Watch:
    """What was sent in this process, by role; ``refused`` has what a grant does not allow."""

    def __init__(self) -> None:
        self.refused: list[str] = []
        self.acting: set[Sent] | None = None
        """What is sent while somebody acts in a role of the test's choice."""
        self._plan: ContextVar[str | None] = ContextVar("plan", default=None)
        self._parents: WeakKeyDictionary[Any, str] = WeakKeyDictionary()
        self._schemas: dict[str, list[TableSchema]] = {}
        self._kinds: dict[str, dict[str, Kind]] = {}
        self._lock = threading.Lock()

    @contextmanager
    def acting_out(self) -> Iterator[set[Sent]]:
        """What is sent inside, whoever sends it and in whatever thread: a test says itself in which role it acts."""
        all_sent: set[Sent] = set()
        self.acting = all_sent
        try:
            yield all_sent
        finally:
            self.acting = None

    # --- what it learns ---------------------------------------------------------------------------

    def knows(self, schema: TableSchema) -> None:
        """An app lives in that table."""
        heads = {f"{escape(schema.prefix)}{kind}": kind for kind in Kind}
        with self._lock:
            self._kinds.setdefault(schema.table, {}).update(heads)
            schemas = self._schemas.setdefault(schema.table, [])
            if schema not in schemas:
                schemas.append(schema)

    def note(self, call: Call) -> None:
        """A request is sent."""
        if self.acting is not None:
            self.acting.update(self._sent(call))
            return
        plan = self._plan.get()
        role = None if plan is None else role_of(plan)
        if role is None:
            return
        for sent in self._sent(call):
            if not is_allowed(role, sent):
                self.refused.append(f"{role} may not {sent.action} {sent.kind or 'the table'}, but {plan} does")

    def _sent(self, call: Call) -> Iterator[Sent]:
        schema = self._schema_of(call)
        if schema is None:
            return
        kinds = self._kinds[schema.table]
        for request in requests_of(call.operation, call.params, partition_key=schema.partition_key):
            action = request.action.removeprefix("dynamodb:")
            if not request.leading_keys:
                yield Sent(action, None)
            found = {kinds.get(key.partition("#")[0]) for key in request.leading_keys}
            assert len(found) <= 1, f"a batch must keep to one statement of a policy, not {found}"
            for kind in found:
                if kind is not None:
                    yield Sent(action, kind)

    def _schema_of(self, call: Call) -> TableSchema | None:
        """The one whose key names fit; all elements of a batch or transaction of ours are in one table."""
        for table in _tables(call.params):
            for schema in self._schemas.get(table, ()):
                return schema
        return None

    # --- how it watches ---------------------------------------------------------------------------

    @contextmanager
    def plan(self, name: str | None) -> Iterator[None]:
        """While inside, what is sent from here is sent for that plan."""
        token = self._plan.set(name)
        try:
            yield
        finally:
            self._plan.reset(token)

    def name_of(self, plan: Any, caller: str) -> str | None:
        """Of a plan that is run by whoever stands in that file; ``None`` for what is not looked at."""
        if caller.startswith(TESTS):
            return None
        if caller.startswith(DRIVERS) and (outer := self._plan.get()) is not None:
            return outer
        return self._parents.get(plan) or f"{plan.cr_code.co_filename}:{plan.cr_code.co_qualname}"

    def adopt(self, several: Several) -> None:
        """Its plans are parts of the one that is under way here."""
        name = self._plan.get()
        if name is not None:
            for plan in several.plans:
                self._parents[plan] = name


def _tables(params: dict[str, Any]) -> list[str]:
    if "TableName" in params:
        return [params["TableName"]]
    if "RequestItems" in params:
        return list(params["RequestItems"])
    return [inner["TableName"] for item in params["TransactItems"] for inner in item.values()]


@contextmanager
def watching() -> Iterator[Watch]:
    """Watch the drivers of this process."""
    watch = Watch()
    with pytest.MonkeyPatch.context() as patch:
        _watch_apps(patch, watch)
        _watch_boto3(patch, watch)
        _watch_aio(patch, watch)
        yield watch


def _watch_apps(patch: pytest.MonkeyPatch, watch: Watch) -> None:
    begin = Operations.__init__

    def noted(self: Operations, items: Any, *args: Any, **kwargs: Any) -> None:
        watch.knows(items.schema)
        begin(self, items, *args, **kwargs)

    patch.setattr(Operations, "__init__", noted)


def _watch_boto3(patch: pytest.MonkeyPatch, watch: Watch) -> None:
    driver = boto3.Boto3Driver
    run, side_by_side, send = driver.run, driver._side_by_side, driver.send

    def watched_run(self: Any, plan: Any, **options: Any) -> Any:
        with watch.plan(watch.name_of(plan, sys._getframe(1).f_code.co_filename)):
            return run(self, plan, **options)

    def watched_side_by_side(self: Any, several: Several, *options: Any) -> Any:
        watch.adopt(several)
        return side_by_side(self, several, *options)

    def watched_send(self: Any, call: Call, **options: Any) -> Any:
        watch.note(call)
        return send(self, call, **options)

    patch.setattr(driver, "run", watched_run)
    patch.setattr(driver, "_side_by_side", watched_side_by_side)
    patch.setattr(driver, "send", watched_send)


def _watch_aio(patch: pytest.MonkeyPatch, watch: Watch) -> None:
    def watched_run(run: Any) -> Any:
        def begin(self: Any, plan: Any, **options: Any) -> Any:
            name = watch.name_of(plan, sys._getframe(1).f_code.co_filename)

            async def go() -> Any:
                with watch.plan(name):
                    return await run(self, plan, **options)

            return go()

        return begin

    def watched_send(send: Any) -> Any:
        async def noted(self: Any, call: Call, **options: Any) -> Any:
            watch.note(call)
            return await send(self, call, **options)

        return noted

    for name in ("run", "see_through"):
        patch.setattr(aio.AioDriver, name, watched_run(getattr(aio.AioDriver, name)))
    for sender in (aio.AioDriver, aio._Uncut):
        patch.setattr(sender, "send", watched_send(sender.send))
