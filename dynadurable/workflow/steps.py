"""A step: a body that is called until its outcome is recorded, and then never again."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from ..errors import BodyCancelledError, ConfigurationError, InputRefusedError, Snooze, StepTimeoutError
from ..model import codec, failure
from ..model.failure import Failure
from ..model.history import Past
from ..model.instant import clamp_delay
from ..model.outcome import INTERRUPTED, STEP_FAILED, facts_of, failures_value, kinds_of
from ..model.record import BEGAN, DONE, FAILED, Record
from ..model.retry import Retry
from ..storage.call import Pause, Work
from ..storage.journal import MAX_VALUE_BYTES
from ..storage.keys import check_name
from .execution import SOON_MS, Execution
from .strand import INSIDE_A_STEP

KEY_PARAMETER = "idempotency_key"
"""A step's function that has a parameter of this name is given the step's key, unless the call gives one."""
_MILLISECOND = timedelta(milliseconds=1)


@dataclass(frozen=True, kw_only=True, slots=True)
class StepCall:
    """What is to be called, and how often it may be."""

    function: Callable[..., Any]
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    name: str
    retry: Retry
    timeout: timedelta | None
    once: bool
    wants_key: bool

    @classmethod
    def of(
        cls,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        *,
        name: str | None,
        retry: Retry | None = None,
        timeout: timedelta | None = None,
        once: bool = False,
    ) -> StepCall:
        """Check the call before anything is done.

        Raises:
            ConfigurationError: options that cannot be used.
            InputRefusedError: arguments that do not fit the function.
        """
        if not callable(function):
            raise ConfigurationError(f"a step is given a function to call, not {function!r}: ctx.step(charge, order)")
        if once and retry is not None and retry.max_attempts > 1:
            raise ConfigurationError("once=True means that the body is never called twice: leave retry= out")
        if timeout is not None and clamp_delay(timeout, "timeout", error=ConfigurationError) <= timedelta():
            raise ConfigurationError("timeout must be longer than nothing")
        wants_key = _checked(function, args, kwargs)
        policy = Retry.none() if once else retry or Retry()
        return cls(
            function=function,
            args=args,
            kwargs=kwargs,
            name=name_of(function, name),
            retry=policy,
            timeout=timeout,
            once=once,
            wants_key=wants_key,
        )

    def bound(self, key: str | None = None, **more: Any) -> Callable[[], Any]:
        """The call with its arguments, for one try.

        Each try is given copies: what a body does to its input must reach neither the next try nor the workflow's code,
        which on replay would not see it.
        """
        given = {KEY_PARAMETER: key} if self.wants_key and key is not None else {}
        args = map(codec.own_copy, self.args)
        kwargs = {name: codec.own_copy(value) for name, value in {**self.kwargs, **more}.items()}
        return functools.partial(self.function, *args, **kwargs, **given)


def name_of(function: Callable[..., Any], name: str | None) -> str:
    """What an operation is called: as given, or as its function.

    Raises:
        ConfigurationError: the function has no name that would tell it apart.
    """
    if name is not None:
        return check_name("a step's name", name)
    found = function
    while isinstance(found, functools.partial):
        found = found.func
    text = getattr(found, "__name__", None) or type(found).__name__
    if text == "<lambda>":
        raise ConfigurationError("a lambda has no name to know it by on replay: give it name=")
    return check_name("a step's name", text)


def _checked(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether the function wants its key and is not given one."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some built-in functions do not tell
        return False
    known = signature.parameters.get(KEY_PARAMETER)
    accepts = known is not None and known.kind in (known.KEYWORD_ONLY, known.POSITIONAL_OR_KEYWORD)
    try:
        bound = signature.bind_partial(*args, **kwargs)
        wants_key = accepts and KEY_PARAMETER not in bound.arguments
        signature.bind(*args, **kwargs, **({KEY_PARAMETER: ""} if wants_key else {}))
    except TypeError as error:
        text = f"{getattr(function, '__name__', function)}{signature}: {error}"
        raise InputRefusedError(
            f"{text} (name, retry, timeout, once and compensate are options of the step itself: to pass a parameter of "
            "such a name, use functools.partial)"
        ) from None
    return wants_key


class StepBody(Work):
    """The call of a step's function."""

    def __init__(self, execution: Execution, call: Callable[[], Any], name: str, timeout: timedelta | None) -> None:
        self._execution = execution
        self._call = call
        self._name = name
        self._timeout = None if timeout is None else timeout.total_seconds()
        self._clock = execution.engine.clock

    def _tell(self) -> None:
        self._execution.engine.tell("step", self._name, self._execution.held.run_id)

    def perform(self) -> Any:
        self._tell()
        if self._timeout is None:
            return _result(self._inside())
        box: list[tuple[Any, BaseException | None]] = []
        ended = threading.Event()

        def run() -> None:
            try:
                box.append((_result(self._inside()), None))
            except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
                box.append((None, error))
            ended.set()

        end = self._clock.monotonic() + self._timeout
        context = contextvars.copy_context()
        name = f"dynadurable-step-{self._name}"
        threading.Thread(target=context.run, args=(run,), name=name, daemon=True).start()
        while not self._clock.wait(ended, end - self._clock.monotonic()):
            if self._clock.monotonic() >= end:
                raise self._too_slow()
        value, error = box[0]
        if error is not None:
            raise error
        return value

    async def perform_async(self) -> Any:
        self._tell()
        limit = asyncio.timeout(self._timeout)
        task = asyncio.current_task()
        try:
            async with limit:
                return await self._called()
        except TimeoutError:
            if limit.expired():
                raise self._too_slow() from None
            raise
        except asyncio.CancelledError as error:
            if task is not None and task.cancelling() > 0:
                raise  # by the worker
            raise BodyCancelledError(self._name) from error

    async def _called(self) -> Any:
        function = self._call
        while isinstance(function, functools.partial):
            function = function.func
        if inspect.iscoroutinefunction(function):
            INSIDE_A_STEP.set(self._execution)  # in this task's own context
            return await self._call()
        value = await asyncio.to_thread(self._inside)
        return await value if inspect.isawaitable(value) else value

    def _inside(self) -> Any:
        """The call, marked as being one."""
        token = INSIDE_A_STEP.set(self._execution)
        try:
            return self._call()
        finally:
            INSIDE_A_STEP.reset(token)

    def _too_slow(self) -> StepTimeoutError:
        return StepTimeoutError(f"step {self._name!r} took longer than {self._timeout:g} s")


