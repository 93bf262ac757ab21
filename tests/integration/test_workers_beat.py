"""A health check sees by the beats whether a worker's search for work gets on, and nothing else makes it beat."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ReadTimeoutError

from dynadurable import App
from dynadurable.drivers.clients import CONNECT_TIMEOUT_SECONDS, READ_TIMEOUT_SECONDS
from dynadurable.testing.clock import ManualClock
from dynadurable.testing.memory import MemoryClient, MemoryStore
from dynadurable.worker.heartbeat import Heartbeat
from dynadurable.worker.worker import Worker

PATIENCE_SECONDS = 30
PROMISED_SECONDS = 20
STALE_SECONDS = 120
"""From when on the health check of a container takes a worker for hung."""
A_DAY = timedelta(days=1)


class Beats(Heartbeat):
    """Notes at what time it was told to beat."""

    def __init__(self, clock: ManualClock, *, enough: int) -> None:
        super().__init__(None)
        self._clock = clock
        self._left = enough
        self.at: list[float] = []
        self.enough = threading.Event()

    def beat(self) -> None:
        self.at.append(self._clock.monotonic())
        self._left -= 1
        if self._left <= 0:
            self.enough.set()

    def more(self, number: int) -> threading.Event:
        """Set after so many further beats."""
        self._left, self.enough = number, threading.Event()
        return self.enough

    @property
    def longest_gap(self) -> float:
        return max(later - earlier for earlier, later in pairwise(self.at))


class TurningClock(ManualClock):
    """Time passes as fast as the search for work waits for it."""

    def wait(self, event: threading.Event, seconds: float) -> bool:
        if threading.current_thread().name != "dynadurable-dispatch":
            return super().wait(event, seconds)
        self.advance(timedelta(seconds=seconds))
        return event.is_set()


class Slowed:
    """A client whose queries do something first."""

    def __init__(self, query: Any) -> None:
        self._client = MemoryClient(MemoryStore())
        self._query = query
        self.meta = self._client.meta
        self.queries = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def query(self, **params: Any) -> Any:
        self.queries += 1
        self._query()
        return self._client.query(**params)


def watched(worker: Worker, clock: ManualClock, *, enough: int = 3) -> Beats:
    worker.engine.heartbeat = beats = Beats(clock, enough=enough)
    return beats


def app_on(clock: ManualClock, client: Any = None) -> App:
    app = App("shop", client=client or MemoryClient(MemoryStore()), clock=clock)
    app.create_table()
    return app


def test_an_idle_worker_beats_in_time_although_its_polls_are_far_apart() -> None:
    clock, client = TurningClock(), Slowed(lambda: None)
    app = app_on(clock, client)

    @app.job
    def work() -> None: ...

    worker = app.worker()
    beats = watched(worker, clock, enough=500)
    worker.start()
    assert beats.enough.wait(PATIENCE_SECONDS)
    worker.stop()
    assert beats.longest_gap <= PROMISED_SECONDS
    shards, polls = 4, 10 + clock.monotonic() / 18
    assert client.queries < 32 + shards * polls, "the turns of the loop are no polls"


def test_a_worker_whose_slots_are_all_busy_beats_in_time() -> None:
    clock = TurningClock()
    app, busy, release = app_on(clock), threading.Event(), threading.Event()

    @app.job
    def work() -> None:
        busy.set()
        assert release.wait(PATIENCE_SECONDS)

    app.enqueue(work)
    worker = app.worker(concurrency=1, lease=A_DAY)
    beats = watched(worker, clock)
    worker.start()
    assert busy.wait(PATIENCE_SECONDS)
    assert beats.more(50).wait(PATIENCE_SECONDS)
    release.set()
    worker.stop()
    assert beats.longest_gap <= PROMISED_SECONDS


def test_a_worker_whose_search_for_work_hangs_stops_beating() -> None:
    hangs, release = threading.Event(), threading.Event()

    def hang() -> None:
        hangs.set()
        assert release.wait(PATIENCE_SECONDS)

    clock = ManualClock()
    app = app_on(clock, Slowed(hang))

    @app.job
    def work() -> None: ...

    worker = app.worker()
    beats = watched(worker, clock)
    worker.start()
    assert hangs.wait(PATIENCE_SECONDS)
    assert not beats.more(1).wait(0.2)
    release.set()
    assert beats.more(1).wait(PATIENCE_SECONDS)
    worker.stop()


def test_a_store_that_answers_slowly_is_no_worker_that_hangs() -> None:
    """Each page of a poll is a beat."""
    clock = TurningClock()
    client = Slowed(lambda: clock.advance(timedelta(seconds=READ_TIMEOUT_SECONDS)))
    app = app_on(clock, client)

    @app.job
    def work() -> None: ...

    worker = app.worker()
    beats = watched(worker, clock, enough=100)
    worker.start()
    assert beats.enough.wait(PATIENCE_SECONDS)
    worker.stop()
    assert beats.longest_gap <= PROMISED_SECONDS


def test_a_store_that_does_not_answer_is_no_worker_that_hangs(caplog: pytest.LogCaptureFixture) -> None:
    """To replace the worker would help nobody, and its bodies may go on without the store."""
    clock = TurningClock()

    def time_out() -> None:
        clock.advance(timedelta(seconds=CONNECT_TIMEOUT_SECONDS + READ_TIMEOUT_SECONDS))
        raise ReadTimeoutError(endpoint_url="memory://")

    app = app_on(clock, Slowed(time_out))

    @app.job
    def work() -> None: ...

    worker = app.worker()
    beats = watched(worker, clock, enough=20)
    worker.start()
    assert beats.enough.wait(PATIENCE_SECONDS)
    worker.stop()
    assert beats.longest_gap < STALE_SECONDS / 2


def test_a_drain_beats_while_it_waits_for_its_bodies() -> None:
    clock = ManualClock()
    app = app_on(clock)

    @app.job
    def work() -> None:
        assert beats.more(3).wait(PATIENCE_SECONDS)

    app.enqueue(work)
    worker = app.worker(concurrency=1)
    beats = watched(worker, clock)
    worker.drain()
    assert app.queues.get("default").waiting == 0


def test_a_worker_that_stops_beats_while_it_gives_its_bodies_time() -> None:
    clock, started = ManualClock(), threading.Event()
    app = app_on(clock)

    @app.job
    def work() -> None:
        while not worker.engine.stopping.is_set():
            started.set()
        assert beats.more(3).wait(PATIENCE_SECONDS)

    app.enqueue(work)
    worker = app.worker(concurrency=1, lease=A_DAY)
    beats = watched(worker, clock)
    worker.start()
    assert started.wait(PATIENCE_SECONDS)
    assert worker.stop(grace=A_DAY).exit_code == 0


def test_a_worker_on_an_event_loop_beats_too() -> None:
    clock = ManualClock()
    app = app_on(clock)

    @app.job
    async def work() -> None:
        assert await asyncio.to_thread(beats.more(3).wait, PATIENCE_SECONDS)

    app.enqueue(work)
    made = app.aio.worker()
    beats = watched(made._worker, clock)

    async def main() -> None:
        await made.drain()

    asyncio.run(main())
    assert app.queues.get("default").waiting == 0


def test_the_environment_names_the_file_of_every_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "heartbeat"
    monkeypatch.setenv("DYNADURABLE_HEARTBEAT_FILE", str(file))
    app = app_on(ManualClock())

    @app.job
    def work() -> None: ...

    app.worker().drain()
    assert file.exists()
