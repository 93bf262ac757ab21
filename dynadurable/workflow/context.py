"""What the code of a ``def`` workflow is given."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

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

Params = ParamSpec("Params")
Returned = TypeVar("Returned")
Item = TypeVar("Item")


class WorkflowContext(WorkflowContextBase):
    """Given to a ``def`` workflow as its first argument. What goes through it is recorded and never done twice.

    >>> @app.workflow  # doctest: +SKIP
    ... def checkout(ctx: WorkflowContext, order: Order) -> Receipt:
    ...     charge = ctx.step(charge_card, order, retry=Retry(max_attempts=5))
    ...     ctx.sleep(timedelta(days=1))
    ...     return ctx.step(ship, order, charge)

    Everything else the code does is done again on each replay: keep the clock, dice, the network and the environment
    out of it, or inside steps.
    """

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
    ) -> Returned:
        """Call the function until its outcome is recorded, and then never again; gives its result.

        Known as the function's name or ``name`` (and "#2" when it comes again). It is called at least once; an outside
        API makes of that exactly once if it is given the step's key, which a function with a parameter called
        ``idempotency_key`` gets. Arguments that are data (what could be stored) are given as copies, others as they
        are. ``retry``: how often, as for a job; between tries the run waits without holding anything. ``timeout``: of
        one try; the body itself cannot be stopped and may end later. ``once``: at most once: that it begins is recorded
        first, and a step that was interrupted raises. ``compensate``: called with the result, should the workflow fail
        for good later on (see ``on_failure``).

        Raises:
            StepFailedError: it failed for good; the same error on every replay.
            StepInterruptedError: with ``once``: it was begun, and nobody knows whether it happened.
        """
        call = StepCall.of(function, args, kwargs, name=name, retry=retry, timeout=timeout, once=once)
        return self._run(self._core.step(caller(), call, compensate))  # type: ignore[no-any-return]

    def commit(self, *writes: Any, name: str = "commit") -> None:
        """Do these DynamoDB writes and record that they were done, in one transaction: they happen exactly once.

        ``writes``: up to 99 elements of ``transact_write_items``, and lists of them such as ``app.transact_items``
        gives.

        >>> ctx.commit({"Update": {"TableName": "stock", ...}})  # doctest: +SKIP

        Raises:
            CommitRefusedError: a condition of these writes was not met; nothing was written. The same on every replay.
        """
        self._run(self._core.commit(caller(), name, writes))

    def on_failure(
        self,
        function: Callable[..., Any],
        /,
        *args: Any,
        name: str | None = None,
        retry: Retry | None = None,
        **kwargs: Any,
    ) -> None:
        """Should the workflow fail for good or be cancelled after this, call the function then, as a step.

        What was registered last is called first. One that fails for good does not keep the others from being called.
        """
        self._core.on_failure(function, args, kwargs, name, retry)

    # --- time -------------------------------------------------------------------------------------

    def sleep(self, duration: timedelta, *, name: str = "sleep") -> None:
        """Wait. The time to wake is recorded when this is first come to; no worker is held meanwhile."""
        self._run(self._core.sleep(caller(), duration, name))

    def sleep_until(self, at: datetime, *, name: str = "sleep") -> None:
        """The same until an instant (aware). One in the past is no wait."""
        self._run(self._core.sleep_until(caller(), at, name))

    # --- what the run is told ---------------------------------------------------------------------

    def wait_event(self, name: str, *, timeout: timedelta | None = None, default: Any = MISSING) -> Any:
        """Wait for ``run.send_event(name, value)``, gives the value. It may have been sent before; the first counts.

        Raises:
            WaitTimeoutError: it was not sent in time, and there is no ``default`` to give instead.
        """
        return self._run(self._core.wait_event(caller(), name, timeout, default))

    def callback(
        self, name: str = "callback", *, timeout: timedelta | None = None, heartbeat: timedelta | None = None
    ) -> CallbackHandle:
        """A token for an outside system, which completes or fails it later; wait for that with ``result()``.

        ``timeout`` counts from here; ``heartbeat``: so long the outside may be silent.

        >>> approval = ctx.callback("approval", timeout=timedelta(days=2))  # doctest: +SKIP
        >>> ctx.step(send_mail, order, approval.token)  # doctest: +SKIP
        >>> answer = approval.result()  # doctest: +SKIP
        """
        return CallbackHandle(self, self._core.callback(caller(), name, timeout, heartbeat))

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
    ) -> Returned:
        """Call the function until what it returns is true, and give that. In between the run waits and holds nothing.

        ``every``: the wait, or growing waits as a ``Retry`` makes them. With ``initial`` the function gets a parameter
        ``state``, and may return ``NotYet(state)`` for its next call. ``retry``: what it raises is tried again.

        Raises:
            WaitTimeoutError: it was not true in time, and there is no ``default`` to give instead.
            StepFailedError: the function failed for good.
        """
        state = {} if initial is MISSING else {"state": initial}
        call = StepCall.of(condition, args, {**kwargs, **state}, name=name, retry=retry)
        plan = self._core.wait_for(caller(), call, Polling.of(every, timeout), initial, default)
        return self._run(plan)  # type: ignore[no-any-return]

    # --- children ---------------------------------------------------------------------------------

    def start(
        self, job: Job[Params, Returned], /, *args: Params.args, **kwargs: Params.kwargs
    ) -> ChildHandle[Returned]:
        """Start another job or workflow as a run of its own. Its id follows from this place: there is never a second.

        >>> children = [ctx.start(pack, line) for line in order.lines]  # doctest: +SKIP
        >>> parcels = [child.result() for child in children]  # doctest: +SKIP
        """
        checked, payload = payload_of(job, args, kwargs)
        return ChildHandle(self, self._run(self._core.start(caller(), checked, payload)))

    def call(self, job: Job[Params, Returned], /, *args: Params.args, **kwargs: Params.kwargs) -> Returned:
        """Start a child and wait for its result.

        Raises:
            ChildFailedError: it ended dead or cancelled.
        """
        checked, payload = payload_of(job, args, kwargs)
        child = self._run(self._core.start(caller(), checked, payload))
        return self._run(self._core.child_result(child))  # type: ignore[no-any-return]

    # --- branches ---------------------------------------------------------------------------------

    def map(
        self,
        function: Callable[..., Returned],
        items: Iterable[Any],
        *,
        name: str | None = None,
        max_concurrency: int = DEFAULT_CONCURRENCY,
        completion: Completion = ALL,
        retry: Retry | None = None,
    ) -> Results[Returned]:
        """Call the function for each item, some of them at once; the results come in the order of the items.

        A function of an item is a step. One whose first parameter is a context (annotated so, or called ``ctx``) is
        code with operations of its own, known under the branch's name. ``completion``: when it is complete.

        Raises:
            BranchesFailedError: it did not complete as asked for; ``results`` holds what became of each branch.
        """
        known, branches = items_of(type(self), function, items, name, retry)
        plan = self._core.batch(caller(), known, branches, max_concurrency=max_concurrency, completion=completion)
        return self._run(plan)  # type: ignore[no-any-return]

    def parallel(
        self,
        *functions: Named,
        name: str = "parallel",
        max_concurrency: int = DEFAULT_CONCURRENCY,
        completion: Completion = ALL,
        retry: Retry | None = None,
    ) -> Results[Any]:
        """Call these functions side by side: each one, or a pair of a name and one, as ``map`` does for an item."""
        branches = branches_of(type(self), functions, retry)
        plan = self._core.batch(caller(), name, branches, max_concurrency=max_concurrency, completion=completion)
        return self._run(plan)  # type: ignore[no-any-return]

    def group(
        self,
        function: Callable[Concatenate[WorkflowContext, Params], Returned],
        /,
        *args: Params.args,
        **kwargs: Params.kwargs,
    ) -> Returned:
        """Call a part of the workflow whose operations have names of their own: ``function(ctx, ...)``."""
        where = caller()
        core = self._core.group(where, name_of(function, None))
        value = function(WorkflowContext(core), *args, **kwargs)
        self._core.leave(core, where)
        return value

    def _run(self, plan: Plan[Any]) -> Any:
        return self._core.stage.run(plan)


class CallbackHandle:
    """What ``ctx.callback`` gives: ``token`` for the outside, and ``result()`` to wait for what it says."""

    def __init__(self, context: WorkflowContext, callback: Callback) -> None:
        self._context = context
        self._callback = callback
        self.name = callback.name
        self.token = callback.token

    def result(self, *, default: Any = MISSING) -> Any:
        """Wait until the outside has completed it; gives the value.

        Raises:
            CallbackFailedError: the outside said that it failed.
            WaitTimeoutError: it said nothing in time, and there is no ``default`` to give instead.
        """
        core: Core = self._context._core  # noqa: SLF001 - a part of the context
        return core.stage.run(core.callback_result(self._callback, default))


class ChildHandle(Generic[Returned]):
    """What ``ctx.start`` gives: the child's ``run_id``, and ``result()`` to wait for its end."""

    def __init__(self, context: WorkflowContext, child: Child) -> None:
        self._context = context
        self._child = child
        self.run_id = child.run_id

    def result(self) -> Returned:
        """Wait for the child's end; gives its result.

        Raises:
            ChildFailedError: it ended dead or cancelled.
        """
        core: Core = self._context._core  # noqa: SLF001 - a part of the context
        return core.stage.run(core.child_result(self._child))  # type: ignore[no-any-return]
