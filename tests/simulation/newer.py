"""Casts beside which a newer version of the library is at work, whose items this one must leave alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynadurable.storage.call import Call
from dynadurable.storage.items import FORMAT_VERSION
from dynadurable.storage.keys import SETTINGS_SORT_KEY
from tests import laws
from tests.simulation.checks import Checker, Raw
from tests.simulation.leases import LeaseCast, LeaseChecker
from tests.simulation.recorded import WorkflowChecker
from tests.simulation.workflows import WorkflowCast
from tests.simulation.world import START_MS, Steps, World

NEWCOMER = "newcomer"
NEWER = FORMAT_VERSION + 1
LEASE_MS = 10_000
KINDS = ("queue#", "run#", "run#", "run#", "dead#", "lease#")

if TYPE_CHECKING:
    from tests.simulation.actors import Cast as _Cast
else:
    _Cast = object


class _LeavesAlone(Checker):
    """No item of a newer format is written by this version."""

    def on_write(self, actor: str, key: tuple[str, str], old: Raw, new: Raw) -> None:
        newer = old is not None and old != new and laws.number(old, "dd_v") > FORMAT_VERSION
        if newer and actor != NEWCOMER and not self._is_harmless(key, old or {}, new):
            self.fail(f"{actor} wrote over {key}, which is of a newer version")
        if actor != NEWCOMER:
            super().on_write(actor, key, old, new)
        elif key in self.marks and new is not None:
            self.marks[key] = new

    def _is_harmless(self, key: tuple[str, str], old: dict[str, Any], new: Raw) -> bool:
        """Who started too late deletes its own mark; and the expiry of a page says nothing of what is in it."""
        if new is None:
            return key[0].startswith("queue#") and self._is_forgotten(key, old)
        return key[1].startswith("page#") and {**old, "ttl": None} == {**new, "ttl": None}


class NewerWorkflowChecker(_LeavesAlone, WorkflowChecker):
    """For workflows and jobs."""


class NewerLeaseChecker(_LeavesAlone, LeaseChecker):
    """For named leases."""


class _Newcomer(_Cast):
    """Adds a worker of a newer version, which claims marks and writes other items in its own format."""

    world: World

    def processes(self) -> list[list[Steps]]:
        return [*super().processes(), [self._newcomer()], [self._newcomer()]]

    def last_words(self) -> list[Steps]:
        return [self._gone(), *super().last_words()]

    def _newcomer(self) -> Steps:
        world = self.world
        for _ in range(12):
            yield from world.wait(world.one_of((0, 200, 1_000, 4_000)))
            kind = world.one_of(KINDS)
            found = [item for item in world.all_items() if item["pk"]["S"].startswith(kind) and "dd_v" in item]
            mine = [item for item in found if laws.number(item, "dd_v") == NEWER]
            if mine and world.dice.random() < 0.4:
                self._write(world.one_of(mine), FORMAT_VERSION)
            elif found:
                self._write(world.one_of(found), NEWER)

    def _gone(self) -> Steps:
        """There are only workers of this version again."""
        for item in self.world.all_items():
            if laws.number(item, "dd_v") == NEWER:
                self._write(item, FORMAT_VERSION)
        yield None

    def _write(self, item: dict[str, Any], version: int) -> None:
        """One item in that format; a mark is claimed for that, or let go."""
        world = self.world
        now_ms = START_MS + world.now_ms
        sets, removes, values = ["dd_v = :v"], "", {":v": {"N": str(version)}}
        if item["pk"]["S"].startswith(("queue#", "lease#")) and item["sk"]["S"] != SETTINGS_SORT_KEY:
            if laws.number(item, "dd_lease") >= now_ms and laws.number(item, "dd_v") != NEWER:
                return  # somebody holds it
            if version == NEWER:
                sets += ["dd_token = :token", "dd_lease = :lease", "dd_fence = dd_fence + :one"]
                values |= {":token": {"S": NEWCOMER}, ":lease": {"N": str(now_ms + LEASE_MS)}, ":one": {"N": "1"}}
            else:
                removes = " REMOVE dd_token, dd_lease"
        if item["sk"]["S"].startswith("page#") and version == NEWER:  # who writes a part writes the run
            run = world.peek((item["pk"]["S"], "run"))
            if run is None:
                return
            self._write(run, NEWER)
        key = {"pk": item["pk"], "sk": item["sk"]}
        world.note(NEWCOMER, f"writes {key['pk']['S']} {key['sk']['S'][-20:]} in format {version}")
        params = {
            "TableName": "simulated",
            "Key": key,
            "UpdateExpression": f"SET {', '.join(sets)}{removes}",
            "ExpressionAttributeValues": values,
        }
        world.execute(NEWCOMER, Call(operation="UpdateItem", params=params))


class NewerCast(_Newcomer, WorkflowCast):
    """Workflows and jobs beside a newer version."""

    checks = NewerWorkflowChecker


class NewerLeaseCast(_Newcomer, LeaseCast):
    """Named leases beside a newer version."""

    checks = NewerLeaseChecker
    may_be_calm = False
