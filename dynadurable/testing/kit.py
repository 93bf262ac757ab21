"""Run and assert: what a test of durable code wants to do, on a table of its own and a clock that it turns."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from dynadurable.app import App
from dynadurable.clock import to_datetime
from dynadurable.errors import ConfigurationError, DynadurableError
from dynadurable.handle import RunHandle
from dynadurable.model import codec
from dynadurable.model.job import Job
from dynadurable.model.run_info import SUCCEEDED
from dynadurable.model.timeline import Event
from dynadurable.storage import journal, marks, queues, runs
from dynadurable.storage.items import Mark, Run
from dynadurable.storage.keys import RUN_SORT_KEY, parse_mark_sort_key, parse_partition, unescape
from dynadurable.storage.marks import Candidate
from dynadurable.storage.schedules import SCHEDULE_JOB
from dynadurable.testing.backend import Backend
from dynadurable.testing.clock import ManualClock
from dynadurable.testing.ledger import Ledger, ledger
from dynadurable.testing.redirect import redirected
from dynadurable.testing.single import attempt

MAX_SKIPS = 1_000
PAGE_ITEMS = 100
ENDS = frozenset({"succeeded", "retrying", "snoozed", "dead", "cancelled", "handed back", "lost", "parked"})


@dataclass(frozen=True, kw_only=True)
class EnqueuedRun:
    """A run that is pending: its job's name, its arguments, and when it is due."""

    run_id: str
    job: str
    arguments: dict[str, Any]
    due_at: datetime
    attempt: int


