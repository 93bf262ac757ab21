"""A cast that contends for a named lease, and writes under its fence."""

from __future__ import annotations

import contextlib
from datetime import timedelta
from typing import Any

from dynadurable.errors import DynadurableError, LeaseBusyError, LeaseLostError
from dynadurable.lease import LeaseBase
from dynadurable.storage import leases
from dynadurable.storage.call import Call
from dynadurable.storage.keys import lease_key
from dynadurable.worker.contest import LeaseParts
from dynadurable.worker.held import LOST
from dynadurable.worker.tenure import Tenure
from tests import laws
from tests.simulation.actors import Cast
from tests.simulation.checks import Checker, Raw
from tests.simulation.world import CALM, START_MS, SeededIds, Steps, World

NAME = "leader"
TTL = timedelta(seconds=8)
KEPT = ("users", "led")
"""An item that only the holder writes, with its fence."""


class LeaseChecker(Checker):
    """Of a named lease: one holder at a time, fences that grow, and no write of a holder of the past."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.holders: dict[str, str] = {}
        """Which process took the lease, by token."""
        self.key = lease_key(world.items.schema, NAME)

    def on_write(self, actor: str, key: tuple[str, str], old: Raw, new: Raw) -> None:
        super().on_write(actor, key, old, new)
        if key == self.key:
            self._on_lease(actor, old or {}, new)
        if key == KEPT and new is not None:
            self._on_kept(actor, old or {}, new)

    def _on_lease(self, actor: str, old: dict[str, Any], new: Raw) -> None:
        if new is None:
            self.fail(f"{actor} deleted the lease, and its fence with it")
            return
        before, after = laws.number(old, "dd_fence"), laws.number(new, "dd_fence")
        token, held = new.get("dd_token", {}).get("S"), old.get("dd_token", {}).get("S")
        process = actor.removesuffix("'s keeper")
        if token is not None and token != held:
            self._on_taken(actor, process, token, old, before=before, after=after)
        elif after != before:
            self.fail(f"{actor} changed the fence of a lease that it did not take: {before} to {after}")
        elif token is not None and laws.number(new, "dd_lease") < laws.number(old, "dd_lease"):
            self.fail(f"{actor} shortened the lease")
        elif token is None and "dd_lease" in new:
            self.fail(f"{actor} brought a lease back that nobody holds")
        elif held is not None and self.holders.get(held) != process and not actor.startswith("breaker"):
            self.fail(f"{actor} changed the lease, which {self.holders.get(held)} holds")

    def _on_taken(self, actor: str, process: str, token: str, old: dict[str, Any], *, before: int, after: int) -> None:
        if after <= before:
            self.fail(f"{actor} took the lease, and its fence did not grow: {before} to {after}")
        if token in self.holders:
            return  # a copy of the request that took it comes late: whoever sent it is not told, and it lapses
        self.holders[token] = process
        early_ms = laws.number(old, "dd_lease") - START_MS - self.world.now_ms
        if early_ms > 0 and not self.world.lie_ms:
            self.fail(f"{actor} took the lease {early_ms} ms before its end")

    def _on_kept(self, actor: str, old: dict[str, Any], new: dict[str, Any]) -> None:
        """Under one fence one holder writes, and no earlier one after it."""
        before, after = laws.number(old, "fence"), laws.number(new, "fence")
        if after < before:
            self.fail(f"{actor} wrote under fence {after} after somebody wrote under {before}")
        if after == before and old and old["by"] != new["by"]:
            self.fail(f"{actor} and {old['by']['S']} wrote under the same fence {after}")

    def undisturbed(self, lease: LeaseBase, name: str) -> None:
        """In a calm world a lease is held as long as its holder wants."""
        if self.world.weather is CALM and not lease.is_valid():
            self.fail(f"{name} lost a lease that nothing disturbed")


class LeaseKeeper:
    """Renews in place of the keeper's threads."""

    def __init__(self) -> None:
        self.kept: list[Tenure] = []

    def keep(self, tenure: Tenure) -> None:
        self.kept.append(tenure)

    def forget(self, tenure: Tenure) -> None:
        self.kept = [one for one in self.kept if one is not tenure]


