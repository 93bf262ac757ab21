"""Who acts in a world: enqueuers, workers with their renewal, operators. All of them use the real plans."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from types import MappingProxyType
from typing import Any, cast

from dynadurable import Fail, Interrupted, Retry, Snooze
from dynadurable.errors import DynadurableError, KeyConflictError, LeaseLostError
from dynadurable.model import job as jobs
from dynadurable.model.job import Job
from dynadurable.model.queue import Queue
from dynadurable.model.registry import Registry
from dynadurable.operations import Operations
from dynadurable.storage import dead, operate, queues
from dynadurable.storage.call import Call, Pause
from dynadurable.storage.keys import keyed_run_id
from dynadurable.storage.schedules import SCHEDULE_JOB
from dynadurable.worker.attempt import Attempts, WorkflowBody
from dynadurable.worker.context import ContextBase
from dynadurable.worker.engine import Engine
from dynadurable.worker.held import LOST, Held
from dynadurable.worker.poller import Poller
from tests.simulation.checks import MAX_ATTEMPTS, Checker
from tests.simulation.search import AtOnce, Search
from tests.simulation.world import CALM, ActorClock, SeededIds, Steps, World

LEASE_SECONDS = 10.0
SHARDS = 2
KEYS = ("a", "b")
UNIQUE_FOR = (None, None, None, timedelta(seconds=25))
IDLE_MS = (200, 1_000, 3_000, 10_000)
KEEPER_MS = 1_500
STOPPING = 0.005
"""How often a worker is told to stop, each time that its keeper looks."""
DEEDS = ("cancel", "cancel", "cancel", "run now", "delay", "replay", "replay", "replay", "pause", "purge")
RETRY = Retry(max_attempts=MAX_ATTEMPTS, delay=timedelta(seconds=3), backoff=1.0, jitter=0.0)


class Context(ContextBase):
    """What a simulated body is given."""

    async def checkpoint(self, cursor: int) -> None:
        await self._checkpoint(cursor)

    @property
    def life(self) -> str:
        """Tells apart the lives of a key, and of a run that was brought back."""
        return self._life


class Bodies:
    """The job's function, with an outcome that the dice decide."""

    def __init__(self, world: World, checker: Checker) -> None:
        self._world, self._checker = world, checker

    async def __call__(self, ctx: Context, number: int) -> int:
        world, checker = self._world, self._checker
        checker.body_starts(ctx.run_id, ctx.life, ctx.fence, ctx.cursor)
        checker.attempt_used(ctx.run_id, ctx.life, ctx.attempt)
        world.note(ctx.run_id[-6:], f"body starts, attempt {ctx.attempt}, fence {ctx.fence}, cursor {ctx.cursor}")
        for step in range((ctx.cursor or 0) + 1, world.dice.randint(0, 3) + 1):
            await ctx.checkpoint(step)
            checker.checkpoint_recorded(ctx.run_id, ctx.life, ctx.fence, step)
            ctx.raise_if_stopping()
        await Pause(world.one_of((0.0, 0.0, 1.0, 4.0)), ctx.clock)
        outcome = world.dice.random() if world.weather.kill or world.dice.random() < 0.5 else 1.0
        if outcome < 0.25:
            raise ValueError("failed")
        if outcome < 0.35:
            raise Snooze(timedelta(seconds=2))
        if outcome < 0.5:
            raise Fail("for good")
        if outcome < 0.55:
            raise Interrupted("stopping")
        return number


class SimulatedKeeper:
    """Renews in place of the keeper's threads, as an actor of its own."""

    def __init__(self) -> None:
        self.kept: list[Held] = []

    def keep(self, held: Held) -> None:
        self.kept.append(held)

    def forget(self, held: Held) -> None: ...

    def stop(self) -> None: ...


