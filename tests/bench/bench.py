"""How fast, how much CPU, how much memory: each figure beside the client's own ceiling in the same run.

    python -m tests.bench.bench             speed
    python -m tests.bench.bench --memory    the two memory runs too (some minutes)

Everything runs on the embedded store (extra ``local``), in one process but for the store itself. Ratios compare CPU
time, so that they hold on a busy machine too; a figure over its bound is named, nothing fails.
"""

from __future__ import annotations

import argparse
import statistics
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import boto3

from dynadurable import App, JobContext, fan_out, iterable_pages
from dynadurable.drivers.clients import client_config
from dynadurable.local import LocalStore, find_roto
from tests.bench.measure import Results, Span, resident_mb, span

ROUNDS = 5
JOBS = 400
RECIPIENTS = 10_000


class Bench:
    """One app on one store, and the bare client beside it."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.app = App("bench", client=client)
        self.app.create_table()
        self.results = Results()

        @self.app.job
        def nothing(number: int) -> None: ...

        @self.app.job
        def deliver(ctx: JobContext, count: int) -> None:
            fan_out(ctx, numbers(count), to_item)

        self.nothing, self.deliver = nothing, deliver
        client.put_item(TableName="bench", Item={"pk": {"S": "bare"}, "sk": {"S": "bare"}})

    def bare(self, count: int, *, threads: int = 1) -> Span:
        """So many conditional updates without us."""

        def update(number: int) -> None:
            self.client.update_item(
                TableName="bench",
                Key={"pk": {"S": "bare"}, "sk": {"S": "bare"}},
                UpdateExpression="SET n = :n",
                ConditionExpression="attribute_exists(pk)",
                ExpressionAttributeValues={":n": {"N": str(number)}},
            )

        with span() as taken, ThreadPoolExecutor(threads) as pool:
            list(pool.map(update, range(count)))
        return taken

    def enqueue(self, count: int) -> Span:
        with span() as taken:
            for number in range(count):
                self.app.enqueue(self.nothing, number)
        return taken

    def work(self, *, concurrency: int) -> Span:
        with span() as taken:
            self.app.worker(concurrency=concurrency, queues=["default"]).drain()
        return taken

    # --- what is shown ----------------------------------------------------------------------------

    def plain_jobs(self) -> None:
        for concurrency in (1, 8):
            ratios, speeds, costs, enqueues, bares = [], [], [], [], []
            for _ in range(ROUNDS):
                bare = self.bare(JOBS, threads=concurrency)
                put = self.enqueue(JOBS)
                work = self.work(concurrency=concurrency)
                ratios.append((put.cpu_seconds + work.cpu_seconds) / (3 * bare.cpu_seconds))
                speeds.append(work.per_second(JOBS))
                costs.append(work.cpu_ms(JOBS) + put.cpu_ms(JOBS))
                enqueues.append(put.per_second(JOBS))
                bares.append(bare.cpu_ms(JOBS))
            threads = "1 thread" if concurrency == 1 else f"{concurrency} threads"
            self.results.add(f"bare update, {threads}", f"{statistics.median(bares):.2f} ms CPU")
            if concurrency == 1:
                self.results.add("enqueue", f"{statistics.median(enqueues):.0f} /s")
            self.results.add(f"plain jobs worked, {threads}", f"{statistics.median(speeds):.0f} /s")
            self.results.add(
                f"plain job, 3 requests, {threads}",
                f"{statistics.median(costs):.2f} ms CPU",
                ratio=statistics.median(ratios),
                bound=1.3,
            )

    def fan_out(self) -> None:
        ratios, speeds = [], []
        for _ in range(3):
            with span() as bare, ThreadPoolExecutor(4) as pool:
                list(pool.map(self._bare_batch, range(0, RECIPIENTS, 25)))
            idle = self.work(concurrency=1)  # what a worker costs that finds nothing is not the fan-out's
            self.app.enqueue(self.deliver, RECIPIENTS)
            taken = self.work(concurrency=1)
            ratios.append((taken.cpu_seconds - idle.cpu_seconds) / bare.cpu_seconds)
            speeds.append(taken.per_second(RECIPIENTS))
        self.results.add("fan-out", f"{statistics.median(speeds):.0f} recipients/s")
        self.results.add("fan-out against its BatchWriteItem calls", "", ratio=statistics.median(ratios), bound=1.3)

    def _bare_batch(self, first: int) -> None:
        puts = [{"PutRequest": {"Item": to_item(number)}} for number in range(first, first + 25)]
        self.client.batch_write_item(RequestItems={"bench": puts})

    def pick_up(self) -> None:
        """From the enqueue in another process (here: an app of its own) to the start of the body."""
        began: list[float] = []
        arrived = threading.Event()
        other = App("bench", client=self.client)

        @other.job(name="pick-up", queue="pick-up")
        def there() -> None: ...

        @self.app.job(name="pick-up", queue="pick-up")
        def here() -> None:
            began.append(time.perf_counter())
            arrived.set()

        for poll, label in ((timedelta(seconds=0.2), "a busy queue"), (timedelta(seconds=20), "after long idleness")):
            if poll > timedelta(seconds=1):
                continue  # bounded by the longest poll interval, 20 s: nothing to measure
            worker = self.app.worker(queues=["pick-up"], poll=(poll, poll))
            worker.start()
            delays = []
            for _ in range(15):
                arrived.clear()
                sent = time.perf_counter()
                other.enqueue(there)
                assert arrived.wait(30)
                delays.append(began[-1] - sent)
            worker.stop()
            median, most = statistics.median(delays), max(delays)
            self.results.add(f"pick-up, {label}", f"{median * 1000:.0f} ms, at most {most * 1000:.0f} ms")

    def idle(self) -> None:
        """Requests of an idle worker, from the schedule of polls itself."""
        shards, longest = 4, 20
        self.results.add("idle worker, one queue", f"{shards * 3600 // longest} requests/h")

    # --- memory -----------------------------------------------------------------------------------

    def memory(self) -> None:
        self.app.enqueue(self.deliver, 1_000_000)
        self._peak("fan-out to 1,000,000 recipients", lambda: self.work(concurrency=1))
        for first in range(0, 100_000, 25):
            puts = [
                {"PutRequest": {"Item": self.app.operations.born(self.nothing, (n,), {})[1].mark.serialize()}}
                for n in range(first, first + 25)
            ]
            self.client.batch_write_item(RequestItems={"bench": puts})
        self._peak("worker before 100,000 due marks, 20 s of work", self._some_work)

    def _some_work(self) -> None:
        self.app.worker(concurrency=8, queues=["default"]).drain(timeout=timedelta(seconds=20))

    def _peak(self, what: str, run: Any) -> None:
        most, done = [resident_mb()], threading.Event()

        def watch() -> None:
            while not done.wait(0.1):
                most[0] = max(most[0], resident_mb())

        watcher = threading.Thread(target=watch)
        watcher.start()
        run()
        done.set()
        watcher.join()
        self.results.add(what, f"{most[0]:.0f} MB resident", ratio=most[0] / 150, bound=1.0)


def numbers(count: int) -> Any:
    """Recipients 0 to count, resumable."""

    def after(cursor: Any) -> Iterator[int]:
        yield from range(0 if cursor is None else cursor + 1, count)

    return iterable_pages(after, cursor_of=lambda number: number)


def to_item(number: int) -> dict[str, Any]:
    return {"pk": {"S": f"trench#{number % 1000}"}, "sk": {"S": f"molt#{number}"}, "text": {"S": "x" * 100}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--memory", action="store_true")
    options = parser.parse_args()
    with LocalStore(find_roto()) as store:
        client = boto3.session.Session().client("dynamodb", config=client_config(64), **store.client_kwargs())
        bench = Bench(client)
        bench.plain_jobs()
        bench.fan_out()
        bench.pick_up()
        bench.idle()
        if options.memory:
            bench.memory()
        bench.results.show()


if __name__ == "__main__":
    main()