class LeaseCast(Cast):
    """Some holders, and somebody who breaks what they hold."""

    checks = LeaseChecker
    may_be_calm = True

    def __init__(self, world: World) -> None:
        super().__init__(world)
        assert isinstance(self.checker, LeaseChecker)
        self.lease_checker: LeaseChecker = self.checker

    def processes(self) -> list[list[Steps]]:
        dice = self.world.dice
        found = [self.holder(f"holder-{n}", dice.randint(2, 4)) for n in range(dice.randint(2, 4))]
        if self.world.weather is not CALM:
            found += [[self.breaker(f"breaker-{n}")] for n in range(dice.choice((0, 1, 2)))]
        return found

    def last_words(self) -> list[Steps]:
        return []

    def afterwards(self) -> list[Steps]:
        return []

    def holder(self, name: str, rounds: int) -> list[Steps]:
        """Takes the lease again and again, by one object or by several."""
        world, keeper = self.world, LeaseKeeper()
        parts = LeaseParts(
            items=world.items,
            driver=None,  # type: ignore[arg-type]  # plans are stepped by the world
            loops=None,  # type: ignore[arg-type]
            clock=world.clock(),
            ids=SeededIds(world.dice),
            keeper=keeper,  # type: ignore[arg-type]
            name=name,
            dice=world.dice.random,
        )
        return [self._holding(name, parts, rounds), self._keeping(name, parts, keeper)]

    def _holding(self, name: str, parts: LeaseParts, rounds: int) -> Steps:
        world = self.world
        lease = LeaseBase(parts, NAME, ttl=TTL)
        for _ in range(rounds):
            if world.dice.random() < 0.3:
                lease = LeaseBase(parts, NAME, ttl=TTL)
            yield from world.wait(world.one_of((0, 500, 3_000)))
            try:
                tenure = yield from world.drive(name, lease._acquire(timedelta(seconds=world.one_of((0, 20, 90)))))
            except LeaseBusyError:
                continue
            except DynadurableError as error:
                world.note(name, f"did not get it: {error}")
                continue
            lease.begin(tenure)
            world.note(name, f"holds it, fence {lease.fence}")
            yield from self._held(name, lease)
            was_valid, ended = lease.is_valid(), lease._end()
            if ended is not None and world.dice.random() < 0.8:
                released = yield from world.drive(name, lease._release(ended, was_valid=was_valid))
                world.note(name, f"released it: {released}")

    def _held(self, name: str, lease: LeaseBase) -> Steps:
        world = self.world
        for _ in range(world.dice.randint(1, 6)):
            yield from world.wait(world.one_of((0, 1_000, 6_000)))
            self.lease_checker.undisturbed(lease, name)
            if not lease.is_valid() and world.dice.random() < 0.5:
                return
            elements = [lease.condition_check(), _kept(lease)]
            with contextlib.suppress(DynadurableError):
                yield from world.send(name, Call(operation="TransactWriteItems", params={"TransactItems": elements}))

    def _keeping(self, name: str, parts: LeaseParts, keeper: LeaseKeeper) -> Steps:
        world = self.world
        while True:
            yield world.now_ms + 500
            for tenure in list(keeper.kept):
                sent = parts.clock.monotonic()
                if sent >= tenure.last_try_at:
                    tenure.tell(LOST)
                if tenure.closed or tenure.reason == LOST or sent < tenure.renew_at:
                    continue
                until_ms = parts.clock.latest_ms() + round(tenure.lease_seconds * 1000)
                try:
                    yield from world.drive(f"{name}'s keeper", tenure.renewal(world.items, lease_until_ms=until_ms))
                except LeaseLostError:
                    tenure.tell(LOST)
                except DynadurableError:
                    continue
                else:
                    tenure.extended(sent=sent)

    def breaker(self, name: str) -> Steps:
        """An operator who takes the lease from whoever holds it."""
        world = self.world
        for _ in range(2):
            yield from world.wait(world.one_of((3_000, 15_000)))
            with contextlib.suppress(DynadurableError):
                seen = yield from world.drive(name, leases.read(world.items, NAME))
                if seen is not None and seen.token:
                    broken = yield from world.drive(name, leases.break_lease(world.items, NAME, seen=seen))
                    world.note(name, f"broke it: {broken}")


def _kept(lease: LeaseBase) -> dict[str, Any]:
    tenure = lease._acquired()
    return {
        "Update": {
            "TableName": "simulated",
            "Key": {"pk": {"S": KEPT[0]}, "sk": {"S": KEPT[1]}},
            "UpdateExpression": "SET fence = :fence, #by = :token",
            "ExpressionAttributeNames": {"#by": "by"},
            "ExpressionAttributeValues": {":fence": {"N": str(tenure.fence)}, ":token": {"S": tenure.token}},
        }
    }
