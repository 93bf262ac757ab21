"""Keys of every item. Names given by users are escaped and measured here, so that none reaches another's items.

A partition key is ``<prefix><kind>#<name>[#<shard>]``. ``#`` and ``%`` inside names and prefixes are percent-escaped,
and no kind is the end of another kind, so two different (prefix, kind, name) never give the same key.

A run id tells where its first mark lies, or which job and business key it belongs to:

* ``<queue>~<shard>~<due, base 36>~<unique>`` for a run without a key
* ``<job>@<26 characters of the key's SHA-256>`` for a keyed run
"""

from __future__ import annotations

import base64
import hashlib
import re
import zlib
from dataclasses import dataclass
from functools import lru_cache

from ..errors import KeyRefusedError, NameRefusedError
from .schema import TableSchema

MAX_NAME_BYTES = 256
MAX_SHARDS = 32
MAX_KEY_BYTES = 8_192
"""Of a business key: it is stored in the run item, and its hash makes the run's id."""
KINDS = frozenset({"queue", "run", "dead", "lease", "schedule"})
UNNAMED_KINDS = frozenset({"workers"})
RUN_SORT_KEY = "run"
PAGE_PREFIX = "page#"
INPUT_PAGE = "input"
"""The name of the page that holds the input of a workflow, where that is too large for its run item."""
LEASE_SHARDS = 16
"""Named leases are spread over so many partitions: a list of them reads these, and nothing else has to be kept."""
SETTINGS_SORT_KEY = "!settings"
"""Sorts before every mark, so that each poll reads a queue's settings for free."""
_DUE_WIDTH = 15
_PLAIN_ID = re.compile(r"(?P<queue>.+)~(?P<shard>\d{1,2})~(?P<due>[0-9a-z]{9,11})~(?P<unique>[0-9a-z]{22})", re.DOTALL)
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


@lru_cache(maxsize=4096)
def check_name(what: str, name: str) -> str:
    """The name itself, if it can be used.

    Raises:
        NameRefusedError: not a string, empty, or over 256 bytes once escaped.
    """
    if not isinstance(name, str) or not name:
        raise NameRefusedError(f"{what} must be a non-empty string, not {name!r}")
    try:
        size = len(escape(name).encode())
    except UnicodeEncodeError:
        raise NameRefusedError(f"{what} {name!r} holds a lone surrogate, which UTF-8 cannot store") from None
    if size > MAX_NAME_BYTES:
        raise NameRefusedError(f"{what} takes {size} bytes, the limit is {MAX_NAME_BYTES}: {name[:40]!r}...")
    return name


def escape(name: str) -> str:
    """The name without the separator.

    >>> escape("50%#1")
    '50%25%231'
    """
    return name.replace("%", "%25").replace("#", "%23")


def unescape(name: str) -> str:
    """The opposite of ``escape``."""
    return name.replace("%23", "#").replace("%25", "%")


def partition(schema: TableSchema, kind: str, name: str, shard: int | None = None) -> str:
    """A partition key."""
    key = f"{escape(schema.prefix)}{kind}#{escape(name)}"
    return key if shard is None else f"{key}#{shard}"


def queue_partition(schema: TableSchema, queue: str, shard: int) -> str:
    return partition(schema, "queue", queue, shard)


def dead_partition(schema: TableSchema, queue: str, shard: int) -> str:
    return partition(schema, "dead", queue, shard)


def run_partition(schema: TableSchema, run_id: str) -> str:
    return partition(schema, "run", run_id)


def schedules_partition(schema: TableSchema) -> str:
    """One for all schedules: each writes once a slot, and a list of them is a Query."""
    return partition(schema, "schedule", "all")


def lease_partition(schema: TableSchema, shard: int) -> str:
    return partition(schema, "lease", str(shard))


def lease_key(schema: TableSchema, name: str) -> tuple[str, str]:
    """Partition and sort key of a named lease; the sort key is the name itself.

    >>> lease_key(TableSchema(table="shop"), "refresher")
    ('lease#2', 'refresher')
    """
    return lease_partition(schema, zlib.crc32(name.encode()) % LEASE_SHARDS), name


def workers_partition(schema: TableSchema) -> str:
    """One for all workers: they are few, and write once a minute."""
    return f"{escape(schema.prefix)}workers"


