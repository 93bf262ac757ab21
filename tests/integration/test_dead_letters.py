"""Dead letters in the table: listed, grouped, shown, replayed, purged."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from dynadurable import App, ConfigurationError, InputRefusedError, JobContext, Queue, Retry, RunUnknownError
from dynadurable.model import codec
from dynadurable.testing.clock import START, ManualClock
from dynadurable.testing.memory import MemoryClient
from dynadurable.worker.registrar import Registrar
from tests.integration.test_asking import drain

ItemsIn = Callable[[App], list[dict[str, Any]]]
HOUR = timedelta(hours=1)
ONCE = Retry.none()


@pytest.fixture
def make_app(memory: MemoryClient, clock: ManualClock) -> Callable[..., App]:
    make = partial(App, "shop", client=memory, clock=clock)
    make().create_table()
    return make


@pytest.fixture
def items_in(memory: MemoryClient) -> ItemsIn:
    return lambda app: memory.store.items(app.schema.table)


class Shop:
    """An app of a certain build, whose jobs fail in two ways until they are fixed."""

    def __init__(self, make_app: Callable[..., App], build: str, *, fixed: tuple[str, ...] = ()) -> None:
        self.app = make_app(build=build, queues=[Queue(name="trench", shards=8)])
        self.done: list[Any] = []

        @self.app.job(queue="trench", retry=ONCE)
        def fan_out(molt: int) -> None:
            if "fan_out" not in fixed:
                raise KeyError(f"molt {molt} is gone")
            self.done.append(molt)

        @self.app.job(retry=ONCE)
        def mail(to: str) -> None:
            if "mail" not in fixed:
                raise ConnectionError(f"no route to {to}")
            self.done.append(to)

        self.fan_out, self.mail = fan_out, mail

    def start(self) -> Registrar:
        """One of its workers says that it is alive."""
        registrar = self.app.worker(name=f"worker of {self.app.build}").registrar
        registrar.beat()
        return registrar


@pytest.fixture
def shop(make_app: Callable[..., App]) -> Shop:
    return Shop(make_app, "v1")


def fill(shop: Shop, clock: ManualClock) -> None:
    """Six dead letters of two causes, a minute apart."""
    for number in range(6):
        if number % 3 == 2:
            shop.app.enqueue(shop.mail, f"krab-{number}@example.com")
        else:
            shop.app.enqueue(shop.fan_out, number)
        drain(shop.app)
        clock.advance(timedelta(minutes=1))


def test_letters_are_listed_newest_first_over_all_shards_and_queues(shop: Shop, clock: ManualClock) -> None:
    fill(shop, clock)
    letters = shop.app.dead.list()
    assert [letter.job for letter in letters] == ["mail", "fan_out", "fan_out", "mail", "fan_out", "fan_out"]
    assert [letter.error for letter in letters][:2] == [
        "ConnectionError: no route to krab-5@example.com",
        "KeyError: 'molt 4 is gone'",
    ]
    assert {letter.build for letter in letters} == {"v1"}
    assert [letter.died_at for letter in letters] == sorted((letter.died_at for letter in letters), reverse=True)
    assert shop.app.dead.list(limit=2) == letters[:2]


@pytest.mark.parametrize(
    ("where", "count"),
    [
        ({"queue": "trench"}, 4),
        ({"job": "mail"}, 2),
        ({"queue": "trench", "job": "mail"}, 0),
        ({"build": "v1"}, 6),
        ({"build": "v2"}, 0),
        ({"before_build": "v2"}, 6),
        ({"before_build": "v1"}, 0),
        ({"fingerprint": "of mail"}, 2),
        ({"fingerprint": "of mail", "queue": "trench"}, 0),
        ({"since": START + timedelta(minutes=2)}, 4),
        ({"until": START + timedelta(minutes=2)}, 3),
        ({"since": START + timedelta(minutes=2), "until": START + timedelta(minutes=2), "job": "mail"}, 1),
    ],
)
def test_filters_narrow_every_command(shop: Shop, clock: ManualClock, where: dict[str, Any], count: int) -> None:
    fill(shop, clock)
    if "fingerprint" in where:
        (of_mail,) = shop.app.dead.groups(job="mail")
        where = {**where, "fingerprint": of_mail.fingerprint[:8]}
    assert len(shop.app.dead.list(**where)) == count
    assert shop.app.dead.count(**where) == count
    assert shop.app.dead.replay(dry_run=True, **where).done == count
    assert shop.app.dead.purge(dry_run=True, **where).done == count
    assert shop.app.dead.count() == 6


def test_times_bound_what_is_meant(shop: Shop, clock: ManualClock) -> None:
    start = clock.now()
    fill(shop, clock)
    assert shop.app.dead.count(since=start + timedelta(minutes=2)) == 4
    assert shop.app.dead.count(until=start + timedelta(minutes=2)) == 3
    assert shop.app.dead.count(since=start + timedelta(minutes=2), until=start + timedelta(minutes=2)) == 1


def test_causes_are_counted_with_their_first_and_last(shop: Shop, clock: ManualClock) -> None:
    start = clock.now()
    fill(shop, clock)
    fan_out, mail = shop.app.dead.groups()
    assert (fan_out.count, fan_out.jobs, fan_out.builds) == (4, ("fan_out",), ("v1",))
    assert (fan_out.first_at, fan_out.last_at) == (start, start + timedelta(minutes=4))
    assert (mail.count, mail.error) == (2, "ConnectionError: no route to krab-5@example.com")
    assert shop.app.dead.count(fingerprint=mail.fingerprint[:6]) == 2


def test_one_letter_tells_everything(shop: Shop, clock: ManualClock) -> None:
    fill(shop, clock)
    letter = shop.app.dead.list(job="mail")[0]
    told = shop.app.dead.get(letter.run_id)
    assert told.arguments() == {"to": "krab-5@example.com"}
    assert told.fingerprint == letter.fingerprint
    assert "no route to" in told.failures[-1].traceback
    with pytest.raises(RunUnknownError):
        shop.app.dead.get("default~0~0mywy3k00~" + "0" * 22)
    live = shop.app.enqueue(shop.mail, "x")
    with pytest.raises(RunUnknownError, match="not dead but pending"):
        shop.app.dead.get(live.id)


# --- replay ---------------------------------------------------------------------------------------


def test_a_replayed_run_keeps_id_options_input_and_progress_and_begins_its_attempts_anew(
    app: App, clock: ManualClock, items_in: ItemsIn
) -> None:
    seen: list[Any] = []

    @app.job(retry=Retry(max_attempts=2, delay=timedelta(seconds=10), jitter=0.0), keep_result=HOUR)
    def fan_out(ctx: JobContext, molt: str) -> str:
        seen.append((ctx.attempt, ctx.cursor, molt))
        if ctx.cursor is None:
            ctx.checkpoint(7)
        if len(seen) <= 3:
            raise ValueError("no")
        return "done"

    run = app.enqueue(fan_out.using(key="m1", queue="trench"), "m1")
    drain_trench(app)
    clock.advance(timedelta(seconds=10))
    drain_trench(app)
    assert run.status() == "dead"
    assert app.dead.replay(run.id).done == 1
    assert app.dead.list(queue="trench") == []
    drain_trench(app)
    assert run.info().state == "pending"
    clock.advance(timedelta(seconds=10))
    drain_trench(app)
    assert run.result() == "done"
    assert seen == [(1, None, "m1"), (2, 7, "m1"), (1, 7, "m1"), (2, 7, "m1")]
    assert [failure.attempt for failure in run.info().failures] == [1, 2, 1]
    assert (run.info().queue, run.info().key) == ("trench", "m1")


def drain_trench(app: App) -> None:
    app.worker(queues=["trench"], concurrency=1).drain()


def test_a_second_replay_finds_nothing_to_do(shop: Shop, clock: ManualClock, items_in: ItemsIn) -> None:
    fill(shop, clock)
    (letter, *_) = shop.app.dead.list(job="mail")
    assert shop.app.dead.replay(letter.run_id).done == 1
    before = items_in(shop.app)
    again = shop.app.dead.replay(letter.run_id)
    assert (again.done, again.skipped) == (0, 1)
    assert items_in(shop.app) == before
    with pytest.raises(RunUnknownError):
        shop.app.dead.replay("nothing")


def test_what_failed_before_a_build_is_replayed_with_one_call(make_app: Callable[..., App], clock: ManualClock) -> None:
    """Also of builds whose names sort the other way; what the fixed build failed on stays."""
    old, older = Shop(make_app, "a-new-name"), Shop(make_app, "z-old-name")
    older.start()
    clock.advance(HOUR)
    old.start()
    fill(old, clock)
    fill(older, clock)  # a rolling deployment: the older build still fails after the other has started
    fixed = Shop(make_app, "m-fixed", fixed=("fan_out", "mail"))
    clock.advance(HOUR)
    fixed.start()
    broken = Shop(make_app, "m-fixed")
    broken.app.enqueue(broken.mail, "still fails")
    drain(broken.app)
    assert fixed.app.dead.count() == 13
    assert fixed.app.dead.count(before_build="a-new-name") == 6
    report = fixed.app.dead.replay(before_build="m-fixed")
    assert (report.matched, report.done) == (12, 12)
    drain(fixed.app)
    assert len(fixed.done) == 12
    assert [letter.error for letter in fixed.app.dead.list()] == ["ConnectionError: no route to still fails"]


def test_a_group_is_replayed_and_the_others_stay(make_app: Callable[..., App], shop: Shop, clock: ManualClock) -> None:
    fill(shop, clock)
    mail = next(group for group in shop.app.dead.groups() if group.jobs == ("mail",))
    fixed = Shop(make_app, "v2", fixed=("mail",))
    assert fixed.app.dead.replay(fingerprint=mail.fingerprint).done == 2
    drain(fixed.app)
    assert sorted(fixed.done) == ["krab-2@example.com", "krab-5@example.com"]
    assert {letter.job for letter in fixed.app.dead.list()} == {"fan_out"}


def test_arguments_can_be_edited_for_one_run(make_app: Callable[..., App], shop: Shop, clock: ManualClock) -> None:
    fixed = Shop(make_app, "v2", fixed=("mail",))
    run = shop.app.enqueue(shop.mail.using(key="k"), "krab@exmaple.com")
    drain(shop.app)
    with pytest.raises(InputRefusedError, match="missing a required argument"):
        fixed.app.dead.replay(run.id, arguments={"too": "krab@example.com"})
    with pytest.raises(InputRefusedError, match="one run at a time"):
        fixed.app.dead.replay(job="mail", arguments={"to": "krab@example.com"})
    with pytest.raises(ConfigurationError, match="not defined here"):
        make_app().dead.replay(run.id, arguments={"to": "krab@example.com"})
    assert run.status() == "dead"
    assert fixed.app.dead.replay(run.id, arguments={"to": "krab@example.com"}).done == 1
    assert fixed.app.enqueue(fixed.mail.using(key="k"), to="krab@example.com") == run  # the key means the new input
    drain(fixed.app)
    assert fixed.done == ["krab@example.com"]


def test_replays_keep_to_a_rate(shop: Shop, clock: ManualClock) -> None:
    fill(shop, clock)
    before = clock.now()
    shop.app.dead.replay(everything=True, rate=2)
    assert clock.now() - before == timedelta(seconds=3)


def test_a_replay_stops_when_runs_fail_again_and_again(
    make_app: Callable[..., App], shop: Shop, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a cause that is not gone, as many bodies fail again as were allowed."""
    for number in range(20):
        shop.app.enqueue(shop.fan_out, number)
    drain(shop.app)
    assert shop.app.dead.count() == 20
    monkeypatch.setattr(clock, "sleep", lambda seconds: work_while_waiting(shop.app, clock, seconds))
    progress: list[int] = []
    report = shop.app.dead.replay(everything=True, stop_after=3, progress=progress.append)
    assert report.stopped == "3 runs in a row have failed again"
    assert (report.done, report.failed_again) == (3, 3)
    assert progress == [1, 2, 3]
    assert shop.app.dead.count() == 20
    fixed = Shop(make_app, "v2", fixed=("fan_out",))
    monkeypatch.setattr(clock, "sleep", lambda seconds: work_while_waiting(fixed.app, clock, seconds))
    report = fixed.app.dead.replay(everything=True, stop_after=3)
    assert (report.done, report.failed_again, report.stopped) == (20, 0, None)
    drain(fixed.app)
    assert sorted(fixed.done) == list(range(20))


