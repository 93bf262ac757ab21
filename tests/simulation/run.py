"""Runs seeds: ``python -m tests.simulation.run --seeds 100000``; a seed that fails prints its history.

python -m tests.simulation.run --seeds 20000 --from 5000 --jobs 2
python -m tests.simulation.run --seeds 100000 --log done.jsonl    goes on where it was stopped
python -m tests.simulation.run --seeds 1000 --cast workflows
python -m tests.simulation.run --seed 4711                        one seed with its history
python -m tests.simulation.run --mutants                          makes docs/protocol-mutants.md
python -m tests.simulation.run --cases                            known defects of others, each found again
"""

from __future__ import annotations

import argparse
import json
import logging
import multiprocessing
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from dynadurable.clock import SystemClock
from tests.simulation.casts import CASTS, name_of
from tests.simulation.play import play
from tests.simulation.world import CheckFailedError

CHUNK = 100
MAX_FAILURES = 20

Write = Callable[[str], object]


@dataclass(kw_only=True)
class Chunk:
    """Some seeds, and what came of them."""

    first: int
    last: int
    cast: str | None = None
    seconds: float = 0.0
    calls: int = 0
    failures: list[tuple[int, str]] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"{self.cast} {self.first}-{self.last}"


def played(chunk: Chunk) -> Chunk:
    """Play them."""
    logging.disable(logging.CRITICAL)
    clock = SystemClock()
    began = clock.monotonic()
    kind = None if chunk.cast is None else CASTS[chunk.cast]
    for seed in range(chunk.first, chunk.last + 1):
        try:
            chunk.calls += play(seed, kind).sent
        except CheckFailedError as error:
            chunk.failures.append((seed, str(error)))
        except Exception as error:  # noqa: BLE001 - a seed that breaks is reported, the others are played
            chunk.failures.append((seed, f"seed {seed}: {type(error).__name__}: {error}"))
    chunk.seconds = clock.monotonic() - began
    return chunk


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=2_000)
    parser.add_argument("--from", dest="first", type=int, default=0)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--cast", choices=list(CASTS))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--log", type=Path)
    parser.add_argument("--mutants", action="store_true")
    parser.add_argument("--cases", action="store_true")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    if options.mutants:
        from tests.simulation.survey import show_mutants

        return show_mutants(options.seeds, jobs=options.jobs, write=print)
    if options.cases:
        from tests.simulation.cases import show_cases

        return show_cases(options.seeds, write=print)
    if options.seed is not None:
        return _one(options.seed, options.cast, print)
    chunks = _chunks(options.first, options.seeds, options.cast, options.log)
    return _many(chunks, options.jobs, options.log, print)


def _one(seed: int, cast: str | None, write: Write) -> int:
    write(f"seed {seed}, played by the cast of {cast or name_of(seed)}")
    try:
        history, verdict = play(seed, None if cast is None else CASTS[cast]).history, None
    except CheckFailedError as error:
        history, verdict = list(error.history), str(error)
    for line in history:
        write(line)
    write(verdict or "every promise was kept")
    return int(verdict is not None)


def _chunks(first: int, count: int, cast: str | None, log: Path | None) -> list[Chunk]:
    """What is to be played: without those that a log says were played, and found nothing."""
    clean = {chunk.name for chunk in _logged(log) if not chunk.failures}
    end = first + count
    chunks = [Chunk(first=one, last=min(one + CHUNK, end) - 1, cast=cast) for one in range(first, end, CHUNK)]
    return [chunk for chunk in chunks if chunk.name not in clean]


def _logged(log: Path | None) -> Iterator[Chunk]:
    if log is not None and log.exists():
        for line in log.read_text().splitlines():
            yield Chunk(**json.loads(line))


def _many(chunks: list[Chunk], jobs: int, log: Path | None, write: Write) -> int:
    clock = SystemClock()
    began, done = clock.monotonic(), []
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        for chunk in pool.imap_unordered(played, chunks):
            done.append(chunk)
            for _, why in chunk.failures:
                write(why)
            if log is not None:
                with log.open("a") as out:
                    out.write(json.dumps(asdict(chunk)) + "\n")
            sys.stdout.flush()
            if sum(len(one.failures) for one in done) > MAX_FAILURES:
                break
    _report(done, clock.monotonic() - began, jobs, write)
    return int(any(chunk.failures for chunk in done))


def _report(done: list[Chunk], seconds: float, jobs: int, write: Write) -> None:
    seeds = sum(chunk.last - chunk.first + 1 for chunk in done)
    calls, failures = sum(chunk.calls for chunk in done), sum(len(chunk.failures) for chunk in done)
    write(
        f"{seeds} seeds, {failures} failures; {seeds / seconds:.0f} seeds/s and {calls / seconds:.0f} interleaved "
        f"calls/s in {jobs} processes, {calls / max(1, seeds):.0f} calls a seed"
    )


if __name__ == "__main__":
    sys.exit(main())
