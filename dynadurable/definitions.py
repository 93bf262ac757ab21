"""``@app.workflow``: a part of ``App``."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any, Concatenate, ParamSpec, TypeVar, overload

from .errors import ConfigurationError
from .model import job as jobs
from .model.job import DEFAULT_QUEUE, AsyncJob, Job
from .model.registry import Registry
from .model.retention import Retention
from .model.retry import Retry
from .storage.keys import check_name
from .worker.context import JobContext
from .worker.context_aio import AsyncJobContext
from .workflow.context import WorkflowContext
from .workflow.context_aio import AsyncWorkflowContext
from .workflow.context_base import WorkflowContextBase

Params = ParamSpec("Params")
Returned = TypeVar("Returned")


class WorkflowDefinitions:
    """Defines workflows in an app's registry."""

    registry: Registry
    retention: Retention

    @overload
    def workflow(
        self, function: Callable[Concatenate[AsyncWorkflowContext, Params], Coroutine[Any, Any, Returned]], /
    ) -> AsyncJob[Params, Returned]: ...
    @overload
    def workflow(
        self, function: Callable[Concatenate[WorkflowContext, Params], Returned], /
    ) -> Job[Params, Returned]: ...
    @overload
    def workflow(
        self,
        *,
        name: str | None = None,
        queue: str = DEFAULT_QUEUE,
        retry: Retry | None = None,
        keep_result: timedelta | None = None,
        keep_failed: timedelta | None = None,
        keep_history: timedelta | None = None,
    ) -> WorkflowDecorator: ...

    def workflow(  # type: ignore[misc]  # the signatures that count are the overloads above
        self,
        function: Any = None,
        /,
        *,
        name: str | None = None,
        queue: str = DEFAULT_QUEUE,
        retry: Retry | None = None,
        keep_result: timedelta | None = None,
        keep_failed: timedelta | None = None,
        keep_history: timedelta | None = None,
    ) -> Any:
        """Make a function a workflow: its code is replayed after a crash, and what it did by ``ctx`` is not repeated.

        The first parameter is a ``WorkflowContext``, of an ``async def`` an ``AsyncWorkflowContext``. ``retry`` says
        how often the whole is tried after an error that the code lets out; steps have retries of their own.
        ``keep_history``: how long what it has recorded stays after its end (default: as long as the run itself;
        ``timedelta()``: not at all). Of a dead run it stays, so that it can be brought back. The other options are
        those of ``job``.

        >>> @app.workflow(keep_result=timedelta(days=7))  # doctest: +SKIP
        ... def checkout(ctx: WorkflowContext, order: Order) -> Receipt:
        ...     charge = ctx.step(charge_card, order)
        ...     return ctx.step(ship, order, charge)

        Raises:
            ConfigurationError: a name that is taken or cannot be used, or not a plain function.
        """
        own = Retention(keep_result=keep_result, keep_failed=keep_failed, keep_history=keep_history)
        kept = own.over(self.retention)

        def decorate(function: Callable[..., Any]) -> Job[Any, Any]:
            is_async = inspect.iscoroutinefunction(function)
            right, wrong = WorkflowContext, AsyncWorkflowContext
            if is_async:
                right, wrong = wrong, right  # type: ignore[assignment]
            made = jobs.define(
                function,
                name=name,
                queue=check_name("a queue's name", queue),
                retry=retry or Retry(),
                context_types=(WorkflowContextBase, right),
                wrong_contexts=(wrong, JobContext, AsyncJobContext),
                keep_result=kept.keep_result,
                keep_failed=kept.keep_failed,
                keep_history=kept.keep_history,
                is_workflow=True,
            )
            check_name("a workflow's name", made.name)
            self.registry.add(made)
            return made

        return decorate if function is None else decorate(function)


class WorkflowDecorator:
    """What ``@app.workflow(...)`` gives; spelled out for type checkers."""

    @overload
    def __call__(
        self, function: Callable[Concatenate[AsyncWorkflowContext, Params], Coroutine[Any, Any, Returned]], /
    ) -> AsyncJob[Params, Returned]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[WorkflowContext, Params], Returned], /
    ) -> Job[Params, Returned]: ...
    def __call__(self, _function: Callable[..., Any], /) -> Any:
        raise ConfigurationError("only for type checkers")
