"""Real chaos for as long as you like: ``python -m tests.chaos --minutes 15 --seed 1``.

Rounds of up to a minute of rough weather, each on a fresh table with a seed of its own; a round that breaks a promise
prints the history of the runs concerned, and keeps its folder.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

from dynadurable.local import LocalStore
from tests.chaos.round import play


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=1, help="of the first round; each further round adds one")
    parser.add_argument("--round-seconds", type=float, default=45.0, help="of rough weather in each round")
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument(
        "--without",
        default="",
        help='leave a clause out, as "marks.drop: dd_token = :value", and see that it is missed',
    )
    options = parser.parse_args()
    end = time.monotonic() + options.minutes * 60
    rounds = failed = 0
    with LocalStore.find("ministack") as store:
        while time.monotonic() < end:
            folder = Path(tempfile.mkdtemp(prefix="dynadurable-chaos-"))
            report = play(
                store,
                folder,
                seed=options.seed + rounds,
                seconds=options.round_seconds,
                workers=options.workers,
                without=options.without,
            )
            print(report.to_text(), flush=True)
            rounds += 1
            if report.problems:
                failed += 1
                print(f"  everything that was noted: {folder}", flush=True)
            else:
                shutil.rmtree(folder)
    print(f"{rounds} rounds, {failed} with problems")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
