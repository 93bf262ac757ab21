"""What an app can do, each thing once, as a plan; ``app.py`` and ``aio.py`` step them."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from .clock import Clock, UniqueIds
from .drivers.boto3 import Boto3Driver
from .drivers.loops import LoopDrivers
from .errors import ConfigurationError, DynadurableError, KeyConflictError, StoreError
from .model import codec, instant
from .model.job import Job
from .model.queue import DEFAULT_SHARDS, Queue
from .model.registry import Registry
from .model.retention import to_seconds
from .storage import births, marks, requests, runs, table
from .storage import queues as stored_queues
from .storage.births import Birth, Newborn
from .storage.call import Pause
from .storage.items import Items
from .storage.keys import check_name
from .worker.crew import Parts, WorkerSettings, make_worker
from .worker.lane import Lane
from .worker.loop_lane import LoopLane
from .worker.worker import Worker

CREATE_TABLE_SECONDS = 60.0
MAX_INPUT_BYTES = 300_000
INLINE_INPUT_BYTES = 4_096
"""A larger input goes into a run item: each write of a mark is billed by the mark's whole size."""


class Operations:
    """The plans behind the methods of ``App``."""

    def __init__(
        self, items: Items, clock: Clock, registry: Registry, queues: Sequence[Queue], *, build: str | None
    ) -> None:
        self.items = items
        self.clock = clock
        self.ids = UniqueIds()
        self.registry = registry
        self.build = build
        self._queues = {queue.name: queue for queue in queues}
        self.workers: list[Worker] = []
        self._births = (0, 0)

    def queue(self, name: str) -> Queue:
        """The queue of that name, as declared or with the default number of shards."""
        return self._queues.get(name) or Queue(name=check_name("a queue's name", name), shards=DEFAULT_SHARDS)

    def declared_queues(self) -> list[Queue]:
        """The queues that were given to the app."""
        return list(self._queues.values())

    def known_queues(self) -> list[str]:
        """The queues that were declared here or that a job defined here goes to."""
        return sorted({*self._queues, *self._queues_of_jobs()})

    def _queues_of_jobs(self) -> list[str]:
        """The queues that the jobs and schedules defined here go to."""
        jobs, schedules = self.registry.jobs(), self.registry.schedules.values()
        return sorted({*(job.queue for job in jobs), *(schedule.queue for schedule in schedules)})

    # --- enqueue ----------------------------------------------------------------------------------

    async def enqueue(self, job: Job[Any, Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """Accept a run: when this returns, it will happen. Gives the run's id."""
        birth, born = self.born(job, args, kwargs)
        worker, lane = await self._eager(job, birth)
        sent = self.clock.monotonic()
        try:
            if worker is not None:
                self._claim_at_birth(born, worker)
            created = await self._start(birth, born, sent)
        except BaseException as error:
            if worker is not None and lane is not None:
                refused = isinstance(error, (ConfigurationError, KeyConflictError))
                worker.give_up(lane, None if refused else born.mark)
            raise
        if worker is not None and lane is not None:
            if created:
                worker.begin(lane, born.mark, born.run, run_id=born.run_id, sent=sent)
                return born.run_id
            lane.cancel_reservation()
        if birth.due_ms <= birth.now_ms:
            self.wake()
        return born.run_id

    async def _start(self, birth: Birth, born: Newborn, sent: float) -> bool:
        if born.run is None:
            await marks.place(self.items, born.mark)
            return True
        started = await runs.start(
            self.items,
            born.run,
            born.mark,
            run_id=born.run_id,
            now_ms=birth.now_ms,
            elapsed_ms=lambda: round((self.clock.monotonic() - sent) * 1000),
            page=born.page,
        )
        return started.created

    def transact_items(
        self, job: Job[Any, Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[str, list[dict[str, Any]]]:
        """The run's id, and its elements for the caller's own ``transact_write_items``."""
        birth, born = self.born(job, args, kwargs)
        model = self.items.mark
        calls = [requests.put(born.mark, model.pk.does_not_exist())]
        if born.page is not None:
            calls.append(requests.put(born.page))
        if born.run is not None:
            calls.append(requests.put(born.run, runs.startable(self.items, born.run, birth.now_ms)))
        return born.run_id, [requests.transact_element(call) for call in calls]

    def transact_models(
        self, job: Job[Any, Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[str, list[tuple[Any, Any]]]:
        """The same as PynamoDB models with their conditions."""
        birth, born = self.born(job, args, kwargs)
        pairs: list[tuple[Any, Any]] = [(born.mark, self.items.mark.pk.does_not_exist())]
        if born.page is not None:
            pairs.append((born.page, None))
        if born.run is not None:
            pairs.append((born.run, runs.startable(self.items, born.run, birth.now_ms)))
        return born.run_id, pairs

    # --- local workers ----------------------------------------------------------------------------

    def hire(
        self, queues: Sequence[str] | None, settings: WorkerSettings, driver: Boto3Driver, loops: LoopDrivers
    ) -> tuple[Worker, LoopLane]:
        """A worker for these queues, or for those of all jobs; and its lane for ``async def`` bodies."""
        names = list(queues) if queues is not None else self._queues_of_jobs()
        if not names:
            raise ConfigurationError("there is nothing to work on: define a job with @app.job, or name queues=")
        parts = Parts(
            items=self.items,
            driver=driver,
            loops=loops,
            clock=self.clock,
            ids=self.ids,
            registry=self.registry,
            build=self.build,
            shards_of=lambda name: self.queue(name).shards,
        )
        worker, lane = make_worker(parts, [self.queue(name) for name in names], settings)
        self.workers = [other for other in self.workers if not other.is_over]  # each drain makes one
        self.workers.append(worker)
        return worker, lane

    def wake(self) -> None:
        """Workers in this process look at once."""
        for worker in self.workers:
            worker.wake()

    async def _eager(self, job: Job[Any, Any], birth: Birth) -> tuple[Worker | None, Lane | None]:
        """A worker in this process that may begin at once, with a slot reserved for it."""
        if birth.due_ms > birth.now_ms:
            return None, None
        for worker in self.workers:
            lane = worker.reserve(job=job.name, queue=birth.queue)
            if lane is None:
                continue
            if worker.knows_pause(birth.queue) or not await self._is_paused(worker, lane, birth.queue):
                return worker, lane
            lane.cancel_reservation()
        return None, None

    async def _is_paused(self, worker: Worker, lane: Lane, queue: str) -> bool:
        """Read it, where the worker has not looked for a while: an idle one looks every 20 seconds."""
        try:
            paused = await stored_queues.is_paused(self.items, queue)
        except StoreError:
            return True  # as good as: the usual way is tried, and tells what is wrong
        except BaseException:
            lane.cancel_reservation()
            raise
        worker.learn_pause(queue, paused=paused)
        return paused

    def _claim_at_birth(self, born: Newborn, worker: Worker) -> None:
        """Eager start: the write that marks the run claims it too."""
        engine, mark = worker.engine, born.mark
        mark.token = self.ids.make(self.clock.now_ms())
        mark.fence = int(mark.fence) + 1
        mark.attempt = int(mark.attempt) + 1
        mark.lease_until_ms = engine.lease_until_ms()
        mark.worker = engine.worker_id

    # --- the table --------------------------------------------------------------------------------

    async def create_table(self) -> bool:
        """Create the table, and wait until it can be used; false if it was there already."""
        created = await table.create(self.items)
        end = self.clock.monotonic() + CREATE_TABLE_SECONDS
        while not await table.is_active(self.items):
            if self.clock.monotonic() > end:
                name = self.items.schema.table
                raise DynadurableError(f"table {name!r} did not become active in {CREATE_TABLE_SECONDS} s")
            await Pause(0.2, self.clock)
        await table.switch_ttl_on(self.items)
        return created

    async def check_table(self) -> None:
        """Raises what is wrong with the table, or with the permissions on it."""
        await table.check(self.items)

    # --- making runs ------------------------------------------------------------------------------

    def born(self, job: Job[Any, Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Birth, Newborn]:
        """The items of a new run, checked and complete; nothing is written.

        Raises:
            InputRefusedError: arguments, key or due time that cannot be used.
        """
        if not isinstance(job, Job):
            raise ConfigurationError(f"enqueue takes a job, made with @app.job, not {job!r}")
        payload = job.to_payload(args, kwargs)
        codec.check_size(payload, f"the arguments of {job.name}", MAX_INPUT_BYTES)
        birth = self._birth(job, payload)
        needs_run = (
            job.is_workflow or birth.key is not None or job.keep_result is not None or len(payload) > INLINE_INPUT_BYTES
        )
        return birth, births.newborn(self.items, birth, needs_run=needs_run)

    def _count_births(self, now_ms: int) -> int:
        """How many keyed runs were born here in this very millisecond; a lost race only makes two fences equal."""
        last_ms, count = self._births
        self._births = (now_ms, count + 1 if last_ms == now_ms else 0)
        return self._births[1]

    def _birth(self, job: Job[Any, Any], payload: bytes) -> Birth:
        options = job.options
        now_ms = self.clock.now_ms()
        queue = self.queue(job.queue if options.queue is None else options.queue)
        unique = self.ids.make(now_ms)
        keyed = options.key is not None
        spread = options.key if options.key is not None else unique
        return Birth(
            job=job.name,
            queue=queue.name,
            shard=zlib.crc32(spread.encode("utf-8", "surrogatepass")) % queue.shards,
            due_ms=instant.due_ms(now_ms, delay=options.delay, at=options.at),
            now_ms=now_ms,
            unique=unique,
            fence=births.first_fence(now_ms, self._count_births(now_ms)) if keyed else 0,
            input=payload,
            digest=job.digest(payload) if keyed else None,
            key=options.key,
            unique_until_ms=None if options.unique_for is None else now_ms + options.unique_for // _MILLISECOND,
            keep_seconds=to_seconds(job.keep_result),
            history_seconds=to_seconds(job.keep_history),
            build=self.build,
            workflow=job.is_workflow,
        )


_MILLISECOND = timedelta(milliseconds=1)
