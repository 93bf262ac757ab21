"""Items of ours that something else has changed: nothing that looks at many items raises, hangs, or stops for them."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from dynadurable.errors import DynadurableError
from tests.clean.site import Site
from tests.clean.test_formats import RECORDED, load, restored
from tests.fuzz.garbage import Garbage, Raw

SEEDS = int(os.environ.get("DYNADURABLE_FUZZ", "12"))
"""More in one go: DYNADURABLE_FUZZ=10000."""
FOUND = (55, 84, 88, 92, 135, 136, 158, 228, 229, 285)
"""Of thousands, those in which something broke."""
MAX_REQUESTS = 20_000
CLEANER_LEASE = "!cleaner"
"""Left whole: a cleaner that cannot read its own lease says so, and does nothing."""


class Loops(BaseException):
    """It asks and asks."""


def limited(site: Site) -> None:
    """From now on the client gives up after so many requests: what loops is found out."""
    client, left = site.client, [MAX_REQUESTS]

    def wrapped(inner: Callable[..., Any]) -> Callable[..., Any]:
        def request(**params: Any) -> Any:
            left[0] -= 1
            if left[0] < 0:
                raise Loops
            return inner(**params)

        return request

    for name in ("get_item", "put_item", "update_item", "delete_item", "query", "scan", "batch_get_item"):
        setattr(client, name, wrapped(getattr(client, name)))


def site_with(seed: int) -> tuple[Site, list[Any], list[Raw]]:
    """Everything that the library writes, some of it changed, and some strangers."""
    recorded, garbage = load(RECORDED[-1]), Garbage(seed)
    items: list[Raw] = recorded["items"]
    names = sorted({name for item in items for name in item} - {"pk", "sk", "dd_v"})
    others = [number for number, item in enumerate(items) if item["sk"]["S"] != CLEANER_LEASE]
    chosen = garbage.dice.sample(others, garbage.dice.choice([1, 2, 5]))
    made = [garbage.changed(items[number]) for number in chosen]
    made += [garbage.strange(names) for _ in range(garbage.dice.randrange(4))]
    site, done = restored({**recorded, "items": items})
    for item in made:
        site.client.put_item(TableName="shop", Item=item)
    limited(site)
    return site, done, made


def check(what: str, seed: int, made: list[Raw], do: Callable[[], Any]) -> None:
    """It may say no, in words of ours, where it is asked about a single thing; it never breaks."""
    try:
        do()
    except (Exception, Loops) as error:
        shown = "\n".join(map(repr, made))
        raise AssertionError(f"seed {seed}: {what} broke on one of:\n{shown}") from error


@pytest.mark.parametrize("seed", range(SEEDS))
def test_whatever_lies_there_the_others_are_worked_off(seed: int, caplog: pytest.LogCaptureFixture) -> None:
    site, done, made = site_with(seed)
    app = site.app
    plain = app.registry.get("plain")
    assert plain is not None
    app.enqueue(plain, name="healthy")
    with caplog.at_level(logging.WARNING, "dynadurable"):
        for _ in range(3):
            worker = app.worker(concurrency=1, queues=["default", "mail"], name="pod-1")
            check("a worker", seed, made, worker.drain)
            site.clock.advance(timedelta(hours=2))
    assert [one for one in done if one == ("healthy", None, None)], f"seed {seed}: {made}"
    defects = [record.getMessage() for record in caplog.records if "defect" in record.getMessage()]
    assert defects == [], f"seed {seed}: {made}"


@pytest.mark.parametrize("seed", sorted({*range(SEEDS), *FOUND}))
def test_whatever_lies_there_can_be_looked_at(seed: int) -> None:
    site, _, made = site_with(seed)
    app = site.app
    looks: dict[str, Callable[[], Any]] = {
        "runs": app.runs.list,
        "dead letters": app.dead.list,
        "groups": app.dead.groups,
        "count of the dead": app.dead.count,
        "queues": app.queues.list,
        "workers": app.workers.list,
        "leases": app.leases.list,
        "schedules": app.schedules.list,
        "doctor": app.doctor.examine,
        "table": app.doctor.table,
        "estimate": app.cleaner().estimate,
        "dry run": app.cleaner(dry_run=True).run,
        "cleaner": app.cleaner().run,
    }
    for what, do in looks.items():
        check(what, seed, made, do)
    ids = {item["pk"]["S"].removeprefix("run#") for item in made if item["pk"]["S"].startswith("run#")}
    for run_id in sorted(ids | set(load(RECORDED[-1])["runs"].values())):
        check(f"explain {run_id!r}", seed, made, app.run(run_id).explain)
        asked = (app.run(run_id).status, app.run(run_id).info, app.run(run_id).result)
        for ask in (*asked, partial(app.workflows.timeline, run_id)):
            check(f"asking for {run_id!r}", seed, made, partial(in_words, ask))


def in_words(ask: Callable[[], Any]) -> None:
    try:
        ask()
    except DynadurableError:
        return
