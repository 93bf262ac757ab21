"""Items of this format are read by this version and all later ones; items of a later format are left alone."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from dynadurable import RunUnknownError
from dynadurable.clock import to_datetime
from dynadurable.errors import DynadurableError, NewerFormatError
from dynadurable.storage import formats
from dynadurable.storage.items import FORMAT_VERSION, Item, Items, is_ours
from dynadurable.storage.keys import RUN_SORT_KEY, parse_partition
from dynadurable.testing.clock import ManualClock
from dynadurable.testing.memory import MemoryStore
from tests.clean.site import Raw, Site
from tests.fixtures.record import LARGE, define, from_json, record

RECORDED = sorted((Path(__file__).parents[1] / "fixtures").glob("items-v*.json"))
SCHEMA_TTL = "dd_ttl"


def load(path: Path) -> dict[str, Any]:
    recorded: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return {**recorded, "items": [from_json(item) for item in recorded["items"]]}


def restored(recorded: dict[str, Any], change: Callable[[Raw], Raw] = lambda item: item) -> tuple[Site, list[Any]]:
    """A table with these items, at the instant at which they were recorded."""
    site = Site(clock=ManualClock(to_datetime(recorded["at_ms"])), store=MemoryStore(locked=True))
    done = define(site)
    for item in recorded["items"]:
        site.client.put_item(TableName="shop", Item=change(item))
    return site, done


@pytest.fixture(params=RECORDED, ids=lambda path: path.stem)
def recorded(request: pytest.FixtureRequest) -> dict[str, Any]:
    return load(request.param)


def model_of(items: Items, raw: Raw) -> type[Item]:
    place = parse_partition(items.schema, raw["pk"]["S"])
    assert place is not None
    sort_key = raw["sk"]["S"]
    match place[0]:
        case "run":
            return items.run if sort_key == RUN_SORT_KEY else items.page
        case "queue":
            return items.queue_settings if sort_key == "!settings" else items.mark
        case "dead":
            return items.dead_letter
        case "lease":
            return items.lease
        case "schedule":
            return items.schedule
    named: dict[str, type[Item]] = {"worker": items.worker, "build": items.build, "cleaner": items.cleaning}
    return named[sort_key.partition("#")[0]]


# --- this format and earlier ones -----------------------------------------------------------------


def test_there_is_a_record_of_this_format() -> None:
    assert f"items-v{FORMAT_VERSION}" in [path.stem for path in RECORDED]


def test_the_record_holds_an_item_of_every_kind(recorded: dict[str, Any]) -> None:
    items = Site().items
    kinds = {model_of(items, raw).__name__ for raw in recorded["items"]}
    assert kinds == {
        "Mark",
        "Run",
        "Page",
        "DeadLetter",
        "Lease",
        "QueueSettings",
        "WorkerRecord",
        "Build",
        "ScheduleRecord",
        "Cleaning",
    }


def test_what_is_written_today_has_the_attributes_of_the_record() -> None:
    """If this fails, the format has changed: raise its number, and keep reading the old one."""

    def attributes(items: list[Raw]) -> dict[str, set[tuple[str, str]]]:
        models = Site().items
        found: dict[str, set[tuple[str, str]]] = {}
        for raw in items:
            kinds = {(name, next(iter(value))) for name, value in raw.items()}
            found.setdefault(model_of(models, raw).__name__, set()).update(kinds)
        return found

    path = next(path for path in RECORDED if path.stem == f"items-v{FORMAT_VERSION}")
    fresh = [from_json(item) for item in record()["items"]]
    assert attributes(fresh) == attributes(load(path)["items"])


def test_every_recorded_item_comes_back_as_it_was(recorded: dict[str, Any]) -> None:
    items = Site().items
    for raw in recorded["items"]:
        assert is_ours(raw)
        model = model_of(items, raw)
        assert model.from_raw_data(dict(raw)).serialize() == raw


def test_recorded_runs_can_be_asked_for(recorded: dict[str, Any]) -> None:
    site, _ = restored(recorded)
    runs = {name: site.app.run(run_id) for name, run_id in recorded["runs"].items()}
    states = {name: run.status() for name, run in runs.items()}
    assert states == {
        "succeeded": "succeeded",
        "large": "succeeded",
        "told": "succeeded",
        "dead": "dead",
        "dead keyed": "dead",
        "cancelled": "cancelled",
        "retrying": "pending",
        "waiting": "pending",
        "pending": "pending",
        "keyed": "pending",
        "unique": "pending",
        "half": "running",
    }
    assert runs["succeeded"].result() == LARGE[:3]
    assert runs["large"].result() == LARGE
    assert runs["told"].result() == "5 nothing"
    assert runs["pending"].info().arguments()["name"] == "pending"
    assert runs["dead"].info().failures[-1].message == "no card"
    assert len(site.app.dead.list(queue="default")) == 2
    assert site.app.queues.get("mail").reason == "the provider is down"
    assert [schedule.name for schedule in site.app.schedules.list()] == ["nightly"]


def test_recorded_runs_go_on_where_they_were(recorded: dict[str, Any]) -> None:
    """Retries, a checkpoint, a journal with its pages, keys, dead letters, a lease: all of it is taken up."""
    site, done = restored(recorded)
    runs = {name: site.app.run(run_id) for name, run_id in recorded["runs"].items()}
    jobs = {job.name: job for job in site.app.registry.jobs()}
    assert site.app.enqueue(jobs["plain"].using(key="p"), name="keyed") == runs["keyed"]
    with pytest.raises(DynadurableError):
        site.app.lease("refresher", ttl=timedelta(seconds=15)).acquire()
    with site.app.lease("free", ttl=timedelta(seconds=15)) as free:
        assert free.fence == 2
    runs["waiting"].send_event("said", "hello")
    done.append("mended")
    assert site.app.dead.replay(queue="default", everything=True).done == 2
    site.advance(days=2)
    done.append("failing")  # it failed once before
    site.work()
    assert runs["waiting"].result() == "5 hello"
    assert not [one for one in done if str(one).startswith("step")]
    assert ("half", None, {"at": 5}) in done
    assert ("keyed", None, None) in done
    assert [one[1] for one in done if one[0] == "pending"] == [to_datetime(recorded["at_ms"])]
    states = {name: run.status() for name, run in runs.items() if name in {"dead keyed", "unique", "retrying"}}
    assert set(states.values()) == {"succeeded"}
    assert site.app.enqueue(jobs["kept"].using(key="k"), size=1).status() == "pending"


def test_recorded_leftovers_are_cleaned_up(recorded: dict[str, Any]) -> None:
    site, _ = restored(recorded)
    site.advance(days=40)
    removed = site.clean().removed
    assert removed["runs"] == 4  # three that succeeded and a cancelled one
    assert removed["pages"] >= 2
    assert removed["workers"] == 1


# --- later formats --------------------------------------------------------------------------------


def newer(item: Raw) -> Raw:
    """The item as a later version may write it: it means something else now, in types that we do not expect."""
    strange = {name: {"M": {"is": {"S": "new"}}} for name in item if name.startswith("dd_") and name not in KEPT}
    return {**item, **strange, "dd_v": {"N": str(FORMAT_VERSION + 1)}, "dd_new": {"S": "?"}}


KEPT = {"dd_v", "dd_gen", "dd_token", "dd_lease", "dd_fence", "dd_ttl", "dd_state", "dd_mark", "dd_paused"}


def everything(site: Site, recorded: dict[str, Any]) -> list[BaseException]:
    """All that workers, callers, operators and cleaners may try; gives what they were refused with."""
    app, later = site.app, timedelta(minutes=1)
    jobs = {job.name: job for job in app.registry.jobs()}
    tries: list[Callable[[], Any]] = [
        site.work,
        lambda: app.enqueue(jobs["plain"].using(key="p"), name="keyed"),
        lambda: app.enqueue(jobs["kept"].using(key="k"), size=3),
        lambda: app.dead.list(queue="default"),
        lambda: app.dead.replay(queue="default", everything=True),
        lambda: app.dead.purge(queue="default", everything=True),
        lambda: app.queues.pause("mail"),
        lambda: app.queues.resume("mail"),
        lambda: app.lease("refresher", ttl=later).acquire().release(),
        lambda: app.lease("free", ttl=later).acquire().release(),
        lambda: app.leases.list(),
        lambda: app.workers.list(),
        lambda: app.runs.list(queue="default"),
        lambda: app.queues.get("default"),
        lambda: app.doctor.examine(queues=["default"], repair=True),
        lambda: app.cleaner().run(),
    ]
    for run_id in recorded["runs"].values():
        run = app.run(run_id)
        tries += [run.status, run.result, run.cancel, run.run_now, lambda run=run: run.explain()]  # type: ignore[misc]
        tries += [lambda run_id=run_id: app.dead.replay(run_id), lambda run=run: run.send_event("said", 1)]  # type: ignore[misc]
    refusals: list[BaseException] = []
    for attempt in tries:
        try:
            attempt()
        except DynadurableError as error:
            refusals.append(error)
    return refusals


@pytest.mark.parametrize("days", [0, 400], ids=["at once", "after a year"])
def test_newer_items_are_left_as_they_are_whatever_is_tried(recorded: dict[str, Any], days: int) -> None:
    site, done = restored(recorded, newer)
    before = {(item["pk"]["S"], item["sk"]["S"]): item for item in site.store.items("shop")}
    site.advance(days=days)
    refusals = everything(site, recorded)
    site.advance(days=2)
    site.work()
    after = {(item["pk"]["S"], item["sk"]["S"]): item for item in site.store.items("shop")}
    assert {key: after.get(key) for key in before} == before
    assert done == []
    assert {type(error) for error in refusals} <= {NewerFormatError, RunUnknownError, DynadurableError}
    told = [str(error) for error in refusals if "there is no such workflow" not in str(error)]  # it is a plain job
    assert told
    assert all("newer version of dynadurable" in text for text in told)


RUN_ONLY = [("run", RUN_SORT_KEY)]


def only(kind: str, sort_key: str | None = None) -> Callable[[Raw], Raw]:
    """Only these items are newer: a later version has begun to take the table over."""

    def change(item: Raw) -> Raw:
        is_meant = item["pk"]["S"].startswith(kind) and (sort_key is None or item["sk"]["S"] == sort_key)
        return newer(item) if is_meant else item

    return change


@pytest.mark.parametrize(
    "change",
    [only("run", RUN_SORT_KEY), only("queue"), only("dead"), only("lease"), only("workers")],
    ids=["runs", "marks", "dead letters", "leases", "workers"],
)
def test_newer_items_among_older_ones_are_left_as_they_are(recorded: dict[str, Any], change: Any) -> None:
    site, _ = restored(recorded, change)
    strange = [item for item in site.store.items("shop") if formats.is_newer(item)]
    assert strange
    everything(site, recorded)
    site.advance(days=3)
    site.work()
    left = site.store.items("shop")
    assert [item for item in strange if item not in left] == []


def test_a_worker_says_once_that_it_leaves_something_alone(
    recorded: dict[str, Any], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(formats, "_warned", set())
    site, _ = restored(recorded, only("run", RUN_SORT_KEY))
    with caplog.at_level(logging.WARNING, logger="dynadurable"):
        for _ in range(3):
            site.advance(days=1)
            site.work()
    said = [line.getMessage() for line in caplog.records if "newer version" in line.getMessage()]
    assert said
    assert len(said) == len(set(said))
    assert "upgrade dynadurable" in said[0]


def test_a_newer_pause_is_heeded(recorded: dict[str, Any]) -> None:
    """Not to stop would be worse than to stop without knowing all about it."""
    site, _ = restored(recorded, only("queue#mail", "!settings"))
    from dynadurable.storage import queues

    assert site.app.driver.run(queues.is_paused(site.items, "mail"))
    with pytest.raises(NewerFormatError, match="mail"):
        site.app.queues.resume("mail")
