"""Who acts in a world: enqueuers, workers with their renewal, operators. All of them use the real plans."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from dynadurable import Fail, Interrupted, Retry, Snooze
from dynadurable.errors import DynadurableError, KeyConflictError, LeaseLostError
from dynadurable.model import job as jobs
from dynadurable.model.job import Job
from dynadurable.model.queue import Queue
from dynadurable.model.registry import Registry
from dynadurable.operations import Operations
from dynadurable.storage import dead, marks, operate
from dynadurable.storage.call import Call, Pause
from dynadurable.storage.marks import Candidate
from dynadurable.worker.attempt import Attempts
from dynadurable.worker.context import ContextBase
from dynadurable.worker.engine import Engine
from dynadurable.worker.held import LOST, Held
from tests.simulation.checks import MAX_ATTEMPTS, Checker
from tests.simulation.world import ActorClock, SeededIds, Steps, World

LEASE_SECONDS = 10.0
SHARDS = 2
KEYS = ("a", "b")
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
        await Pause(world.dice.choice((0.0, 0.0, 1.0, 4.0)), ctx.clock)
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

    def others(self) -> list[list[Steps]]:
        """Further processes that act in this world."""
        return []

    def operations(self, clock: ActorClock) -> Operations:
        made = Operations(self.world.items, clock, self.registry, [Queue(name="default", shards=SHARDS)], build=None)
        made.ids = SeededIds(self.world.dice)
        return made

    # --- enqueuers --------------------------------------------------------------------------------

    def enqueuer(self, name: str) -> Steps:
        """One request for work, in one of the ways there are."""
        world, dice = self.world, self.world.dice
        operations = self.operations(world.clock())
        yield from world.wait(dice.choice((0, 0, 5_000, 15_000, 700_000)))
        job: Any = dice.choice((self.plain, self.plain, self.kept))
        if dice.random() < 0.6:
            job = job.using(key=dice.choice(KEYS), delay=timedelta(seconds=dice.choice((0, 0, 4))))
        try:
            if dice.random() < 0.25:
                run_id, elements = operations.transact_items(job, (1,), {})
                call = Call(
                    operation="TransactWriteItems",
                    params={"TransactItems": elements, "ClientRequestToken": operations.ids.make(0)},
                )
                yield from world.send(name, call)
            else:
                run_id = yield from world.drive(name, operations.enqueue(job, (1,), {}))
        except KeyConflictError:
            raise
        except DynadurableError as error:
            world.note(name, f"was not accepted: {error}")
            return
        world.note(name, f"accepted {run_id}")
        self.checker.told_accepted(run_id)

    # --- workers ----------------------------------------------------------------------------------

    def worker(self, name: str, rounds: int) -> list[Steps]:
        """A worker process: its loop and its renewal, which live and die together."""
        world = self.world
        clock = world.clock()
        ids = SeededIds(world.dice)
        engine = Engine(
            items=world.items,
            driver=None,  # type: ignore[arg-type]  # plans are stepped by the world
            clock=clock,
            ids=ids,
            registry=self.registry,
            worker_id=name,
            loops=None,  # type: ignore[arg-type]
            lease_seconds=LEASE_SECONDS,
            dice=world.dice.random,
        )
        keeper = SimulatedKeeper()
        engine.keeper = keeper  # type: ignore[assignment]
        return [self._working(name, engine, ids, rounds), self._renewing(name, engine, keeper)]

    def _working(self, name: str, engine: Engine, ids: SeededIds, rounds: int) -> Steps:
        world, attempts = self.world, Attempts(engine, Context)
        for _ in range(rounds):
            yield
            candidate = yield from self._look(name, engine)
            if candidate is None:
                continue
            try:
                event = yield from world.drive(name, attempts.of(candidate))
            except DynadurableError as error:
                event = f"gave up: {error}"
            world.note(name, f"{candidate.run_id[-6:]}: {event}")
            if event is None:
                self.checker.claim_given_up(name, ids.last)

    def _look(self, name: str, engine: Engine) -> Any:
        """What a poll sees. Now and then a real one; mostly what it would give, at once or a little stale."""
        world, clock = self.world, engine.clock
        if world.dice.random() < 0.1:
            shard = world.dice.randrange(SHARDS)
            plan = marks.poll(world.items, queue="default", shard=shard, limit=20, until_ms=clock.now_ms())
            seen = (yield from world.drive(name, plan)).candidates
        else:
            now_ms = clock.now_ms()
            raw = [(key[0], mark) for key, mark in self.checker.marks.items() if int(key[1][:15]) <= now_ms]
            found = [marks.to_candidate(world.items, pk, mark) for pk, mark in raw]
            seen = [candidate for candidate in found if candidate is not None]
            for _ in range(world.dice.choice((0, 0, 1, 6))):
                yield
        free = [candidate for candidate in seen if _is_free(candidate, clock.earliest_ms())]
        return world.dice.choice(free) if free else None

    def _renewing(self, name: str, engine: Engine, keeper: SimulatedKeeper) -> Steps:
        world = self.world
        while True:
            yield
            keeper.kept = [held for held in keeper.kept if not held.closed]
            for held in list(keeper.kept):
                sent = engine.clock.monotonic()
                if sent >= held.deadline - 1:
                    held.tell(LOST)
                if held.reason == LOST or sent < held.renew_at:
                    continue
                try:
                    plan = marks.renew(world.items, held.mark, lease_until_ms=engine.lease_until_ms())
                    mark = yield from world.drive(f"{name}'s keeper", plan)
                except LeaseLostError:
                    held.tell(LOST)
                except DynadurableError:
                    continue
                else:
                    held.extended(sent=sent, cancelled=bool(mark.cancelled))

    # --- operators --------------------------------------------------------------------------------

    def operator(self, name: str) -> Steps:
        """Cancels, moves or brings back some run that was accepted."""
        world, dice = self.world, self.world.dice
        clock = world.clock()
        ids = SeededIds(dice)
        yield from world.wait(dice.choice((500, 2_000, 8_000, 30_000)))
        known = sorted(self.checker.accepted)
        at_work = [run_id for run_id in self.checker.held_runs() if run_id in self.checker.accepted]
        if at_work and dice.random() < 0.6:
            known = at_work
        if not known:
            return
        run_id = dice.choice(known)
        deed = dice.choice(("cancel", "cancel", "reschedule", "replay", "replay"))
        world.note(name, f"{deed} {run_id}")
        try:
            if deed == "cancel":
                done = yield from world.drive(name, operate.cancel(world.items, run_id, clock=clock, ids=ids))
                if done.outcome == operate.ASKED:
                    self.checker.told_cancelling(run_id)
            elif deed == "reschedule":
                due_ms = dice.choice((None, clock.now_ms() + 5_000))
                plan = operate.reschedule(world.items, run_id, due_ms=due_ms, clock=clock, ids=ids)
                yield from world.drive(name, plan)
            else:
                revival = dead.Revival(generation=ids.make(clock.now_ms()), due_ms=clock.now_ms())
                yield from world.drive(name, dead.replay(world.items, run_id, None, revival))
        except DynadurableError as error:
            world.note(name, f"could not: {error}")


def _is_free(seen: Candidate, now_ms: int) -> bool:
    return seen.readable and (seen.lease_until_ms is None or seen.lease_until_ms < now_ms)