def _result(value: Any) -> Any:
    """What an ``async def`` step of a ``def`` workflow returns, run on a loop of its own."""
    if not inspect.isawaitable(value):
        return value

    async def awaited() -> Any:
        return await value

    return asyncio.run(awaited())


async def step(execution: Execution, past: Past, call: StepCall, key: str) -> Record:
    """The plan of a step that has no outcome yet; gives the record of its outcome."""
    tries, failures = _so_far(past)
    if past.progress is not None and past.progress.facts.get("once"):
        return await _ended(execution, execution.entry(past, FAILED, tries=tries, facts=facts_of(INTERRUPTED)))
    if past.progress is not None:
        await until(execution, int(past.progress.facts.get("wake", 0)))
    while True:
        execution.check()
        await execution.settle_waits()
        if call.once:
            await execution.record(execution.entry(past, BEGAN, tries=1, facts={"once": True}))
        began = execution.engine.clock.monotonic()
        try:
            value = await StepBody(execution, call.bound(key), call.name, call.timeout)
            data = encoded(value, call.name)
        except Exception as error:  # noqa: BLE001 - whatever a body raises is an outcome of the step
            tries += 0 if isinstance(error, Snooze) else 1
            failures = captured(execution, failures, error, tries)
            took_ms = _elapsed_ms(execution, began)
            again = await _again(execution, past, call, error, tries, failures)
            if not again:
                facts = facts_of(STEP_FAILED, kinds=kinds_of(error))
                value_ = failures_value(failures)
                end = execution.entry(past, FAILED, tries=tries, took_ms=took_ms, value=value_, facts=facts)
                return await _ended(execution, end)
        else:
            took_ms = _elapsed_ms(execution, began)
            end = execution.entry(past, DONE, tries=tries + 1, took_ms=took_ms, value=data)
            return await _ended(execution, end)


async def _ended(execution: Execution, end: Record) -> Record:
    await execution.record(end)
    return end


async def _again(
    execution: Execution, past: Past, call: StepCall, error: Exception, tries: int, failures: Sequence[Failure]
) -> bool:
    """Whether it is tried again here and now; parks where that is later; false if it has failed for good."""
    if isinstance(error, Snooze):
        delay: timedelta | None = clamp_delay(error.delay, "the snooze delay")
    else:
        delay = call.retry.delay_after(error, tries, random=execution.engine.dice())
    if delay is None:
        return False
    wake_ms = execution.now_ms() + delay // _MILLISECOND
    value = failures_value([one.brief() for one in failures])
    progress = execution.entry(past, BEGAN, tries=tries, value=value, facts={"wake": wake_ms})
    if delay // _MILLISECOND > SOON_MS:
        execution.note(progress)
        execution.park(wake_ms=wake_ms)
    await execution.record(progress)
    await until(execution, wake_ms)
    return True


async def until(execution: Execution, wake_ms: int) -> None:
    """Go on when it is that time: parks, unless that is now or in a moment."""
    while (left_ms := wake_ms - execution.now_ms()) > 0:
        if left_ms > SOON_MS:
            execution.park(wake_ms=wake_ms)
        await Pause(left_ms / 1000, execution.engine.clock)


def encoded(value: Any, name: str) -> bytes:
    """A result as it is recorded.

    Raises:
        PayloadRefusedError: it could not come back as what it is.
        PayloadTooLargeError: it does not fit an item.
    """
    data = codec.encode(value, path=name)
    codec.check_size(data, f"the result of {name}", MAX_VALUE_BYTES)
    return data


def _so_far(past: Past) -> tuple[int, list[Failure]]:
    progress = past.progress
    if progress is None:
        return 0, []
    found = codec.decode(progress.value) if progress.value else []
    return progress.tries, [Failure.from_record(one) for one in found]


def captured(execution: Execution, failures: Sequence[Failure], error: Exception, tries: int) -> list[Failure]:
    """The failures so far and this one; "not yet" is none."""
    if isinstance(error, Snooze):
        return list(failures)
    engine = execution.engine
    new = failure.capture(
        error, attempt=tries, build=engine.build, failed_at_ms=execution.now_ms(), worker=engine.worker_id
    )
    return list(failure.history(failures, new))


def _elapsed_ms(execution: Execution, began: float) -> int:
    return round((execution.engine.clock.monotonic() - began) * 1000)
