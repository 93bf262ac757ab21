"""One round: a fresh table, workers and callers in rough weather for a while, then calm, rest, and the verdict."""

from __future__ import annotations

import os
import random
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest import mock

from dynadurable.local import LocalStore
from dynadurable.storage import runs
from tests import laws
from tests.chaos import jobs
from tests.chaos.book import Book
from tests.chaos.callers import Callers
from tests.chaos.crew import Crew
from tests.chaos.jobs import Site
from tests.chaos.log import Log
from tests.chaos.rapids import CALM, ROUGH, Rapids, Sky
from tests.chaos.verdict import Verdict, history
from tests.chaos.watcher import EXPIRED, Problems, Watcher
from tests.process.workshop import REPOSITORY
from tests.servers import make_client

TABLE = "chaos"
REST_SECONDS = 180.0  # a limit, not a wait
LONGEST_PEACE_SECONDS = 3.0
LONGEST_OVERTIME_SECONDS = 60.0
SHOWN_RUNS = 3
SHOWN_LINES = 120


@dataclass(kw_only=True)
class Report:
    """What a round came to."""

    seed: int
    figures: dict[str, Any]
    problems: list[tuple[str | None, str]] = field(default_factory=list)
    histories: dict[str, list[str]] = field(default_factory=dict)

    def to_text(self) -> str:
        lines = [f"seed {self.seed}: {'; '.join(f'{name} {value}' for name, value in self.figures.items())}"]
        lines += [f"  PROBLEM {run_id or ''}: {why}" for run_id, why in self.problems]
        for run_id, told in self.histories.items():
            lines += [f"  history of {run_id}:", *(f"    {line}" for line in told)]
        return "\n".join(lines)


def play(
    store: LocalStore,
    folder: Path,
    *,
    seed: int,
    seconds: float,
    deeds: int = 0,
    workers: int = 3,
    without: str = "",
) -> Report:
    """One round. The store is emptied first; ``folder`` is a new one; ``without`` as for ``Site``.

    The weather is rough for so many ``seconds``, and until so many ``deeds`` have been done to the workers.
    """
    played = _Round(store, folder, seed=seed, seconds=seconds, workers=workers, without=without)
    return played.play(deeds)


