"""Where ``async def`` bodies run: tasks on an event loop, the app's own or one in a thread of ours."""

from __future__ import annotations

import asyncio
import functools
import threading

from ..errors import ConfigurationError
from ..log import careful_log
from .attempt import AttemptPlan, Attempts
from .engine import Engine
from .lane import More, OnDone, OnFatal, Slots, report

log = careful_log("dynadurable.worker")

CANCEL_SECONDS = (2.0, 1.0)
"""How long bodies have to end once cancelled, and once cancelled again; then they are left to themselves."""
CLOSE_SECONDS = 4.0


class LoopLane:
    """Runs attempts as tasks. Leases are renewed by the keeper's threads: a body that blocks the loop keeps its own.

    Unless it is told which loop to ``use``, it starts one in a thread of its own when its first attempt comes.
    """

    is_async = True

    def __init__(
        self,
        engine: Engine,
        attempts: Attempts,
        *,
        concurrency: int,
        on_done: OnDone,
        on_fatal: OnFatal,
        more: More,
    ) -> None:
        self.attempts = attempts
        self._engine = engine
        self._slots = Slots(concurrency)
        self._on_done = on_done
        self._on_fatal = on_fatal
        self._more = more
        self._is_ours = True
        self._loop: asyncio.AbstractEventLoop | None = None
        self._over: asyncio.Event | None = None
        self._thread: threading.Thread | None = None
        self._tasks: set[asyncio.Task[str | None]] = set()
        self._lock = threading.Lock()

    def use(self, loop: asyncio.AbstractEventLoop) -> None:
        """Run bodies on the app's own loop. Before anything is submitted, once."""
        if self._loop is not None:
            raise ConfigurationError("a worker is used once: ask the app for another with app.aio.worker()")
        self._is_ours, self._loop = False, loop

    def reserve(self) -> bool:
        return self._slots.reserve()

    def cancel_reservation(self) -> None:
        self._slots.give_back()

    def free_slots(self) -> int:
        return self._slots.free()

    def wait_idle(self, seconds: float) -> bool:
        return self._slots.wait_idle(seconds)

    def submit(self, plan: AttemptPlan) -> None:
        try:
            self._running().call_soon_threadsafe(self._begin, plan)
        except RuntimeError as error:  # the loop was closed under us
            plan.close()
            self._slots.give_back()
            log.warning("an attempt could not begin, its event loop is closed: %s", error)

    # --- the end ----------------------------------------------------------------------------------

    def close(self, *, abandon: bool) -> None:
        """End the tasks, and the loop if it is ours. Call it from another thread than the loop's."""
        with self._lock:
            loop = self._loop
        if loop is None or loop.is_closed():
            return
        ending = asyncio.run_coroutine_threadsafe(self._end(abandon=abandon), loop)
        try:
            left = ending.result(timeout=CLOSE_SECONDS)
        except TimeoutError:
            log.warning("a body blocks the event loop, which ends when the body lets it")
            return
        if self._thread is not None and not left:
            self._thread.join(timeout=CLOSE_SECONDS)

    async def _end(self, *, abandon: bool) -> int:
        """How many tasks would not end."""
        await asyncio.sleep(0)  # what has just been submitted makes its first step, so that it can hand back
        tasks = set(self._tasks)
        for seconds in CANCEL_SECONDS:
            for task in tasks if abandon else ():
                task.cancel()
            if tasks:
                _, tasks = await asyncio.wait(tasks, timeout=seconds)
        if self._over is not None:
            self._over.set()
        return len(tasks)

    # --- a loop of ours ---------------------------------------------------------------------------

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                ready = threading.Event()
                self._thread = threading.Thread(
                    target=self._run_loop, args=(ready,), name="dynadurable-loop", daemon=True
                )
                self._thread.start()
                ready.wait()
            assert self._loop is not None
            return self._loop

    def _run_loop(self, ready: threading.Event) -> None:
        async def serve() -> None:
            self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
            ready.set()
            await self._over.wait()

        try:
            asyncio.run(serve())
        except BaseException as error:  # noqa: BLE001 - a task of the user's raised SystemExit, which ends a loop
            self._on_fatal(error)

    # --- on the loop ------------------------------------------------------------------------------

    def _begin(self, plan: AttemptPlan) -> None:
        task = asyncio.get_running_loop().create_task(self._attempt(plan))
        self._tasks.add(task)
        task.add_done_callback(functools.partial(self._ended, plan))

    async def _attempt(self, plan: AttemptPlan) -> str | None:
        try:
            driver = await self._engine.loop_driver(worker_loop=self._is_ours)
            return await driver.see_through(plan)
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - report() passes on what is not ours to swallow
            report(error, self._on_fatal)
            return "error"

    def _ended(self, plan: AttemptPlan, task: asyncio.Task[str | None]) -> None:
        """Not a part of the task: one that is cancelled before its first step would never come to it."""
        self._tasks.discard(task)
        plan.close()
        event = "handed back" if task.cancelled() else task.result()
        following = None if event is None or task.cancelled() else self._more(self)
        if following is None:
            self._slots.give_back()
        else:
            self._begin(following)
        self._on_done(event, idle=following is None)