def work_while_waiting(app: App, clock: ManualClock, seconds: float) -> None:
    clock.advance(timedelta(seconds=seconds))
    drain(app)


def test_a_replay_that_is_to_stop_after_failures_does_not_wait_for_ever_for_a_worker(
    shop: Shop, clock: ManualClock
) -> None:
    fill(shop, clock)
    report = shop.app.dead.replay(everything=True, stop_after=2)
    assert report.stopped is not None
    assert "is a worker up?" in report.stopped
    assert report.done == 2


def test_nothing_is_meant_by_nothing(shop: Shop) -> None:
    for act in (shop.app.dead.replay, shop.app.dead.purge):
        with pytest.raises(InputRefusedError, match="everything=True"):
            act()
        with pytest.raises(InputRefusedError, match="everything=True"):
            act(job=None)
    for wrong in ({"rate": 0}, {"rate": -1.0}, {"stop_after": 0}):
        with pytest.raises(InputRefusedError):
            shop.app.dead.replay(everything=True, **wrong)


def test_a_replay_meets_only_what_was_dead_when_it_began(shop: Shop, clock: ManualClock) -> None:
    """What dies again meanwhile is not replayed again, or it would never end."""
    fill(shop, clock)
    report = shop.app.dead.replay(everything=True, progress=lambda _count: drain(shop.app))
    assert report.done == 6
    assert shop.app.dead.count() == 6


