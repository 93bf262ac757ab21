"""How a simulated worker finds what there is to do."""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from typing import Any

from dynadurable.errors import StoreError
from dynadurable.storage import marks
from dynadurable.storage.marks import Candidate
from dynadurable.worker.engine import Engine
from dynadurable.worker.poller import Poller
from tests.simulation.checks import Checker
from tests.simulation.world import World

SETTINGS_KEY = ("queue#default#0", "!settings")


class AtOnce:
    """Steps a plan without letting anybody act in between."""

    def __init__(self, world: World, actor: str) -> None:
        self._world, self._actor = world, actor

    def run(self, plan: Coroutine[Any, Any, Any], *, give_up_at: float | None = None) -> Any:
        return self.go_on(plan, None)

    def go_on(self, plan: Coroutine[Any, Any, Any], failed: BaseException | None, reply: Any = None) -> Any:
        """From its beginning, or from a request of it that has failed, or was replied to."""
        try:
            while True:
                call = plan.send(reply) if failed is None else plan.throw(failed)
                try:
                    reply, failed = self._world.execute(self._actor, call), None
                except StoreError as error:
                    failed = error
        except StopIteration as stop:
            return stop.value


class Search:
    """What a worker finds to do: now and then by a real poll, mostly what that would give, perhaps a little stale."""

    def __init__(self, checker: Checker, name: str, engine: Engine, poller: Poller) -> None:
        self._checker, self._name, self._engine, self._poller = checker, name, engine, poller

    def step(self, *, always_poll: bool) -> Generator[int | None, None, Candidate | None]:
        world = self._checker.world
        if always_poll or world.dice.random() < 0.15:
            self._poller.poll()
            if world.dice.random() < 0.5:
                yield None
            return self._poller.take(lambda _: True)
        return (yield from self._seen())

    def _seen(self) -> Generator[int | None, None, Candidate | None]:
        world, clock = self._checker.world, self._engine.clock
        if world.peek(SETTINGS_KEY) is not None:
            return None
        now_ms = clock.now_ms()
        raw = [(key[0], mark) for key, mark in self._checker.marks.items() if int(key[1][:15]) <= now_ms]
        for _ in range(world.one_of((0, 0, 1, 6))):
            yield None
        if not raw:
            return None
        for _ in range(3):
            candidate = marks.to_candidate(world.items, *world.one_of(raw))
            if candidate is not None and _is_free(candidate, clock.earliest_ms()):
                return candidate
        return None


def _is_free(seen: Candidate, now_ms: int) -> bool:
    return seen.readable and (seen.lease_until_ms is None or seen.lease_until_ms < now_ms)
