"""The Krabber example works, and its check finds what is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from dynadurable import App
from dynadurable.demo import place
from dynadurable.demo.check import Delivered, delivered
from dynadurable.demo.report import REPEATED_AT_MOST, Kill, Report

nx = pytest.importorskip("networkx")
place.put_on_path()

AUTHOR = "ferris"
FOLLOWERS = ["clawdia", "pinchy", "sebastian"]


@pytest.fixture
def client(moto_client: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """On a table as the example names it, with some followers in it."""
    from krabber.models import TABLE, Following

    for name, value in (
        ("ACCESS_KEY_ID", "testing"),
        ("SECRET_ACCESS_KEY", "testing"),
        ("DEFAULT_REGION", "us-east-1"),
    ):
        monkeypatch.setenv(f"AWS_{name}", value)
    App(TABLE, client=moto_client).create_table()
    for follower in FOLLOWERS:
        moto_client.put_item(TableName=TABLE, Item=Following.of(AUTHOR, follower=follower).serialize())
    yield moto_client
    moto_client.delete_table(TableName=TABLE)


def put(client: Any, model: Any) -> None:
    client.put_item(TableName="krabber", Item=model.serialize())


def test_a_molt_comes_up_in_the_trench_of_every_follower(client: Any) -> None:
    from krabber.app import app, post, read_trench

    texts = ["first", "second"]
    molts = [post(client, AUTHOR, text) for text in texts]
    assert read_trench(client, "pinchy") == []
    app.worker(concurrency=1).drain()
    for follower in FOLLOWERS:
        assert sorted(molt.text for molt in read_trench(client, follower)) == texts
    assert read_trench(client, AUTHOR) == []
    assert delivered(client, table="krabber", author=AUTHOR, molt_id=molts[0].sk).complete


def test_a_molt_whose_transaction_fails_is_not_delivered(client: Any) -> None:
    from krabber.app import app, deliver, read_trench

    molt_id = "1795977301284-9a3c99ef"
    key = {"pk": {"S": f"molts#{AUTHOR}"}, "sk": {"S": molt_id}}
    refused = {"TableName": "krabber", "Item": key, "ConditionExpression": "attribute_exists(pk)"}
    items = app.transact_items(deliver, author=AUTHOR, molt_id=molt_id)
    with pytest.raises(client.exceptions.TransactionCanceledException):
        client.transact_write_items(TransactItems=[{"Put": refused}, *items])
    app.worker(concurrency=1).drain()
    assert read_trench(client, "pinchy") == []


# --- the check ------------------------------------------------------------------------------------


def after(client: Any, *extra: Any, without: str | None = None) -> Delivered:
    """What the check says about a molt that was delivered, with something more or less in the table."""
    from krabber.models import Molt, TrenchEntry

    put(client, Molt.by(AUTHOR, molt_id="m1", text="hello"))
    for follower in FOLLOWERS:
        if follower != without:
            put(client, TrenchEntry.of(follower, author=AUTHOR, molt_id="m1"))
    for model in extra:
        put(client, model)
    return delivered(client, table="krabber", author=AUTHOR, molt_id="m1")


def report_of(found: Delivered, **facts: Any) -> Report:
    kills = [Kill(pid=1, recorded=1, take_over_seconds=3.0, repeated=facts.pop("repeated", 0))]
    return Report(
        store="none",
        krabs=9,
        followings=9,
        delivered=found,
        writes=3,
        kills=kills,
        spent={},
        lease_seconds=3.0,
        seconds=1.0,
    )


def test_a_complete_delivery_passes(client: Any) -> None:
    found = after(client)
    assert found.complete
    assert found.once == len(FOLLOWERS)
    assert report_of(found, repeated=REPEATED_AT_MOST).exit_code == 0


def test_too_many_repeated_writes_do_not_pass(client: Any) -> None:
    found = after(client)
    assert report_of(found, repeated=REPEATED_AT_MOST + 1).exit_code == 1


def test_a_missing_entry_does_not_pass(client: Any) -> None:
    found = after(client, without="pinchy")
    assert found.missing == ["pinchy"]
    assert found.once == len(FOLLOWERS) - 1
    assert report_of(found).exit_code == 1


def test_a_second_entry_under_another_key_does_not_pass(client: Any) -> None:
    from krabber.models import Molt

    second = Molt("trench#pinchy", "again", author=AUTHOR, text="m1")
    found = after(client, second)
    assert found.twice == ["pinchy"]
    assert report_of(found).exit_code == 1


def test_an_entry_of_somebody_who_does_not_follow_does_not_pass(client: Any) -> None:
    from krabber.models import TrenchEntry

    found = after(client, TrenchEntry.of("stranger", author=AUTHOR, molt_id="m1"))
    assert found.strangers == ["stranger"]
    assert report_of(found).exit_code == 1


def test_another_molt_in_a_trench_is_nobodys_business(client: Any) -> None:
    from krabber.models import TrenchEntry

    found = after(client, TrenchEntry.of("stranger", author=AUTHOR, molt_id="m2"))
    assert found.complete


def test_a_mark_that_is_left_over_does_not_pass(client: Any) -> None:
    from krabber.app import app, deliver

    item = app.transact_items(deliver, author=AUTHOR, molt_id="m1")[0]["Put"]["Item"]
    client.put_item(TableName="krabber", Item=item)
    found = after(client)
    assert found.marks_left == 1
    assert report_of(found).exit_code == 1


def test_nothing_at_all_does_not_pass(client: Any) -> None:
    found = delivered(client, table="krabber", author="nobody", molt_id="m1")
    assert report_of(found).exit_code == 1


# --- the graph ------------------------------------------------------------------------------------


@pytest.mark.parametrize("least", [100, 1_000, 3_000])
def test_the_star_has_at_least_as_many_followers_as_asked_for(least: int) -> None:
    from krabber.graph import STAR, with_star

    graph = with_star(least)
    assert least <= len(graph.followers[STAR]) < len(graph.krabs)
    assert len(set(graph.krabs)) == len(graph.krabs)


def test_few_krabs_have_most_of_the_followers_and_nobody_follows_twice_or_themselves() -> None:
    from krabber.graph import with_star

    graph = with_star(1_000)
    counts = sorted(map(len, graph.followers.values()), reverse=True)
    assert sum(counts[: len(graph.krabs) // 100]) > graph.followings / 2
    assert len(counts) < len(graph.krabs) / 2
    for krab, followers in graph.followers.items():
        assert len(set(followers)) == len(followers)
        assert krab not in followers


def test_the_graph_is_the_same_every_time() -> None:
    from krabber.graph import with_star

    assert with_star(200) == with_star(200)
