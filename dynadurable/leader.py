"""Leader election: of all processes one leads, and runs its duties while it does."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from datetime import timedelta
from types import TracebackType
from typing import Any, Self, TypeVar, overload

from .clock import Clock
from .errors import ConfigurationError, DynadurableError, Interrupted
from .forks import renew_after_fork
from .lease import Lease, LeaseBase
from .model.duty import Duty, define, delay_seconds
from .worker.contest import Contest, LeaseParts, LeaseTerms, NamedTenure
from .worker.signals import Flag, stop_on_signals

log = logging.getLogger("dynadurable.leader")

Function = TypeVar("Function", bound=Callable[..., Any])

DEFAULT_TTL = timedelta(seconds=15)
DEFAULT_GRACE = timedelta(seconds=25)
RETRY_SECONDS = 1.0
LOOK_SECONDS = 0.2
EXIT_OK = 0
EXIT_ABANDONED = 2


class TermBase:
    """What ``Term`` and ``AioTerm`` have in common.

    ``stopping`` is set when the term is over: the lease is lost, or the leader stops. A duty should end then.
    """

    def __init__(self, lease: LeaseBase, clock: Clock) -> None:
        self.lease = lease
        """The lease that this process leads by: for its fence and its ``condition_check()``."""
        self.stopping = threading.Event()
        self._clock = clock

    @property
    def fence(self) -> int:
        """Grows with each term, over all processes."""
        return self.lease.fence

    def condition_check(self) -> dict[str, Any]:
        """An element for your ``transact_write_items``: it fails if another process leads. See ``Lease``."""
        return self.lease.condition_check()

    def raise_if_over(self) -> None:
        """End the duty here if the term is over.

        Raises:
            Interrupted: not an ``Exception``; let it pass.
        """
        if self.stopping.is_set() or not self.lease.is_valid():
            raise Interrupted("stopping" if self.lease.is_valid() else "lease lost")


class Term(TermBase):
    """One term of leadership; given to duties that take a parameter."""

    def wait(self, seconds: float) -> bool:
        """Wait, but not beyond the end of the term; true if that has come."""
        return self._clock.wait(self.stopping, seconds)


class LeaderBase:
    """What ``Leader`` and ``AioLeader`` have in common."""

    def __init__(
        self,
        parts: LeaseParts,
        name: str,
        duties: Sequence[Callable[..., Any]],
        *,
        ttl: timedelta,
        is_async: bool,
        on_error: Callable[[str, BaseException], None] | None = None,
    ) -> None:
        self._parts = parts
        self._terms = LeaseTerms(name=name, ttl=ttl)
        self._is_async = is_async
        self._duties: list[Duty] = [define(function, None, is_async=is_async) for function in duties]
        self._on_error = on_error
        self._term: TermBase | None = None
        self.name = name

    @overload
    def duty(self, function: Function, /) -> Function: ...
    @overload
    def duty(self, *, every: timedelta | None = None) -> Callable[[Function], Function]: ...
    def duty(  # type: ignore[misc]  # the signatures that count are the overloads above
        self, function: Any = None, /, *, every: timedelta | None = None
    ) -> Any:
        """Add a duty; used bare (``@leader.duty``) or with ``every``. Before the leader starts.

        It is called when this process comes to lead, with the ``Term`` if it takes a parameter. One that returns is
        done for this term, or is called again after ``every``. One that raises is logged and started again, after
        1, 2, 4, ... 60 s; the others go on, and so does the leadership.
        """

        def add(function: Callable[..., Any]) -> Callable[..., Any]:
            self._duties.append(define(function, every, is_async=self._is_async))
            return function

        return add if function is None else add(function)

    @property
    def is_leader(self) -> bool:
        """Whether this process leads, by the local clock. Asks nobody."""
        return self._term is not None and self._term.lease.is_valid()

    @property
    def fence(self) -> int | None:
        """Of the term, while this process leads."""
        term = self._term
        return None if term is None else term.fence

    def _failed(self, duty: Duty, error: BaseException, seconds: float) -> None:
        log.error("duty %s of leader %r raised, again in %g s", duty.name, self.name, seconds, exc_info=error)
        if self._on_error is None:
            return
        try:
            self._on_error(duty.name, error)
        except Exception:
            log.exception("the on_error hook of leader %r raised", self.name)


class Leader(LeaderBase):
    """Made by ``app.leader(...)``. Each duty runs in a thread of its own. Used once.

    >>> leader = app.leader("housekeeping", ttl=timedelta(seconds=15))  # doctest: +SKIP
    >>> @leader.duty(every=timedelta(seconds=5))  # doctest: +SKIP
    ... def refresh(term: Term) -> None: ...
    >>> leader.run()  # until SIGTERM  # doctest: +SKIP
    """

    def __init__(
        self,
        parts: LeaseParts,
        name: str,
        duties: Sequence[Callable[..., Any]] = (),
        *,
        ttl: timedelta = DEFAULT_TTL,
        on_error: Callable[[str, BaseException], None] | None = None,
    ) -> None:
        super().__init__(parts, name, duties, ttl=ttl, is_async=False, on_error=on_error)
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._left: list[str] = []
        self._grace_seconds = DEFAULT_GRACE.total_seconds()
        renew_after_fork(self)

    def after_fork(self) -> None:
        """A forked child does not stand: its parent goes on."""
        self._term, self._thread = None, None

    def start(self) -> None:
        """Stand for election in the background. End it with ``stop()``.

        Raises:
            ConfigurationError: there is no duty, or it was started before.
        """
        if self._thread is not None or self._stopping.is_set():
            raise ConfigurationError("a leader is used once: ask the app for another with app.leader()")
        if not self._duties:
            raise ConfigurationError(f"leader {self.name!r} has nothing to do: give it duties")
        self._thread = threading.Thread(target=self._stand, name=f"dynadurable-leader-{self.name}", daemon=True)
        self._thread.start()

    def stop(self, *, grace: timedelta = DEFAULT_GRACE) -> Sequence[str]:
        """Stand no more: duties are told, and have until the end of ``grace``; then another process may lead at once.

        Gives the names of duties that would not end. If there are any, the lease is not released but runs out, so that
        the next leader does not begin beside them. May be called twice.
        """
        self._grace_seconds = grace.total_seconds()
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(self._grace_seconds + 10)
        return list(self._left)

    def run(self, *, grace: timedelta = DEFAULT_GRACE) -> int:
        """Stand for election until SIGTERM or SIGINT, then stop.

        Returns the exit code for the process: 0, or 2 if a duty would not end within the grace period.
        """
        told = Flag()
        with stop_on_signals(told, Flag()):
            self.start()
            while not told.is_set() and self._thread is not None and self._thread.is_alive():
                self._thread.join(LOOK_SECONDS)
            left = self.stop(grace=grace)
        return EXIT_ABANDONED if left else EXIT_OK

    def __enter__(self) -> Self:
        """Stand for election inside the block."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop."""
        self.stop()

    # --- the thread that stands -------------------------------------------------------------------

    def _stand(self) -> None:
        contest = Contest(self._parts, self._terms)
        while not self._stopping.is_set():
            try:
                step = self._parts.driver.run(contest.step())
            except DynadurableError as error:
                log.warning("standing for leader %r failed, trying again: %s", self.name, error)
                step = RETRY_SECONDS
            except Exception:  # a defect must not end the candidacy silently
                log.exception("standing for leader %r failed, trying again", self.name)
                step = RETRY_SECONDS
            if isinstance(step, NamedTenure):
                self._serve(step)
                contest = Contest(self._parts, self._terms)
            else:
                self._parts.clock.wait(self._stopping, step)

    def _serve(self, tenure: NamedTenure) -> None:
        """One term, from its first duty to the end of the last."""
        lease = Lease(self._parts, self.name, ttl=self._terms.ttl)
        lease.begin(tenure)
        self._term = term = Term(lease, self._parts.clock)
        tenure.listen(lambda _reason: term.stopping.set())
        log.info("this process leads %r, fence %d", self.name, tenure.fence)
        threads = [self._begin(duty, term) for duty in self._duties]
        while not self._stopping.is_set() and not lease.lost.is_set():
            self._parts.clock.wait(lease.lost, LOOK_SECONDS)
        term.stopping.set()
        self._await(threads)
        if any(thread.is_alive() for thread in threads):
            self._left = [thread.name for thread in threads if thread.is_alive()]
            log.error("duties of leader %r would not end: %s; the lease runs out", self.name, self._left)
            lease.abandon()
        else:
            lease.release()
        self._term = None
        log.info("this process leads %r no more", self.name)

    def _begin(self, duty: Duty, term: Term) -> threading.Thread:
        thread = threading.Thread(target=self._perform, args=(duty, term), name=duty.name, daemon=True)
        thread.start()
        return thread

    def _await(self, threads: Sequence[threading.Thread]) -> None:
        """Until all have ended. Once the leader stops, within its grace period.

        Without a stop as long as it takes: this process must not stand again beside a duty of its last term.
        """
        clock, give_up_at = self._parts.clock, None
        for thread in threads:
            while thread.is_alive():
                if self._stopping.is_set():
                    give_up_at = give_up_at or clock.monotonic() + self._grace_seconds
                    if clock.monotonic() >= give_up_at:
                        return
                thread.join(LOOK_SECONDS)

    # --- the threads of duties --------------------------------------------------------------------

    def _perform(self, duty: Duty, term: Term) -> None:
        failures, clock = 0, self._parts.clock
        while not term.stopping.is_set():
            began = clock.monotonic()
            try:
                duty.function(*([term] if duty.takes_term else []))
            except Interrupted:
                return
            except BaseException as error:
                if term.stopping.is_set():
                    log.warning("duty %s of leader %r raised at its end", duty.name, self.name, exc_info=error)
                    return
                failures, seconds = delay_seconds(failures, lasted_seconds=clock.monotonic() - began)
                self._failed(duty, error, seconds)
            else:
                if duty.every is None:
                    return
                failures, seconds = 0, duty.every.total_seconds() - (clock.monotonic() - began)
            term.wait(max(0.0, seconds))