def parse_partition(schema: TableSchema, key: str) -> tuple[str, str] | None:
    """Kind and name of a partition key under our prefix; ``None`` for what is not one of ours.

    Of a queue or of its dead letters the shard stays behind the name.

    >>> parse_partition(TableSchema(table="shop", prefix="jobs/"), "jobs/queue#mail#0")
    ('queue', 'mail#0')
    """
    head, separator, name = key.partition("#")
    prefix = escape(schema.prefix)
    if not head.startswith(prefix):
        return None
    kind = head[len(prefix) :]
    return (kind, unescape(name)) if kind in (KINDS if separator else UNNAMED_KINDS) else None


def mark_sort_key(due_ms: int, run_id: str, *, place: str = "") -> str:
    """Fixed-width due time, so that text order is due order; ``place`` tells a run's marks apart, and sorts first.

    >>> mark_sort_key(1_800_014_400_000, "q~0~mzx0c5c00~1")
    '001800014400000#q~0~mzx0c5c00~1'
    >>> mark_sort_key(1_800_014_400_000, "mail@mfrgg", place="01hf7yatg00123456789ab.0")
    '001800014400000#01hf7yatg00123456789ab.0#mail@mfrgg'
    """
    due = f"{due_ms:0{_DUE_WIDTH}d}"
    return f"{due}#{place}#{escape(run_id)}" if place else f"{due}#{escape(run_id)}"


def journal_of_page(sort_key: str) -> str:
    """Which life of a run a page belongs to.

    >>> journal_of_page("page#01hf7yatg00123456789ab#000000000000007#result")
    '01hf7yatg00123456789ab'
    """
    return sort_key.removeprefix(PAGE_PREFIX).partition("#")[0]


def page_sort_key(generation: str, fence: int, name: str) -> str:
    """Where a page of a run lies: nobody but this claim of this life of the run writes there."""
    return f"{PAGE_PREFIX}{generation}#{fence:0{_DUE_WIDTH}d}#{name}"


def due_bound(due_ms: int) -> str:
    """A sort key after every mark due at that instant or before, and before every later one."""
    return f"{due_ms + 1:0{_DUE_WIDTH}d}"


@dataclass(frozen=True, slots=True)
class MarkKey:
    """What a mark's sort key says."""

    due_ms: int
    run_id: str
    place: str

    @property
    def order(self) -> str:
        """Tells what was enqueued first: the part that grows, of a place or of a run id without a key."""
        return self.place.partition(".")[0] or self.run_id.rpartition("~")[2]


def parse_mark_sort_key(sort_key: str) -> MarkKey | None:
    """The parts of a mark's sort key, or ``None`` for what is not a mark's."""
    due, _, rest = sort_key.partition("#")
    place, _, run_id = rest.rpartition("#")
    if len(due) != _DUE_WIDTH or not (due.isascii() and due.isdigit()) or not run_id:
        return None
    return MarkKey(int(due), unescape(run_id), place)


@dataclass(frozen=True, slots=True)
class FirstPlace:
    """Where the first mark of a run without a key lies."""

    queue: str
    shard: int
    due_ms: int


def unkeyed_run_id(queue: str, shard: int, due_ms: int, unique: str) -> str:
    return f"{queue}~{shard}~{_base36(due_ms)}~{unique}"


def keyed_run_id(job: str, key: str) -> str:
    """The id of a keyed run: the same job and key give the same id, in every process.

    Raises:
        KeyRefusedError: the key is empty, not a string, or takes more than 8,192 bytes.
    """
    if not isinstance(key, str) or not key:
        raise KeyRefusedError(f"the key of job {job!r} must be a non-empty string, not {key!r}")
    try:
        data = key.encode()
    except UnicodeEncodeError:
        raise KeyRefusedError(f"the key of job {job!r} holds a lone surrogate, which UTF-8 cannot store") from None
    if len(data) > MAX_KEY_BYTES:
        raise KeyRefusedError(f"the key of job {job!r} takes {len(data):,} bytes, the limit is {MAX_KEY_BYTES:,} bytes")
    digest = hashlib.sha256(data).digest()
    return f"{job}@{base64.b32encode(digest).decode().lower()[:26]}"


def first_place(run_id: str) -> FirstPlace | None:
    """Where to find the first mark of that run; ``None`` for a keyed run.

    >>> first_place("trench~2~mzx0c5c00~01hf7yatg00123456789ab")
    FirstPlace(queue='trench', shard=2, due_ms=64879017928704)
    """
    match = _PLAIN_ID.fullmatch(run_id)
    if match is None:
        return None
    return FirstPlace(match["queue"], int(match["shard"]), int(match["due"], 36))


def _base36(number: int) -> str:
    digits = ""
    while number:
        number, digit = divmod(number, 36)
        digits = _DIGITS[digit] + digits
    return digits.rjust(9, "0")
