"""The same work by threads and by an event loop: jobs per second, and CPU per job, as ratios from one run.

    python -m tests.bench.async_vs_sync [--jobs 400] [--rounds 5]

Runs on the embedded store (extra ``local``), which is a process of its own. With aioboto3 installed the loop sends
through it, else through boto3 on threads; the first line says which. Ratios are medians over rounds that take turns, so
that a busy machine is as unkind to the one as to the other. Nothing is asserted.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import boto3

from dynadurable import App
from dynadurable.drivers.clients import client_config
from dynadurable.drivers.transports import ClientTransport
from dynadurable.local import LocalStore, find_roto
from tests.bench.measure import Span, span

BODIES = 64
WAIT_SECONDS = 0.05
WARM_UP_JOBS = 50
Work = Callable[[], None]


class Contest:
    """One app, and the same two jobs for either side: one that does nothing, and one that waits for the world."""

    def __init__(self, app: App, jobs: int) -> None:
        self.app = app
        self.jobs = jobs
        app.create_table()

        @app.job
        def nothing(number: int) -> None: ...

        @app.job
        async def nothing_async(number: int) -> None: ...

        @app.job
        def waits(number: int) -> None:
            threading.Event().wait(WAIT_SECONDS)

        @app.job
        async def waits_async(number: int) -> None:
            await asyncio.sleep(WAIT_SECONDS)

        self.kinds = {
            "jobs that do nothing": (nothing, nothing_async),
            f"jobs that wait {WAIT_SECONDS * 1000:.0f} ms": (waits, waits_async),
        }

    def by_threads(self) -> None:
        self.app.worker(concurrency=BODIES, async_concurrency=BODIES).drain()

    def by_own_loop(self) -> None:
        self.app.worker(concurrency=BODIES, async_concurrency=BODIES).drain()

    def by_app_loop(self) -> None:
        asyncio.run(self.app.aio.worker(concurrency=BODIES, async_concurrency=BODIES).drain())

    def take(self, job: Any, work: Work) -> Span:
        self.app.enqueue_many([job.call(number) for number in range(self.jobs)])
        with span() as taken:
            work()
        return taken

    def transport(self) -> str:
        """What an event loop sends with here."""

        async def look() -> str:
            driver = await self.app.loops.get()
            return "aioboto3" if isinstance(driver._transport, ClientTransport) else "boto3 on threads"

        return asyncio.run(look())


def compare(contest: Contest, rounds: int) -> Iterator[str]:
    """The lines of the table."""
    yield f"event loops send with {contest.transport()}; {contest.jobs} jobs, {BODIES} at once, {rounds} rounds"
    yield ""
    yield f"{'':<22}{'':<22}{'jobs/s':>10}{'CPU ms/job':>12}{'speed':>9}{'CPU':>9}"
    for what, (plain, async_) in contest.kinds.items():
        contenders: dict[str, tuple[Any, Work]] = {
            "threads": (plain, contest.by_threads),
            "loop in a thread": (async_, contest.by_own_loop),
            "the app's own loop": (async_, contest.by_app_loop),
        }
        spans: dict[str, list[Span]] = {name: [] for name in contenders}
        for _ in range(rounds):
            for name, (job, work) in contenders.items():
                spans[name].append(contest.take(job, work))
        for name, taken in spans.items():
            yield line(what if name == "threads" else "", name, taken, spans["threads"], contest.jobs)


def line(what: str, name: str, taken: list[Span], base: list[Span], jobs: int) -> str:
    speed = statistics.median(one.per_second(jobs) for one in taken)
    cpu = statistics.median(one.cpu_ms(jobs) for one in taken)
    pairs = list(zip(taken, base, strict=True))
    faster = statistics.median(other.seconds / one.seconds for one, other in pairs)
    dearer = statistics.median(one.cpu_seconds / other.cpu_seconds for one, other in pairs)
    return f"{what:<22}{name:<22}{speed:>10.0f}{cpu:>12.2f}{faster:>8.2f}x{dearer:>8.2f}x"


@contextmanager
def contest(jobs: int) -> Iterator[Contest]:
    """On a fresh embedded store."""
    with LocalStore(find_roto()) as store:
        kwargs = store.client_kwargs()
        client = boto3.session.Session().client("dynamodb", config=client_config(BODIES), **kwargs)
        app = App("bench", client=client, aio_session=_session(kwargs))
        opened = Contest(app, WARM_UP_JOBS)
        for _ in compare(opened, 1):  # what is loaded once is nobody's cost
            pass
        opened.jobs = jobs
        yield opened
        client.close()


def _session(kwargs: dict[str, Any]) -> Any:
    """A session of aioboto3 for that store, if it is installed."""
    try:
        import aioboto3
    except ImportError:
        return None

    class Session(aioboto3.Session):  # type: ignore[misc]
        def client(self, *args: Any, **settings: Any) -> Any:
            return super().client(*args, **{**settings, **kwargs})

    return Session()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with contest(options.jobs) as opened:
        for text in compare(opened, options.rounds):
            print(text, flush=True)


if __name__ == "__main__":
    main()
