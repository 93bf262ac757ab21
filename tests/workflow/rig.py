"""Workflows on the memory store, worked off by processes without pollers; time passes from one due mark to the next."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from dynadurable import App, AsyncJobContext, JobContext, Queue, RunHandle
from dynadurable.model.record import Record, unpack
from dynadurable.storage import journal, marks, runs
from dynadurable.storage.items import Run
from dynadurable.storage.marks import Candidate
from dynadurable.testing.clock import ManualClock
from dynadurable.testing.memory import MemoryClient, MemoryStore
from dynadurable.worker.attempt import Attempts
from dynadurable.workflow.body import WorkflowRunner
from dynadurable.workflow.kind_tasks import TaskKind
from dynadurable.workflow.kind_threads import ThreadKind
from tests.integration.stepping import LEASE, TABLE, Died, Fault, FaultyClient, Meter

MAX_ROUNDS = 1_000

Define = Callable[[App, "Rig"], None]


class Process:
    """An app, and a worker of it that does one thing after the other when it is told to."""

    def __init__(self, rig: Rig, fault: Fault | None = None, *, skew: timedelta = timedelta()) -> None:
        self.client, more = rig.connect(fault)
        self._clock = ManualClock(skew=skew, also=rig.clock)
        options = {"clock": self._clock, "queues": [Queue(name="default", shards=1)], "build": "v1", **more}
        self.app = App(TABLE, client=self.client, **options)
        rig.define(self.app, rig)
        self.engine = self.app.worker(concurrency=1, lease=LEASE).engine
        self.engine.dice = lambda: 0.5
        self._attempts = Attempts(self.engine, JobContext, WorkflowRunner(ThreadKind()))
        self._async_attempts = Attempts(self.engine, AsyncJobContext, WorkflowRunner(TaskKind()))

    def job(self, name: str) -> Any:
        job = self.app.registry.get(name)
        assert job is not None
        return job

    def work(self) -> list[str | None]:
        """Work off what is due now, in due order; the events that the attempts ended with."""
        events: list[str | None] = []
        for _ in range(MAX_ROUNDS):
            candidates = [one for one in self.marks() if self._is_claimable(one)]
            if not candidates:
                return events
            events.append(self.attempt(candidates[0]))
        raise AssertionError("there is no end to the work")

    def attempt(self, candidate: Candidate) -> str | None:
        """One attempt at a run: in this thread, or of an ``async def`` on an event loop."""
        if not self.job(candidate.job).is_async:
            return self.engine.driver.run(self._attempts.of(candidate))

        async def on_a_loop() -> str | None:
            driver = await self.engine.loop_driver()
            return await driver.see_through(self._async_attempts.of(candidate))

        return asyncio.run(on_a_loop())

    def marks(self) -> list[Candidate]:
        plan = marks.poll(self.app.items, queue="default", shard=0, limit=1000, until_ms=None)
        return list(self.engine.driver.run(plan).candidates)

    def close(self) -> None:
        self.engine.keeper.stop()

    def _is_claimable(self, one: Candidate) -> bool:
        now_ms = self._clock.now_ms()
        return one.due_ms <= now_ms and (one.lease_until_ms is None or one.lease_until_ms < now_ms)


@dataclass(kw_only=True)
class Rig:
    """One table, one clock, and what bodies have done: ``effects`` counts their calls by name."""

    define: Define
    store: MemoryStore = field(default_factory=lambda: MemoryStore(locked=True))
    clock: ManualClock = field(default_factory=ManualClock)
    effects: Counter[str] = field(default_factory=Counter)
    notes: dict[str, Any] = field(default_factory=dict)
    outside_world: Callable[[Rig], bool] | None = None
    """Does something whenever nothing is due; says whether it did."""
    processes: list[Process] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self.outside = self.process()
        self.outside.app.create_table()

    def connect(self, fault: Fault | None) -> tuple[FaultyClient, dict[str, Any]]:
        """The client of a process, and further options for its app."""
        return FaultyClient(MemoryClient(self.store), Meter(fault)), {}

    def process(
        self, fault: Fault | None = None, *, define: Define | None = None, skew: timedelta = timedelta()
    ) -> Process:
        """Another process; its clock is ``skew`` ahead of the rig's."""
        if define is not None:
            self.define = define
        made = Process(self, fault, skew=skew)
        self.processes.append(made)
        return made

    def note(self, name: str) -> int:
        """Count an effect; which one of that name it is, from 1."""
        with self._lock:
            self.effects[name] += 1
            return self.effects[name]

    def start(self, name: str, *args: Any, **kwargs: Any) -> RunHandle[Any]:
        run = self.outside.app.enqueue(self.outside.job(name), *args, **kwargs)
        self.notes["run_id"] = run.id
        return run

    def finish(self, process: Process | None = None, *, until: timedelta | None = None) -> None:
        """Work until nothing is pending, or until so much time has passed; a process that dies has a successor."""
        worker = process or self.process()
        end_ms = None if until is None else self.clock.now_ms() + until // timedelta(milliseconds=1)
        for _ in range(MAX_ROUNDS):
            try:
                worker.work()
            except Died:
                worker = self.process()
                continue
            if self.outside_world is not None and self.outside_world(self):
                continue
            next_ms = min((max(one.due_ms, (one.lease_until_ms or -1) + 1) for one in worker.marks()), default=None)
            if next_ms is None or (end_ms is not None and next_ms > end_ms):
                break
            self.clock.advance(timedelta(milliseconds=max(1, next_ms - self.clock.now_ms())))
        else:
            raise AssertionError(f"there is no end to it: {worker.marks()}")
        if end_ms is not None:
            self.clock.advance(timedelta(milliseconds=end_ms - self.clock.now_ms()))

    def close(self) -> None:
        for process in self.processes:
            process.close()

    # --- what is in the table ---------------------------------------------------------------------

    def run(self, run_id: str | None = None) -> Run:
        found = self.outside.engine.driver.run(runs.read(self.outside.app.items, run_id or self.notes["run_id"]))
        assert found is not None
        return found

    def result(self) -> Any:
        return self.outside.app.run(self.notes["run_id"]).result()

    def failure(self) -> Any:
        """The last failure of the dead run."""
        return self.outside.app.run(self.notes["run_id"]).info().failures[-1]

    def records(self, run_id: str | None = None) -> Sequence[Record]:
        run = self.run(run_id)
        return list(self.outside.engine.driver.run(journal.load(self.outside.app.items, run)).records)

    def told(self) -> list[str]:
        """The journal as text: what each record is of, and its phase."""
        return [f"{record.identity}: {('began', 'done', 'failed')[record.phase]}" for record in self.records()]

    def items(self) -> list[dict[str, Any]]:
        """Everything in the table."""
        return self.store.items(TABLE)

    def rows(self, kind: str) -> list[dict[str, Any]]:
        return [item for item in self.items() if item["pk"]["S"].startswith(f"{kind}#")]

    def put(self, name: str) -> None:
        """An item of the user's own, see ``test_commit.py``."""
        self.outside.client.put_item(TableName=TABLE, Item={"pk": {"S": "stock"}, "sk": {"S": name}})

    def tail(self) -> Sequence[Record]:
        return unpack(self.run().tail)


def stopped_everywhere(
    define: Define, start: Callable[[Rig], Any], *, limit: int = 200
) -> list[tuple[Fault | None, Rig]]:
    """The scenario undisturbed, and once for each write and each kind of loss."""
    calm = Rig(define=define)
    start(calm)
    process = calm.process()
    calm.finish(process)
    count = process.client.writes
    assert 0 < count <= limit, count
    found: list[tuple[Fault | None, Rig]] = [(None, calm)]
    for nth in range(1, count + 1):
        for applied in (False, True):
            for dies in (False, True):
                rig = Rig(define=define)
                start(rig)
                fault = Fault(nth=nth, applied=applied, dies=dies)
                rig.finish(rig.process(fault))
                found.append((fault, rig))
    return found