class Kit:
    """What the fixture ``durable`` gives. ``app`` works on a table of its own; ``clock`` moves only when told to.

    >>> def test_a_receipt_is_sent_a_day_later(durable):  # doctest: +SKIP
    ...     shop.place_order("o-17")
    ...     durable.assert_enqueued(shop.send_receipt, order_id="o-17")
    ...     durable.clock.advance(timedelta(days=1))
    ...     durable.run_until_idle()
    ...     assert outbox == ["o-17"]
    """

    def __init__(self, app: App, backend: Backend, clock: ManualClock) -> None:
        self.app = app
        self.backend = backend
        self.clock = clock
        self.client = backend.client
        """A low-level client on the same store, for the items of the code under test."""
        self.events: Counter[str] = Counter()
        """What workers did, by event: ``claimed``, ``started``, ``succeeded``, ``retrying``, ``dead`` and so on."""
        self.effects: Counter[str] = Counter()
        """The side effects that were noted with ``effect``."""
        self.is_working = False
        """Whether a worker is at work, or was when its process died."""
        self.doing = ""
        """The body that was called last, until its attempt ends: a job's name, or ``step NAME``."""
        self._starts: Counter[str] = Counter()
        self._steps: Counter[str] = Counter()
        self._lock = threading.Lock()

    # --- run --------------------------------------------------------------------------------------

    def run_until_idle(self, *, skip_time: bool = False, concurrency: int = 1) -> datetime | None:
        """Work until nothing is due; gives when the next thing is. With ``skip_time`` the clock goes on to that, too.

        Raises:
            DynadurableError: with ``skip_time``, work that never comes to an end.
        """
        return self._work(concurrency, until=None) if skip_time else self._drain(concurrency)

    def run_for(self, duration: timedelta, *, concurrency: int = 1) -> datetime | None:
        """Let that much time pass, and do what comes due on the way when it is due; gives when the next thing is.

        ``clock.advance`` and ``run_until_idle`` are what a worker finds that was away for so long; this is one that
        was there.

        Raises:
            DynadurableError: more comes due than anybody would wait for.
        """
        end = self.clock.now() + duration
        due_at = self._work(concurrency, until=end)
        self.clock.advance(max(timedelta(), end - self.clock.now()))
        return due_at

    def run_one(self) -> str | None:
        """Work on the one run that is first in line; gives the event that its attempt ended with, ``None`` if idle."""
        while True:
            claimable = filter(self._is_claimable, self._candidates())
            due = sorted(claimable, key=lambda seen: (seen.due_ms, seen.order))
            ticks = [seen for seen in due if seen.job == SCHEDULE_JOB]
            if not due:
                return None
            self.is_working = True
            event = attempt(self.app, (ticks or due)[0], queues=self._queues(), hook=self._hook)
            self.is_working = False
            if not ticks and event in ENDS:
                return event

    # --- look -------------------------------------------------------------------------------------

    @property
    def enqueued(self) -> Sequence[EnqueuedRun]:
        """The runs that are pending or running, in due order."""
        found = [self._to_enqueued(mark) for mark in self._marks()]
        return sorted((run for run in found if run is not None), key=lambda run: (run.due_at, run.run_id[-22:]))

    def assert_enqueued(self, job: Job[Any, Any] | str, **matching: Any) -> EnqueuedRun:
        """The pending run of that job with these arguments (others may have any value); fails if there is none."""
        name = job if isinstance(job, str) else job.name
        of_job = [run for run in self.enqueued if run.job == name]
        for run in of_job:
            if all(key in run.arguments and run.arguments[key] == value for key, value in matching.items()):
                return run
        pending = "\n".join(f"  {run.job}({_shown(run.arguments)})" for run in self.enqueued) or "  nothing"
        raise AssertionError(f"no run of {name}({_shown(matching)}) is pending; pending are:\n{pending}")

    def assert_not_enqueued(self, job: Job[Any, Any] | str, **matching: Any) -> None:
        """Fails if a run of that job with these arguments is pending."""
        try:
            run = self.assert_enqueued(job, **matching)
        except AssertionError:
            return
        raise AssertionError(f"a run of {run.job}({_shown(run.arguments)}) is pending")

    @property
    def dead_letters(self) -> Sequence[Any]:
        """The dead letters, newest first; see ``app.dead.list``."""
        return self.app.dead.list()

    def results(self, job: Job[Any, Any] | str) -> list[Any]:
        """What the runs of a job or workflow returned, for one that keeps its results; in the order of their enqueues.

        Raises:
            ConfigurationError: it keeps none.
        """
        name = job if isinstance(job, str) else job.name
        defined = self.app.registry.get(name)
        if defined is None or defined.keep_result is None:
            raise ConfigurationError(f"{name} keeps no results: say keep_result= where it is defined")
        found = [run for run in self._runs() if run.job == name and run.state == SUCCEEDED]
        return [self.app.run(_run_id(self.app, run)).result() for run in sorted(found, key=_birth_order)]

    def steps(self, run: RunHandle[Any] | str) -> dict[str, Event]:
        """The operations of a workflow's run by name, such as ``steps(run)["charge"].state``; a repeat ends in "#2".

        Raises:
            RunUnknownError: there is no such workflow.
        """
        run_id = run if isinstance(run, str) else run.id
        return {event.label: event for event in self.app.workflows.timeline(run_id)}

    def body_starts(self, job: Job[Any, Any] | str) -> int:
        """How often the body of a job was started."""
        return self._starts[job if isinstance(job, str) else job.name]

    @property
    def bodies(self) -> Counter[str]:
        """How often each body was called: jobs by name, steps as ``step NAME``."""
        with self._lock:
            return Counter(self._starts) + Counter({f"step {name}": count for name, count in self._steps.items()})

    def step_calls(self, step: str) -> int:
        """How often the body of a workflow's step was called, in all runs; replayed results are no calls."""
        return self._steps[step]

    @contextmanager
    def cost(self) -> Iterator[Ledger]:
        """Counts the request units that are spent inside: ``with durable.cost() as cost: ...; cost.write_units``."""
        with ledger(self.client) as counted:
            yield counted

    def own_items(self) -> list[dict[str, Any]]:
        """The items in the table that are not dynadurable's, as stored."""
        return [item for item in self.all_items() if "dd_v" not in item]

    def all_items(self) -> list[dict[str, Any]]:
        """Everything in the table, as stored."""
        found: list[dict[str, Any]] = []
        start: dict[str, Any] = {}
        while True:
            page = self.client.scan(TableName=self.backend.table, **start)
            found.extend(page["Items"])
            if "LastEvaluatedKey" not in page:
                return found
            start = {"ExclusiveStartKey": page["LastEvaluatedKey"]}

    # --- side effects -----------------------------------------------------------------------------

    def effect(self, name: str) -> None:
        """Note a side effect on the outside world; call it from the fakes of your test. See ``effects``."""
        with self._lock:
            self.effects[name] += 1

    # --- inside -----------------------------------------------------------------------------------

    def _work(self, concurrency: int, *, until: datetime | None) -> datetime | None:
        """Work, and turn the clock on to whatever is next, until nothing is or that is later than ``until``.

        Without ``until`` it is turned to the next run that is pending: schedules would never come to an end.
        """
        due_at = self._drain(concurrency)
        for _ in range(MAX_SKIPS):
            if until is None:
                due_at = self._next_run_at()
            if due_at is None or (until is not None and due_at > until):
                return due_at
            self.clock.advance(max(timedelta(milliseconds=1), due_at - self.clock.now()))
            due_at = self._drain(concurrency)
        raise DynadurableError(f"something comes due again and again: {MAX_SKIPS} times so far, next {due_at}")

    def _next_run_at(self) -> datetime | None:
        """When the next pending run may be claimed; those of schedules that wait for a slot are none yet."""
        known = [seen for seen in self._candidates() if self._is_known(seen) and seen.job != SCHEDULE_JOB]
        next_ms = min((max(seen.due_ms, (seen.lease_until_ms or -1) + 1) for seen in known), default=None)
        return None if next_ms is None else to_datetime(next_ms)

    def _drain(self, concurrency: int) -> datetime | None:
        self.is_working = True
        due_at = self.app.worker(concurrency=concurrency, hook=self._hook, queues=self._queues()).drain()
        self.is_working = False
        return due_at

    def _queues(self) -> list[str]:
        return self.app.operations.known_queues() or ["default"]

    def _hook(self, event: str, name: str, _run_id: str) -> None:
        with self._lock:
            self.events[event] += 1
            if event == "started":
                self._starts[name] += 1
                self.doing = name
            elif event == "step":
                self._steps[name] += 1
                self.doing = f"step {name}"
            elif event in ENDS or event == "claimed":
                self.doing = ""

    def _marks(self) -> Iterator[Mark]:
        for seen in self._candidates():
            mark = self.app.driver.run(marks.read(self.app.items, seen.pk, seen.sk))
            if mark is not None:
                yield mark

    def _candidates(self) -> Iterator[Candidate]:
        items, run = self.app.items, self.app.driver.run
        for name in self._queues():
            for shard in range(self.app.operations.queue(name).shards):
                start = None
                while True:
                    page = run(marks.poll(items, queue=name, shard=shard, limit=PAGE_ITEMS, until_ms=None, start=start))
                    yield from page.candidates
                    start = page.next_start
                    if start is None:
                        break

    def _is_known(self, seen: Candidate) -> bool:
        return seen.job == SCHEDULE_JOB or self.app.registry.get(seen.job) is not None

    def _is_claimable(self, seen: Candidate) -> bool:
        now_ms = self.clock.now_ms()
        free = seen.lease_until_ms is None or seen.lease_until_ms < now_ms
        return seen.due_ms <= now_ms and free and self._is_known(seen) and not self._is_paused(seen)

    def _is_paused(self, seen: Candidate) -> bool:
        found = parse_partition(self.app.schema, seen.pk)
        assert found is not None
        queue = unescape(found[1].rpartition("#")[0])
        return self.app.driver.run(queues.is_paused(self.app.items, queue))

    def _to_enqueued(self, mark: Mark) -> EnqueuedRun | None:
        key = parse_mark_sort_key(mark.sk)
        if key is None or mark.job == SCHEDULE_JOB:
            return None
        data = self._input_of(key.run_id) if mark.is_pointer else mark.input
        arguments = codec.decode(data) if data is not None else {}
        due_at = self.clock.now() + timedelta(milliseconds=key.due_ms - self.clock.now_ms())
        return EnqueuedRun(
            run_id=key.run_id, job=mark.job, arguments=arguments, due_at=due_at, attempt=int(mark.attempt)
        )

    def _input_of(self, run_id: str) -> bytes | None:
        run = self.app.driver.run(runs.read(self.app.items, run_id))
        if run is None or not run.workflow:
            data: bytes | None = None if run is None else run.input
            return data
        return self.app.driver.run(journal.load(self.app.items, run)).input

    def _runs(self) -> list[Run]:
        """The run items in the table."""
        sort_key = self.app.schema.sort_key
        found = [item for item in self.all_items() if "dd_v" in item and item[sort_key] == {"S": RUN_SORT_KEY}]
        return [self.app.items.run.from_raw_data(item) for item in found]


@contextmanager
def kit(app: App, backend: Backend, clock: ManualClock | None = None, *, shards: int | None = None) -> Iterator[Kit]:
    """A kit around an app, which works on that backend's table and by that clock while inside; see ``redirected``."""
    turned = clock or ManualClock()
    with redirected(app, table=backend.table, client=backend.client, clock=turned, shards=shards):
        yield Kit(app, backend, turned)


def _run_id(app: App, run: Run) -> str:
    found = parse_partition(app.schema, run.pk)
    assert found is not None
    return found[1]


def _birth_order(run: Run) -> tuple[int, str]:
    return int(run.created_ms), run.pk[-22:]


def _shown(arguments: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in arguments.items())