# --- forget ---------------------------------------------------------------------------------------


def test_purged_runs_leave_nothing_and_the_others_stay(shop: Shop, clock: ManualClock, items_in: ItemsIn) -> None:
    fill(shop, clock)
    (letter, *_) = shop.app.dead.list(job="mail")
    assert shop.app.dead.purge(letter.run_id).done == 1
    assert shop.app.run(letter.run_id).explain().code == "unknown"
    assert shop.app.dead.count() == 5
    assert shop.app.dead.purge(job="fan_out").done == 4
    assert shop.app.dead.purge(everything=True).done == 1
    assert items_in(shop.app) == []


def test_a_letter_that_is_kept_for_a_while_only_expires(app: App, clock: ManualClock) -> None:
    @app.job(retry=ONCE, keep_failed=HOUR)
    def hopeless() -> None:
        raise ValueError("no")

    run = app.enqueue(hopeless)
    drain(app)
    assert app.dead.count() == 1
    clock.advance(HOUR)
    assert app.dead.count() == 0
    assert run.explain().code == "expired"
    with pytest.raises(RunUnknownError):
        app.dead.replay(run.id)


def test_input_that_cannot_be_read_is_kept_byte_for_byte(
    app: App, clock: ManualClock, memory: MemoryClient, items_in: ItemsIn
) -> None:
    """PUB-11: its neighbours succeed, it uses its attempts, and its letter names the reason."""
    done: list[int] = []

    @app.job(retry=Retry(max_attempts=2, delay=timedelta(seconds=10), jitter=0.0))
    def plain(number: int) -> None:
        done.append(number)

    bad = app.enqueue(plain.using(key="bad"), 0)
    raw = b'{"__v": 99, "data": "???"}'
    memory.update_item(
        TableName=app.schema.table,
        Key={"pk": {"S": f"run#{bad.id}"}, "sk": {"S": "run"}},
        UpdateExpression="SET dd_input = :raw",
        ExpressionAttributeValues={":raw": {"B": raw}},
    )
    for number in range(1, 6):
        app.enqueue(plain.using(key=str(number)), number)
    drain(app)
    clock.advance(timedelta(seconds=10))
    drain(app)
    assert sorted(done) == [1, 2, 3, 4, 5]
    told = app.dead.get(bad.id)
    assert told.payload == raw
    assert told.attempts == 2
    assert "PayloadUnreadableError" in (told.error or "")
    assert app.dead.replay(bad.id, arguments={"number": 9}).done == 1
    drain(app)
    assert 9 in done
    assert codec.decode(bad.info().payload or b"") == {"number": 9}
