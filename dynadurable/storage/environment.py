"""The environment variables by which a deployment tells a process which table is its own.

Deployments write them, processes read them; both sides take the names from here.
"""

from __future__ import annotations

from collections.abc import Mapping

from dynadurable.errors import ConfigurationError
from dynadurable.storage.schema import TableSchema

TABLE = "DYNADURABLE_TABLE"
PREFIX = "DYNADURABLE_PREFIX"
PARTITION_KEY = "DYNADURABLE_PARTITION_KEY"
SORT_KEY = "DYNADURABLE_SORT_KEY"
TTL = "DYNADURABLE_TTL"
"""The table's TTL attribute; set to nothing where native TTL is off or belongs to something else."""

APP = "DYNADURABLE_APP"
"""``module:app`` for processes that are started without arguments, such as a Lambda function."""
HEARTBEAT_FILE = "DYNADURABLE_HEARTBEAT_FILE"
"""A worker touches this file whenever its loop goes round, at least every 20 s: it shows a health check who hangs."""

METRICS = "DYNADURABLE_METRICS"
"""``emf``: workers print the figures of their queues once a minute, in CloudWatch's embedded metric format."""
EMF = "emf"


def to_environment(schema: TableSchema) -> dict[str, str]:
    """The variables that describe this table; what has its usual name is left out.

    >>> to_environment(TableSchema(table="shop", prefix="jobs/"))
    {'DYNADURABLE_TABLE': 'shop', 'DYNADURABLE_PREFIX': 'jobs/'}
    """
    usual = TableSchema(table=schema.table)
    values = {
        TABLE: schema.table,
        PREFIX: None if schema.prefix == usual.prefix else schema.prefix,
        PARTITION_KEY: None if schema.partition_key == usual.partition_key else schema.partition_key,
        SORT_KEY: None if schema.sort_key == usual.sort_key else schema.sort_key,
        TTL: None if schema.ttl == usual.ttl else schema.ttl or "",
    }
    return {name: value for name, value in values.items() if value is not None}


def from_environment(environ: Mapping[str, str]) -> TableSchema:
    """The table that these variables describe.

    Raises:
        ConfigurationError: ``DYNADURABLE_TABLE`` is not set, or the names do not fit together.

    >>> from_environment({"DYNADURABLE_TABLE": "shop", "DYNADURABLE_TTL": ""}).ttl is None
    True
    """
    table = environ.get(TABLE)
    if not table:
        raise ConfigurationError(f"set {TABLE} to the name of the DynamoDB table")
    usual = TableSchema(table=table)
    ttl = environ.get(TTL)
    return TableSchema(
        table=table,
        partition_key=environ.get(PARTITION_KEY) or usual.partition_key,
        sort_key=environ.get(SORT_KEY) or usual.sort_key,
        ttl=usual.ttl if ttl is None else ttl or None,
        prefix=environ.get(PREFIX, usual.prefix),
    )


def wants_metrics(environ: Mapping[str, str]) -> bool:
    """Whether workers are to print metrics.

    Raises:
        ConfigurationError: ``DYNADURABLE_METRICS`` has another value than ``emf``, or nothing.

    >>> wants_metrics({"DYNADURABLE_METRICS": "emf"}), wants_metrics({})
    (True, False)
    """
    value = environ.get(METRICS, "")
    if value not in ("", EMF):
        raise ConfigurationError(f"{METRICS} is {EMF!r} or empty, not {value!r}")
    return value == EMF
