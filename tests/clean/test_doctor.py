"""What the doctor finds, and what it puts right."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from dynadurable import App, ConfigurationError, Fail
from dynadurable.clock import UniqueIds
from dynadurable.control.doctor import Asked, DoctorPlans
from dynadurable.model.finding import NOTE, OK, PROBLEM, WARNING, Examination, Finding
from dynadurable.storage import probes
from dynadurable.storage.keys import mark_sort_key, queue_partition
from dynadurable.storage.permissions import Role
from dynadurable.storage.schema import TableSchema
from dynadurable.testing.memory import MemoryClient, MemoryStore
from tests.clean.site import Site


@pytest.fixture
def site() -> Site:
    made = Site()

    @made.app.job(keep_result=timedelta(days=7))
    def kept() -> None: ...

    @made.app.job
    def bad() -> None:
        raise Fail("no")

    return made


def of(found: Examination, check: str) -> list[Finding]:
    return [finding for finding in found.findings if finding.check == check]


def levels(found: Examination, check: str) -> list[str]:
    return [finding.level for finding in of(found, check)]


def job(site: Site, name: str) -> Any:
    found = site.app.registry.get(name)
    assert found is not None
    return found


def test_a_table_in_order_has_no_problem_and_is_not_changed(site: Site) -> None:
    site.app.enqueue(job(site, "kept").using(key="k", delay=timedelta(days=3)))
    site.app.enqueue(job(site, "bad"))
    site.work()
    site.advance(hours=2)
    before = site.rows()
    found = site.app.doctor.examine(repair=True, roles=list(Role))
    assert found.healthy
    assert {one.level for one in found.findings if one.check not in {"cleaner", "time to live", "clock"}} == {OK}
    assert site.rows() == before
    assert found.to_record()["findings"][0]["check"] == "reach"


# --- reachability and permissions -----------------------------------------------------------------


class Forbidding(MemoryClient):
    """Refuses some operations, as IAM does."""

    def __init__(self, store: MemoryStore, *forbidden: str) -> None:
        super().__init__(store)
        self.forbidden = forbidden

    def _request(self, operation: str, request: Any) -> Any:
        if operation in self.forbidden:
            raise ClientError({"Error": {"Code": "AccessDeniedException", "Message": "no"}}, operation)
        return super()._request(operation, request)


def test_a_missing_table_is_a_problem_and_the_end_of_the_examination() -> None:
    app = App("nowhere", client=MemoryClient(MemoryStore()))
    found = app.doctor.examine()
    assert not found.healthy
    assert [one.check for one in found.findings] == ["reach"]
    assert "does not exist" in found.findings[0].text


def test_what_may_not_be_done_is_told_by_role(site: Site) -> None:
    app = site.make_app(Forbidding(site.store, "Scan", "PutItem"))
    found = app.doctor.examine()
    assert found.healthy
    by_level: dict[str, list[str]] = {OK: [], NOTE: []}
    for one in of(found, "permissions"):
        by_level[one.level].append(one.text)
    assert by_level[OK] == ["This process may observe."]
    assert any("may not clean" in text and "Scan" in text for text in by_level[NOTE])
    assert any("may not work" in text and "PutItem on queue" in text for text in by_level[NOTE])
    assert not app.doctor.examine(roles=["work"]).healthy
    assert app.doctor.examine(roles=["observe"]).healthy


def test_a_check_that_may_not_be_made_is_a_finding(site: Site) -> None:
    app = site.make_app(Forbidding(site.store, "DescribeTable", "Query"))
    found = app.doctor.examine(queues=["default"])
    assert any("cannot be looked at" in one.text for one in found.findings)


def test_a_role_that_does_not_exist_is_refused(site: Site) -> None:
    with pytest.raises(ConfigurationError, match="enqueue, work"):
        site.app.doctor.examine(roles=["king"])


@pytest.mark.parametrize("allowed", [True, False])
def test_every_grant_has_a_harmless_request(site: Site, allowed: bool) -> None:
    every = ("GetItem", "Query", "PutItem", "UpdateItem", "DeleteItem", "Scan", "BatchGetItem", "BatchWriteItem")
    forbidden = () if allowed else (*every, "TransactWriteItems", "DescribeTable", "DescribeTimeToLive")
    app = site.make_app(Forbidding(site.store, *forbidden))
    before = site.store.items("shop")
    for role in Role:
        for grant in probes.grants_of(role):
            assert app.driver.run(probes.is_allowed(site.items, grant)) is allowed, grant
    assert site.store.items("shop") == before


def test_an_item_at_the_place_of_the_probe_is_not_touched(site: Site) -> None:
    """Should somebody have a queue or lease of that name."""
    stranger = {"pk": {"S": "lease#0"}, "sk": {"S": "!probe"}, "mine": {"S": "x"}}
    site.client.put_item(TableName="shop", Item=stranger)
    site.app.doctor.examine()
    assert stranger in site.store.items("shop")


# --- the clock ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("off_seconds", "level", "text"),
    [(0, OK, "agrees"), (1, OK, "agrees"), (-30, NOTE, "30 s behind"), (200, WARNING, "200 s ahead")],
)
def test_a_machine_whose_clock_is_off_is_told(off_seconds: int, level: str, text: str) -> None:
    site = Site()
    site.store = MemoryStore(site.clock)
    site.client = MemoryClient(site.store)
    site.client.create_table(
        TableName="shop",
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in ("pk", "sk")],
    )
    app = site.make_app(site.client)
    plans = DoctorPlans(app.operations, machine_ms=lambda: site.clock.now_ms() + 500 + off_seconds * 1000)
    found = app.driver.run(plans.examine(Asked()))
    assert levels(found, "clock") == [level]
    assert text in of(found, "clock")[0].text


# --- how the table fits ---------------------------------------------------------------------------


def describe(schema: TableSchema, ttl: str | None = None, **more: Any) -> Examination:
    """What the doctor says of a table of that description."""

    class Described(MemoryClient):
        def describe_table(self, **request: Any) -> Any:
            told = super().describe_table(**request)
            told["Table"] |= more
            return told

    site = Site(schema=schema)
    if ttl is not None:
        specification = {"Enabled": True, "AttributeName": ttl}
        site.client.update_time_to_live(TableName=schema.table, TimeToLiveSpecification=specification)
    return site.make_app(Described(site.store)).doctor.table()


@pytest.mark.parametrize(
    ("own", "watched", "level"),
    [
        ("ttl", "ttl", OK),
        ("ttl", None, WARNING),
        ("ttl", "expires", WARNING),
        (None, "expires", NOTE),
        (None, None, NOTE),
    ],
)
def test_time_to_live_is_told(own: str | None, watched: str | None, level: str) -> None:
    assert levels(describe(TableSchema(table="told", ttl=own), ttl=watched), "time to live") == [level]


def index(name: str, *keys: str) -> dict[str, Any]:
    kinds = ("HASH", "RANGE")
    schema = [{"AttributeName": key, "KeyType": kind} for key, kind in zip(keys, kinds, strict=False)]
    return {"IndexName": name, "KeySchema": schema}


@pytest.mark.parametrize(
    ("keys", "ttl_type", "level"),
    [
        (("gsi1pk", "gsi1sk"), "N", OK),
        (("sk", "pk"), "N", WARNING),
        (("ttl",), "N", NOTE),
        (("ttl", "pk"), "N", NOTE),
        (("tenant", "ttl"), "N", OK),
        (("ttl",), "S", PROBLEM),
        (("dd_state", "pk"), "N", PROBLEM),
    ],
)
def test_indexes_are_told_by_whether_our_items_appear_in_them(keys: tuple[str, ...], ttl_type: str, level: str) -> None:
    names = {"pk": "S", "sk": "S", **dict.fromkeys(keys, "S"), "ttl": ttl_type}
    names.update({"pk": "S", "sk": "S"})
    found = describe(
        TableSchema(table="told"),
        ttl="ttl",
        GlobalSecondaryIndexes=[index("by-it", *keys)],
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": kind} for name, kind in names.items()],
    )
    assert levels(found, "indexes") == [level]
    assert found.healthy == (level != PROBLEM)


def test_streams_and_capacity_are_told() -> None:
    found = describe(
        TableSchema(table="told"),
        StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"},
        ProvisionedThroughput={"ReadCapacityUnits": 20, "WriteCapacityUnits": 40},
    )
    assert "dd_v" in (of(found, "stream")[0].remedy or "")
    assert "--rate 10" in (of(found, "capacity")[0].remedy or "")
    assert "A pass reads the whole table" in of(found, "cleaning")[0].text


def test_other_keys_are_a_problem() -> None:
    keys = [{"AttributeName": "id", "KeyType": "HASH"}]
    found = describe(TableSchema(table="told"), KeySchema=keys)
    assert levels(found, "keys") == [PROBLEM]
    assert not found.healthy


# --- marks and runs that disagree -----------------------------------------------------------------


def test_marks_that_do_not_fit_their_runs_are_found_and_put_right(site: Site) -> None:
    app, items, later = site.app, site.items, timedelta(days=300)
    moved = app.enqueue(job(site, "kept").using(key="moved", delay=later))
    ended = app.enqueue(job(site, "kept").using(key="ended"))
    site.work()
    [old] = site.rows("queue")
    [run] = [row for row in site.rows("run") if row["dd_key"]["S"] == "moved"]
    moved.run_now()
    [new] = site.rows("queue")
    site.client.put_item(TableName="shop", Item={**old, "dd_gen": run["dd_gen"]})  # a crash after the move
    site.client.delete_item(TableName="shop", Key={"pk": new["pk"], "sk": new["sk"]})
    [done] = [row for row in site.rows("run") if row["dd_key"]["S"] == "ended"]
    far = site.clock.now_ms() + 86_400_000
    pk, now_ms = queue_partition(site.schema, "default", 0), site.clock.now_ms()
    kept: dict[str, Any] = {"job": "kept", "placed_ms": now_ms}
    site.put(items.mark(pk=pk, sk=mark_sort_key(far, ended.id, place="e.1"), generation=done["dd_gen"]["S"], **kept))
    lone = UniqueIds().make(now_ms)
    site.put(items.mark(pk=pk, sk=mark_sort_key(far, "kept@nobody", place="n.0"), generation=lone, **kept))
    assert levels(app.doctor.examine(), "marks") == [OK]  # so far all may yet be on its way
    site.advance(minutes=11)
    before = site.rows()
    found = app.doctor.examine()
    [finding] = of(found, "marks")
    assert finding.level == WARNING
    assert finding.text.startswith("3 marks")
    for how in ("never acknowledged", "has ended", "another mark"):
        assert how in finding.text
    assert site.rows() == before
    mended = app.doctor.examine(repair=True)
    assert of(mended, "marks")[0].repaired
    assert levels(app.doctor.examine(), "marks") == [OK]
    site.work()
    assert moved.status() == "succeeded"  # it would have waited for 300 days


def test_dead_letters_of_runs_that_live_are_found_and_removed(site: Site) -> None:
    run = site.app.enqueue(job(site, "bad"))
    site.work()
    [letter] = site.rows("dead")
    site.app.dead.replay(run.id)
    site.client.put_item(TableName="shop", Item=letter)
    site.advance(minutes=11)
    [finding] = of(site.app.doctor.examine(), "dead letters")
    assert (finding.level, run.id in finding.text) == (WARNING, True)
    assert len(site.rows("dead")) == 1
    site.app.doctor.examine(repair=True)
    assert site.rows("dead") == []
    assert run.status() == "pending"


def test_newer_items_are_told_and_left_alone_even_by_a_repair(site: Site) -> None:
    site.app.enqueue(job(site, "kept").using(key="k"))
    site.edit(lambda row: {**row, "dd_v": {"N": "2"}}, kind="queue")
    site.edit(lambda row: {**row, "dd_v": {"N": "2"}}, kind="run")
    site.advance(days=1)
    before = site.rows()
    found = site.app.doctor.examine(repair=True)
    assert levels(found, "format") == [WARNING]
    assert site.rows() == before


def test_a_queue_that_nobody_serves_is_told(site: Site) -> None:
    site.app.enqueue(job(site, "kept"))
    assert levels(site.app.doctor.examine(), "workers") == [WARNING]
    site.app.worker(queues=["default"]).registrar.beat()
    assert levels(site.app.doctor.examine(), "workers") == []


def test_it_is_told_when_the_cleaner_was_last_at_work(site: Site) -> None:
    assert levels(site.app.doctor.examine(), "cleaner") == [WARNING]
    site.clean()
    assert levels(site.app.doctor.examine(), "cleaner") == [OK]
    site.advance(days=4)
    assert levels(site.app.doctor.examine(), "cleaner") == [WARNING]