class Cast:
    """Makes actors for one world."""

    checks: type[Checker] = Checker
    keep_result = timedelta(days=1)
    keep_failed: timedelta | None = None
    keyed = 0.6
    """How many enqueues have a key."""
    keys: Sequence[str] = KEYS
    weather: Mapping[str, Any] = MappingProxyType({})
    """Of what there is more in its worlds."""
    may_be_calm = False
    """Whether some of its worlds have no faults at all: what then is promised is more."""

    @staticmethod
    def surroundings() -> contextlib.AbstractContextManager[Any]:
        """What is set while such a cast plays."""
        return contextlib.nullcontext()

    def __init__(self, world: World) -> None:
        self.world = world
        self.checker = self.checks(world)
        self._bodies = Bodies(world, self.checker)
        body = self._bodies

        async def work(ctx: Context, number: int) -> int:
            return await body(ctx, number)

        self.plain = self._job(work, "plain", keep=False)
        self.kept = self._job(work, "kept", keep=True)
        self.registry = Registry()
        for job in (self.plain, self.kept):
            self.registry.add(job)

    def _job(self, function: Callable[..., Any], name: str, *, keep: bool) -> Job[Any, Any]:
        return jobs.define(
            function,
            name=name,
            queue="default",
            retry=RETRY,
            context_types=(ContextBase, Context),
            keep_result=self.keep_result if keep else None,
            keep_failed=self.keep_failed,
        )

    def processes(self) -> list[list[Steps]]:
        """Everybody who acts in this world, each with its threads."""
        dice = self.world.dice
        processes = [self.worker(f"worker-{n}", dice.randint(15, 40)) for n in range(3)]
        processes += [[self.enqueuer(f"caller-{n}")] for n in range(dice.randint(3, 9))]
        processes += [[self.operator(f"operator-{n}")] for n in range(dice.choice((0, 1, 3, 6)))]
        return processes

    def last_words(self) -> list[Steps]:
        """What is done when faults have stopped, so that everything can end: whoever has to try again does."""
        return [self.resumer("the resumer")]

    def afterwards(self) -> list[Steps]:
        """What is done when everything has ended: what was used is free to be used again."""
        return [self.again(key) for key in KEYS]

    def is_over(self) -> bool:
        """Whether nothing is left to be done."""
        return not self.checker.marks

    def operations(self, clock: ActorClock) -> Operations:
        made = Operations(self.world.items, clock, self.registry, [Queue(name="default", shards=SHARDS)], build=None)
        made.ids = SeededIds(self.world.dice)
        return made

    # --- enqueuers --------------------------------------------------------------------------------

    def enqueuer(self, name: str) -> Steps:
        """One request for work, in one of the ways there are."""
        world, dice = self.world, self.world.dice
        operations = self.operations(world.clock())
        yield from world.wait(dice.choice((0, 0, 5_000, 15_000, 60_000)))
        job: Any = self.some_job()
        if dice.random() < self.keyed:
            delay, unique_for = timedelta(seconds=dice.choice((0, 0, 4))), world.one_of(UNIQUE_FOR)
            job = job.using(key=dice.choice(self.keys), delay=delay, unique_for=unique_for)
        number = self.argument_of(job)
        try:
            if dice.random() < 0.25:
                run_id, elements = operations.transact_items(job, (number,), {})
                call = Call(
                    operation="TransactWriteItems",
                    params={"TransactItems": elements, "ClientRequestToken": operations.ids.make(0)},
                )
                yield from world.send(name, call)
            else:
                run_id = yield from world.drive(name, operations.enqueue(job, (number,), {}))
        except KeyConflictError:
            raise
        except DynadurableError as error:
            world.note(name, f"was not accepted: {error}")
            return
        world.note(name, f"accepted {run_id}")
        self.checker.told_accepted(run_id)

    def some_job(self) -> Job[Any, Any]:
        """What is enqueued next."""
        return self.world.one_of((self.plain, self.plain, self.kept))

    def argument_of(self, job: Job[Any, Any]) -> int:
        """Its argument: the same for all runs of a key, as these would not be the same otherwise."""
        return 1

    def again(self, key: str) -> Steps:
        """Use a key whose runs have all ended: that makes a new run."""
        world = self.world
        operations = self.operations(world.clock())
        job = self.kept.using(key=key)
        before = world.peek((f"run#{keyed_run_id(job.name, key)}", "run"))
        run_id = yield from world.drive("caller again", operations.enqueue(job, (self.argument_of(job),), {}))
        run = world.peek((f"run#{run_id}", "run"))
        if run is None or (before is not None and run["dd_gen"] == before["dd_gen"]):
            self.checker.fail(f"the key {key!r} did not come free: {before}")
        self.checker.told_accepted(run_id)

    # --- workers ----------------------------------------------------------------------------------

    def worker(self, name: str, rounds: int, *, patient: bool = True) -> list[Steps]:
        """A worker process: its loop and its renewal, which live and die together. Not ``patient``: idle, it ends."""
        engine, keeper = self.engine(name), SimulatedKeeper()
        engine.keeper = keeper  # type: ignore[assignment]
        poller = Poller(engine, [Queue(name="default", shards=SHARDS)], dice=self.world.dice)
        poller._extra_at = float("inf")  # nothing lies in further shards
        attempts = Attempts(engine, Context, self.workflow_body())
        search = Search(self.checker, name, engine, poller)
        working = self._working(name, attempts, keeper, search, rounds, patient=patient)
        return [working, self._renewing(name, engine, keeper), *self.helpers(name, engine)]

    def engine(self, name: str) -> Engine:
        """The parts of a worker."""
        world = self.world
        return Engine(
            items=world.items,
            driver=AtOnce(world, name),  # type: ignore[arg-type]  # for polls; other plans are stepped by the world
            clock=world.clock(),
            ids=SeededIds(world.dice),
            registry=self.registry,
            worker_id=name,
            loops=None,  # type: ignore[arg-type]
            lease_seconds=LEASE_SECONDS,
            dice=world.dice.random,
            shards_of=lambda _queue: SHARDS,
        )

    def helpers(self, name: str, engine: Engine) -> list[Steps]:
        """Further threads of a worker."""
        return []

    def workflow_body(self) -> WorkflowBody | None:
        """What runs workflows, in a cast that has them."""
        return None

    def _working(
        self, name: str, attempts: Attempts, keeper: SimulatedKeeper, search: Search, rounds: int, *, patient: bool
    ) -> Steps:
        world, engine = self.world, attempts.engine
        ids = cast("SeededIds", engine.ids)
        for _ in range(rounds):
            yield None
            if engine.stopping.is_set():
                return
            candidate = yield from search.step(always_poll=not patient)
            if candidate is None:
                if not patient:
                    return
                yield from world.wait(world.one_of(IDLE_MS))
                continue
            try:
                event = yield from world.drive(name, attempts.of(candidate))
            except DynadurableError as error:
                event = f"gave up: {error}"
            world.note(name, f"{candidate.run_id[-6:]}: {event}")
            if candidate.job != SCHEDULE_JOB:
                last = keeper.kept[-1] if event == "lost" and keeper.kept else None
                token = ids.last if last is None else str(last.mark.token)
                self.checker.attempt_ended(name, token, event, told_lost=last is not None and last.reason == LOST)

    def _renewing(self, name: str, engine: Engine, keeper: SimulatedKeeper) -> Steps:
        world = self.world
        while True:
            yield world.now_ms + KEEPER_MS
            if world.weather is not CALM and world.dice.random() < STOPPING:
                engine.stop_claiming()
            for held in [held for held in keeper.kept if not held.closed]:
                yield from self._renewed(name, engine, held)

    def _renewed(self, name: str, engine: Engine, held: Held) -> Steps:
        sent = engine.clock.monotonic()
        if sent >= held.deadline - 1:
            held.tell(LOST)
        if held.reason == LOST or sent < held.renew_at:
            return
        try:
            plan = held.renewal(self.world.items, lease_until_ms=engine.lease_until_ms())
            cancelled = yield from self.world.drive(f"{name}'s keeper", plan)
        except LeaseLostError:
            held.tell(LOST)
        except DynadurableError:
            return
        else:
            held.extended(sent=sent, cancelled=cancelled)

    # --- operators --------------------------------------------------------------------------------

    def operator(self, name: str) -> Steps:
        """Does something to some run, or to the queue."""
        world, dice = self.world, self.world.dice
        yield from world.wait(dice.choice((500, 2_000, 8_000, 30_000)))
        deed = dice.choice(DEEDS)
        if deed == "pause":
            yield from self._pause(name)
            return
        if deed == "purge":
            yield from self._purge(name)
            return
        known = sorted(self.checker.accepted)
        at_work = [run_id for run_id in self.checker.held_runs() if run_id in self.checker.accepted]
        if at_work and dice.random() < 0.6:
            known = at_work
        if not known:
            return
        run_id = dice.choice(known)
        world.note(name, f"{deed} {run_id}")
        try:
            yield from self._do(name, deed, run_id)
        except DynadurableError as error:
            world.note(name, f"could not: {error}")

    def _do(self, name: str, deed: str, run_id: str) -> Steps:
        world = self.world
        clock, ids = world.clock(), SeededIds(world.dice)
        match deed:
            case "cancel":
                done = yield from world.drive(name, operate.cancel(world.items, run_id, clock=clock, ids=ids))
                if done.outcome == operate.ASKED:
                    self.checker.told_cancelling(run_id, done.found.mark.generation)
            case "run now" | "delay":
                due_ms = None if deed == "run now" else clock.now_ms() + 5_000
                plan = operate.reschedule(world.items, run_id, due_ms=due_ms, clock=clock, ids=ids)
                yield from world.drive(name, plan)
            case "replay":
                revival = dead.Revival(generation=ids.make(clock.now_ms()), due_ms=clock.now_ms())
                yield from world.drive(name, dead.replay(world.items, run_id, None, revival))

    def _pause(self, name: str) -> Steps:
        """No worker begins anything for a while."""
        world, clock = self.world, self.world.clock()
        with contextlib.suppress(DynadurableError):
            yield from world.drive(name, queues.pause(world.items, "default", now_ms=clock.now_ms(), reason=None))
            world.note(name, "paused the queue")
            yield from world.wait(world.one_of((2_000, 20_000)))
            yield from world.drive(name, queues.resume(world.items, "default"))
            world.note(name, "resumed the queue")

    def resumer(self, name: str) -> Steps:
        """Whoever paused the queue may have died since."""
        yield from self.world.drive(name, queues.resume(self.world.items, "default"))

    def _purge(self, name: str) -> Steps:
        """Forgets a dead run."""
        world = self.world
        letters = [item for item in world.all_items() if item["pk"]["S"].startswith("dead#")]
        if not letters:
            return
        letter = world.items.dead_letter.from_raw_data(dict(world.one_of(letters)))
        world.note(name, f"purge {letter.sk}")
        with contextlib.suppress(DynadurableError):
            yield from world.drive(name, dead.purge(world.items, letter))
