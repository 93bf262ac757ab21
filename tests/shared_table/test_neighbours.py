"""Beside somebody else's items, indexes and stream; beside other apps; with names that try to reach across."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dynadurable import App, Fail, JobContext, Retry, WorkflowContext, fan_out, iterable_pages
from dynadurable.errors import ConfigurationError, InputRefusedError, KeyRefusedError, NameRefusedError
from dynadurable.storage.keys import (
    dead_partition,
    lease_key,
    parse_partition,
    queue_partition,
    run_partition,
    workers_partition,
)
from dynadurable.storage.schema import TableSchema
from dynadurable.testing.clock import ManualClock
from dynadurable.testing.memory import MemoryClient, MemoryStore
from tests.clean.site import Site
from tests.servers import Store
from tests.shared_table import foreign

Raw = dict[str, Any]
RETRY = Retry(max_attempts=2, delay=timedelta(seconds=1), jitter=0.0)


# --- indexes and streams, on stores that have them ------------------------------------------------


SERVER = [pytest.mark.server]


@pytest.fixture(
    params=[("moto", 0), *(pytest.param(("ministack", number), marks=SERVER) for number in (1, 3))],
    ids=lambda param: f"{param[0]}-{param[1]}",
)
def shared(request: pytest.FixtureRequest, open_store: Callable[[str], Store]) -> Iterator[tuple[Any, TableSchema]]:
    """A client, and a place in a table on its store."""
    name, number = request.param
    store, place = open_store(name), replace(foreign.PLACES[number], table=f"shared-{uuid.uuid4().hex[:8]}")
    foreign.create(store.client, place, with_indexes=True)
    foreign.fill(store.client, place)
    yield store.client, place
    store.client.delete_table(TableName=place.table)


def live_in(app: App, clock: ManualClock) -> dict[str, Any]:
    """A bit of everything; gives what came of it."""
    fanned: list[str] = []

    @app.job(retry=RETRY, keep_result=timedelta(days=1))
    def kept(name: str) -> str:
        return name

    @app.job(retry=RETRY, keep_failed=timedelta(days=1))
    def bad() -> None:
        raise Fail("no")

    @app.job(retry=RETRY)
    def spread(ctx: JobContext) -> None:
        fan_out(
            ctx,
            iterable_pages(lambda after: range(after or 0, 30), cursor_of=lambda n: n + 1, page_items=10),
            lambda number: fed(app, number),
        )
        fanned.append(ctx.run_id)

    @app.schedule(every=timedelta(hours=1))
    @app.job
    def tick(ctx: JobContext) -> None:
        fanned.append(f"slot of {ctx.slot}")

    @app.workflow(retry=RETRY)
    def child(_ctx: WorkflowContext, number: int) -> int:
        return number * 2

    @app.workflow(retry=RETRY)
    def story(ctx: WorkflowContext) -> str:
        told = ctx.step(str.upper, "ä" * 400, name="upper")
        doubled = ctx.map(int, ["1", "2"], name="numbers")
        ctx.sleep(timedelta(seconds=1))
        ctx.commit({"Put": {"TableName": app.schema.table, "Item": fed(app, 99)}})
        return f"{len(told)} {list(doubled)} {ctx.call(child, 21)} {ctx.wait_event('said')}"

    runs = [app.enqueue(kept.using(key=key), name=key) for key in ("a#b", "🪲", "k" * 2_048)]
    dead, told = app.enqueue(bad), app.enqueue(story)
    app.enqueue(spread)
    app.queues.pause("mail")
    told.send_event("said", "hello")
    app.worker(concurrency=2).drain()
    with app.lease("re#fresher", ttl=timedelta(seconds=15)) as lease:
        fence = lease.fence
    app.dead.replay(dead.id)
    for _ in range(2):
        clock.advance(timedelta(hours=1))
        app.worker(concurrency=2).drain()
    examined = app.doctor.examine(repair=True)
    ended = {"results": [run.result() for run in runs], "dead": dead.status(), "story": told.status(), "fence": fence}
    ended |= {"healthy": examined.healthy, "fanned": len(fanned)}
    clock.advance(timedelta(days=3))
    return {**ended, "removed": app.cleaner(rate=10_000).run().removed}


def fed(app: App, number: int) -> Raw:
    """What a user's own job writes, under the table's own names."""
    return {app.schema.partition_key: {"S": "feed"}, app.schema.sort_key: {"S": str(number)}}


def test_not_one_foreign_item_changes_and_none_of_ours_appears_in_their_index(shared: tuple[Any, TableSchema]) -> None:
    client, place = shared
    clock = ManualClock()
    app = App(place.table, client=client, clock=clock, **foreign.options_of(place))
    came = live_in(app, clock)
    assert came["results"] == ["a#b", "🪲", "k" * 2_048]
    assert (came["dead"], came["story"], came["fence"], came["healthy"]) == ("dead", "succeeded", 1, True)
    assert came["fanned"] == 1 + 2
    assert came["removed"]["runs"] >= 6
    assert foreign.changed(client, place) == []
    left = [item for item in foreign.all_items(client, place) if item[place.partition_key] == {"S": "feed"}]
    assert len(left) == 31
    indexed = client.scan(TableName=place.table, IndexName=foreign.GSI)["Items"]
    assert len(indexed) == 30
    assert all(item[place.partition_key]["S"].startswith("user#") for item in indexed)
    told = {finding.check: finding.level for finding in app.doctor.table().findings}
    levels = "note" if place.ttl is None else "warning"
    assert (told["keys"], told["indexes"], told["stream"], told["time to live"]) == ("ok", "ok", "note", levels)


# --- other apps in the same table -----------------------------------------------------------------

PREFIXES = ["", "a", "a/", "a#", "a%23", "7", "70", "7.0", "1e3", "run", "run#", "queue#default#0", "workers", "🪲"]


def test_apps_in_one_table_do_not_see_each_other() -> None:
    store, clock = MemoryStore(locked=True), ManualClock()
    sites = [Site(schema=TableSchema(table="many", ttl=None, prefix=one), store=store, clock=clock) for one in PREFIXES]
    done: list[tuple[int, int]] = []
    for number, site in enumerate(sites):

        @site.app.job(keep_result=timedelta(days=1))
        def kept(of: int, number: int = number) -> int:
            done.append((number, of))
            return of

        @site.app.job
        def bad() -> None:
            raise Fail("no")

        site.app.enqueue(kept.using(key="same"), of=number)
        site.app.enqueue(bad)
        with site.app.lease("same", ttl=timedelta(minutes=1)):
            pass
        if number % 2:
            site.app.queues.pause("other", reason=str(number))
    for site in sites:
        site.work()
    assert done == [(number, number) for number in range(len(sites))]
    for number, site in enumerate(sites):
        assert len(site.app.dead.list()) == 1
        assert len(site.app.leases.list()) == 1
        assert site.app.queues.get("other").paused == bool(number % 2)
    sites[0].app.dead.purge(everything=True)
    assert [len(site.app.dead.list()) for site in sites] == [0, *[1] * (len(sites) - 1)]


# --- hostile names --------------------------------------------------------------------------------

PARTS = [
    "#",
    "%",
    "%23",
    "%25",
    "~",
    "@",
    "/",
    ":",
    "!",
    " ",
    "\n",
    "\x00",
    "é",
    "🪲",
    "0",
    "run",
    "queue",
    "!settings",
]
names = st.lists(st.sampled_from(PARTS) | st.text(max_size=5), min_size=1, max_size=12).map("".join)
hostile = names.filter(lambda text: len(text.encode("utf-8", "replace")) > 0 and not _has_surrogate(text))


def _has_surrogate(text: str) -> bool:
    return any("\ud800" <= one <= "\udfff" for one in text)


@settings(max_examples=150, deadline=None)
@given(st.tuples(hostile, hostile), st.tuples(hostile, hostile), st.integers(0, 31))
def test_two_names_never_give_the_same_place(one: tuple[str, str], other: tuple[str, str], shard: int) -> None:
    """A prefix and a name of one app against those of another; and each key tells whose it is."""

    def places(prefix: str, name: str) -> dict[str, Any]:
        schema = TableSchema(table="t", prefix=prefix)
        return {
            "queue": queue_partition(schema, name, shard),
            "dead": dead_partition(schema, name, shard),
            "run": run_partition(schema, name),
            "workers": workers_partition(schema),
            "lease": lease_key(schema, name),
        }

    first, second = places(*one), places(*other)
    for kind, place in first.items():
        same = one == other or (kind == "workers" and one[0] == other[0])
        assert (place == second[kind]) == same
        others = [value for name, value in second.items() if name != kind]
        assert place not in others
    schema, stranger = TableSchema(table="t", prefix=one[0]), TableSchema(table="t", prefix=other[0])
    assert parse_partition(schema, first["run"]) == ("run", one[1])
    if one[0] != other[0]:
        assert parse_partition(stranger, first["run"]) is None


@pytest.mark.parametrize("name", ["x" * 257, "#" * 86, "🪲" * 65, "y" * 2_048, ""])
def test_names_that_are_too_long_are_refused_before_anything_is_written(name: str) -> None:
    site = Site()

    @site.app.job
    def work() -> None: ...

    for use in (
        lambda: site.app.enqueue(work.using(queue=name)),
        lambda: site.app.queues.pause(name),
        lambda: site.app.lease(name, ttl=timedelta(minutes=1)).acquire(),
        lambda: site.app.job(name=name)(lambda: None) if name else site.app.queues.pause(name),
    ):
        with pytest.raises(NameRefusedError):
            use()
    assert site.store.items("shop") == []


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("ttl", ""),
        ("ttl", 5),
        ("ttl", "PK"),
        ("partition_key", ""),
        ("sort_key", "dd_sk"),
        ("sort_key", "SK\ud800"),
        ("prefix", "\udfff"),
        ("prefix", None),
        ("prefix", 7),
        ("prefix", "🪲" * 33),
    ],
)
def test_a_place_that_cannot_be_is_refused_by_name(option: str, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=option):
        App("shop", **{"partition_key": "PK", "sort_key": "SK", "client": Site().client, option: value})


def test_texts_that_cannot_be_stored_are_refused_by_name() -> None:
    site = Site()
    with pytest.raises(InputRefusedError, match="reason"):
        site.app.queues.pause("mail", reason="\ud800")
    with pytest.raises(KeyRefusedError, match="surrogate"):
        site.app.enqueue(site.app.job(name="work")(lambda: None).using(key="\ud800"))
    for refused in (
        lambda: site.app.lease("\udfff", ttl=timedelta(minutes=1)),
        lambda: site.app.queues.pause("\udfff"),
    ):
        with pytest.raises(NameRefusedError, match="surrogate"):
            refused()
    assert site.store.items("shop") == []


def test_keys_of_two_kilobytes_are_told_apart_and_longer_ones_than_eight_refused() -> None:
    site = Site()
    done: list[str] = []

    @site.app.job
    def work(end: str) -> None:
        done.append(end)

    for end in ("1", "2"):
        site.app.enqueue(work.using(key="k" * 2_047 + end), end=end)
    with pytest.raises(KeyRefusedError):
        site.app.enqueue(work.using(key="k" * 8_193), end="3")
    site.work()
    assert sorted(done) == ["1", "2"]


def test_a_poll_goes_on_past_items_of_the_owner_in_our_own_partition() -> None:
    """DynamoDB refuses a starting key that lies beyond what is asked for."""
    site = Site()
    done: list[int] = []

    @site.app.job
    def work(number: int) -> None:
        done.append(number)

    for number in range(9):
        site.client.put_item(TableName="shop", Item={"pk": {"S": "queue#default#0"}, "sk": {"S": f"{number}"}})
    for number in range(3):
        site.app.enqueue(work, number=number)
    site.app.worker(concurrency=1).drain()
    assert sorted(done) == [0, 1, 2]
    assert len(site.rows("queue")) == 9


# --- random neighbours ----------------------------------------------------------------------------

attribute = st.sampled_from(["dd_v", "dd_gen", "dd_ttl", "dd_state", "dd_token", "dd_lease", "dd_job", "ttl", "n", "x"])
value = st.one_of(
    st.text(min_size=1, max_size=8).filter(lambda text: not _has_surrogate(text)).map(lambda text: {"S": text}),
    st.integers(-5, 2_000_000_000).map(lambda number: {"N": str(number)}),
    st.just({"BOOL": True}),
    st.just({"L": [{"N": "1"}]}),
)
our_like = st.sampled_from(["queue#default#0", "run#x@y", "dead#default#0", "lease#3", "workers", "schedule#all"])
sort_like = st.sampled_from(["run", "page#a#b#c", "000000000000001#x~0~1", "!settings", "worker#a", "x", "cleaner"])
neighbour = st.tuples(hostile | our_like | st.tuples(hostile, our_like).map("".join), hostile | sort_like).flatmap(
    lambda key: st.dictionaries(attribute, value, max_size=5).map(lambda rest: (key, rest))
)


def _is_claimed_as_ours(prefix: str, pk: str, rest: Raw) -> bool:
    """An item under our own prefix and kind that carries our format number says that it is ours."""
    schema = TableSchema(table="t", prefix=prefix)
    return parse_partition(schema, pk) is not None and "N" in rest.get("dd_v", {})


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.lists(neighbour, max_size=25), st.sampled_from(PREFIXES), hostile, hostile, hostile)
def test_whatever_lies_beside_us_is_not_changed(
    neighbours: list[tuple[tuple[str, str], Raw]], prefix: str, queue: str, key: str, lease: str
) -> None:
    """Random items, some of them at our very places without being ours, and hostile names of our own."""
    store = MemoryStore(locked=True)
    schema = TableSchema(table="beside", ttl=None, prefix=prefix)
    try:
        site = Site(schema=schema, store=store, queues=("default", queue))
        site.app.operations.queue(queue)
    except NameRefusedError:
        return
    client = MemoryClient(store)
    planted: dict[tuple[str, str], Raw] = {}
    for (pk, sk), rest in neighbours:
        if not _is_claimed_as_ours(prefix, pk, rest) and sk != "!settings":
            item = {"pk": {"S": pk}, "sk": {"S": sk}, **rest}
            client.put_item(TableName="beside", Item=item)
            planted[pk, sk] = item
    app = site.app

    @app.job(keep_result=timedelta(days=1), retry=Retry.none())
    def kept(text: str) -> str:
        return text

    @app.job(keep_failed=timedelta(days=1), retry=Retry.none())
    def bad() -> None:
        raise Fail("no")

    try:
        run = app.enqueue(kept.using(key=key, queue=queue), text=key)
        with app.lease(lease, ttl=timedelta(minutes=1)):
            pass
    except NameRefusedError:
        return
    dead = app.enqueue(bad)
    site.work()
    assert run.result() == key
    assert [letter.run_id for letter in app.dead.list(queue="default")] == [dead.id]
    assert app.doctor.examine(queues=["default", queue], repair=True).healthy
    site.advance(days=30)
    assert app.cleaner().run().removed == {"runs": 2, "dead letters": 1}
    stored = {(item["pk"]["S"], item["sk"]["S"]): item for item in store.items("beside")}
    assert {place: stored.get(place) for place in planted} == planted
