"""The journal, by properties: what is packed comes back; what is appended, in any order and size, is read again."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dynadurable import App, WorkflowContext
from dynadurable.errors import PayloadUnreadableError
from dynadurable.model.record import BEGAN, DONE, FAILED, Identity, Record, is_delivery, pack, unpack
from dynadurable.storage import journal, marks, runs
from dynadurable.storage.journal import MAX_TAIL_RECORDS, Writer, merged, room_of
from dynadurable.storage.size import WRITE_UNIT_BYTES, item_bytes
from dynadurable.testing.clock import ManualClock
from dynadurable.testing.memory import MemoryClient, MemoryStore

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
KINDS = ["step", "sleep", "event", "callback", "child", "poll", "commit", "batch", "group"]
IDENTITIES = st.builds(
    Identity, st.sampled_from(["", "pack-1", "é"]), st.sampled_from(KINDS), TEXT.filter(bool), st.integers(1, 3)
)
SMALL_FACTS = st.dictionaries(
    TEXT, st.integers() | TEXT | st.booleans() | st.lists(st.integers(), max_size=2), max_size=2
)


def record(value: st.SearchStrategy[bytes | None]) -> st.SearchStrategy[Record]:
    return st.builds(
        Record,
        identity=IDENTITIES,
        phase=st.sampled_from([BEGAN, DONE, FAILED]),
        at_ms=st.integers(0, 2**45),
        took_ms=st.integers(0, 10**9),
        tries=st.integers(0, 100),
        worker=st.sampled_from(["", "pod-0", "pod-1", "ü"]),
        value=value,
        facts=SMALL_FACTS,
    )


@settings(max_examples=150, deadline=None)
@given(st.lists(record(st.none() | st.binary(max_size=60)), max_size=12))
def test_a_page_comes_back_as_it_was_packed(records: list[Record]) -> None:
    assert unpack(pack(records)) == tuple(records)


@settings(max_examples=150, deadline=None)
@given(st.lists(record(st.binary(max_size=30)), min_size=1, max_size=4), st.data())
def test_a_damaged_page_is_unreadable_or_another_page_and_nothing_else(records: list[Record], data: Any) -> None:
    packed = bytearray(pack(records))
    for _ in range(data.draw(st.integers(1, 3))):
        packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(packed[: data.draw(st.integers(0, len(packed)))])
    for damaged in (bytes(packed), cut):
        with suppress(PayloadUnreadableError):
            assert all(isinstance(one, Record) for one in unpack(damaged))


@settings(max_examples=150, deadline=None)
@given(st.lists(record(st.none()), max_size=10), st.lists(record(st.none()), max_size=6))
def test_merging_keeps_every_outcome_in_order_and_the_latest_progress(tail: list[Record], new: list[Record]) -> None:
    base = merged([], tail)
    result = merged(base, new)
    outcomes = [one for one in (*base, *new) if one.is_end]
    assert [one for one in result if one.is_end] == outcomes
    for identity in {one.identity for one in new if one.phase == BEGAN}:
        latest = [one for one in new if one.identity == identity and one.phase == BEGAN][-1]
        assert [one for one in result if one.identity == identity and one.phase == BEGAN][-1] == latest
    assert len(result) <= len(base) + len(new)


# --- through the store ----------------------------------------------------------------------------


def open_writer() -> tuple[App, MemoryStore, Writer]:
    """A journal of a run that is held."""
    store = MemoryStore()
    app = App("shop", client=MemoryClient(store), clock=ManualClock())
    app.create_table()

    @app.workflow
    def flow(ctx: WorkflowContext) -> None: ...

    run_id = app.enqueue(flow).id
    seen = next(
        one
        for shard in range(4)
        for one in app.driver.run(
            marks.poll(app.items, queue="default", shard=shard, limit=1, until_ms=None)
        ).candidates
    )
    now_ms = app.clock.now_ms()
    claim = marks.claim(
        app.items, pk=seen.pk, sk=seen.sk, token="t", now_ms=now_ms, lease_until_ms=now_ms + 30_000, worker="w"
    )
    mark, run = app.driver.run(claim), app.driver.run(runs.read(app.items, run_id))
    assert mark is not None
    assert run is not None
    return app, store, Writer(items=app.items, mark=mark, run=run)


ROOM = room_of(open_writer()[2].run)
AROUND_THE_BOUNDS = st.sampled_from(
    [0, 1, 100, *(bound + off for bound in (ROOM // 2, ROOM, WRITE_UNIT_BYTES) for off in (-1, 0, 1)), 3_000]
)
VALUES = st.none() | st.builds(lambda size, fill: bytes([fill]) * size, AROUND_THE_BOUNDS, st.integers(0, 255))
RANDOM = st.none() | AROUND_THE_BOUNDS.flatmap(
    lambda size: st.randoms(use_true_random=False).map(lambda r: r.randbytes(size))
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.lists(st.lists(record(VALUES | RANDOM), min_size=1, max_size=4), max_size=14))
def test_what_was_appended_is_read_again_in_order(appends: list[list[Record]]) -> None:
    """With values around the bounds at which they get an item of their own, and at which the tail is sealed."""
    app, _store, writer = open_writer()
    appended: list[Record] = []
    for records in appends:
        app.driver.run(writer.append(records))
        appended += records
        run = app.driver.run(runs.read(app.items, app_run_id(writer)))
        assert run is not None
        loaded = app.driver.run(journal.load(app.items, run))
        assert plain(loaded.tail, values=False) == plain(writer.tail, values=False)
        assert outcomes(loaded.records) == outcomes(appended)
        assert latest_progress(loaded.records) == latest_progress(appended)
        assert len(writer.tail) <= MAX_TAIL_RECORDS + len(records)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(record(RANDOM), min_size=1, max_size=40))
def test_a_record_at_a_time_the_run_never_takes_a_second_unit(records: list[Record]) -> None:
    """As long as no single record is larger than the room for it."""
    app, store, writer = open_writer()
    for one in records:
        if len(pack([Record(identity=one.identity, phase=one.phase, at_ms=one.at_ms, facts=one.facts)])) > ROOM // 2:
            continue
        app.driver.run(writer.append([one]))
        (run,) = [item for item in store.items("shop") if item["sk"] == {"S": "run"}]
        assert item_bytes(run) <= WRITE_UNIT_BYTES


@pytest.mark.parametrize("count", [MAX_TAIL_RECORDS - 1, MAX_TAIL_RECORDS, MAX_TAIL_RECORDS + 1, 250])
def test_many_small_records_are_sealed_by_their_number_too(count: int) -> None:
    app, _store, writer = open_writer()
    for number in range(count):
        app.driver.run(writer.append([Record(identity=Identity("", "step", "s", number), phase=DONE, at_ms=1)]))
    run = app.driver.run(runs.read(app.items, app_run_id(writer)))
    assert run is not None
    loaded = app.driver.run(journal.load(app.items, run))
    assert [one.identity.number for one in loaded.records] == list(range(count))


def app_run_id(writer: Writer) -> str:
    return writer.run.pk.removeprefix("run#")


def plain(records: Sequence[Record], *, values: bool = True) -> list[tuple[Any, ...]]:
    """Without where a value lies."""
    return [
        (one.identity, one.phase, one.at_ms, one.tries, dict(one.facts), one.value if values else None)
        for one in records
    ]


def outcomes(records: Sequence[Record]) -> list[tuple[Any, ...]]:
    return plain([one for one in records if one.is_end])


def latest_progress(records: Sequence[Record]) -> dict[Identity, Any]:
    return {one.identity: plain([one])[0] for one in records if one.phase == BEGAN and not is_delivery(one)}
