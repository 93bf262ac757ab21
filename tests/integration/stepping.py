"""Processes that stop after any of their writes: workers and operators without threads, on the memory store.

A ``World`` is a table and a clock. Each ``Process`` in it is an app of its own, whose client can be told to fail at one
of its writes: the process dies there, or it lives and its driver tries again; the write was lost, or it was applied and
only the reply was lost.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, NoReturn

from botocore.exceptions import ReadTimeoutError

from dynadurable import App, JobContext, Queue
from dynadurable.storage import marks
from dynadurable.testing.clock import ManualClock
from dynadurable.testing.memory import MemoryClient, MemoryStore
from dynadurable.worker.attempt import Attempts

TABLE = "shop"
LEASE = timedelta(seconds=30)
WRITES = frozenset({"put_item", "update_item", "delete_item", "transact_write_items", "batch_write_item"})


class Died(BaseException):
    """The process was killed: nothing that it does after that reaches the table."""


@dataclass(frozen=True)
class Fault:
    """What happens at the ``nth`` write of a process."""

    nth: int
    applied: bool
    dies: bool

    def __str__(self) -> str:
        what = "applied and the reply lost" if self.applied else "lost"
        return f"write {self.nth} {what}, the process {'dies' if self.dies else 'goes on'}"


class Meter:
    """Counts the writes of a process, and says at which of them it fails. All of its clients have the same."""

    def __init__(self, fault: Fault | None) -> None:
        self._fault = fault
        self.lock = threading.Lock()
        self.is_dead = False
        self.writes = 0
        self.fault_met = False

    def met(self, name: str) -> Fault | None:
        """The fault that this request meets. Raises ``Died`` if the process is dead already."""
        if self.is_dead:
            raise Died
        self.writes += name in WRITES
        if self._fault is None or self._fault.nth != self.writes or self.fault_met or name not in WRITES:
            return None
        self.fault_met = True
        return self._fault

    def fail(self, fault: Fault) -> NoReturn:
        self.is_dead = fault.dies
        raise Died if fault.dies else ReadTimeoutError(endpoint_url="memory://")


class FaultyClient:
    """A client that fails at one of its writes; of several threads one writes at a time."""

    def __init__(self, client: Any, meter: Meter) -> None:
        self.inner = client
        self._meter = meter
        self.meta = client.meta

    @property
    def writes(self) -> int:
        return self._meter.writes

    @property
    def fault_met(self) -> bool:
        return self._meter.fault_met

    def __getattr__(self, name: str) -> Any:
        if name not in WRITES and not self._meter.is_dead:
            return getattr(self.inner, name)
        return lambda **params: self._write(name, params)

    def _write(self, name: str, params: dict[str, Any]) -> Any:
        with self._meter.lock:
            fault = self._meter.met(name)
            if fault is None:
                return getattr(self.inner, name)(**params)
            if fault.applied:
                getattr(self.inner, name)(**params)  # raises what the store raises: that reply is lost too
            return self._meter.fail(fault)


class Process:
    """An app, and a worker of it that does one thing after the other when it is told to."""

    def __init__(self, world: World, fault: Fault | None = None) -> None:
        self.client = FaultyClient(MemoryClient(world.store), Meter(fault))
        self.app = App(
            TABLE, client=self.client, clock=world.clock, queues=[Queue(name="default", shards=1)], build=world.build
        )
        world.define(self.app, world)
        self._clock = world.clock
        self.engine = self.app.worker(concurrency=1, lease=LEASE).engine
        self._attempts = Attempts(self.engine, JobContext)

    def job(self, name: str) -> Any:
        job = self.app.registry.get(name)
        assert job is not None
        return job

    def work(self) -> None:
        """Work off what is due now, in due order, until there is nothing that could be claimed."""
        for _ in range(50):
            candidates = self._claimable()
            if not candidates:
                return
            for candidate in candidates:
                self.engine.driver.run(self._attempts.of(candidate))
        raise AssertionError("there is no end to the work")

    def close(self) -> None:
        self.engine.keeper.stop()

    def _claimable(self) -> list[marks.Candidate]:
        now_ms = self._clock.now_ms()
        plan = marks.poll(self.app.items, queue="default", shard=0, limit=100, until_ms=now_ms)
        page = self.engine.driver.run(plan)
        return [one for one in page.candidates if one.lease_until_ms is None or one.lease_until_ms < now_ms]


Define = Callable[[App, "World"], None]


@dataclass(kw_only=True)
class World:
    """One table, one clock, and what bodies have done."""

    define: Define
    store: MemoryStore = field(default_factory=MemoryStore)
    clock: ManualClock = field(default_factory=ManualClock)
    effects: list[str] = field(default_factory=list)
    notes: dict[str, Any] = field(default_factory=dict)
    build: str | None = "v1"
    processes: list[Process] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.process().app.create_table()

    def process(self, fault: Fault | None = None) -> Process:
        made = Process(self, fault)
        self.processes.append(made)
        return made

    def recover(self) -> None:
        """Fresh workers, until leases, retries and grace times are all over and nothing is left to do.

        Last of all, after a year, a mark comes due that its run has not named for long.
        """
        for _ in range(5):
            worker = self.process()
            for _ in range(4):
                worker.work()
                self.clock.advance(LEASE + timedelta(seconds=1))
            self.clock.advance(timedelta(minutes=10))
            if not self.marks():
                return
        self.clock.advance(timedelta(days=366))
        self.process().work()
        if not self.marks():
            return
        raise AssertionError(f"these marks never go: {self.marks()}")

    def close(self) -> None:
        for process in self.processes:
            process.close()

    # --- what is in the table ---------------------------------------------------------------------

    def items(self, kind: str) -> list[dict[str, Any]]:
        return [item for item in self.store.items(TABLE) if item["pk"]["S"].startswith(f"{kind}#")]

    def marks(self) -> list[dict[str, Any]]:
        return self.items("queue")

    def end_state(self) -> dict[str, Any]:
        """What counts in the end: how runs ended, with what result, which dead letters there are, what was done.

        As sets: a plain run that is enqueued again by a caller who did not hear may be there twice. What a plain run
        that has succeeded leaves behind does not count, for it may also leave nothing.
        """
        pages = {
            (item["pk"]["S"], item["sk"]["S"]): item["dd_body"]["B"] for item in self.items("run") if "dd_body" in item
        }
        runs = {
            (
                item["dd_job"]["S"],
                item["dd_state"]["S"],
                item["dd_input"]["B"],
                pages[item["pk"]["S"], item["dd_rpage"]["S"]]
                if "dd_rpage" in item
                else item.get("dd_result", {}).get("B"),
            )
            for item in self.items("run")
            if item["sk"]["S"] == "run"
            and ("dd_key" in item or "dd_keep" in item or item["dd_state"]["S"] != "succeeded")
        }
        return {
            "runs": sorted(runs, key=str),
            "letters": [(item["dd_job"]["S"], item["dd_print"]["S"]) for item in self.items("dead")],
            "marks": len(self.marks()),
            "effects": sorted(set(self.effects)),
        }
