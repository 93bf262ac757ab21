"""Clocks that are minutes off cost latency and never correctness: checked from the table's own history.

Holders with clocks from five minutes slow to five minutes fast contend for a named lease, and for a run. A fast one
takes over what has not lapsed (a thief), a slow one holds on to what has (and a stalled one does not notice). Whatever
they do, each fence has one owner, writes never go back to an earlier fence, and no step is recorded twice.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from dynadurable import App
from dynadurable.errors import LeaseLostError
from dynadurable.lease import Lease
from dynadurable.model import codec
from dynadurable.storage import marks
from dynadurable.storage.items import Mark
from dynadurable.testing.clock import ManualClock
from dynadurable.testing.memory import MemoryClient, MemoryStore

SKEWS = [timedelta(minutes=minutes) for minutes in (-5, -1, 0, 1, 5)]
TTL = timedelta(seconds=30)
TIMELINE = {"pk": {"S": "timeline"}, "sk": {"S": "timeline"}}


@dataclass
class History:
    """The writes that the table has taken, in order: who, under which fence."""

    client: MemoryClient = field(default_factory=lambda: MemoryClient(MemoryStore(locked=True)))
    writes: list[tuple[int, str]] = field(default_factory=list)

    def put_guarded(self, lease: Lease, owner: str) -> bool:
        """The user's write, under the lease's condition; whether the table has taken it."""
        item = {**TIMELINE, "fence": {"N": str(lease.fence)}, "owner": {"S": owner}}
        put = {"Put": {"TableName": "table", "Item": item}}
        try:
            self.client.transact_write_items(TransactItems=[lease.condition_check(), put])
        except ClientError:
            return False
        self.writes.append((lease.fence, owner))
        return True

    def check(self) -> None:
        owners: dict[int, set[str]] = {}
        for fence, owner in self.writes:
            owners.setdefault(fence, set()).add(owner)
        assert all(len(those) == 1 for those in owners.values()), f"two holders wrote under one fence: {owners}"
        fences = [fence for fence, _ in self.writes]
        assert fences == sorted(fences), f"a write under an earlier fence landed: {fences}"


@dataclass
class Contender:
    """One process with a clock of its own. Nobody renews for it but the test: it may stall."""

    name: str
    app: App
    lease: Lease

    def renew(self) -> None:
        tenure, clock = self.lease._tenure, self.app.clock
        if tenure is None:
            return
        sent = clock.monotonic()
        plan = tenure.renewal(self.app.items, lease_until_ms=clock.latest_ms() + round(TTL.total_seconds() * 1000))
        try:
            self.app.driver.run(plan)
        except LeaseLostError:
            self.lease._end()
        else:
            tenure.extended(sent=sent)


@pytest.fixture
def history() -> History:
    return History()


def contender(history: History, clock: ManualClock, skew: timedelta, number: int) -> Contender:
    app = App("table", client=history.client, clock=ManualClock(skew=skew, also=clock))
    app.lease_parts.keeper.stop()
    name = f"{number}:{skew.total_seconds():+.0f}s"
    return Contender(name=name, app=app, lease=app.lease("refresher", ttl=TTL))


@pytest.mark.parametrize("seed", range(40))
def test_no_two_holders_of_a_lease_write_under_the_same_fence(history: History, seed: int) -> None:
    dice, clock = random.Random(seed), ManualClock()
    App("table", client=history.client, clock=clock).create_table()
    crowd = [contender(history, clock, skew, number) for number, skew in enumerate(SKEWS)]
    for _ in range(300):
        one = dice.choice(crowd)
        match dice.choice(["acquire", "write", "write", "renew", "release", "pass", "stall"]):
            case "acquire" if one.lease._tenure is None:
                one.lease.try_acquire()
            case "write" if one.lease._last is not None:
                history.put_guarded(one.lease, one.name)  # also of one that was overtaken and does not know
            case "renew":
                one.renew()
            case "release" if dice.random() < 0.3:
                one.lease.release()
            case "pass":
                clock.advance(timedelta(seconds=dice.choice([1, 5, 11, 31])))
            case "stall" if dice.random() < 0.2:
                clock.advance(timedelta(minutes=dice.choice([1, 5, 6])))
    history.check()
    assert len({fence for fence, _ in history.writes}) >= 3


def test_a_fast_thief_takes_a_lease_that_stands_and_its_holder_s_writes_are_refused(history: History) -> None:
    clock = ManualClock()
    App("table", client=history.client, clock=clock).create_table()
    holder = contender(history, clock, timedelta(), 0)
    thief = contender(history, clock, timedelta(minutes=5), 1)
    assert holder.lease.try_acquire()
    assert history.put_guarded(holder.lease, "holder")
    assert thief.lease.try_acquire()
    assert history.put_guarded(thief.lease, "thief")
    assert holder.lease.is_valid()  # by its own clock: that is the overlap which leases alone leave open
    assert not history.put_guarded(holder.lease, "holder")
    holder.renew()
    assert not holder.lease.is_valid()
    assert history.put_guarded(thief.lease, "thief")
    history.check()


def test_a_slow_holder_counts_its_lease_as_long_as_it_is_and_no_longer(history: History) -> None:
    """Its deadline is monotonic; what others see of its lease is five minutes short."""
    clock = ManualClock()
    App("table", client=history.client, clock=clock).create_table()
    slow = contender(history, clock, timedelta(minutes=-5), 0)
    right = contender(history, clock, timedelta(), 1)
    assert right.lease.try_acquire()
    assert not slow.lease.try_acquire()
    clock.advance(TTL + timedelta(seconds=1))
    assert not slow.lease.try_acquire()  # latency: for the slow one the lease has five minutes to go
    clock.advance(timedelta(minutes=5))
    assert slow.lease.try_acquire()
    clock.advance(TTL - timedelta(seconds=1))
    assert slow.lease.is_valid()
    clock.advance(timedelta(seconds=1))
    assert not slow.lease.is_valid()
    history.put_guarded(slow.lease, "slow")
    history.check()


# --- claims of runs -------------------------------------------------------------------------------


@dataclass
class SkewedWorker:
    """A worker that makes single moves: claim, checkpoint, renew, finish. It may stall in between."""

    app: App
    name: str
    held: Mark | None = None
    step: int = 0

    def claim(self) -> None:
        clock = self.app.clock
        for shard in range(4):
            page = self.app.driver.run(
                marks.poll(self.app.items, queue="default", shard=shard, limit=4, until_ms=clock.now_ms())
            )
            for seen in page.candidates:
                self.held = self.app.driver.run(
                    marks.claim(
                        self.app.items,
                        pk=seen.pk,
                        sk=seen.sk,
                        token=self.app.operations.ids.make(clock.now_ms()),
                        now_ms=clock.earliest_ms(),
                        lease_until_ms=clock.latest_ms() + 30_000,
                        worker=self.name,
                    )
                )
                if self.held is not None:
                    self.step = 0 if self.held.cursor is None else int(codec.decode(self.held.cursor))

    def checkpoint(self) -> tuple[int, int] | None:
        """Fence and step, if the table has taken it."""
        assert self.held is not None
        until_ms = self.app.clock.latest_ms() + 30_000
        cursor = codec.encode(self.step + 1, path="cursor")
        try:
            self.app.driver.run(marks.checkpoint(self.app.items, self.held, cursor=cursor, lease_until_ms=until_ms))
        except LeaseLostError:
            self.held = None
            return None
        self.step += 1
        return int(self.held.fence), self.step

    def finish(self) -> bool:
        assert self.held is not None
        held, self.held = self.held, None
        try:
            self.app.driver.run(marks.finish(self.app.items, held))
        except LeaseLostError:
            return False
        return True


@pytest.mark.parametrize("seed", range(40))
def test_no_step_of_a_run_is_recorded_twice_and_it_ends_once(seed: int) -> None:
    dice, clock, client = random.Random(seed), ManualClock(), MemoryClient(MemoryStore())
    home = App("table", client=client, clock=clock)
    home.create_table()

    @home.job
    def work() -> None: ...

    home.enqueue(work)
    clock.advance(timedelta(minutes=6))  # due for the slowest, too
    crowd = [
        SkewedWorker(App("table", client=client, clock=ManualClock(skew=skew, also=clock)), f"w{number}")
        for number, skew in enumerate(SKEWS)
    ]
    recorded: list[tuple[int, int]] = []
    ends = 0
    for _ in range(400):
        one = dice.choice(crowd)
        if one.held is None:
            one.claim()
        elif one.step >= 12:
            ends += one.finish()
        elif (written := one.checkpoint()) is not None:
            recorded.append(written)
        if dice.random() < 0.1:
            clock.advance(timedelta(seconds=dice.choice([5, 31, 100, 301])))
    assert ends == 1
    assert [step for _, step in recorded] == list(range(1, 13)), "each step has one record, in order"
    fences = [fence for fence, _ in recorded]
    assert fences == sorted(fences)
    assert items_left(client) == []


def items_left(client: MemoryClient) -> list[dict[str, Any]]:
    left: list[dict[str, Any]] = client.scan(TableName="table")["Items"]
    return left
