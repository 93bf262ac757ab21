"""Workflows among workers whose clocks are minutes off: no step has two records, and fences only grow.

A fast clock takes over what has not lapsed, a slow one holds on to what has, and a worker may be frozen in the middle
of a step. All of that costs attempts. What is recorded stands, and what is done in a transaction is done once.
"""

from __future__ import annotations

import contextlib
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from dynadurable import App, Retry
from dynadurable.model.record import BEGAN, Record
from dynadurable.testing.memory import MemoryClient
from dynadurable.workflow.context import WorkflowContext
from tests.integration.stepping import Fault, FaultyClient, Meter
from tests.workflow.rig import Process, Rig
from tests.workflow.test_commit import add, held

DAY, MINUTE = timedelta(days=1), timedelta(minutes=1)
SKEWS = [timedelta(minutes=minutes) for minutes in (-5, -1, 0, 1, 5)]
ROUNDS = 500
DEPTH = 3


class Left(BaseException):
    """Whoever took over leaves again, in the middle: what it has recorded stays, and the mark is where it was."""


class WatchingClient(MemoryClient):
    """Notes the run's fence, and what its journal says, after each write that is taken."""

    def __init__(self, rig: SkewedRig) -> None:
        super().__init__(rig.store)
        self._rig = rig

    def update_item(self, **params: Any) -> dict[str, Any]:
        reply = super().update_item(**params)
        self._rig.look()
        return reply


@dataclass(kw_only=True)
class SkewedRig(Rig):
    """A rig whose workers come in each other's way as the dice say."""

    dice: random.Random
    workers: list[Process] = field(default_factory=list)
    fences: list[int] = field(default_factory=list)
    takeovers: int = 0
    depth: int = 0

    def connect(self, fault: Fault | None) -> tuple[FaultyClient, dict[str, Any]]:
        return FaultyClient(WatchingClient(self), Meter(fault)), {}

    def look(self) -> None:
        for row in self.rows("run"):
            if row["sk"]["S"] == "run":
                self.fences.append(int(row["dd_fence"]["N"]))

    def interfere(self) -> None:
        """In the middle of a step: time passes, or somebody else looks for work."""
        if self.depth >= DEPTH:
            return
        self.depth += 1
        try:
            if self.dice.random() < 0.3:
                self.clock.advance(timedelta(seconds=self.dice.choice((10, 29, 31, 100))))
            if self.dice.random() < 0.8:
                before = len(self.fences)
                with contextlib.suppress(Left):
                    self.dice.choice(self.workers).work()
                self.takeovers += len(self.fences) > before
            if self.depth > 1 and self.dice.random() < 0.3:
                raise Left
        finally:
            self.depth -= 1


def define(app: App, rig: Rig) -> None:
    assert isinstance(rig, SkewedRig)

    def act(name: str) -> str:
        number = rig.note(name)
        rig.interfere()
        return f"{name} {number}"

    def branch(ctx: WorkflowContext, n: int) -> Any:
        first = ctx.step(act, f"first {n}", name="first")
        ctx.sleep(n * MINUTE)
        return first, ctx.step(act, f"second {n}", name="second")

    @app.workflow(keep_result=DAY, retry=Retry(max_attempts=1_000, delay=timedelta(seconds=1)))
    def flow(ctx: WorkflowContext) -> Any:
        seen = [ctx.step(act, "a"), ctx.step(act, "b")]
        ctx.commit(add("shoes"))
        ctx.sleep(2 * MINUTE)
        seen += ctx.map(branch, [1, 2], max_concurrency=1)
        late = ctx.wait_event("never", timeout=3 * MINUTE, default="late")
        return [*seen, late, ctx.step(act, "c")]


def played(seed: int) -> SkewedRig:
    rig = SkewedRig(define=define, dice=random.Random(seed))
    rig.workers = [rig.process(skew=skew) for skew in SKEWS]
    rig.start("flow")
    for _ in range(ROUNDS):
        rig.dice.choice(rig.workers).work()
        if not rig.outside.marks():
            return rig
        rig.clock.advance(timedelta(seconds=rig.dice.choice((1, 20, 60, 200))))
    raise AssertionError(f"seed {seed} has no end: {rig.outside.marks()}")


def check(rig: SkewedRig, records: Sequence[Record]) -> None:
    ends = Counter(record.identity for record in records if record.phase != BEGAN)
    assert max(ends.values()) == 1, f"a step has two records: {ends}"
    assert rig.fences == sorted(rig.fences), "a fence went back"
    assert held(rig, "shoes") == 1
    a, b, *branches, late, c = rig.result()
    assert (a[:2], b[:2], c[:2], late) == ("a ", "b ", "c ", "late")
    assert [(first[:7], second[:8]) for first, second in branches] == [("first 1", "second 1"), ("first 2", "second 2")]
    recorded = [record.value for record in records if record.identity.kind == "step"]
    assert len(recorded) == len(set(recorded)) == 7


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_no_step_has_two_records_and_fences_grow(first: int) -> None:
    takeovers = repeated = 0
    for seed in range(first, first + 20):
        rig = played(seed)
        check(rig, rig.records())
        takeovers += rig.takeovers
        repeated += sum(count - 1 for count in rig.effects.values())
        rig.close()
    assert takeovers > 10, "they hardly met"
    assert repeated, "what was in flight is done again: else nothing was taken over"
