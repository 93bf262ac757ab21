"""A great many expired items, cleaned up at a bounded rate: how fast, with how much memory, and is the rate kept.

    python -m tests.bench.cleaning                       a million items at 500 write units a second, on dynalite
    python -m tests.bench.cleaning --store none          the same without HTTP: items are made up as they are read
    python -m tests.bench.cleaning --items 20000 --store roto --rate 1000

The store is a server of its own, reached over HTTP. Beside the expired items lie live runs and somebody else's items.
The table is filled and looked over by other processes, so that the memory shown is the cleaner's own. Exits with 1 if
the rate was not kept, memory grew, or anything is left or missing that should not be.
"""

from __future__ import annotations

import argparse
import itertools
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import boto3

from dynadurable import App
from dynadurable.drivers.clients import client_config
from dynadurable.local import LocalStore, find_ministack, find_roto
from dynadurable.model.clean_report import CleanReport
from dynadurable.storage.items import Items, bind
from dynadurable.storage.keys import (
    dead_partition,
    keyed_run_id,
    mark_sort_key,
    page_sort_key,
    queue_partition,
    run_partition,
    unkeyed_run_id,
)
from dynadurable.storage.schema import TableSchema
from dynadurable.testing.memory import MemoryClient, MemoryStore
from tests.bench.endless import Endless
from tests.bench.measure import Results, resident_mb
from tests.servers import find_dynalite

Raw = dict[str, Any]
TABLE = "cleaned"
SHARDS = 4
LONG_AGO = 1_700_000_000
"""In seconds: when everything was made, and expired."""
FAR_MS = 4_000_000_000_000
GENERATION = "01hf7yatg00123456789ab"
KEPT_OF = 100
"""For each so many expired items there is a live run, its mark, and an item of somebody else's."""
BATCH = 25
FILLERS = 8
GROWTH_MB = 16.0
"""What memory may grow by after the first tenth: allocators, not items (a million of these take hundreds)."""
SERVERS = {"dynalite": find_dynalite, "roto": find_roto, "ministack": find_ministack}
"""A page of a Scan takes the latter two the longer, the more there is in the table; not so dynalite."""
BURST = 16
"""How many writes may be under way at once."""


# --- what lies in the table -----------------------------------------------------------------------


def expired(items: Items, number: int) -> Raw:
    """Of ten seven are runs that succeeded, two are pages, one is a dead letter."""
    schema, shard = items.schema, number % SHARDS
    run_id = unkeyed_run_id("default", shard, LONG_AGO * 1000, f"{number:022d}")
    if number % 10 < 7:
        run = items.run(pk=run_partition(schema, run_id), sk="run", job="kept", queue="default", shard=shard)
        run.state, run.generation, run.mark = "succeeded", GENERATION, mark_sort_key(LONG_AGO * 1000, run_id)
        run.created_ms = run.ended_ms = LONG_AGO * 1000
        run.result, run.ttl = b"x" * 200, LONG_AGO
        return run.serialize()
    if number % 10 < 9:
        page = items.page(pk=run_partition(schema, run_id), sk=page_sort_key(GENERATION, 1, "1"), body=b"x" * 800)
        page.ttl = LONG_AGO
        return page.serialize()
    pk, sk = dead_partition(schema, "default", shard), mark_sort_key(LONG_AGO * 1000, run_id)
    return items.dead_letter(pk=pk, sk=sk, job="kept", error="no", generation=GENERATION, ttl=LONG_AGO).serialize()


def kept(items: Items, number: int) -> list[Raw]:
    """A live run, its mark, and a stranger."""
    schema, shard = items.schema, number % SHARDS
    run_id = keyed_run_id("kept", str(number))
    place = mark_sort_key(FAR_MS, run_id, place=f"{GENERATION}.0")
    run = items.run(pk=run_partition(schema, run_id), sk="run", job="kept", queue="default", shard=shard, mark=place)
    run.generation, run.key, run.created_ms = GENERATION, str(number), LONG_AGO * 1000
    mark = items.mark(pk=queue_partition(schema, "default", shard), sk=place, job="kept", generation=GENERATION)
    mark.placed_ms = LONG_AGO * 1000
    stranger = {"pk": {"S": f"user#{number}"}, "sk": {"S": "profile"}, "dd_ttl": {"N": "1"}, "text": {"S": "mine"}}
    return [run.serialize(), mark.serialize(), stranger]


