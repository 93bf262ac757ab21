"""Jobs: what is known of a function that can be run durably, and how a call of it becomes a payload and back."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Generic, ParamSpec, Self, TypeVar

from ..errors import ConfigurationError, InputRefusedError, PayloadUnreadableError
from . import codec, instant
from .context_parameter import is_annotated_as, takes_a_context
from .retry import Retry

Params = ParamSpec("Params")
Returned = TypeVar("Returned")

DEFAULT_QUEUE = "default"
_MISSING = inspect.Parameter.empty


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """What one enqueue asks for, beside the arguments."""

    key: str | None = None
    unique_for: timedelta | None = None
    delay: timedelta | None = None
    at: datetime | None = None
    queue: str | None = None

    def __post_init__(self) -> None:
        if self.delay is not None and self.at is not None:
            raise InputRefusedError("give either delay= or at=, not both")
        if self.unique_for is not None and self.key is None:
            raise InputRefusedError("unique_for= needs key=: it says how long that key stays taken")
        if self.delay is not None:
            instant.clamp_delay(self.delay, "delay")
        if self.unique_for is not None:
            instant.clamp_delay(self.unique_for, "unique_for")
        if self.at is not None:
            instant.check_aware(self.at, "at")


NO_OPTIONS = Options()


@dataclass(frozen=True, kw_only=True, eq=False, repr=False, slots=True)
class Job(Generic[Params, Returned]):
    """A durable function: call it to run it here and now, give it to ``app.enqueue`` to run it durably."""

    function: Callable[..., Any]
    name: str
    queue: str
    retry: Retry
    takes_context: bool
    is_async: bool
    signature: inspect.Signature
    keep_result: timedelta | None = None
    keep_failed: timedelta | None = None
    keep_history: timedelta | None = None
    is_workflow: bool = False
    mutable_defaults: Mapping[str, Any] = field(default_factory=dict)
    """Defaults that a body could change, as they were at first: each start gets copies."""
    options: Options = NO_OPTIONS

    def __call__(self, /, *args: Params.args, **kwargs: Params.kwargs) -> Returned:
        """Run the function here and now, for instance in a unit test."""
        if self.takes_context:
            raise ConfigurationError(
                f"job {self.name!r} takes a context: call {self.name}.function(ctx, ...), or enqueue it"
            )
        return self.function(*args, **kwargs)  # type: ignore[no-any-return]

    @property
    def __wrapped__(self) -> Callable[..., Any]:
        """The function, as ``inspect.signature`` and doctest look for it."""
        return self.function

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r} of queue {self.queue!r}>"

    def using(
        self,
        *,
        key: str | None = None,
        unique_for: timedelta | None = None,
        delay: timedelta | None = None,
        at: datetime | None = None,
        queue: str | None = None,
    ) -> Self:
        """The same job with options for enqueueing it.

        ``key``: one live run per job and key. ``unique_for``: the key stays taken so long, also after the run has
        ended. ``delay`` or ``at`` (aware): when it is due. ``queue``: another one than the job's own.

        >>> run = app.enqueue(fan_out.using(key="m1", delay=timedelta(minutes=5)), molt_id="m1")  # doctest: +SKIP

        Raises:
            InputRefusedError: options that contradict each other, a naive datetime, a negative delay.
        """
        options = Options(key=key, unique_for=unique_for, delay=delay, at=at, queue=queue)
        return replace(self, options=options)

    def call(self, /, *args: Params.args, **kwargs: Params.kwargs) -> JobCall[Returned]:
        """A call to be enqueued together with others; see ``App.enqueue_many``. Nothing is sent.

        >>> app.enqueue_many(fan_out.using(key=molt).call(molt_id=molt) for molt in molts)  # doctest: +SKIP
        """
        return JobCall(job=self, args=args, kwargs=kwargs)

    def to_payload(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
        """The arguments of a call, encoded.

        Raises:
            InputRefusedError: the call does not fit the function's signature, or a value cannot be stored.
        """
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise InputRefusedError(f"{self.name}{self.signature}: {error}") from None
        return codec.encode(dict(bound.arguments), path=self.name)

    def digest(self, data: bytes) -> str:
        """The same for the same call: neither the order of keys nor spelling out a default makes a difference."""
        given = codec.decode(data)
        return codec.canonical_digest(
            {name: value for name, value in given.items() if not self._is_default(name, value)}
        )

    def from_payload(self, data: bytes) -> inspect.BoundArguments:
        """The arguments as they were when the run was enqueued.

        Raises:
            PayloadUnreadableError: the bytes cannot be decoded, or do not fit today's signature.
        """
        given = codec.decode(data)
        if not isinstance(given, dict):
            raise PayloadUnreadableError("not the arguments of a call", raw=data)
        bound = inspect.BoundArguments(self.signature, given)
        try:
            self.signature.bind(*bound.args, **bound.kwargs)
        except TypeError as error:
            raise PayloadUnreadableError(f"it does not fit {self.name}{self.signature}: {error}", raw=data) from None
        unknown = given.keys() - self.signature.parameters.keys()
        if unknown:
            raise PayloadUnreadableError(
                f"{self.name}{self.signature} has no parameter {', '.join(sorted(unknown))}", raw=data
            )
        missing = self.mutable_defaults.keys() - given.keys()
        if missing:
            bound.apply_defaults()
            bound.arguments.update({name: copy.deepcopy(self.mutable_defaults[name]) for name in missing})
        return bound

    def _is_default(self, name: str, value: object) -> bool:
        parameter = self.signature.parameters.get(name)
        if parameter is None or parameter.default is _MISSING:
            return False
        try:
            return codec.encode(self.mutable_defaults.get(name, parameter.default)) == codec.encode(value)
        except InputRefusedError:  # a default that cannot be stored was not given by the caller
            return False


Returned_co = TypeVar("Returned_co", covariant=True)


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class JobCall(Generic[Returned_co]):
    """A job with the arguments of one call; made by ``job.call(...)``."""

    job: Job[..., Returned_co]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False, slots=True)
class AsyncJob(Job[Params, Returned]):
    """A durable ``async def``: await it to run it here and now, give it to ``app.enqueue`` to run it durably."""

    def __call__(  # type: ignore[override]  # what differs between the two is exactly this
        self, /, *args: Params.args, **kwargs: Params.kwargs
    ) -> Coroutine[Any, Any, Returned]:
        """Run the function here and now, for instance in a unit test."""
        return super(AsyncJob, self).__call__(*args, **kwargs)  # type: ignore[return-value]


def define(
    function: Callable[..., Any],
    *,
    name: str | None,
    queue: str,
    retry: Retry,
    context_types: tuple[type, ...],
    wrong_contexts: tuple[type, ...] = (),
    keep_result: timedelta | None,
    keep_failed: timedelta | None,
    keep_history: timedelta | None = None,
    is_workflow: bool = False,
) -> Job[Any, Any]:
    """Look at a function and make a job of it.

    Raises:
        ConfigurationError: not a function, or options that cannot be used.
    """
    _check_function(function, name)
    for what, keep in (("keep_result", keep_result), ("keep_failed", keep_failed), ("keep_history", keep_history)):
        if keep is not None:
            instant.clamp_delay(keep, what, error=ConfigurationError)
    signature = inspect.signature(function, eval_str=False)
    is_async = inspect.iscoroutinefunction(function)
    if is_annotated_as(function, signature, wrong_contexts):
        kind, right = ("an `async def`" if is_async else "no `async def`"), context_types[-1].__name__
        raise ConfigurationError(f"{function.__qualname__} is {kind}: its first parameter must be a {right}")
    takes_context = is_workflow or takes_a_context(function, signature, context_types)
    if takes_context:
        signature = _without_first(function, signature)
    kind_of_job = AsyncJob if is_async else Job
    return kind_of_job(
        function=function,
        name=name or function.__name__,
        queue=queue,
        retry=retry,
        takes_context=takes_context,
        is_async=is_async,
        signature=signature,
        keep_result=keep_result,
        keep_failed=keep_failed,
        keep_history=keep_history,
        is_workflow=is_workflow,
        mutable_defaults=_mutable_defaults(signature),
    )


def _mutable_defaults(signature: inspect.Signature) -> dict[str, Any]:
    given = {name: parameter.default for name, parameter in signature.parameters.items()}
    return {
        name: copy.deepcopy(default)
        for name, default in given.items()
        if isinstance(default, (list, dict, set, bytearray))
    }


def _check_function(function: Callable[..., Any], name: str | None) -> None:
    if isinstance(function, (staticmethod, classmethod)) or inspect.isclass(function) or not callable(function):
        raise ConfigurationError(f"a job must be a plain function, not {function!r}")
    if not hasattr(function, "__qualname__"):
        raise ConfigurationError(f"a job must be a function with a name, not {function!r}: wrap it in a `def`")
    if function.__name__ == "<lambda>" and name is None:
        raise ConfigurationError("a lambda has no name that could stand in the table: give it one with name=")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ConfigurationError(f"{function.__qualname__} is a generator: a job must be a function that returns")


def _without_first(function: Callable[..., Any], signature: inspect.Signature) -> inspect.Signature:
    parameters = list(signature.parameters.values())
    if not parameters:
        raise ConfigurationError(f"{function.__qualname__} must take its context as its first parameter")
    return signature.replace(parameters=parameters[1:])
