"""Every item in the table, as PynamoDB models: the one definition of attributes and their encoding.

Attribute names begin with ``dd_``, so that an index of the table's owner never takes one of ours for its key.
``bind(schema)`` gives the models their table and key names. Outside the library they read the same table:

>>> items = bind(TableSchema(table="shop"))
>>> items.run.pk.attr_name
'pk'

Instants are whole milliseconds since 1970 (UTC); only the TTL attribute is in seconds, as DynamoDB demands.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self, TypeVar, cast

from pynamodb.attributes import (
    BinaryAttribute,
    BooleanAttribute,
    ListAttribute,
    NumberAttribute,
    UnicodeAttribute,
    UnicodeSetAttribute,
)
from pynamodb.models import Model

from ..errors import ItemUnreadableError
from .schema import TableSchema

FORMAT_VERSION = 1
"""Written into every item. A library that meets a higher one leaves the item alone."""

LIVE = "live"
SUCCEEDED = "succeeded"
DEAD = "dead"
CANCELLED = "cancelled"


class Item(Model):
    """What every item has."""

    pk = UnicodeAttribute(hash_key=True)
    sk = UnicodeAttribute(range_key=True)
    version = NumberAttribute(attr_name="dd_v", default=FORMAT_VERSION)

    @classmethod
    def from_raw_data(cls, data: dict[str, Any]) -> Self:
        """The item as stored, all of it or some attributes.

        Raises:
            ItemUnreadableError: an attribute is of another type than ours, or no whole number.
        """
        odd = [name for name, value in data.items() if name.startswith("dd_") and not is_sound(value)]
        if odd:
            raise damaged(described(cls, data), f"{odd[0]} is {data[odd[0]]}")
        try:
            return super().from_raw_data(data)
        except (AttributeError, TypeError, ValueError) as error:
            raise damaged(described(cls, data), str(error)) from error

    def check_whole(self) -> None:
        """Of an item that was read with all its attributes.

        Raises:
            ItemUnreadableError: one that every such item has is missing.
        """
        for name, attribute in self.get_attributes().items():
            if not attribute.null and getattr(self, name) is None:
                raise damaged(_named(self.pk, self.sk), f"it lacks {attribute.attr_name}")


class Mark(Item):
    """A run is pending, due then. Self-contained for a plain job; else (``generation`` is set) a pointer to its run."""

    job = UnicodeAttribute(attr_name="dd_job")
    input = BinaryAttribute(attr_name="dd_input", legacy_encoding=False, null=True)
    attempt = NumberAttribute(attr_name="dd_attempt", default=0)
    token = UnicodeAttribute(attr_name="dd_token", null=True)
    fence = NumberAttribute(attr_name="dd_fence", default=0)
    lease_until_ms = NumberAttribute(attr_name="dd_lease", null=True)
    worker = UnicodeAttribute(attr_name="dd_worker", null=True)
    cursor = BinaryAttribute(attr_name="dd_cursor", legacy_encoding=False, null=True)
    cancelled = BooleanAttribute(attr_name="dd_cancel", null=True)
    generation = UnicodeAttribute(attr_name="dd_gen", null=True)
    fence_placed = NumberAttribute(attr_name="dd_fence0", null=True)
    placed_ms = NumberAttribute(attr_name="dd_at", null=True)
    vouched = NumberAttribute(attr_name="dd_vouched", null=True)

    @property
    def is_pointer(self) -> bool:
        """Whether the truth lies in a run item."""
        return self.generation is not None


class Run(Item):
    """The truth about a run that is more than its mark."""

    job = UnicodeAttribute(attr_name="dd_job")
    queue = UnicodeAttribute(attr_name="dd_queue")
    shard = NumberAttribute(attr_name="dd_shard")
    state = UnicodeAttribute(attr_name="dd_state", default=LIVE)
    input = BinaryAttribute(attr_name="dd_input", legacy_encoding=False, null=True)
    digest = UnicodeAttribute(attr_name="dd_digest", null=True)
    key = UnicodeAttribute(attr_name="dd_key", null=True)
    generation = UnicodeAttribute(attr_name="dd_gen")
    rev = NumberAttribute(attr_name="dd_rev", default=0)
    fence = NumberAttribute(attr_name="dd_fence", default=0)
    mark = UnicodeAttribute(attr_name="dd_mark")
    attempts = NumberAttribute(attr_name="dd_attempts", default=0)
    snoozes = NumberAttribute(attr_name="dd_snoozes", default=0)
    failures = BinaryAttribute(attr_name="dd_failures", legacy_encoding=False, null=True)
    cursor = BinaryAttribute(attr_name="dd_cursor", legacy_encoding=False, null=True)
    cancelled = BooleanAttribute(attr_name="dd_cancel", null=True)
    result = BinaryAttribute(attr_name="dd_result", legacy_encoding=False, null=True)
    result_page = UnicodeAttribute(attr_name="dd_rpage", null=True)
    keep_seconds = NumberAttribute(attr_name="dd_keep", null=True)
    history_seconds = NumberAttribute(attr_name="dd_hist", null=True)
    unique_until_ms = NumberAttribute(attr_name="dd_unique", null=True)
    created_ms = NumberAttribute(attr_name="dd_at")
    slot_ms = NumberAttribute(attr_name="dd_slot", null=True)
    ended_ms = NumberAttribute(attr_name="dd_ended", null=True)
    dead_letter = UnicodeAttribute(attr_name="dd_dead", null=True)
    fingerprint = UnicodeAttribute(attr_name="dd_print", null=True)
    error = UnicodeAttribute(attr_name="dd_error", null=True)
    build = UnicodeAttribute(attr_name="dd_build", null=True)
    ttl = NumberAttribute(null=True)

    # Of workflows: see journal.py, signals.py and children.py
    workflow = BooleanAttribute(attr_name="dd_wf", null=True)
    tail = BinaryAttribute(attr_name="dd_tail", legacy_encoding=False, null=True)
    page = UnicodeAttribute(attr_name="dd_page", null=True)
    journal = UnicodeAttribute(attr_name="dd_journal", null=True)
    waits = UnicodeSetAttribute(attr_name="dd_waits", null=True)
    base = NumberAttribute(attr_name="dd_base", null=True)
    due_ms = NumberAttribute(attr_name="dd_due", null=True)
    parent = UnicodeAttribute(attr_name="dd_parent", null=True)
    parent_journal = UnicodeAttribute(attr_name="dd_pjournal", null=True)
    culprits = BinaryAttribute(attr_name="dd_culprits", legacy_encoding=False, null=True)
    has_undo = BooleanAttribute(attr_name="dd_undo", null=True)
    undone = BooleanAttribute(attr_name="dd_undone", null=True)

    @property
    def is_live(self) -> bool:
        """Whether it has not ended."""
        return self.state == LIVE

    @property
    def journal_id(self) -> str:
        """Which journal is its: the one that was begun with its first generation, also after it was brought back."""
        return str(self.journal or self.generation)


class Page(Item):
    """A large part of a run, a sealed part of its journal, or what it was told: in an item of its own."""

    body = BinaryAttribute(attr_name="dd_body", legacy_encoding=False, null=True)
    before = UnicodeAttribute(attr_name="dd_before", null=True)
    outcome = UnicodeAttribute(attr_name="dd_state", null=True)
    at_ms = NumberAttribute(attr_name="dd_at", null=True)
    ttl = NumberAttribute(null=True)


class DeadLetter(Item):
    """A pointer to a dead run, with what one looks for in a list."""

    job = UnicodeAttribute(attr_name="dd_job")
    fingerprint = UnicodeAttribute(attr_name="dd_print", null=True)
    error = UnicodeAttribute(attr_name="dd_error", null=True)
    build = UnicodeAttribute(attr_name="dd_build", null=True)
    attempts = NumberAttribute(attr_name="dd_attempts", default=0)
    generation = UnicodeAttribute(attr_name="dd_gen")
    ttl = NumberAttribute(null=True)


class Lease(Item):
    """A named lease; the sort key is its name. Never deleted: its fence must not begin again."""

    token = UnicodeAttribute(attr_name="dd_token", null=True)
    fence = NumberAttribute(attr_name="dd_fence", default=0)
    lease_until_ms = NumberAttribute(attr_name="dd_lease", null=True)
    owner = UnicodeAttribute(attr_name="dd_worker", null=True)
    since_ms = NumberAttribute(attr_name="dd_at", null=True)


class ScheduleRecord(Item):
    """A schedule; the sort key is its name. It is the truth, its mark a hint that it is due. See ``schedules.py``."""

    definition = UnicodeAttribute(attr_name="dd_def")
    input = BinaryAttribute(attr_name="dd_input", legacy_encoding=False)
    digest = UnicodeAttribute(attr_name="dd_digest", null=True)
    past = UnicodeAttribute(attr_name="dd_past", null=True)
    deployed_ms = NumberAttribute(attr_name="dd_at")
    affirmed_ms = NumberAttribute(attr_name="dd_seen", null=True)
    generation = UnicodeAttribute(attr_name="dd_gen")
    rev = NumberAttribute(attr_name="dd_rev", default=0)
    token = UnicodeAttribute(attr_name="dd_token", null=True)
    queue = UnicodeAttribute(attr_name="dd_queue")
    shard = NumberAttribute(attr_name="dd_shard")
    mark = UnicodeAttribute(attr_name="dd_mark", null=True)
    next_ms = NumberAttribute(attr_name="dd_due", null=True)
    last_done_ms = NumberAttribute(attr_name="dd_done")
    owed = UnicodeAttribute(attr_name="dd_owed", null=True)
    queued_ms = NumberAttribute(attr_name="dd_waits", null=True)
    slot_ms = NumberAttribute(attr_name="dd_slot", null=True)
    run_id = UnicodeAttribute(attr_name="dd_run", null=True)
    skipped = NumberAttribute(attr_name="dd_skipped", null=True)
    paused_ms = NumberAttribute(attr_name="dd_paused", null=True)
    deleted_ms = NumberAttribute(attr_name="dd_deleted", null=True)
    ttl = NumberAttribute(null=True)


class QueueSettings(Item):
    """Lies before the marks of a queue's first shard, so that every poll reads it for free."""

    paused = BooleanAttribute(attr_name="dd_paused", null=True)
    changed_ms = NumberAttribute(attr_name="dd_at", null=True)
    reason = UnicodeAttribute(attr_name="dd_reason", null=True)