class _Round:
    def __init__(
        self, store: LocalStore, folder: Path, *, seed: int, seconds: float, workers: int, without: str
    ) -> None:
        store.reset()
        self.store, self.seed, self.seconds = store, seed, seconds
        self.client = make_client(store.client_kwargs())
        stream_arn = self._create_table()
        self.log = Log(folder / "log")
        self.problems, self.book = Problems(), Book()
        self.sky = Sky(seed, self.log.note)
        self.rapids = Rapids(store.port, self.sky)
        self.watcher = Watcher(store.client_kwargs(), stream_arn, self.log, self.problems)
        until = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=seconds)
        self.site = Site(
            table=TABLE, endpoint=self.rapids.endpoint_url, folder=str(folder), until=until.isoformat(), without=without
        )
        self.crew = Crew(
            site=self.site,
            size=workers,
            seed=seed,
            log=self.log,
            problems=self.problems,
            environment={**os.environ, **credentials(store), "PYTHONPATH": str(REPOSITORY)},
        )

    def play(self, deeds: int) -> Report:
        short_grace = mock.patch.object(runs, "GRACE_MS", jobs.GRACE_MS)
        with self.rapids, mock.patch.dict(os.environ, credentials(self.store)), short_grace:
            app = self.site.app()
            callers = Callers(app, jobs.define(app, self.site), self.site, self.book, self.problems)
            self.watcher.start()
            try:
                self._be_rough(callers, deeds)
                rested = self._calm_down(callers)
            finally:
                callers.stop()
                self.crew.close()
                self.watcher.stop()
            lines = self.log.lines()
            Verdict(app, self.site, self._items(), lines, self.watcher, self.problems).examine(self.book)
        return self._report(lines, rested)

    def _create_table(self) -> str:
        described = self.client.create_table(
            TableName=TABLE,
            BillingMode="PAY_PER_REQUEST",
            KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
            AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"} for key in ("pk", "sk")],
            StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"},
        )
        for number in range(jobs.FOLLOWERS):
            item = {"pk": {"S": "followers"}, "sk": {"S": f"{number:04d}"}}
            self.client.put_item(TableName=TABLE, Item=item)
        return str(described["TableDescription"]["LatestStreamArn"])

    def _be_rough(self, callers: Callers, deeds: int) -> None:
        """Work goes on while things are done to the workers."""
        dice = random.Random(f"{self.seed} round")
        self.sky.weather = ROUGH
        self.crew.hire()
        callers.start(self.seed, callers=2, pause_seconds=0.15)
        end = time.monotonic() + self.seconds
        last = end + LONGEST_OVERTIME_SECONDS
        while time.monotonic() < end or (sum(self.crew.deeds.values()) < deeds and time.monotonic() < last):
            self._look_on(dice.randint(30, 150), until=time.monotonic() + LONGEST_PEACE_SECONDS)
            self.crew.act()

    def _look_on(self, writes: int, *, until: float) -> None:
        """Until so much more has been written: on a slow machine the deeds come more slowly, too."""
        enough = self.watcher.writes + writes
        while self.watcher.writes < enough and time.monotonic() < until:
            self.crew.look_after()
            time.sleep(0.05)

    def _calm_down(self, callers: Callers) -> float:
        """Faults stop, and so does new work; seconds until nothing is due any more."""
        began = time.monotonic()
        callers.stop()
        self.sky.weather = CALM
        self.log.note("deed", deed="calm")
        self.crew.thaw_all()
        self.crew.hire()
        callers.tell_the_rest()
        while time.monotonic() < began + REST_SECONDS:
            self.crew.look_after()
            self.crew.hire()
            if self.sky.is_clear and not laws.marks_in(self._items("queue#")):
                break
            time.sleep(0.25)
        rested = time.monotonic() - began
        self.crew.dismiss()
        return rested

    def _items(self, head: str = "") -> list[dict[str, Any]]:
        params: dict[str, Any] = {"TableName": TABLE, "ConsistentRead": True}
        if head:
            values = {":head": {"S": head}}
            params |= {"FilterExpression": "begins_with(pk, :head)", "ExpressionAttributeValues": values}
        pages = self.client.get_paginator("scan").paginate(**params)
        return [item for page in pages for item in page["Items"]]

    def _report(self, lines: list[dict[str, Any]], rested: float) -> Report:
        kinds: dict[str, int] = {}
        for line in lines:
            kinds[line["event"]] = kinds.get(line["event"], 0) + 1
        figures = {
            "rough_seconds": self.seconds,
            "rest_seconds": round(rested, 1),
            **self.book.counts(),
            "starts": kinds.get("start", 0),
            "ends": kinds.get("end", 0),
            "slots": kinds.get("tick", 0),
            "refused": kinds.get("refused", 0),
            "writes": self.watcher.writes,
            "faults": sum(self.sky.met.values()),
            "deeds": self.crew.deeds,
            "take_overs": sum(list(found.values()).count(EXPIRED) for found in self.watcher.claims.values()),
            "second_lives": sum(count > 1 for count in self.watcher.births.values()),
        }
        report = Report(seed=self.seed, figures=figures, problems=self.problems.found)
        for run_id in dict.fromkeys(run_id for run_id, _ in self.problems.found if run_id is not None):
            if len(report.histories) < SHOWN_RUNS:
                report.histories[run_id] = history(run_id, lines)[:SHOWN_LINES]
        return report


def credentials(store: LocalStore) -> dict[str, str]:
    """What a process's environment must hold to reach the store."""
    kwargs = store.client_kwargs()
    return {
        "AWS_ACCESS_KEY_ID": kwargs["aws_access_key_id"],
        "AWS_SECRET_ACCESS_KEY": kwargs["aws_secret_access_key"],
        "AWS_DEFAULT_REGION": "us-east-1",
    }
