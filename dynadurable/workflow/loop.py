"""The event loop on which the code of an ``async def`` workflow runs: it knows no time, no threads and no network.

Only operations of the workflow are waited for there, and they end in the order in which they are recorded. So
``asyncio.gather``, ``as_completed``, ``wait`` and ``TaskGroup`` do the same on every replay. What could not be the same
is refused. Steps run elsewhere, on the worker's own loop.
"""

from __future__ import annotations

import asyncio
from asyncio import events, tasks
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context
from typing import Any, NoReturn, TypeVar, TypeVarTuple

from ..errors import NotReplayableError

Returned = TypeVar("Returned")
Arguments = TypeVarTuple("Arguments")

MAX_ROUNDS = 1_000_000
"""So many callbacks in a row without waiting for an operation are no workflow any more."""

_REMEDIES = {
    "call_later": "asyncio.sleep and timeouts end with the process: use ctx.sleep and timeout=",
    "call_at": "asyncio.sleep and timeouts end with the process: use ctx.sleep and timeout=",
    "time": "the loop's time is another one on replay: use ctx.now()",
    "run_in_executor": "threads are not replayed: do it in a step",
    "call_soon_threadsafe": "other threads are not replayed: do it in a step",
}


class WorkflowLoop(asyncio.AbstractEventLoop):
    """Runs tasks until all of them wait."""

    def __init__(self) -> None:
        self._ready: deque[asyncio.Handle] = deque()
        self._tasks: list[asyncio.Task[Any]] = []
        self._is_over = False

    def run_ready(self) -> None:
        """Run whatever can run."""
        outer = events._get_running_loop()  # noqa: SLF001 - made for those who write event loops
        current = None if outer is None else tasks.current_task(outer)
        if outer is not None and current is not None:
            tasks._leave_task(outer, current)  # noqa: SLF001 - likewise
        events._set_running_loop(self)  # noqa: SLF001 - likewise
        try:
            for _ in range(MAX_ROUNDS):
                if not self._ready:
                    return
                handle = self._ready.popleft()
                if not handle.cancelled():
                    handle._run()  # noqa: SLF001 - likewise
            raise NotReplayableError("the workflow goes round without waiting for anything")
        finally:
            events._set_running_loop(outer)  # noqa: SLF001 - likewise
            if outer is not None and current is not None:
                tasks._enter_task(outer, current)  # noqa: SLF001 - likewise

    def end(self) -> None:
        """Cancel what still waits, and let it clean up."""
        for _ in range(3):
            waiting = [task for task in self._tasks if not task.done()]
            for task in waiting:
                task.cancel()
            if not waiting:
                break
            self.run_ready()
        self._is_over = True

    # --- what asyncio needs -----------------------------------------------------------------------

    def call_soon(
        self, callback: Callable[[*Arguments], object], *args: *Arguments, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(
        self,
        coro: Coroutine[Any, Any, Returned] | Generator[Any, None, Returned],
        *,
        name: str | None = None,
        context: Context | None = None,
    ) -> asyncio.Task[Returned]:
        task = asyncio.Task(coro, loop=self, name=name, context=context)
        self._tasks = [*(one for one in self._tasks if not one.done()), task]
        return task

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return self._is_over

    def get_debug(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """What nobody waits for any more is lost with the attempt; it is done again on replay."""


def _refusing(name: str) -> Callable[..., NoReturn]:
    def refuse(_self: WorkflowLoop, *_args: Any, **_kwargs: Any) -> NoReturn:
        remedy = _REMEDIES.get(name, "what is not an operation of the workflow is not replayed: do it in a step")
        raise NotReplayableError(f"the event loop of a workflow does not offer {name}: {remedy}")

    return refuse


def _refuse_the_rest() -> None:
    for name in dir(asyncio.AbstractEventLoop):
        if not name.startswith("_") and name not in vars(WorkflowLoop):
            setattr(WorkflowLoop, name, _refusing(name))


_refuse_the_rest()