class WorkerRecord(Item):
    """A worker that was alive at ``seen_ms``: which queues it serves and which jobs it knows. A hint, never a lease."""

    name = UnicodeAttribute(attr_name="dd_worker")
    queues = ListAttribute(attr_name="dd_queues", of=UnicodeAttribute)
    jobs = ListAttribute(attr_name="dd_jobs", of=UnicodeAttribute)
    jobs_left_out = NumberAttribute(attr_name="dd_more", default=0)
    concurrency = NumberAttribute(attr_name="dd_slots", default=0)
    build = UnicodeAttribute(attr_name="dd_build", null=True)
    schedules = ListAttribute(attr_name="dd_sched", of=UnicodeAttribute, null=True)
    started_ms = NumberAttribute(attr_name="dd_at")
    seen_ms = NumberAttribute(attr_name="dd_seen")
    reports = BooleanAttribute(attr_name="dd_reports", null=True)
    ttl = NumberAttribute(null=True)


class Build(Item):
    """A version of the user's code, and when its first worker started: so "before build X" has a meaning."""

    first_ms = NumberAttribute(attr_name="dd_at")
    ttl = NumberAttribute(null=True)


class Cleaning(Item):
    """How far the cleaner has come: each segment's place, while a pass has not ended; and what it has done."""

    began_ms = NumberAttribute(attr_name="dd_at")
    ended_ms = NumberAttribute(attr_name="dd_ended", null=True)
    places = UnicodeAttribute(attr_name="dd_places", null=True)
    report = UnicodeAttribute(attr_name="dd_report", null=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class Items:
    """The models of one table."""

    schema: TableSchema
    mark: type[Mark]
    run: type[Run]
    page: type[Page]
    dead_letter: type[DeadLetter]
    lease: type[Lease]
    schedule: type[ScheduleRecord]
    queue_settings: type[QueueSettings]
    worker: type[WorkerRecord]
    build: type[Build]
    cleaning: type[Cleaning]


ModelType = TypeVar("ModelType", bound=Item)


@lru_cache(maxsize=64)
def bind(schema: TableSchema) -> Items:
    """The models for that table and those key names."""
    return Items(
        schema=schema,
        mark=_bound(Mark, schema),
        run=_bound(Run, schema),
        page=_bound(Page, schema),
        dead_letter=_bound(DeadLetter, schema),
        lease=_bound(Lease, schema),
        schedule=_bound(ScheduleRecord, schema),
        queue_settings=_bound(QueueSettings, schema),
        worker=_bound(WorkerRecord, schema),
        build=_bound(Build, schema),
        cleaning=_bound(Cleaning, schema),
    )


def _bound(model: type[ModelType], schema: TableSchema) -> type[ModelType]:
    attributes: dict[str, Any] = {
        "__module__": model.__module__,
        "__doc__": model.__doc__,
        "Meta": type("Meta", (), {"table_name": schema.table, "region": "us-east-1"}),
        "pk": UnicodeAttribute(hash_key=True, attr_name=schema.partition_key),
        "sk": UnicodeAttribute(range_key=True, attr_name=schema.sort_key),
    }
    if hasattr(model, "ttl"):
        attributes["ttl"] = NumberAttribute(null=True, attr_name=schema.ttl_attribute)
    return cast("type[ModelType]", type(model.__name__, (model,), attributes))


def described(model: type[Item], raw: Mapping[str, Any]) -> str:
    """Which item it is, for people."""
    pk, sk = (raw.get(key.attr_name or "", {}).get("S", "?") for key in (model.pk, model.sk))
    return _named(pk, sk)


def _named(pk: str, sk: str) -> str:
    return f"the item {pk!r}, {sk!r}"


def damaged(what: str, reason: str) -> ItemUnreadableError:
    """The error about an item that bears our format number, but not what belongs to it."""
    remedy = "mend it, or delete it if it is of no use"
    error = ItemUnreadableError(f"{what} is not as dynadurable writes it ({reason}), and is left alone; {remedy}")
    error.what = what
    return error


def is_sound(value: Mapping[str, Any]) -> bool:
    """Whether it may be a value of ours: all our numbers are whole, and we write no nulls."""
    return "NULL" not in value and ("N" not in value or value["N"].removeprefix("-").isdigit())


def is_ours(raw: Mapping[str, Any]) -> bool:
    """Whether this version may touch the item: it carries our format number, and not a newer one."""
    number = raw.get("dd_v", {}).get("N", "")
    return number.isdigit() and 1 <= int(number) <= FORMAT_VERSION
