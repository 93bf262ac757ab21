"""Many workers that start at the same time, many runs in one place, and runs whose hashes are the same."""

from __future__ import annotations

import threading
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dynadurable import App, Queue
from dynadurable.errors import KeyConflictError
from dynadurable.storage import keys
from dynadurable.testing.memory import MemoryStore
from tests.patience import until
from tests.servers import Store

WORKERS = 10
FAST = (timedelta(seconds=0.02), timedelta(seconds=0.1))


class Crowd:
    """Apps of ten processes on one table, and what their bodies have done."""

    def __init__(self, store: Store) -> None:
        self.table = store.table()
        self.store = store
        self.did: Counter[int] = Counter()
        self._lock = threading.Lock()

    def app(self) -> tuple[App, Any]:
        app = App(self.table, client=self.store.new_client(), queues=[Queue(name="default", shards=1)])

        @app.job
        def count(number: int) -> None:
            with self._lock:
                self.did[number] += 1

        return app, count

    def work(self, runs: int) -> None:
        """Ten workers begin at the same moment, before so many runs."""
        app, count = self.app()
        app.enqueue_many(count.call(number) for number in range(runs))
        workers = [self.app()[0].worker(queues=["default"], concurrency=2, poll=FAST) for _ in range(WORKERS)]
        start = threading.Barrier(WORKERS)

        def begin(worker: Any) -> None:
            start.wait(30)
            worker.start()

        threads = [threading.Thread(target=begin, args=(worker,)) for worker in workers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        until(lambda: len(self.did) == runs and app.queues.get("default").in_flight == 0, "every run")
        assert {worker.stop().exit_code for worker in workers} == {0}
        told = app.queues.get("default")
        assert (told.waiting, told.in_flight, told.delayed, told.dead) == (0, 0, 0, 0)


@pytest.mark.needs("one_winner", "own_process", "transactions")
@pytest.mark.parametrize("runs", [1, WORKERS], ids=["one mark", "a mark for each"])
def test_ten_workers_that_start_at_once_do_each_run_once(server_store: Store, runs: int) -> None:
    crowd = Crowd(server_store)
    crowd.work(runs)
    assert crowd.did == dict.fromkeys(range(runs), 1)