def create(client: Any) -> None:
    """The empty table; its own TTL is not for us."""
    App(TABLE, ttl=None, client=client).create_table()


def fill(client: Any, count: int) -> None:
    """Write it all, in batches, on a few threads."""
    items = bind(TableSchema(table=TABLE, ttl=None))

    def all_items() -> Iterator[Raw]:
        for number in range(count):
            yield expired(items, number)
            if number % KEPT_OF == 0:
                yield from kept(items, number // KEPT_OF)

    def write(batch: tuple[Raw, ...]) -> None:
        asked: Any = {TABLE: [{"PutRequest": {"Item": item}} for item in batch]}
        while asked:
            asked = client.batch_write_item(RequestItems=asked).get("UnprocessedItems")

    written, lock = batched(all_items()), threading.Lock()

    def write_all() -> None:
        while True:
            with lock:
                batch = next(written, None)
            if batch is None:
                return
            write(batch)

    with ThreadPoolExecutor(FILLERS) as pool:
        for done in [pool.submit(write_all) for _ in range(FILLERS)]:
            done.result()


def batched(found: Iterator[Raw]) -> Iterator[tuple[Raw, ...]]:
    while batch := tuple(itertools.islice(found, BATCH)):
        yield batch


def look_over(client: Any, count: int) -> str | None:
    """What is wrong with what is left, if anything is."""
    items = bind(TableSchema(table=TABLE, ttl=None))
    expected = {
        (item["pk"]["S"], item["sk"]["S"]): item
        for number in range(-(-count // KEPT_OF))
        for item in kept(items, number)
    }
    left: Counter[str] = Counter()
    for page in client.get_paginator("scan").paginate(TableName=TABLE, ConsistentRead=True):
        for item in page["Items"]:
            wanted = expected.pop((item["pk"]["S"], item["sk"]["S"]), None)
            if wanted is None and item["sk"]["S"] not in {"cleaner", "!cleaner"}:
                left["was not removed"] += 1
            elif wanted is not None and wanted != item:
                left["has changed"] += 1
    left["is missing"] = len(expected)
    told = [f"{number:,} {what}" for what, number in left.items() if number]
    return ", ".join(told) or None


# --- the cleaner, watched -------------------------------------------------------------------------


@dataclass(kw_only=True)
class Watch:
    """Memory after each page of the pass, and the writes of each second."""

    rate: float
    items: int
    early_mb: float = 0.0
    peak_mb: float = 0.0
    writes: Counter[int] = field(default_factory=Counter)
    """By whole second: some thousands of numbers."""
    shows: bool = True
    _shown_at: float = 0.0

    def sent(self, *, model: Any, **_: Any) -> None:
        """A request is about to be sent."""
        if model.name in {"DeleteItem", "UpdateItem", "PutItem"}:
            self.wrote()

    def wrote(self) -> None:
        self.writes[int(time.monotonic())] += 1

    def progress(self, report: CleanReport) -> None:
        memory = resident_mb()
        self.peak_mb = max(self.peak_mb, memory)
        if report.scanned <= self.items / 10 or not self.early_mb:
            self.early_mb = max(self.early_mb, memory)
        if self.shows and time.monotonic() - self._shown_at > 30:
            self._shown_at = time.monotonic()
            print(f"  {report.seconds:7.0f} s  {report.removed_total:>9,} removed  {memory:6.1f} MB", flush=True)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of it."""

    report: CleanReport
    watch: Watch
    wrong: list[str]

    def show(self) -> None:
        report, watch, results = self.report, self.watch, Results()
        results.add("items scanned", f"{report.scanned:,}")
        results.add("removed", ", ".join(f"{count:,} {kind}" for kind, count in report.removed.items()))
        results.add("seconds", f"{report.seconds:,.0f}")
        results.add("removed a second", f"{report.removed_total / report.seconds:,.0f}")
        results.add("write units a second", f"{report.write_units / report.seconds:,.1f} of {watch.rate:,.0f}")
        results.add("writes in the busiest second", f"{max(watch.writes.values()):,}")
        results.add("read units", f"{report.read_units:,.0f}")
        results.add("memory, first tenth", f"{watch.early_mb:.1f} MB")
        results.add("memory, highest", f"{watch.peak_mb:.1f} MB")
        results.show()
        for what in self.wrong:
            print(f"WRONG: {what}")


def clean_made_up(*, items: int, rate: float) -> Outcome:
    """A pass over so many items, which nobody has to store."""
    store = MemoryStore(locked=True)
    create(MemoryClient(store))
    watch = Watch(rate=rate, items=items)

    class Watched(Endless):
        def delete_item(self, **request: Any) -> Any:
            watch.wrote()
            return super().delete_item(**request)

    return measure(Watched(store, items), watch)


def measure(client: Any, watch: Watch) -> Outcome:
    """Make the pass. The table must have been filled."""
    rate, items = watch.rate, watch.items
    report = App(TABLE, ttl=None, client=client).cleaner(rate=rate).run(progress=watch.progress)
    wrong = []
    if report.removed_total != items or not report.finished:
        wrong.append(f"{report.removed_total:,} of {items:,} were removed")
    if report.write_units > rate * report.seconds + BURST:
        wrong.append(f"{report.write_units / report.seconds:.1f} write units a second on average")
    if max(watch.writes.values()) > rate * 1.02 + BURST:
        wrong.append(f"{max(watch.writes.values()):,} writes in one second")
    if watch.peak_mb > watch.early_mb + GROWTH_MB:
        wrong.append(f"memory grew from {watch.early_mb:.1f} MB to {watch.peak_mb:.1f} MB")
    return Outcome(report=report, watch=watch, wrong=wrong)


# --- the command ----------------------------------------------------------------------------------


def client_on(endpoint: str) -> Any:
    return boto3.client(
        "dynamodb",
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id="000000000000",
        aws_secret_access_key="local",
        config=client_config(FILLERS),
    )


def elsewhere(what: str, endpoint: str, count: int) -> str:
    """Do it in a process of its own; gives what that has printed."""
    command = [sys.executable, "-m", "tests.bench.cleaning", "--step", what, endpoint, "--items", str(count)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def step(what: str, client: Any, count: int) -> None:
    if what == "fill":
        fill(client, count)
    else:
        print(look_over(client, count) or "")


def clean(endpoint: str, *, items: int, rate: float, shows: bool = True) -> Outcome:
    """Fill the table of a server, clean it, look it over."""
    client = client_on(endpoint)
    create(client)
    began = time.monotonic()
    elsewhere("fill", endpoint, items)
    if shows:
        print(f"{items:,} expired items were written in {time.monotonic() - began:,.0f} s", flush=True)
    watch = Watch(rate=rate, items=items, shows=shows)
    client.meta.events.register("before-call.dynamodb", watch.sent)
    outcome = measure(client, watch)
    if told := elsewhere("look over", endpoint, items):
        outcome.wrong.append(told)
    return outcome


def main() -> None:
    parser = argparse.ArgumentParser(description="Clean up a great many expired items.")
    parser.add_argument("--items", type=int, default=1_000_000)
    parser.add_argument("--rate", type=float, default=500.0, help="write units a second")
    parser.add_argument(
        "--store", choices=[*SERVERS, "none"], default="dynalite", help="the others slow down as it grows"
    )
    parser.add_argument("--step", nargs=2, metavar=("WHAT", "ENDPOINT"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.step is not None:
        step(arguments.step[0], client_on(arguments.step[1]), arguments.items)
        return
    if arguments.store == "none":
        outcome = clean_made_up(items=arguments.items, rate=arguments.rate)
        outcome.show()
        sys.exit(1 if outcome.wrong else 0)
    with LocalStore(SERVERS[arguments.store]()) as store:
        outcome = clean(store.endpoint_url, items=arguments.items, rate=arguments.rate)
    outcome.show()
    sys.exit(1 if outcome.wrong else 0)


if __name__ == "__main__":
    main()
