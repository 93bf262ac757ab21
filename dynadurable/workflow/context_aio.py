"""What the code of an ``async def`` workflow is given."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, cast, overload

from ..model.completion import Completion
from ..model.job import Job
from ..model.results import Results
from ..model.retry import Retry
from ..storage.call import Plan
from .branches import DEFAULT_CONCURRENCY
from .context_base import ALL, Named, WorkflowContextBase, branches_of, items_of, payload_of
from .core import MISSING, Callback, Child, Core
from .place import caller
from .steps import StepCall, name_of
from .waits import Polling

if TYPE_CHECKING:
    from .tasks import TaskStage

Params = ParamSpec("Params")
Returned = TypeVar("Returned")
Awaited = Coroutine[Any, Any, Returned]


class AsyncWorkflowContext(WorkflowContextBase):
    """Given to an ``async def`` workflow as its first argument: ``WorkflowContext``, with operations to await.

    ``asyncio.gather``, ``as_completed``, ``wait`` and ``TaskGroup`` over operations are replayed as they were; timers,
    threads and the network are refused in the code itself, and belong into steps. A step may be an ``async def``, which
    runs on the worker's event loop, or a plain function, which runs in a thread.

    >>> @app.workflow  # doctest: +SKIP
    ... async def checkout(ctx: AsyncWorkflowContext, order: Order) -> Receipt:
    ...     charge = await ctx.step(charge_card, order, retry=Retry(max_attempts=5))
    ...     await ctx.sleep(timedelta(days=1))
    ...     return await ctx.step(ship, order, charge)
    """

    @overload
    def step(
        self,
        function: Callable[..., Awaited[Returned]],
        /,
        *args: Any,
        name: str | None = None,
        retry: Retry | None = None,
        timeout: timedelta | None = None,
        once: bool = False,
        compensate: Callable[[Returned], Any] | None = None,
        **kwargs: Any,
    ) -> Awaited[Returned]: ...
    @overload
    def step(
        self,
        function: Callable[..., Returned],
        /,
        *args: Any,
        name: str | None = None,
        retry: Retry | None = None,
        timeout: timedelta | None = None,
        once: bool = False,
        compensate: Callable[[Returned], Any] | None = None,
        **kwargs: Any,
    ) -> Awaited[Returned]: ...

    def step(
        self,
        function: Callable[..., Any],
        /,
        *args: Any,
        name: str | None = None,
        retry: Retry | None = None,
        timeout: timedelta | None = None,
        once: bool = False,
        compensate: Callable[[Any], Any] | None = None,
        **kwargs: Any,
    ) -> Awaited[Any]:
        """Call the function until its outcome is recorded; see ``WorkflowContext.step``."""
        call = StepCall.of(function, args, kwargs, name=name, retry=retry, timeout=timeout, once=once)
        return self._run(partial(self._core.step, caller(), call, compensate))

    def commit(self, *writes: Any, name: str = "commit") -> Awaited[None]:
        """Do these writes and record that they were done, in one transaction; see ``WorkflowContext.commit``."""
        return self._run(partial(self._core.commit, caller(), name, writes))

    def on_failure(
        self,
        function: Callable[..., Any],
        /,
        *args: Any,
        name: str | None = None,
        retry: Retry | None = None,
        **kwargs: Any,
    ) -> None:
        """Should the workflow fail for good, call the function then; see ``WorkflowContext.on_failure``."""
        self._core.on_failure(function, args, kwargs, name, retry)

    # --- time -------------------------------------------------------------------------------------

    def sleep(self, duration: timedelta, *, name: str = "sleep") -> Awaited[None]:
        """Wait; see ``WorkflowContext.sleep``."""
        return self._run(partial(self._core.sleep, caller(), duration, name))

    def sleep_until(self, at: datetime, *, name: str = "sleep") -> Awaited[None]:
        """The same until an instant; see ``WorkflowContext.sleep_until``."""
        return self._run(partial(self._core.sleep_until, caller(), at, name))

    # --- what the run is told ---------------------------------------------------------------------

    def wait_event(self, name: str, *, timeout: timedelta | None = None, default: Any = MISSING) -> Awaited[Any]:
        """Wait for an event; see ``WorkflowContext.wait_event``."""
        return self._run(partial(self._core.wait_event, caller(), name, timeout, default))

    def callback(
        self, name: str = "callback", *, timeout: timedelta | None = None, heartbeat: timedelta | None = None
    ) -> AsyncCallbackHandle:
        """A token for an outside system; see ``WorkflowContext.callback``. Do not await it, but its ``result()``."""
        return AsyncCallbackHandle(self, self._core.callback(caller(), name, timeout, heartbeat))

    @overload
    def wait_for(
        self,
        condition: Callable[..., Awaited[Returned]],
        /,
        *args: Any,
        every: timedelta | Retry,
        timeout: timedelta | None = None,
        retry: Retry | None = None,
        name: str | None = None,
        initial: Any = MISSING,
        default: Any = MISSING,
        **kwargs: Any,
    ) -> Awaited[Returned]: ...
    @overload
    def wait_for(
        self,
        condition: Callable[..., Returned],
        /,
        *args: Any,
        every: timedelta | Retry,
        timeout: timedelta | None = None,
        retry: Retry | None = None,
        name: str | None = None,
        initial: Any = MISSING,
        default: Any = MISSING,
        **kwargs: Any,
    ) -> Awaited[Returned]: ...

    def wait_for(
        self,
        condition: Callable[..., Any],
        /,
        *args: Any,
        every: timedelta | Retry,
        timeout: timedelta | None = None,
        retry: Retry | None = None,
        name: str | None = None,
        initial: Any = MISSING,
        default: Any = MISSING,
        **kwargs: Any,
    ) -> Awaited[Any]:
        """Call the function until what it returns is true; see ``WorkflowContext.wait_for``."""
        state = {} if initial is MISSING else {"state": initial}
        call = StepCall.of(condition, args, {**kwargs, **state}, name=name, retry=retry)
        return self._run(partial(self._core.wait_for, caller(), call, Polling.of(every, timeout), initial, default))

    # --- children ---------------------------------------------------------------------------------

    def start(
        self, job: Job[Params, Returned], /, *args: Params.args, **kwargs: Params.kwargs
    ) -> Awaited[AsyncChildHandle[Returned]]:
        """Start another job or workflow as a run of its own; see ``WorkflowContext.start``."""
        checked, payload = payload_of(job, args, kwargs)
        return self._start(partial(self._core.start, caller(), checked, payload))

    async def _start(self, plan: Callable[[], Plan[Child]]) -> AsyncChildHandle[Any]:
        return AsyncChildHandle(self, await self._run(plan))

    def call(self, job: Job[Params, Returned], /, *args: Params.args, **kwargs: Params.kwargs) -> Awaited[Returned]:
        """Start a child and wait for its result; see ``WorkflowContext.call``."""
        checked, payload = payload_of(job, args, kwargs)
        return self._call(partial(self._core.start, caller(), checked, payload))

    async def _call(self, plan: Callable[[], Plan[Child]]) -> Any:
        child = await self._run(plan)
        return await self._run(partial(self._core.child_result, child))

    # --- branches ---------------------------------------------------------------------------------

    @overload
    def map(
        self,
        function: Callable[..., Awaited[Returned]],
        items: Iterable[Any],
        *,
        name: str | None = None,
        max_concurrency: int = DEFAULT_CONCURRENCY,
        completion: Completion = ALL,
        retry: Retry | None = None,
    ) -> Awaited[Results[Returned]]: ...
    @overload
    def map(
        self,
        function: Callable[..., Returned],
        items: Iterable[Any],
        *,
        name: str | None = None,
        max_concurrency: int = DEFAULT_CONCURRENCY,
        completion: Completion = ALL,
        retry: Retry | None = None,
    ) -> Awaited[Results[Returned]]: ...

    def map(
        self,
        function: Callable[..., Any],
        items: Iterable[Any],
        *,
        name: str | None = None,
        max_concurrency: int = DEFAULT_CONCURRENCY,
        completion: Completion = ALL,
        retry: Retry | None = None,
    ) -> Awaited[Results[Any]]:
        """Call the function for each item, some of them at once; see ``WorkflowContext.map``."""
        known, branches = items_of(type(self), function, items, name, retry)
        return self._run(
            partial(
                self._core.batch,
                caller(),
                known,
                branches,
                max_concurrency=max_concurrency,
                completion=completion,
            )
        )

    def parallel(
        self,
        *functions: Named,
        name: str = "parallel",
        max_concurrency: int = DEFAULT_CONCURRENCY,
        completion: Completion = ALL,
        retry: Retry | None = None,
    ) -> Awaited[Results[Any]]:
        """Call these functions side by side; see ``WorkflowContext.parallel``."""
        return self._run(
            partial(
                self._core.batch,
                caller(),
                name,
                branches_of(type(self), functions, retry),
                max_concurrency=max_concurrency,
                completion=completion,
            )
        )

    def group(
        self,
        function: Callable[Concatenate[AsyncWorkflowContext, Params], Awaited[Returned]],
        /,
        *args: Params.args,
        **kwargs: Params.kwargs,
    ) -> Awaited[Returned]:
        """Call a part of the workflow whose operations have names of their own; see ``WorkflowContext.group``."""
        where = caller()

        async def part() -> Returned:
            core = self._core.group(where, name_of(function, None))
            value = await function(AsyncWorkflowContext(core), *args, **kwargs)
            self._core.leave(core, where)
            return value

        return part()

    def _run(self, plan: Callable[[], Plan[Any]]) -> Awaited[Any]:
        return cast("TaskStage", self._core.stage).step_through(plan)


class AsyncCallbackHandle:
    """What ``ctx.callback`` gives: ``token`` for the outside, and ``result()`` to wait for what it says."""

    def __init__(self, context: AsyncWorkflowContext, callback: Callback) -> None:
        self._context = context
        self._callback = callback
        self.name = callback.name
        self.token = callback.token

    def result(self, *, default: Any = MISSING) -> Awaited[Any]:
        """Wait until the outside has completed it; see ``CallbackHandle.result``."""
        core: Core = self._context._core  # noqa: SLF001 - a part of the context
        return self._context._run(partial(core.callback_result, self._callback, default))  # noqa: SLF001 - likewise


class AsyncChildHandle(Generic[Returned]):
    """What ``ctx.start`` gives: the child's ``run_id``, and ``result()`` to wait for its end."""

    def __init__(self, context: AsyncWorkflowContext, child: Child) -> None:
        self._context = context
        self._child = child
        self.run_id = child.run_id

    def result(self) -> Awaited[Returned]:
        """Wait for the child's end; see ``ChildHandle.result``."""
        core: Core = self._context._core  # noqa: SLF001 - a part of the context
        return self._context._run(partial(core.child_result, self._child))  # noqa: SLF001 - likewise
