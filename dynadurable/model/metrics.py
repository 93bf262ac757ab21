"""The figures that a worker reports, and the log line that turns them into CloudWatch metrics.

The line follows CloudWatch's embedded metric format: written to standard output by a container or a Lambda function
whose output goes to CloudWatch Logs, it becomes metrics without any further request, permission or agent. Each line
must be a log event of its own: nothing before it, nothing after it.

Of the workers of a queue the first two report, once a minute, gauges that both see alike. So read them with the
statistic *Maximum*, never *Sum*.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

NAMESPACE = "dynadurable"

TABLE_DIMENSION = "Table"
QUEUE_DIMENSION = "Queue"

BACKLOG = "Backlog"
"""Marks that are due, those being worked on included: what there is to do, so what to scale by."""
OLDEST_DUE_SECONDS = "OldestDueSeconds"
"""How long the oldest due mark that nobody works on has been waiting; 0 when there is none."""
DEAD_LETTERS = "DeadLetters"
"""Dead letters that nobody has replayed or purged."""
WORKERS = "Workers"
"""Workers that serve the queue and have shown a sign of life lately."""

UNITS = {BACKLOG: "Count", OLDEST_DUE_SECONDS: "Seconds", DEAD_LETTERS: "Count", WORKERS: "Count"}

MAX_BACKLOG = 10_000
"""A backlog is counted up to this, over all shards of a queue; a larger one is reported as that many."""
MAX_DEAD_LETTERS = 1_000
"""Likewise."""

MAX_DIMENSION_CHARACTERS = 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueFigures:
    """One queue at one moment."""

    backlog: int
    oldest_due_seconds: float
    dead_letters: int
    workers: int


def dimensions(*, table: str, queue: str, prefix: str = "") -> dict[str, str]:
    """What tells one queue's metrics from another's.

    Apps that share a table are told apart by their prefix. CloudWatch wants printable ASCII, so everything else in
    a prefix or queue name is percent-encoded; a table name never holds a slash, so two apps never meet.

    >>> dimensions(table="shop", queue="mail", prefix="jobs/")
    {'Table': 'shop/jobs/', 'Queue': 'mail'}
    """
    owner = f"{table}/{_printable(prefix)}" if prefix else table
    return {TABLE_DIMENSION: owner, QUEUE_DIMENSION: _printable(queue)}


def emf_line(figures: QueueFigures, *, table: str, queue: str, now_ms: int, prefix: str = "") -> str:
    """One line of JSON, without a line break, in embedded metric format.

    >>> figures = QueueFigures(backlog=3, oldest_due_seconds=1.5, dead_letters=0, workers=2)
    >>> line = emf_line(figures, table="shop", queue="mail", now_ms=1_800_000_000_000)
    >>> json.loads(line)["Backlog"], json.loads(line)["Queue"]
    (3, 'mail')
    """
    values: dict[str, float] = {
        BACKLOG: figures.backlog,
        OLDEST_DUE_SECONDS: figures.oldest_due_seconds,
        DEAD_LETTERS: figures.dead_letters,
        WORKERS: figures.workers,
    }
    owner = dimensions(table=table, queue=queue, prefix=prefix)
    directive = {
        "Namespace": NAMESPACE,
        "Dimensions": [list(owner)],
        "Metrics": [{"Name": name, "Unit": UNITS[name]} for name in values],
    }
    record = {"_aws": {"Timestamp": now_ms, "CloudWatchMetrics": [directive]}, **owner, **values}
    return json.dumps(record, allow_nan=False, separators=(",", ":"))


def _printable(name: str) -> str:
    """Printable ASCII that differs for different names, cut to what CloudWatch takes.

    A leading colon is encoded too: CloudWatch refuses it.
    """
    encoded = "".join(
        character if "!" <= character <= "~" and character != "%" else _percent(character) for character in name
    )
    if encoded.startswith(":"):
        encoded = "%3A" + encoded[1:]
    return encoded[:MAX_DIMENSION_CHARACTERS]


def _percent(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode("utf-8", "surrogatepass"))
