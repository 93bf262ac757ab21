"""Items under our very keys and with our format number that we cannot have written: left alone, and nothing stops."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from dynadurable import Fail
from dynadurable.errors import DynadurableError
from dynadurable.model.finding import WARNING
from dynadurable.storage import formats
from tests.clean.site import Raw, Site

OLD_MS = {"N": "1700000000000"}
GENERATION = {"S": "01hf7yatg00123456789ab"}
PLACES: dict[str, tuple[str, str, Raw]] = {
    "run": (
        "run#kept@abc",
        "run",
        {
            "dd_job": {"S": "kept"},
            "dd_queue": {"S": "default"},
            "dd_shard": {"N": "0"},
            "dd_state": {"S": "live"},
            "dd_gen": GENERATION,
            "dd_mark": {"S": "001700000000000#p.0#kept@abc"},
            "dd_at": OLD_MS,
        },
    ),
    "page": ("run#kept@abc", "page#01hf7yatg00123456789ab#000000000000001#1", {"dd_ttl": {"N": "1"}}),
    "mark": (
        "queue#default#0",
        "001700000000000#p.0#kept@abc",
        {
            "dd_job": {"S": "kept"},
            "dd_gen": GENERATION,
            "dd_at": OLD_MS,
            "dd_lease": {"N": "5"},
            "dd_fence": {"N": "1"},
        },
    ),
    "letter": ("dead#default#0", "001700000000000#kept@abc", {"dd_job": {"S": "kept"}, "dd_gen": GENERATION}),
    "worker": ("workers", "worker#a", {"dd_seen": OLD_MS, "dd_at": OLD_MS}),
    "build": ("workers", "build#a", {"dd_at": OLD_MS, "dd_ttl": {"N": "1"}}),
    "lease": ("lease#3", "x", {"dd_fence": {"N": "1"}, "dd_lease": {"N": "5"}}),
}
WRONG: list[Any] = [{"S": "x"}, {"N": "1.5"}, {"M": {}}, {"NULL": True}]


def damages() -> list[tuple[str, str, Any]]:
    """Each attribute absent, and in types that it must not have: in turn, for there are many."""
    return [
        (kind, name, wrong)
        for kind, (_, _, attributes) in PLACES.items()
        for number, (name, right) in enumerate(attributes.items())
        for wrong in [*WRONG[number % 2 :: 2], None]
        if wrong is None or wrong.keys() != right.keys() or "N" in wrong
    ]


@pytest.fixture(autouse=True)
def _aloud(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "_warned", set())


def made() -> Site:
    site = Site()

    @site.app.job(keep_result=timedelta(days=1))
    def kept() -> None: ...

    @site.app.job
    def bad() -> None:
        raise Fail("no")

    return site


def job(site: Site, name: str) -> Any:
    return site.app.registry.get(name)


def questions(site: Site) -> list[Callable[[], Any]]:
    app = site.app
    return [
        app.worker(queues=["default"], concurrency=1).drain,
        lambda: app.dead.list(queue="default"),
        lambda: app.queues.get("default"),
        app.leases.list,
        lambda: app.runs.list(queue="default"),
        lambda: app.cleaner(dry_run=True).run(),
        lambda: app.doctor.examine(queues=["default"], repair=True),
        lambda: app.cleaner().run(),
    ]


@pytest.mark.parametrize("kind", PLACES)
def test_nothing_is_stopped_by_an_item_that_cannot_be_read(kind: str) -> None:
    """PUB-11 for the cleaner: it would come to this item at every pass, and never beyond it."""
    for _, name, wrong in [one for one in damages() if one[0] == kind]:
        site = made()
        pk, sk, attributes = PLACES[kind]
        item = {"pk": {"S": pk}, "sk": {"S": sk}, "dd_v": {"N": "1"}, **attributes}
        item.pop(name)
        if wrong is not None:
            item[name] = wrong
        site.client.put_item(TableName="shop", Item=item)
        expired = site.app.enqueue(job(site, "kept"))
        site.app.enqueue(job(site, "bad"))
        for ask in questions(site)[:1]:
            ask()
        assert expired.status() == "succeeded", (name, wrong)
        site.advance(days=3)
        for ask in questions(site):
            ask()
        assert len(site.app.dead.list(queue="default")) >= 1, (name, wrong)
        assert run_keys(site) <= {"run#kept@abc"} | dead_runs(site), (name, wrong)


def run_keys(site: Site) -> set[str]:
    return {row["pk"]["S"] for row in site.rows("run")}


def dead_runs(site: Site) -> set[str]:
    return {row["pk"]["S"] for row in site.rows("run") if row.get("dd_state") == {"S": "dead"}}


@pytest.mark.parametrize("digits", ["²" * 15, "٣" * 15])
@pytest.mark.parametrize("kind", ["queue", "dead"])
def test_digits_that_are_no_ascii_are_no_due_time(digits: str, kind: str) -> None:
    site = made()
    stranger = {"pk": {"S": f"{kind}#default#0"}, "sk": {"S": f"{digits}#p.0#x@y"}, "dd_v": {"N": "1"}}
    site.client.put_item(TableName="shop", Item=stranger)
    run = site.app.enqueue(job(site, "kept"))
    for ask in questions(site):
        ask()
    assert run.status() == "succeeded"
    assert stranger in site.store.items("shop")


def test_what_cannot_be_read_is_counted_named_and_left(caplog: pytest.LogCaptureFixture) -> None:
    site = made()
    pk, sk, attributes = PLACES["run"]
    item = {"pk": {"S": pk}, "sk": {"S": sk}, "dd_v": {"N": "1"}, **attributes, "dd_state": {"S": "dead"}}
    damaged = {**item, "dd_ttl": {"S": "tomorrow"}, "dd_gen": {"N": "5"}}
    site.client.put_item(TableName="shop", Item=damaged)
    site.advance(days=3)
    with caplog.at_level(logging.WARNING, logger="dynadurable"):
        report = site.clean()
    assert (report.damaged, report.removed, report.finished) == (1, {}, True)
    assert report.to_record()["damaged"] == 1
    assert damaged in site.store.items("shop")
    assert "'run#kept@abc', 'run'" in caplog.text


def test_whoever_asks_for_it_is_told_which_item_it_is() -> None:
    site = made()
    pk, sk, attributes = PLACES["run"]
    item = {"pk": {"S": pk}, "sk": {"S": sk}, "dd_v": {"N": "1"}, **attributes, "dd_mark": {"N": "5"}}
    site.client.put_item(TableName="shop", Item=item)
    run = site.app.run("kept@abc")
    assert "'run#kept@abc', 'run' is not as dynadurable writes it" in str(run.explain())
    for ask in (run.status, run.cancel):
        with pytest.raises(DynadurableError, match="'run#kept@abc', 'run' is not as dynadurable writes it"):
            ask()


@pytest.mark.parametrize("places", [{"S": "["}, {"N": "1"}, {"S": '{"a": 1}'}, {"S": "[1]"}])
def test_what_the_cleaner_has_noted_may_be_damaged(places: Raw) -> None:
    site = made()
    site.app.enqueue(job(site, "kept"))
    site.work()
    site.advance(days=3)
    noted = {"pk": {"S": "workers"}, "sk": {"S": "cleaner"}, "dd_v": {"N": "1"}, "dd_at": OLD_MS, "dd_places": places}
    site.client.put_item(TableName="shop", Item=noted)
    assert not site.app.cleaner().estimate().resumes
    assert [one.level for one in site.app.doctor.examine().findings if one.check == "cleaner"] != []
    report = site.clean()
    assert (report.removed, report.finished, report.resumed) == ({"runs": 1}, True, False)


def test_the_doctor_looks_on_behind_what_cannot_be_read() -> None:
    site = made()
    pk, sk, attributes = PLACES["mark"]
    fine = {"pk": {"S": pk}, "sk": {"S": sk}, "dd_v": {"N": "1"}, **attributes}
    site.client.put_item(TableName="shop", Item={**fine, "dd_gen": {"N": "5"}})
    site.client.put_item(TableName="shop", Item={**fine, "sk": {"S": "001700000000001#p.0#kept@def"}})
    found = site.app.doctor.examine(queues=["default"])
    [marks] = [one for one in found.findings if one.check == "marks"]
    assert (marks.level, marks.text.startswith("1 marks")) == (WARNING, True)
