"""The call of a job's function, as work inside an attempt's plan."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from typing import Any

from ..errors import BodyCancelledError, ConfigurationError
from ..model.job import Job
from ..storage.call import Work
from .context import ContextBase
from .forked import the_worker_only
from .held import CANCELLED, LOST, Held


class Body(Work):
    """The call of a job's function."""

    def __init__(self, job: Job[Any, Any], arguments: inspect.BoundArguments, context: ContextBase, held: Held) -> None:
        self._job = job
        self._held = held
        self._args = (context, *arguments.args) if job.takes_context else arguments.args
        self._kwargs = arguments.kwargs

    def perform(self) -> Any:
        try:
            with the_worker_only():
                returned = self._job.function(*self._args, **self._kwargs)
        except asyncio.CancelledError as error:  # of something inside it: nobody cancels a thread
            raise BodyCancelledError(self._job.name) from error
        except (StopIteration, GeneratorExit) as error:  # these would mean something to the plan that awaits us
            raise RuntimeError(f"the body let out {type(error).__name__}") from error
        self._check_done(returned)
        return returned

    def _check_done(self, returned: object) -> None:
        """What a body returns must not be the work itself, still to be done: nobody would do it."""
        if inspect.isawaitable(returned):
            if inspect.iscoroutine(returned):
                returned.close()
            raise ConfigurationError(
                f"job {self._job.name!r} looks like a plain function and returned something to await; "
                "make it an `async def`, also below its decorators"
            )
        if inspect.isgenerator(returned) or inspect.isasyncgen(returned):
            raise ConfigurationError(
                f"job {self._job.name!r} returned a generator, of which nothing has been run; a job must be a function "
                "that does its work and returns"
            )

    async def perform_async(self) -> Any:
        """The body is a task of its own: it is cancelled when its run is lost or cancelled, or with the attempt."""
        loop = asyncio.get_running_loop()
        task = loop.create_task(self._contained(), name=f"{self._job.name} {self._held.run_id}")

        def told(reason: str) -> None:
            if reason in (LOST, CANCELLED):
                with contextlib.suppress(RuntimeError):  # the loop was closed: nothing of the body is left
                    loop.call_soon_threadsafe(task.cancel)

        self._held.listen(told)
        try:
            value, raised = await task
        except asyncio.CancelledError as error:
            if self._is_meant():
                raise
            raise BodyCancelledError(self._job.name) from error
        finally:
            self._held.unlisten(told)
        if raised is not None:
            raise raised
        self._check_done(value)
        return value

    async def _contained(self) -> tuple[Any, BaseException | None]:
        """What the body returned, or what it raised.

        Were that raised by the task, ``SystemExit`` would stop the whole loop, and an error in a loop that is ending
        would count as handled by nobody.
        """
        try:
            with the_worker_only():
                return await self._job.function(*self._args, **self._kwargs), None
        except asyncio.CancelledError:
            raise
        except BaseException as raised:  # noqa: BLE001 - raised where the task is waited for
            return None, raised

    def _is_meant(self) -> bool:
        """Whether it is we who cancel, and not something inside the body that was cancelled by itself."""
        attempt = asyncio.current_task()
        return self._held.reason in (LOST, CANCELLED) or (attempt is not None and attempt.cancelling() > 0)
