"""A world without chance, for stories that are told by hand: every plan runs at once, and stops where it is told to."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

import pytest

from dynadurable.errors import ConditionFailedError, StoreError
from dynadurable.storage import ends, marks, runs
from dynadurable.storage.births import Newborn
from dynadurable.storage.call import Call
from dynadurable.storage.items import DEAD, FORMAT_VERSION, DeadLetter, Mark, Run
from dynadurable.storage.keys import dead_partition, mark_sort_key
from tests.simulation.actors import Cast
from tests.simulation.search import AtOnce
from tests.simulation.world import ActorClock, SeededIds, World

LEASE_MS = 10_000


class Story:
    """A world without chance: every plan runs at once, and every request is remembered."""

    def __init__(self, cast: type[Cast] = Cast) -> None:
        self.world = World(seed=0)
        self.cast = cast(self.world)
        self.items = self.world.items
        self.clock = ActorClock(self.world, error_ms=0)
        self.ids = SeededIds(self.world.dice)
        self.sent: list[Call] = []
        self.world.watchers.clear()
        execute = self.world.execute

        def remembered(actor: str, call: Call) -> Any:
            self.sent.append(call)
            return execute(actor, call)

        self.world.execute = remembered  # type: ignore[method-assign]

    def run(self, plan: Coroutine[Any, Any, Any]) -> Any:
        return AtOnce(self.world, "story").run(plan)

    def again(self, call: Call) -> None:
        """A copy of that request comes late."""
        with pytest.raises(ConditionFailedError):
            self.world.execute("late", call)

    def enqueued(self, job: Any, argument: int = 1) -> Run:
        run_id = self.run(self.cast.operations(self.clock).enqueue(job, (argument,), {}))
        run = self.run(runs.read(self.items, run_id))
        assert isinstance(run, Run)
        return run

    def claimed(self, run: Run, token: str = "token") -> Mark:
        return self.claim(f"queue#{run.queue}#{int(run.shard)}", run.mark, token)

    def claim(self, pk: str, sk: str, token: str = "token") -> Mark:
        now_ms = self.clock.now_ms()
        until_ms = now_ms + LEASE_MS
        plan = marks.claim(self.items, pk=pk, sk=sk, token=token, now_ms=now_ms, lease_until_ms=until_ms, worker="w")
        mark = self.run(plan)
        assert isinstance(mark, Mark)
        return mark

    def rival(self, mark: Mark) -> Mark:
        """The lease lapses, and somebody else claims the mark."""
        self.world.now_ms += 2 * LEASE_MS
        return self.claim(mark.pk, mark.sk, "rival")

    def checkpoint(self, mark: Mark, cursor: bytes, before: bytes | None) -> None:
        until_ms = self.clock.now_ms() + LEASE_MS
        self.run(marks.checkpoint(self.items, mark, cursor=cursor, lease_until_ms=until_ms, before=before))

    def newer(self, pk: str, sk: str) -> None:
        """A newer version takes that item over."""
        params = {
            "TableName": "simulated",
            "Key": {"pk": {"S": pk}, "sk": {"S": sk}},
            "UpdateExpression": "SET dd_v = :v",
            "ExpressionAttributeValues": {":v": {"N": str(FORMAT_VERSION + 1)}},
        }
        self.world.execute("newer", Call(operation="UpdateItem", params=params))

    def up_to(self, plan: Coroutine[Any, Any, Any], operation: str, pk: str = "") -> Call:
        """Step it until it is about to send that; gives the request, which was not sent yet."""
        reply: Any = None
        while True:
            call: Call = plan.send(reply)
            key = call.params.get("Key") or call.params.get("Item") or {}
            if call.operation == operation and key.get("pk", {}).get("S", "").startswith(pk):
                return call
            reply = self.world.execute("story", call)

    def finish(self, plan: Coroutine[Any, Any, Any], call: Call) -> Any:
        """Send it now, and what comes after it."""
        try:
            reply = self.world.execute("story", call)
        except StoreError as error:
            return AtOnce(self.world, "story").go_on(plan, error)
        return AtOnce(self.world, "story").go_on(plan, None, reply)

    def change(self, pk: str, sk: str, **values: dict[str, Any] | None) -> None:
        """Somebody writes these attributes of an item meanwhile; ``None`` removes one."""
        given = {name: value for name, value in values.items() if value is not None}
        gone = [name for name in values if name not in given]
        parts = ["SET " + ", ".join(f"{name} = :{name}" for name in given)] if given else []
        parts += ["REMOVE " + ", ".join(gone)] if gone else []
        params: dict[str, Any] = {
            "TableName": "simulated",
            "Key": {"pk": {"S": pk}, "sk": {"S": sk}},
            "UpdateExpression": " ".join(parts),
        }
        if given:
            params["ExpressionAttributeValues"] = {f":{name}": value for name, value in given.items()}
        self.world.execute("somebody", Call(operation="UpdateItem", params=params))

    def remove(self, pk: str, sk: str) -> None:
        params = {"TableName": "simulated", "Key": {"pk": {"S": pk}, "sk": {"S": sk}}}
        self.world.execute("somebody", Call(operation="DeleteItem", params=params))

    def placed(self) -> tuple[str, Mark]:
        """A self-contained mark, claimed."""
        born: Newborn = self.cast.operations(self.clock).born(self.cast.plain, (1,), {})[1]
        self.run(marks.place(self.items, born.mark))
        return born.run_id, self.claim(born.mark.pk, born.mark.sk)

    def died(self, run: Run) -> DeadLetter:
        """The run dies, and leaves a letter."""
        now_ms, model = self.clock.now_ms(), self.items.run
        key = mark_sort_key(now_ms, run.pk[4:])
        letter: DeadLetter = self.items.dead_letter(
            pk=dead_partition(self.items.schema, run.queue, int(run.shard)),
            sk=key,
            job=run.job,
            attempts=1,
            generation=run.generation,
        )
        changes = [model.dead_letter.set(key), model.ended_ms.set(now_ms)]
        self.run(ends.end(self.items, self.claimed(run), run.pk, changes, state=DEAD, dead_letter=letter))
        return letter

    def now(self, pk: str, sk: str) -> dict[str, Any]:
        """The item as it stands; empty if it is gone."""
        return self.world.peek((pk, sk)) or {}
