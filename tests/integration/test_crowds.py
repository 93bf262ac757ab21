"""Many workers that start at the same time, many runs in one place, and runs whose hashes are the same."""

from __future__ import annotations

import gc
import threading
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from dynadurable import App, Queue
from dynadurable.errors import KeyConflictError
from dynadurable.storage import keys
from dynadurable.testing.memory import MemoryClient, MemoryStore
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


class SameHash:
    """Stands where ``hashlib`` does: whatever is hashed, the hash is the same."""

    @staticmethod
    def sha256(_data: bytes) -> Any:
        class Hash:
            def digest(self) -> bytes:
                return bytes(32)

        return Hash()


def test_two_keys_of_one_hash_are_not_taken_for_each_other(
    make_app: Callable[..., App], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their runs would have one id: the second is refused by name, and begins once the first has ended."""
    monkeypatch.setattr(keys, "hashlib", SameHash)
    app, done = make_app(), []

    @app.job
    def note(number: int) -> None:
        done.append(number)

    first = app.enqueue(note.using(key="a"), number=1)
    with pytest.raises(KeyConflictError, match="key 'b' of job 'note'"):
        app.enqueue(note.using(key="b"), number=1)
    app.worker(queues=["default"]).drain()
    assert app.enqueue(note.using(key="b"), number=1).id == first.id
    app.worker(queues=["default"]).drain()
    assert done == [1, 1]


def test_two_jobs_of_one_hash_are_two_runs(make_app: Callable[..., App], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "hashlib", SameHash)
    app, done = make_app(), []

    @app.job
    def one() -> None:
        done.append("one")

    @app.job
    def two() -> None:
        done.append("two")

    assert app.enqueue(one.using(key="k")) != app.enqueue(two.using(key="k"))
    app.worker(queues=["default"]).drain()
    assert sorted(done) == ["one", "two"]


@pytest.mark.parametrize("keyed", [False, True], ids=["without keys", "with keys"])
def test_runs_of_one_shard_and_one_instant_all_happen(make_app: Callable[..., App], keyed: bool) -> None:
    """Nothing but their ids tells them apart: the clock stands still, and there is one shard."""
    app, done = make_app(queues=[Queue(name="default", shards=1)]), Counter[int]()

    @app.job
    def note(number: int) -> None:
        done[number] += 1

    for number in range(60):
        app.enqueue(note.using(key=f"k{number}") if keyed else note, number=number)
    app.worker(queues=["default"]).drain()
    assert done == dict.fromkeys(range(60), 1)


def is_ours(thing: object) -> bool:
    """Whether the library made it, and not the store that the test runs on."""
    module = str(type(thing).__module__)
    return module.startswith("dynadurable.") and not module.startswith("dynadurable.testing")


def test_a_worker_keeps_nothing_of_the_runs_it_has_done() -> None:
    """Twice as many runs leave as many objects behind: 20,000 runs took no more memory than the first thousand."""
    app = App("shop", client=MemoryClient(MemoryStore(locked=True)))
    app.create_table()
    left: list[int] = []

    @app.job
    def note(number: int) -> None:
        if number % 300 == 299:  # in the middle of it: what a worker has when it stops may all be gone
            gc.collect()
            left.append(sum(map(is_ours, gc.get_objects())))

    for number in range(1_200):
        app.enqueue(note, number=number)
    app.worker(queues=["default"], concurrency=1).drain()
    assert len(left) == 4
    assert left[-1] < left[0] + 300  # a page of candidates more or less; an object for each run were 900 more
